//! Requests about resources.

use super::{hash::PayloadHash, scalar};
use crate::{
    core::{
        Caller, ClaimSpec, Mode, Refill, Request, ResourceField, ResourceSettings, ResourceVerb,
        Want, model::limits::LEASE,
    },
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use prost::Message;
use rallypoint_client::api;
use std::{collections::HashMap, ops::RangeInclusive, sync::Arc, time::Duration};

const NAME_BYTES: RangeInclusive<usize> = 1..=255;
const OWNER_BYTES: RangeInclusive<usize> = 0..=255;
const REASON_BYTES: usize = 1_000;
const CAPACITY: RangeInclusive<i32> = 0..=1_000_000;
const RESOURCES: RangeInclusive<usize> = 1..=16;
const LOCK_DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);
const MAX_HOLD: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(366 * 86_400);
const WAIT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(366 * 86_400);
const DEFAULT_LEASE: Duration = Duration::from_secs(15);
const PAGE_SIZES: RangeInclusive<i32> = 0..=1_000;
const DEFAULT_PAGE_SIZE: usize = 100;
const REFILL_PERMITS: RangeInclusive<i32> = 1..=1_000_000;
const REFILL_PERIOD: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(366 * 86_400);
const FIELDS: [(&str, ResourceField); 5] = [
    ("capacity", ResourceField::Capacity),
    ("lock_delay", ResourceField::LockDelay),
    ("max_hold", ResourceField::MaxHold),
    ("refill", ResourceField::Refill),
    ("reader_preferred", ResourceField::ReaderPreferred),
];

/// A validated CreateResourceRequest.
pub(crate) fn create_resource(
    request: &api::CreateResourceRequest,
) -> Result<ResourceVerb, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, Path::Root.field("name"), &request.name, true);
    let given = request.settings.unwrap_or_default();
    let settings = settings(&mut v, Path::Root.field("settings"), &given);
    v.into_result(ResourceVerb::Create { name, settings })
}

/// A validated UpdateResourceRequest.
pub(crate) fn update_resource(
    request: &api::UpdateResourceRequest,
) -> Result<ResourceVerb, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, Path::Root.field("name"), &request.name, true);
    let fields = mask(
        &mut v,
        Path::Root.field("update_mask"),
        &request.update_mask,
    );
    let given = request.settings.unwrap_or_default();
    let has = |field| fields.contains(&field);
    // What is not changed may be anything.
    let given = api::ResourceSettings {
        capacity: given.capacity * i32::from(has(ResourceField::Capacity)),
        lock_delay: given.lock_delay.filter(|_| has(ResourceField::LockDelay)),
        max_hold: given.max_hold.filter(|_| has(ResourceField::MaxHold)),
        refill: given.refill.filter(|_| has(ResourceField::Refill)),
        reader_preferred: given.reader_preferred,
    };
    let settings = settings(&mut v, Path::Root.field("settings"), &given);
    v.into_result(ResourceVerb::Update {
        name,
        settings,
        fields,
    })
}

/// A validated GetResourceRequest.
pub(crate) fn get_resource(request: &api::GetResourceRequest) -> Result<ResourceVerb, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, Path::Root.field("name"), &request.name, true);
    let limit = page_size(&mut v, request.page_size);
    v.into_result(ResourceVerb::Get { name, limit })
}

/// A ManageClaimsRequest that makes no call.
pub(crate) fn no_call() -> Violations {
    let mut v = Violations::default();
    v.add(
        Path::Root.field("kind"),
        Reason::KindMissing,
        "set one of `acquire`, `try_acquire`, `renew`, `release`",
    );
    v
}

/// The name of a validated WatchResourceRequest.
pub(crate) fn watch_resource(request: &api::WatchResourceRequest) -> Result<Arc<str>, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, Path::Root.field("name"), &request.name, false);
    v.into_result(name)
}

/// A validated DeleteResourceRequest.
pub(crate) fn delete_resource(
    request: &api::DeleteResourceRequest,
) -> Result<ResourceVerb, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, Path::Root.field("name"), &request.name, true);
    v.into_result(ResourceVerb::Delete(name))
}

