//! Requests about claims of runs.

use super::{name, run_of, text};
use crate::{
    core::{Claimant, JobVerb, RunReport, RunToken, Time, model::limits::LEASE},
    rpc::{
        errors::{
            reason::Reason,
            violations::{Path, Violations},
        },
        validate::scalar,
    },
};
use rallypoint_client::api;
use std::{sync::Arc, time::Duration};

const OWNER_BYTES: usize = 255;
const DEFAULT_LEASE: Duration = Duration::from_secs(15);

/// A validated ClaimRunRequest.
pub(crate) fn claim_run(request: &api::ClaimRunRequest) -> Result<JobVerb, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, &request.name);
    let due = request.due.as_ref();
    let due = due.and_then(|due| scalar::time(&mut v, Path::Root.field("due"), due));
    let path = Path::Root.field("request_id");
    let id = scalar::request_id(&mut v, path, &request.request_id);
    if request.owner.len() > OWNER_BYTES || request.owner.contains('\0') {
        let what = format!("at most {OWNER_BYTES} bytes, without NUL");
        v.add(Path::Root.field("owner"), Reason::TextOutOfRange, what);
    }
    let path = Path::Root.field("lease");
    let lease = scalar::optional_duration(&mut v, path, &request.lease, LEASE);
    // As it is stored, so that the same call is the same after a recovery.
    let lease = lease.map(|lease| Duration::from_millis(lease.as_millis() as u64));
    v.into_result(JobVerb::Claim {
        name,
        due,
        claimant: Claimant {
            owner: request.owner.as_str().into(),
            request: id,
            lease: lease.unwrap_or(DEFAULT_LEASE),
        },
    })
}

/// A validated RenewRunRequest.
pub(crate) fn renew_run(request: &api::RenewRunRequest) -> Result<JobVerb, Violations> {
    let (name, due) = run_of(&request.name, request.due.as_ref())?;
    let token = RunToken(request.token);
    Ok(JobVerb::RenewRun { name, due, token })
}

/// Of which job and run, and what its claimant says.
pub(crate) fn finish_run(
    request: &api::FinishRunRequest,
) -> Result<(Arc<str>, Time, RunReport), Violations> {
    let (name, due) = run_of(&request.name, request.due.as_ref())?;
    let report = RunReport {
        token: RunToken(request.token),
        succeeded: !request.failed,
        detail: text(&request.detail),
    };
    Ok((name, due, report))
}
