//! Resources and claims in API form.

use super::{duration, timestamp};
use crate::core::{
    ClaimEnd, ClaimState, ClaimView, Holder, Mode, RecoveredClaim, ResourceBlocker,
    ResourceSettings, ResourceView, Want,
};
use futures_util::Stream;
use prost::Message;
use rallypoint_client::api;
use std::pin::Pin;
use tonic::Status;

/// Bytes of the claims of one list, so that clients take a message with two of them.
const LIST_BYTES: usize = 1 << 20;

/// The messages of a stream.
pub(crate) type Messages<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// A resource, without its holds and its queue.
pub(crate) fn resource(view: &ResourceView) -> api::Resource {
    let image = &view.image;
    api::Resource {
        name: view.name.to_string(),
        settings: Some(settings(&image.settings)),
        created_at: Some(timestamp(image.created_at)),
        changed_at: Some(timestamp(image.changed_at)),
        changed_by: image.changed_by.to_string(),
        defined_by: image.key.name.to_string(),
        names_in_use: view.names as i64,
        permits_in_use: view.used as i64,
        holds: view.holds as i64,
        waiting: view.waiting as i64,
        waiting_tasks: view.lines as i64,
        usual_hold: view.usual_hold.map(duration),
    }
}

/// Tasks that wait for a resource.
pub(crate) fn waiting_tasks(view: &ResourceView) -> Vec<api::WaitingTasks> {
    let lines = view.tasks.iter().map(|line| api::WaitingTasks {
        handle: line.first.handle.to_string(),
        seq: line.first.seq.0,
        resource: Some(resource_use(&line.want)),
        place: line.place.0,
        is_kept: line.is_kept,
    });
    lines.collect()
}

fn settings(settings: &ResourceSettings) -> api::ResourceSettings {
    api::ResourceSettings {
        capacity: settings.capacity as i32,
        lock_delay: Some(duration(settings.lock_delay)),
        max_hold: settings.max_hold.map(duration),
        refill: settings.refill.map(|refill| api::Refill {
            permits: refill.permits as i32,
            period: Some(duration(refill.period)),
        }),
        reader_preferred: settings.reader_preferred,
    }
}

/// A claim in memory.
pub(crate) fn claim(view: &ClaimView) -> api::Claim {
    let spec = &view.spec;
    let mut claim = api::Claim {
        claim: view.no.0,
        resources: spec.wants.iter().map(resource_use).collect(),
        owner: spec.owner.to_string(),
        caller: spec.caller.to_string(),
        reason: spec.reason.to_string(),
        labels: spec.labels.clone().into_iter().collect(),
        requested_at: Some(timestamp(view.requested_at)),
        lease: spec.task.is_none().then(|| duration(spec.lease)),
        lease_until: view.lease_until.map(timestamp),
        hold_left: view.hold_left.map(duration),
        position: view.position as i64,
        expected_wait: view.expected_wait.map(duration),
        in_the_way: view.in_the_way.iter().map(holder).collect(),
        handle: spec
            .task
            .map_or_else(String::new, |task| task.handle.to_string()),
        seq: spec.task.map_or(0, |task| task.seq.0),
        ..api::Claim::default()
    };
    set_state(&mut claim, &view.state);
    claim
}

/// A list of claims, or as much of its beginning as a message may have: how many there are is said
/// beside it.
pub(crate) fn claims(views: &[ClaimView]) -> Vec<api::Claim> {
    let mut left = LIST_BYTES;
    let fitting = |claim: api::Claim| {
        left = left.checked_sub(claim.encoded_len())?;
        Some(claim)
    };
    views.iter().map(claim).map_while(fitting).collect()
}

/// A claim in the journal.
pub(crate) fn stored_claim(stored: &RecoveredClaim) -> api::Claim {
    claim(&ClaimView {
        no: stored.no,
        spec: stored.spec.clone(),
        requested_at: stored.requested_at,
        state: stored.state(),
        lease_until: None,
        hold_left: None,
        position: 0,
        expected_wait: None,
        in_the_way: Vec::new(),
    })
}

