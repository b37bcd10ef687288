//! What a caller of one namespace sees of the others in a status: that there is work, and not whose
//! or what it is.

use crate::core::Namespace;
use rallypoint_client::api;

/// Leaves of what runs for other namespaces that a slot is taken. `own`: the namespace of the
/// caller; `None`: it sees all.
pub(super) fn restrict_slots(own: Option<&Namespace>, slots: &mut [api::Execution]) {
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

/// Leaves no handle of another namespace.
pub(super) fn restrict(own: Option<&Namespace>, status: &mut api::GetStatusResponse) {
    let Some(own) = own else {
        return;
    };
    let is_own = |one: &api::UnreadableScheduler| one.namespace == *own.0;
    status.unreadable_schedulers.retain(is_own);
    if let Some(pin) = status
        .journal
        .as_mut()
        .and_then(|journal| journal.pin.as_mut())
    {
        // Of which namespace it is, is not known here.
        pin.handle.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