/// A validated ListResourcesRequest. Its token is the last name of the page before.
pub(crate) fn list_resources(
    request: &api::ListResourcesRequest,
) -> Result<ResourceVerb, Violations> {
    let mut v = Violations::default();
    if request.page_token.len() > *NAME_BYTES.end() {
        let field = Path::Root.field("page_token");
        v.add(field, Reason::PageTokenInvalid, "not one of this service");
    }
    let limit = page_size(&mut v, request.page_size);
    v.into_result(ResourceVerb::List {
        after: request.page_token.as_str().into(),
        limit,
    })
}

/// A validated AcquireRequest.
pub(crate) fn acquire(
    caller: &Caller,
    request: &api::AcquireRequest,
) -> Result<ClaimSpec, Violations> {
    let mut v = Violations::default();
    let wants = wants(&mut v, Path::Root.field("resources"), &request.resources);
    let owner = text(&mut v, "owner", &request.owner, *OWNER_BYTES.end());
    let reason = text(&mut v, "reason", &request.reason, REASON_BYTES);
    let labels = scalar::labels(&mut v, Path::Root.field("labels"), &request.labels);
    let field = Path::Root.field("lease");
    let lease = scalar::optional_duration(&mut v, field, &request.lease, LEASE);
    let wait = scalar::optional_duration(&mut v, Path::Root.field("wait"), &request.wait, WAIT);
    let field = Path::Root.field("request_id");
    let id = scalar::request_id(&mut v, field, &request.request_id);
    let hash = payload_hash(request);
    v.into_result(ClaimSpec {
        namespace: caller.namespace.clone(),
        wants,
        owner,
        caller: caller.name.clone(),
        reason,
        labels,
        request: id.map(|id| Request { id, hash }),
        lease: lease.unwrap_or(DEFAULT_LEASE),
        wait,
        task: None,
    })
}

/// The same of a claim that does not wait.
pub(crate) fn acquire_at_once(request: &api::TryAcquireRequest) -> api::AcquireRequest {
    let request = request.clone();
    api::AcquireRequest {
        resources: request.resources,
        request_id: request.request_id,
        owner: request.owner,
        reason: request.reason,
        labels: request.labels,
        lease: request.lease,
        wait: Some(prost_types::Duration::default()),
        renewed_by_caller: true,
    }
}

/// A reason of an operator.
pub(crate) fn operator_reason(reason: &str) -> Result<Arc<str>, Violations> {
    let mut v = Violations::default();
    if reason.is_empty() {
        let field = Path::Root.field("reason");
        v.add(field, Reason::TextOutOfRange, "say why, for the record");
    }
    let reason = text(&mut v, "reason", reason, REASON_BYTES);
    v.into_result(reason)
}

/// The resources of a claim, or of a task, sorted by name.
pub(super) fn wants(v: &mut Violations, list: Path<'_>, uses: &[api::ResourceUse]) -> Vec<Want> {
    if !RESOURCES.contains(&uses.len()) {
        v.add(list, Reason::ResourcesInvalid, "name 1 to 16 resources");
        return Vec::new();
    }
    let mut wants = Vec::with_capacity(uses.len());
    for (index, one) in uses.iter().enumerate() {
        let path = list.index(index);
        let name = name(v, path.field("name"), &one.name, false);
        if wants.iter().any(|want: &Want| want.name == name) {
            let message = "the same resource twice: claim it once, with as many permits";
            v.add(path.field("name"), Reason::ResourcesInvalid, message);
        }
        let mode = mode(v, path, one);
        wants.push(Want { name, mode });
    }
    wants.sort_by(|one, other| one.name.cmp(&other.name));
    wants
}

fn mode(v: &mut Violations, path: Path<'_>, used: &api::ResourceUse) -> Mode {
    let permits = path.field("permits");
    match scalar::enumeration(v, path.field("mode"), used.mode) {
        Some(api::ResourceMode::Shared) if CAPACITY.contains(&used.permits) => {
            Mode::Shared(used.permits.max(1) as u32)
        }
        Some(api::ResourceMode::Shared) => {
            v.add(
                permits,
                Reason::PermitsOutOfRange,
                "must be 0 (one) to 1000000",
            );
            Mode::Exclusive
        }
        _ => {
            if used.permits != 0 {
                let message = "an exclusive use has no permits: set the mode to SHARED";
                v.add(permits, Reason::PermitsOutOfRange, message);
            }
            Mode::Exclusive
        }
    }
}

