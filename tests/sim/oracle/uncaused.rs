//! What no command of its batch explains: outcomes that time brings, and attempts that were lost.

use super::{Oracle, rows::Rows};
use rallypoint::core::{AttemptEvent, AttemptRecord, Done, Handle, Outcome, Seq, Time};

impl Oracle {
    pub(super) fn uncaused(&mut self, handle: Handle, at: Time, rows: &mut Rows<'_>) {
        let done = rows.next_done(handle);
        let done = done.unwrap_or_else(|| panic!("{handle}: an event is missing"));
        self.uncaused_done(handle, done, at);
    }

    /// Whether an outcome may follow from no command of its batch: a deadline, an incremental
    /// cancellation, a host that was lost. Returns the first task of which it does not.
    pub(super) fn unexplained(&self, handle: Handle, done: &Done, now: Time) -> Option<Seq> {
        let at = self
            .at(handle)
            .unwrap_or_else(|| panic!("an event of {handle}, which was never opened"));
        let scheduler = &self.schedulers[at];
        let code = done.error.as_ref().map(|error| error.code.as_str());
        let is_explained = |seq: &Seq| {
            let Some(task) = scheduler.task(*seq) else {
                return false;
            };
            let (surely, lost) = (task.surely_runs(self.core), self.host_lost && self.in_doubt);
            let most = task.spec.options.retry.max_losses.unwrap_or(3);
            match (done.outcome, code) {
                (Outcome::TimedOut, Some("DEADLINE")) => !surely && task.deadline() <= now,
                (Outcome::Cancelled, Some("CANCELLED")) => {
                    !surely && scheduler.may_be_cancelled(*seq) || task.stopping && self.in_doubt
                }
                (Outcome::Exhausted, Some("LOST")) => {
                    lost && (task.at_most_once() || task.losses + 1 >= most)
                }
                _ => false,
            }
        };
        let mut seqs = (0..done.count).map(|at| done.first.plus(at));
        seqs.find(|seq| !is_explained(seq))
    }

    /// An outcome that follows from no command of its batch.
    pub(super) fn uncaused_done(&mut self, handle: Handle, done: &Done, now: Time) {
        if let Some(seq) = self.unexplained(handle, done, now) {
            let code = done.error.as_ref().map(|error| error.code.as_str());
            panic!(
                "{handle}/{} ends as {:?} {code:?}, and nothing says why",
                seq.0, done.outcome
            );
        }
        let at = self.at(handle).expect("found before");
        self.schedulers[at].end(done);
    }

    /// An attempt that ends without a report of this batch: after a takeover it is known to be
    /// lost, or never to have begun.
    pub(super) fn uncaused_attempt(&mut self, row: &AttemptRecord) {
        let name = format_args!("{}/{} attempt {}", row.handle, row.seq.0, row.attempt.0);
        match &row.what {
            AttemptEvent::Start => {}
            AttemptEvent::Retried { .. } => {
                panic!("{name}: it is retried, and nobody asked for it")
            }
            AttemptEvent::CancelRequested { .. } => {
                panic!("{name} is stopped, and nobody asked for it")
            }
            AttemptEvent::Failed { .. } => panic!("{name} failed, and nobody reported it"),
            AttemptEvent::HandedBack | AttemptEvent::Lost { error: None, .. } => {
                let lost = matches!(row.what, AttemptEvent::Lost { .. });
                assert!(self.in_doubt, "{name} ends, and nobody reported it");
                assert!(!lost || self.host_lost, "{name} is lost, and no host was");
                self.not_the_last(row.handle, row);
            }
            AttemptEvent::Lost { .. } => panic!("{name} is lost, and nobody reported it"),
        }
    }
}
