//! Why a task does not run, in API form: each reason with its numbers and the sentence that says
//! them, so that every client says the same. Pure.

mod sentences;

pub(crate) use sentences::{running, summary};

use super::{resource, scheduler, slot_kind, target_pause, timestamp};
use crate::{
    core::{Ahead, Blocker, Explanation, TaskState, Time, Work},
    journal::PendingFence,
};
use rallypoint_client::api::{
    self,
    blocker::{self as to, Kind},
};

/// What the core knows; `now` is the time of the service.
pub(crate) fn explanation(
    id: api::TaskId,
    explanation: &Explanation,
    now: Time,
) -> api::ExplainTaskResponse {
    let (state, running) = match explanation.state {
        TaskState::Blocked { .. } => (api::TaskState::Blocked, None),
        TaskState::Queued => (api::TaskState::Queued, None),
        TaskState::Retrying { .. } => (api::TaskState::Retrying, None),
        TaskState::Running { since } => (api::TaskState::Running, Some(since)),
    };
    let blockers = explanation.blockers.iter();
    let blocker = |one| blocker(kind(one, &explanation.work), now);
    api::ExplainTaskResponse {
        id: Some(id),
        state: state.into(),
        blockers: blockers.map(blocker).collect(),
        place: explanation.ahead.map(place),
        running: running.map(|since| api::RunningAttempt {
            started_at: Some(timestamp(since)),
            stopping: explanation.stopping,
            ..Default::default()
        }),
        deadline: explanation.deadline.map(timestamp),
        attempt: explanation.attempt.0,
        as_of: Some(timestamp(now)),
        ..Default::default()
    }
}

/// A reason with its sentence.
pub(crate) fn blocker(kind: Kind, now: Time) -> api::Blocker {
    api::Blocker {
        text: sentences::sentence(&kind, now),
        kind: Some(kind),
    }
}

/// The same reason with what each replica says that has the target and cannot use it.
pub(crate) fn with_outages(kind: Kind, found: &api::ListExecutionsResponse) -> Kind {
    let target = match &kind {
        Kind::TargetAway(to::TargetAway { target, .. }) => target.clone(),
        Kind::NoExecutor(to::NoExecutor {
            kind:
                Some(api::SlotKind {
                    kind: Some(api::slot_kind::Kind::SqlTarget(target)),
                }),
        }) => target.clone(),
        _ => return kind,
    };
    let is_meant = |status: &&api::TargetStatus| !status.available && status.name == target;
    let outages = found.targets.iter().filter(is_meant);
    let outages = outages.map(|status| to::target_away::Outage {
        replica: status.replica.clone(),
        error: status.error.clone(),
        since: status.unavailable_since,
    });
    let outages: Vec<_> = outages.collect();
    match outages.is_empty() {
        true => kind,
        false => Kind::TargetAway(to::TargetAway { target, outages }),
    }
}

/// Leaves what callers of one namespace may see: nothing that operators and databases have said.
pub(crate) fn restrict(answer: &mut api::ExplainTaskResponse) {
    let now = answer.as_of.as_ref().map_or(Time(0), sentences::time);
    for one in &mut answer.blockers {
        let Some(kind) = &mut one.kind else {
            // Of a newer owner, which has put it into words.
            one.text.clear();
            continue;
        };
        match kind {
            Kind::TargetAway(away) => away.outages.iter_mut().for_each(|one| one.error.clear()),
            Kind::TargetPaused(pause) => {
                pause.paused_by.clear();
                pause.reason.clear();
            }
            Kind::FencePending(fence) => {
                fence.backend_pid = 0;
                fence.why.clear();
            }
            _ => {}
        }
        one.text = sentences::sentence(kind, now);
    }
    if let Some(attempt) = &mut answer.running {
        attempt.wait_unknown.clear();
        attempt.text = running(attempt, answer.attempt, now);
    }
    answer.text = summary(answer, now);
}

/// A session of a lost host whose end is awaited.
pub(crate) fn pending_fence(fence: &PendingFence) -> api::PendingFence {
    api::PendingFence {
        target: fence.target.clone(),
        replica: fence.replica.clone(),
        backend_pid: fence.backend_pid,
        since: Some(timestamp(fence.since)),
        why: fence.why.clone(),
    }
}

fn place(ahead: Ahead) -> api::QueuePlace {
    api::QueuePlace {
        ahead: ahead.tasks,
        at_least: !ahead.exact,
        in_lower_orders: ahead.in_lower_orders,
    }
}

fn kind(blocker: &Blocker, work: &Work) -> Kind {
    match *blocker {
        Blocker::Cancellation {
            covered,
            above,
            release,
        } => Kind::Cancellation(to::Cancellation {
            covered,
            above: above.map(|order| order.0),
            released: release.is_some(),
        }),
        Blocker::Paused => Kind::Paused(to::Paused {}),
        Blocker::Halted(ref halt) => Kind::Halted(scheduler::halt(halt)),
        Blocker::LowerOrder {
            current,
            unfinished,
            ref tasks,
        } => Kind::LowerOrder(to::LowerOrder {
            order: current.0,
            unfinished,
            seqs: tasks.iter().map(|seq| seq.0).collect(),
        }),
        Blocker::NotBefore { at } => Kind::NotBefore(to::NotBefore {
            at: Some(timestamp(at)),
        }),
        Blocker::NextAttempt {
            at,
            failures,
            losses,
        } => Kind::NextAttempt(to::NextAttempt {
            at: Some(timestamp(at)),
            failures: failures as i32,
            losses: losses as i32,
        }),
        Blocker::Overdue { own } => Kind::DeadlinePassed(to::DeadlinePassed { own }),
        Blocker::Limit {
            max,
            running,
            in_doubt,
        } => Kind::Limit(to::Limit {
            max_parallelism: max as i32,
            running: running as i32,
            in_doubt: in_doubt as i32,
        }),
        Blocker::TargetPaused(ref pause) => Kind::TargetPaused(target_pause(pause)),
        Blocker::Resources(ref wanted) => Kind::Resources(to::Resources {
            wanted: wanted.iter().map(resource::wanted).collect(),
        }),
        Blocker::InDoubt => Kind::InDoubt(to::InDoubt {}),
        Blocker::Resolving => Kind::Resolving(to::Resolving {}),
        ref about_slots => kind_of_slots(about_slots, work),
    }
}

fn kind_of_slots(blocker: &Blocker, work: &Work) -> Kind {
    match (blocker, work) {
        (&Blocker::Slots { total, busy }, _) => Kind::SlotsBusy(to::SlotsBusy {
            kind: Some(slot_kind(work)),
            total: total as i32,
            busy: busy as i32,
        }),
        (Blocker::Share(share), _) => Kind::Share(to::Share {
            namespaces: share.namespaces as i32,
            schedulers: share.schedulers as i32,
            held_by_namespace: share.held_by_namespace as i32,
            held_by_scheduler: share.held as i32,
            at_least: !share.exact,
        }),
        (Blocker::Away, Work::Sql { target }) => Kind::TargetAway(to::TargetAway {
            target: target.to_string(),
            outages: Vec::new(),
        }),
        _ => Kind::NoExecutor(to::NoExecutor {
            kind: Some(slot_kind(work)),
        }),
    }
}
