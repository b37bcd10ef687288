//! What a caller of one namespace sees of the others in a status: that there is work, and not whose
//! or what it is.

use crate::{core::Namespace, rpc::validate::Targets};
use rallypoint_client::api;

/// Leaves of what runs for other namespaces that a slot is taken. `own`: the namespace of the
/// caller; `None`: it sees all.
fn restrict_slots(own: Option<&Namespace>, slots: &mut [api::Execution]) {
    let Some(own) = own else {
        return;
    };
    for slot in slots.iter_mut().filter(|slot| !slot.handle.is_empty()) {
        if slot.namespace != *own.0 {
            *slot = api::Execution {
                replica: std::mem::take(&mut slot.replica),
                kind: slot.kind.take(),
                slot: slot.slot,
                elapsed: slot.elapsed.take(),
                started_at: slot.started_at.take(),
                state: slot.state,
                ..Default::default()
            };
        }
    }
}

/// Leaves of executions what a caller may see.
pub(super) fn restrict_list(
    own: Option<&Namespace>,
    open: &Targets,
    list: &mut api::ListExecutionsResponse,
) {
    restrict_slots(own, &mut list.executions);
    restrict_targets(own, open, &mut list.targets);
    if let Some(own) = own {
        let open = open.of(own);
        list.executions.retain(|slot| is_open(&open, &slot.kind));
    }
}

/// Whether it is no kind of a target that is closed.
fn is_open(open: &Targets, kind: &Option<api::SlotKind>) -> bool {
    match kind.as_ref().and_then(|kind| kind.kind.as_ref()) {
        Some(api::slot_kind::Kind::SqlTarget(name)) => open.has(name),
        _ => true,
    }
}

/// Leaves the targets that are open to its namespace, `open`, and of each no text of its server,
/// which may name logins and hosts.
fn restrict_targets(own: Option<&Namespace>, open: &Targets, targets: &mut Vec<api::TargetStatus>) {
    let Some(own) = own else {
        return;
    };
    let open = open.of(own);
    targets.retain(|target| open.has(&target.name));
    targets.iter_mut().for_each(|target| target.error.clear());
}

/// Leaves no handle of another namespace, no target closed to the own, and nothing that operators
/// and databases have said.
pub(super) fn restrict(
    own: Option<&Namespace>,
    open: &Targets,
    status: &mut api::GetStatusResponse,
) {
    restrict_targets(own, open, &mut status.targets);
    let Some(own) = own else {
        return;
    };
    let open = open.of(own);
    let is_own = |one: &api::UnreadableScheduler| one.namespace == *own.0;
    status.unreadable_schedulers.retain(is_own);
    if let Some(journal) = &mut status.journal {
        journal.error.clear();
        if let Some(pin) = &mut journal.pin {
            // Of which namespace it is, is not known here.
            *pin = api::DayPin {
                reason: pin.reason,
                ..Default::default()
            };
        }
    }
    status.slots.retain(|slots| is_open(&open, &slots.kind));
    status.pending_fences.retain(|one| open.has(&one.target));
    for fence in &mut status.pending_fences {
        fence.backend_pid = 0;
        fence.why.clear();
    }
    if let Some(agent) = status.jobs.as_mut().and_then(|jobs| jobs.agent.as_mut()) {
        agent.changed_by.clear();
        agent.reason.clear();
    }
    let pauses = &mut status.paused_targets;
    for pause in pauses.iter_mut().filter_map(|one| one.pause.as_mut()) {
        pause.paused_by.clear();
        pause.reason.clear();
    }
    // Without a name it is a pause of all.
    let is_open = |pause: &api::TargetPause| pause.target.is_empty() || open.has(&pause.target);
    pauses.retain(|one| one.pause.as_ref().is_none_or(is_open));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::validate::Allowed;

    fn slot(namespace: &str) -> api::Execution {
        api::Execution {
            replica: "r0".into(),
            slot: 3,
            handle: "h".into(),
            seq: 7,
            caller: "somebody".into(),
            namespace: namespace.into(),
            statement_preview: "select 1".into(),
            ..Default::default()
        }
    }

    #[test]
    fn what_others_run_is_a_slot_that_is_taken() {
        let own = Namespace("mine".into());
        let mut slots = [slot("mine"), slot("theirs"), slot("")];
        restrict_slots(Some(&own), &mut slots);
        assert_eq!(slots[0], slot("mine"));
        for other in &slots[1..] {
            let bare = api::Execution {
                replica: "r0".into(),
                slot: 3,
                ..Default::default()
            };
            assert_eq!(*other, bare);
        }
        let mut slots = [slot("theirs")];
        restrict_slots(None, &mut slots);
        assert_eq!(slots, [slot("theirs")]);
    }

    #[test]
    fn of_a_target_only_its_own_callers_learn_and_not_what_others_said() {
        let open_to = |namespace: &str| Allowed {
            namespaces: Some([Namespace(namespace.into())].into()),
            ..Default::default()
        };
        let targets = Targets::new([("ours", open_to("mine")), ("other", open_to("theirs"))]);
        let target = |name: &str| api::TargetStatus {
            name: name.into(),
            error: "login boss at 10.0.0.1".into(),
            ..Default::default()
        };
        let pause = |name: &str| api::PausedTarget {
            pause: Some(api::TargetPause {
                target: name.into(),
                paused_by: "token:boss".into(),
                reason: "a secret".into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let all = api::GetStatusResponse {
            targets: vec![target("ours"), target("other")],
            paused_targets: vec![pause("ours"), pause("other"), pause("")],
            ..Default::default()
        };
        let mut seen = all.clone();
        restrict(Some(&Namespace("mine".into())), &targets, &mut seen);
        let shown = format!("{seen:?}");
        assert_eq!((seen.targets.len(), seen.paused_targets.len()), (1, 2));
        for hidden in ["other", "boss", "secret"] {
            assert!(!shown.contains(hidden), "{hidden}: {shown}");
        }
        let mut seen = all.clone();
        restrict(None, &targets, &mut seen);
        assert_eq!(seen, all);
    }
}