fn set_state(claim: &mut api::Claim, state: &ClaimState) {
    if let Some((token, since)) = state.granted() {
        claim.token = token.0;
        claim.granted_at = Some(timestamp(since));
    }
    let name = match state {
        ClaimState::Waiting => api::ClaimState::Waiting,
        ClaimState::Held { .. } => api::ClaimState::Held,
        ClaimState::Ended { at, ending, .. } => {
            claim.ended_at = Some(timestamp(*at));
            claim.free_at = Some(timestamp(ending.free_at));
            claim.ended_by = ending.by.to_string();
            claim.end_reason = ending.reason.to_string();
            claim.end = end(ending.how).into();
            api::ClaimState::Ended
        }
    };
    claim.state = name.into();
}

fn end(how: ClaimEnd) -> api::ClaimEnd {
    match how {
        ClaimEnd::Released => api::ClaimEnd::Released,
        ClaimEnd::Withdrawn => api::ClaimEnd::Withdrawn,
        ClaimEnd::TimedOut => api::ClaimEnd::TimedOut,
        ClaimEnd::Abandoned => api::ClaimEnd::Abandoned,
        ClaimEnd::Expired => api::ClaimEnd::Expired,
        ClaimEnd::HeldTooLong => api::ClaimEnd::HeldTooLong,
        ClaimEnd::Forced => api::ClaimEnd::Forced,
    }
}

/// Somebody in the way.
pub(crate) fn holder(holder: &Holder) -> api::ResourceHolder {
    let used = Want {
        name: holder.resource.clone(),
        mode: holder.mode,
    };
    api::ResourceHolder {
        resource: Some(resource_use(&used)),
        claim: holder.claim.0,
        owner: holder.owner.to_string(),
        handle: (holder.task).map_or_else(String::new, |task| task.handle.to_string()),
        seq: holder.task.map_or(0, |task| task.seq.0),
        since: Some(timestamp(holder.since)),
    }
}

/// A resource that a task cannot have now.
pub(super) fn wanted(blocker: &ResourceBlocker) -> api::blocker::resources::Wanted {
    let used = Want {
        name: blocker.resource.clone(),
        mode: blocker.mode,
    };
    api::blocker::resources::Wanted {
        resource: Some(resource_use(&used)),
        capacity: blocker.capacity.map(|capacity| capacity as i32),
        position: blocker.position as i64,
        holders: blocker.holders.iter().map(holder).collect(),
    }
}

pub(super) fn resource_use(want: &Want) -> api::ResourceUse {
    let (mode, permits) = match want.mode {
        Mode::Exclusive => (api::ResourceMode::Exclusive, 0),
        Mode::Shared(permits) => (api::ResourceMode::Shared, permits as i32),
    };
    api::ResourceUse {
        name: want.name.to_string(),
        mode: mode.into(),
        permits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{ClaimNo, ClaimSpec, Namespace, Time};
    use std::{collections::BTreeMap, sync::Arc, time::Duration};

    #[test]
    fn a_list_of_large_claims_is_one_that_clients_take() {
        let label = |number: i64| (number.to_string(), "x".repeat(255));
        let spec = |labels| ClaimSpec {
            namespace: Namespace::default_namespace(),
            wants: Vec::new(),
            owner: "".into(),
            caller: "".into(),
            reason: "".into(),
            labels,
            request: None,
            lease: Duration::from_secs(15),
            wait: None,
            task: None,
        };
        let list = |labels: BTreeMap<String, String>| {
            let spec = Arc::new(spec(labels));
            let view = |no| ClaimView {
                no: ClaimNo(no),
                spec: spec.clone(),
                requested_at: Time(0),
                state: ClaimState::Waiting,
                lease_until: None,
                hold_left: None,
                position: 1,
                expected_wait: None,
                in_the_way: Vec::new(),
            };
            let views: Vec<ClaimView> = (1..=1_000).map(view).collect();
            claims(&views)
        };
        assert_eq!(list(BTreeMap::new()).len(), 1_000);
        let large = list((1..=64).map(label).collect());
        let bytes: usize = large.iter().map(Message::encoded_len).sum();
        assert!((LIST_BYTES / 2..=LIST_BYTES).contains(&bytes), "{bytes}");
        assert_eq!(large[0].claim, 1, "the first in line are told");
    }
}
