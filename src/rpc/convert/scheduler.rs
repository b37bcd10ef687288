//! A scheduler in API form: from the core while it is live, from its last image in the journal
//! afterwards.

use super::{options, timestamp};
use crate::core::{Halt, SchedulerImage, SchedulerState, SchedulerView};
use rallypoint_client::api;

/// A live scheduler, with counts of unfinished tasks.
pub(crate) fn scheduler(view: &SchedulerView) -> api::Scheduler {
    api::Scheduler {
        blocked: view.counts.blocked,
        queued: view.counts.queued,
        running: view.counts.running,
        retrying: view.counts.retrying,
        current_order: view.current_order.map(|order| order.0),
        surplus: view.surplus,
        ..stored_scheduler(&view.image)
    }
}

/// A scheduler as the journal stores it: without counts of unfinished tasks.
pub(crate) fn stored_scheduler(image: &SchedulerImage) -> api::Scheduler {
    api::Scheduler {
        handle: image.handle.to_string(),
        name: image.name.as_deref().unwrap_or_default().to_owned(),
        namespace: image.namespace.0.to_string(),
        caller: image.caller.to_string(),
        settings: Some(options::settings(&image.settings)),
        state: match image.state {
            SchedulerState::Open => api::SchedulerState::Open,
            SchedulerState::Releasing => api::SchedulerState::Releasing,
            SchedulerState::Released => api::SchedulerState::Released,
        }
        .into(),
        paused: image.paused,
        halt: image.halt.as_ref().map(halt),
        opened_at: Some(timestamp(image.opened_at)),
        released_at: image.released_at.map(timestamp),
        submitted: image.checkpoint.highest_seq.0,
        done: image.checkpoint.done_no.0,
        ..Default::default()
    }
}

/// Why later orders are blocked.
pub(crate) fn halt(halt: &Halt) -> api::Halt {
    let failures = halt.failures.as_ref();
    // They stand in the sequence in which they failed.
    let mut failed_seqs: Vec<i64> = halt.failed.iter().map(|seq| seq.0).collect();
    failed_seqs.sort_unstable();
    api::Halt {
        order: halt.order.0,
        failed_seqs,
        failures: failures.map(|failures| failures.by_order.values().sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Order, Seq};

    #[test]
    fn failed_tasks_stand_in_ascending_order() {
        let failed = [40, 7, 23].map(Seq).to_vec();
        let found = Halt {
            order: Order(5),
            failed,
            failures: None,
        };
        assert_eq!(halt(&found).failed_seqs, [7, 23, 40]);
    }
}
