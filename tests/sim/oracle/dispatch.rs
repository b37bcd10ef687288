//! A task starts only when everything allows it: its time, its order, its scheduler, the failure
//! rules, the attempts it has left.

use super::{
    ExecutorState, Oracle,
    model::{Running, Scheduler, Task},
};
use rallypoint::core::{Assignment, Handle, ReleaseMode, Seq, SlotCounts, Time, TimeLimit, Work};

impl Oracle {
    /// An assignment that was decided `at`, released now. `early`: with no batch, so that all of
    /// what it depends on is durable, and what was decided before it may not be.
    pub(super) fn dispatched(&mut self, at: Time, early: bool, assignment: &Assignment) {
        let (handle, first) = (assignment.handle, assignment.first);
        let place = self.at(handle);
        let place = place.unwrap_or_else(|| panic!("{handle}/{} of no scheduler starts", first.0));
        let paused = self.is_paused(&assignment.spec.work);
        assert!(!paused, "{handle}/{} starts on a paused target", first.0);
        self.holds_its_resources(assignment);
        let core = self.core;
        let scheduler = &mut self.schedulers[place];
        scheduler.may_start_anything(assignment);
        for seq in (0..assignment.count).map(|at| first.plus(at)) {
            scheduler.may_start(at, seq, assignment);
            let task = scheduler.task_mut(seq).expect("checked");
            task.running = Some(Running {
                first: first.0,
                attempt: assignment.attempt.0,
                core,
                early,
            });
        }
        if early {
            // What is noted of an earlier start of it, which never began, says nothing of this one.
            let others = |one: &(Handle, Seq)| *one != (handle, first);
            self.early.retain(others);
            if let Some(sent) = self.last_sent.and_then(|key| self.decided.get_mut(&key)) {
                sent.early.retain(others);
            }
            self.early.push((handle, first));
        }
    }

    /// Whether it may have started after what is released now was decided.
    pub(crate) fn is_early(&self, handle: Handle, first: Seq) -> bool {
        let sent = self.last_sent.and_then(|key| self.decided.get(&key));
        let before_sent = sent.iter().flat_map(|sent| &sent.early);
        before_sent
            .chain(&self.early)
            .any(|one| *one == (handle, first))
    }

    /// Everything that was decided before these started is durable.
    pub(super) fn no_longer_early(&mut self, started: &[(Handle, Seq)]) {
        for (handle, first) in started {
            let Some(at) = self.at(*handle) else { continue };
            let tasks = self.schedulers[at].tasks.iter_mut();
            // Several may run as one.
            let running = tasks.filter_map(|task| task.running.as_mut());
            let started = running.filter(|running| running.first == first.0);
            started.for_each(|running| running.early = false);
        }
    }

    /// Unfinished tasks of the same order and kind with lower numbers, without those that had to
    /// wait for a time or for resources.
    pub(crate) fn unfinished_before(&self, assignment: &Assignment) -> Vec<Seq> {
        let at = self.at(assignment.handle).expect("judged before");
        let tasks = self.schedulers[at].tasks.iter().zip((1..).map(Seq));
        let before = tasks.take_while(|(_, seq)| *seq < assignment.first);
        let is_like = |task: &Task| {
            task.ended.is_none()
                && task.order == assignment.order.map(|order| order.0)
                && task.spec.work == assignment.spec.work
                && task.spec.options.not_before.is_none()
                && task.spec.options.resources.is_empty()
        };
        let alike = before.filter(|(task, _)| is_like(task));
        alike.map(|(_, seq)| seq).collect()
    }

    /// Executors tell of slots.
    pub(super) fn note_slots(&mut self, work: &Work, slots: SlotCounts) {
        self.executors.slots.insert(work.clone(), slots);
        self.slots_since_sent(work, slots);
    }

    /// Slots as last told.
    pub(crate) fn slots_of(&self, work: &Work) -> u32 {
        let known = self.executors.slots.get(work);
        known.map_or(0, |slots| slots.total)
    }

    /// Tasks that a scheduler may run at a time.
    pub(crate) fn max_parallelism(&self, handle: Handle) -> i64 {
        let at = self.at(handle);
        let limit = at.and_then(|at| self.schedulers[at].settings.max_parallelism);
        limit.map_or(i64::MAX, i64::from)
    }

    /// What executors had told when a batch was decided.
    pub(crate) fn executors_then(
        &self,
        batch: Option<&rallypoint::journal::Batch>,
    ) -> &ExecutorState {
        let key = batch.map(|batch| (batch.epoch.0, batch.no.0));
        let decided = key.and_then(|key| self.decided.get(&key));
        decided.map_or(&self.executors, |decided| &decided.executors)
    }
}

impl Scheduler {
    fn may_start_anything(&self, assignment: &Assignment) {
        let name = format_args!("{}/{}", self.handle, assignment.first.0);
        assert!(!self.paused, "{name} starts while its scheduler is paused");
        assert!(
            self.release_mode != Some(ReleaseMode::Cancel),
            "{name} starts though everything is cancelled"
        );
        let one = assignment.count == 1 || assignment.spec.work == Work::Noop;
        assert!(one, "{name} starts with others in one session");
        assert_eq!(
            self.settings.session_reset, assignment.session_reset,
            "{name}: when its session is cleaned"
        );
    }

    fn may_start(&self, at: Time, seq: Seq, assignment: &Assignment) {
        let name = format_args!("{}/{}", self.handle, seq.0);
        let Some(task) = self.task(seq) else {
            panic!("{name} starts and was never submitted")
        };
        assert!(task.ended.is_none(), "{name} starts after its end");
        let turn = task.order.is_none() || task.order == self.current_order();
        assert!(turn, "{name} starts before its order");
        assert!(!self.is_halted(task.order), "{name} starts behind a halt");
        assert!(
            !task.doomed,
            "{name} starts though it is cancelled with the rest"
        );
        assert!(!task.stopping, "{name} starts though it was cancelled");
        let not_before = task.spec.options.not_before.unwrap_or_default();
        assert!(not_before <= at, "{name} starts before its not_before");
        assert!(
            task.next_at <= at,
            "{name} starts before its backoff is over"
        );
        assert!(task.deadline() > at, "{name} starts after its deadline");
        assert_eq!(
            task.spec, assignment.spec,
            "{name} starts with other options"
        );
        assert_eq!(
            task.time_limit(at),
            assignment.time_limit,
            "{name}: the time limit of its attempt"
        );
        let deadline = Some(task.deadline()).filter(|at| *at != Time::NEVER);
        assert_eq!(deadline, assignment.deadline, "{name}: its deadline");
    }
}

impl Task {
    /// The timeout of an attempt, or the deadline of the task if that comes first.
    fn time_limit(&self, at: Time) -> Option<TimeLimit> {
        let deadline = Some(self.deadline()).filter(|at| *at != Time::NEVER);
        match (self.spec.options.timeout, deadline) {
            (Some(timeout), Some(deadline)) if at + timeout > deadline => {
                Some(TimeLimit::Deadline(deadline))
            }
            (Some(timeout), _) => Some(TimeLimit::Timeout(timeout)),
            (None, deadline) => deadline.map(TimeLimit::Deadline),
        }
    }
}