fn settings(v: &mut Violations, path: Path<'_>, given: &api::ResourceSettings) -> ResourceSettings {
    if !CAPACITY.contains(&given.capacity) {
        let field = path.field("capacity");
        v.add(field, Reason::CapacityOutOfRange, "must be 0 to 1000000");
    }
    let field = path.field("lock_delay");
    let lock_delay = scalar::optional_duration(v, field, &given.lock_delay, LOCK_DELAY);
    let max_hold = scalar::optional_duration(v, path.field("max_hold"), &given.max_hold, MAX_HOLD);
    ResourceSettings {
        capacity: given.capacity.max(0) as u32,
        lock_delay: lock_delay.unwrap_or_default(),
        max_hold,
        refill: (given.refill.as_ref()).and_then(|given| refill(v, path.field("refill"), given)),
        reader_preferred: given.reader_preferred,
    }
}

fn refill(v: &mut Violations, path: Path<'_>, given: &api::Refill) -> Option<Refill> {
    if !REFILL_PERMITS.contains(&given.permits) {
        let message = "must be 1 to 1000000: so many come back in each period";
        v.add(path.field("permits"), Reason::RefillOutOfRange, message);
    }
    let field = path.field("period");
    let period = scalar::optional_duration(v, field, &given.period, REFILL_PERIOD);
    if given.period.is_none() {
        let message = "say in which time so many permits come back: 1 ms to 366 days";
        v.add(field, Reason::RefillOutOfRange, message);
    }
    Some(Refill {
        permits: given.permits.max(1) as u32,
        period: period?,
    })
}

fn mask(
    v: &mut Violations,
    path: Path<'_>,
    mask: &Option<prost_types::FieldMask>,
) -> Vec<ResourceField> {
    let names = FIELDS.map(|(name, _)| name).join(", ");
    let paths = mask.as_ref().map(|mask| mask.paths.as_slice());
    let paths = paths.unwrap_or_default();
    if paths.is_empty() {
        let message = format!("name the settings to change: {names}");
        v.add(path, Reason::MaskEmpty, message);
    }
    let list = path.field("paths");
    let mut fields = Vec::new();
    for (index, name) in paths.iter().enumerate() {
        match FIELDS.iter().find(|(known, _)| known == name) {
            Some((_, field)) => fields.push(*field),
            None => {
                let message = format!("not a setting: {names}");
                v.add(list.index(index), Reason::MaskUnknownField, message);
            }
        }
    }
    fields
}

/// The name of a resource, or of a pattern if one may be named here.
fn name(v: &mut Violations, path: Path<'_>, name: &str, may_be_pattern: bool) -> Arc<str> {
    let stem = match name.strip_suffix("/*") {
        Some(stem) if may_be_pattern && !stem.is_empty() => stem,
        _ => name,
    };
    if !NAME_BYTES.contains(&name.len()) || name.chars().any(char::is_control) {
        let message = "1 to 255 bytes without control characters are needed";
        v.add(path, Reason::ResourceNameInvalid, message);
    } else if stem.contains('*') {
        let message = match may_be_pattern {
            true => "a `*` may stand at the end only, behind a `/`",
            false => "name a resource, not a pattern: one that it matches, like `tenant/a`",
        };
        v.add(path, Reason::ResourceNameInvalid, message);
    }
    name.into()
}

fn text(v: &mut Violations, field: &'static str, text: &str, longest: usize) -> Arc<str> {
    if text.len() > longest || text.contains('\0') {
        let message = format!("at most {longest} bytes without NUL");
        v.add(Path::Root.field(field), Reason::TextOutOfRange, message);
    }
    text.into()
}

fn page_size(v: &mut Violations, size: i32) -> usize {
    if !PAGE_SIZES.contains(&size) {
        let field = Path::Root.field("page_size");
        v.add(field, Reason::PageSizeOutOfRange, "must be 0 (100) to 1000");
    }
    match size {
        ..=0 => DEFAULT_PAGE_SIZE,
        size => size as usize,
    }
}

fn payload_hash(request: &api::AcquireRequest) -> i64 {
    let mut rest = request.clone();
    let labels: HashMap<String, String> = std::mem::take(&mut rest.labels);
    rest.request_id.clear();
    let mut hash = PayloadHash::new("Acquire");
    hash.bytes(&rest.encode_to_vec());
    hash.labels(&labels);
    hash.finish()
}
