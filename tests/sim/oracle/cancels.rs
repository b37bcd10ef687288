//! What becomes of tasks that a caller cancels: those that wait end at once, those that run are
//! asked to stop, as far as they are meant, and no other task is touched.

use super::{Oracle, expected::Expected, rows::Rows};
use rallypoint::core::{Cancel, Done, Handle, Outcome, Reject, Seq, TaskRange, Time, Work};

/// What a cancel is seen to have done to a task.
enum Found {
    /// It had ended before, or was not meant; one that is counted with an earlier task as well.
    Nothing,
    /// So many tasks end with it.
    Ends(u32),
    Stops,
    /// Whether it ran is not known.
    Unknown,
}

impl Oracle {
    /// How many tasks wait and run among those of a call; each that does ends or is stopped.
    pub(super) fn cancel(
        &mut self,
        (_, decided): (Time, Time),
        handle: Handle,
        cancel: &Cancel,
        rows: &mut Rows<'_>,
    ) -> Expected {
        let at = self.at(handle).expect("found before");
        let highest = self.schedulers[at].highest();
        let unknown = |range: &TaskRange| range.first.0 < 1 || range.last.0 > highest;
        if cancel.tasks.iter().any(unknown) {
            return Expected::Rejected(Reject::UnknownTask);
        }
        let (mut waiting, mut running, mut known) = (0, 0, true);
        for range in &cancel.tasks {
            for seq in (range.first.0..=range.last.0).map(Seq) {
                let found = match cancel.dry_run {
                    true => self.count(at, seq, cancel, rows),
                    false => self.cancel_one(decided, (handle, seq), (cancel, range), rows),
                };
                match found {
                    Found::Nothing => {}
                    Found::Ends(tasks) => waiting += tasks,
                    Found::Stops => running += 1,
                    Found::Unknown => known = false,
                }
            }
        }
        match known {
            true => Expected::Cancelled(waiting, running),
            false => Expected::Unjudged,
        }
    }

    /// What a cancel would do to a task. Ends that are still to be explained may have come before.
    fn count(&self, at: usize, seq: Seq, cancel: &Cancel, rows: &Rows<'_>) -> Found {
        let scheduler = &self.schedulers[at];
        let task = scheduler.task(seq).expect("it was submitted");
        match () {
            () if task.ended.is_some() => Found::Nothing,
            () if rows.left(scheduler.handle) > 0 => Found::Unknown,
            () if task.surely_runs(self.core) && cancel.running => match cancel.filter {
                // Of many tasks only those count that can be stopped and are not yet.
                Some(_) if task.stopping => Found::Nothing,
                Some(_) if task.spec.work == Work::Noop => Found::Unknown,
                _ => Found::Stops,
            },
            () if task.surely_runs(self.core) => Found::Nothing,
            () if self.may_run(task) => Found::Unknown,
            () if cancel.waiting => Found::Ends(1),
            () => Found::Nothing,
        }
    }

    /// A waiting task ends at once; a running one is asked to stop.
    fn cancel_one(
        &mut self,
        decided: Time,
        (handle, seq): (Handle, Seq),
        (cancel, range): (&Cancel, &TaskRange),
        rows: &mut Rows<'_>,
    ) -> Found {
        let at = self.at(handle).expect("found before");
        let task = self.schedulers[at].task(seq).expect("it was submitted");
        let (ended, stopping) = (task.ended.is_some(), task.stopping);
        let (surely, waits) = (task.surely_runs(self.core), !self.may_run(task));
        let is_early = task.running.is_some_and(|running| running.early);
        let noop = task.spec.work == Work::Noop;
        if ended {
            let by_another = !self.ended_by_some_cancel.contains(&(handle, seq));
            return if by_another {
                Found::Nothing
            } else {
                Found::Unknown
            };
        }
        if cancel.running && !rows.stopped(handle, Some(seq)).is_empty() {
            assert!(!waits, "{handle}/{}: a waiting task is stopped", seq.0);
            self.schedulers[at].task_mut(seq).expect("found").stopping = true;
            // It may have begun after this call, and another one has stopped it.
            return match surely {
                true => Found::Stops,
                false => Found::Unknown,
            };
        }
        // Behind what only a later command explains, a later call has cancelled it; it runs as yet
        // when a later report ends its attempt, which one that began early has no row of.
        let explains = |done: &Done| self.unexplained(handle, done, decided).is_none();
        let ends = rows.ends_attempt_of(handle, seq) || is_early;
        let runs = self.reported.contains(&(handle, seq)) && ends;
        let is_later = !waits && (runs || !rows.before(handle, seq).all(explains));
        if cancel.waiting && !surely && !stopping && !is_later && rows.cancels(handle, seq) {
            let found = self.ends(decided, (handle, seq), range, rows);
            return self.by_this_cancel(waits, (handle, seq), found);
        }
        assert!(
            !waits || !cancel.waiting,
            "{handle}/{} is cancelled and goes on",
            seq.0
        );
        assert!(
            !surely || stopping || noop || !cancel.running,
            "{handle}/{} is cancelled and not stopped",
            seq.0
        );
        match (waits, surely) {
            (true, _) => Found::Nothing,
            (_, true) if !cancel.running => Found::Nothing,
            _ => Found::Unknown,
        }
    }

    /// Whether it is this cancel that has ended a task, so that its answer counts it. What ran
    /// until it was given back has no row of that: it was before this call, or behind it, and then
    /// a later one has cancelled it.
    fn by_this_cancel(&mut self, waited: bool, task: (Handle, Seq), found: Found) -> Found {
        if waited || !self.reported.contains(&task) {
            return found;
        }
        self.ended_by_some_cancel.insert(task);
        Found::Unknown
    }

    /// The end of a task that was cancelled while it waited, perhaps with those behind it.
    fn ends(
        &mut self,
        decided: Time,
        (handle, seq): (Handle, Seq),
        range: &TaskRange,
        rows: &mut Rows<'_>,
    ) -> Found {
        loop {
            let done = rows.next_done(handle).expect("it is among them");
            if done.first != seq {
                self.uncaused_done(handle, done, decided);
                continue;
            }
            let code = done.error.as_ref().map(|error| error.code.as_str());
            assert_eq!(
                (done.outcome, code),
                (Outcome::Cancelled, Some("CANCELLED"))
            );
            let last = done.first.plus(done.count - 1);
            assert!(
                last <= range.last,
                "{handle}/{} is cancelled and was not meant",
                last.0
            );
            let at = self.at(handle).expect("found before");
            self.schedulers[at].end(done);
            return Found::Ends(done.count);
        }
    }
}
