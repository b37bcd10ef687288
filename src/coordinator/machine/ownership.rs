//! How an ownership begins and ends for the loop.
//!
//! Executors report everything again to every new owner, so nothing they reported is kept across an
//! ownership of another replica.

use super::{Machine, State, envelope::Envelope, event::Effect, executor_state::ExecutorState};
use crate::core::{
    BatchNo, Command, Epoch, InDoubtWindow, Output, RecoveredJobs, RecoveredResources,
    RecoveredScheduler, RequestMemory, Shard, TargetPause, Time,
};

impl Machine {
    /// After another replica has owned the shard, executors report anew what they did for this loop
    /// before.
    pub(super) fn inherit(&mut self, window: Option<InDoubtWindow>, epoch: Epoch) {
        let Some(window) = window else { return };
        self.executors.inherit(window, epoch);
        let stale = |command: &Command| {
            matches!(
                command,
                Command::Completed(_) | Command::Slots { .. } | Command::Reported(_)
            )
        };
        self.inbox.retain(|envelope| !stale(&envelope.command));
        self.isolated.retain(|envelope| !stale(&envelope.command));
    }

    pub(super) fn enqueue(&mut self, envelope: Envelope) {
        // What executors report to a replica that is not the owner, they repeat to the owner.
        if !self.stands_by() {
            self.inbox.push_back(envelope);
        }
    }

    /// Another replica owns the shard: everything about it is dropped.
    pub(super) fn stand_by(&mut self, effects: &mut Vec<Effect>) {
        self.without_core(State::Standby, effects);
        self.in_flight = None;
        self.open_commands.clear();
        self.executors = ExecutorState::default();
        self.inbox.clear();
        self.isolated.clear();
        effects.push(Effect::StandBy);
    }

    /// This replica has taken the shard over, and reads the journal: what comes in waits for it.
    pub fn expect_recovery(&mut self) {
        if self.stands_by() {
            self.state = State::Recovering;
        }
    }

    /// Gives the core away, if there is one, and what it decided that is not sealed.
    pub(super) fn without_core(&mut self, state: State, effects: &mut Vec<Effect>) {
        if let State::Working(core) = std::mem::replace(&mut self.state, state) {
            effects.push(Effect::Discard(core));
        }
        self.open = Output::default();
        self.open_bytes = 0;
        self.isolating = false;
    }

    /// Rebuilds the core. What executors still run for this loop, or have reported and is not
    /// durable yet, continues.
    pub(super) fn recover(
        &mut self,
        now: Time,
        memory: RequestMemory,
        (schedulers, pauses, others): (
            Vec<RecoveredScheduler>,
            Vec<TargetPause>,
            (RecoveredResources, RecoveredJobs),
        ),
        (epoch, last_batch): (Epoch, BatchNo),
    ) {
        let (resources, mut jobs) = others;
        jobs.owner = epoch;
        let mut core = Shard::restore(
            self.limits,
            now,
            memory,
            schedulers,
            pauses,
            (resources, jobs),
            self.executors.window(),
        );
        for command in self.executors.replay() {
            core.apply(now, None, &command, &mut self.open);
        }
        self.state = State::Working(Box::new(core));
        self.epoch = epoch;
        self.next_batch = BatchNo(last_batch.0 + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        coordinator::machine::{
            Event,
            fixture::{NOW, answers, asks, opens, owner},
        },
        journal::Commit,
    };

    #[test]
    fn a_reply_that_rests_on_no_record_waits_for_the_lease() {
        let mut machine = owner();
        machine.set_lease(false);
        assert!(answers(&machine.step(NOW, [asks(1, Command::Status)])).is_empty());
        assert!(machine.waits_for_lease());
        machine.set_lease(true);
        assert_eq!(answers(&machine.step(NOW, [])), [(1, true)]);
    }

    #[test]
    fn a_durable_batch_is_as_good_as_the_lease() {
        let mut machine = owner();
        machine.set_lease(false);
        let effects = machine.step(NOW, [asks(1, Command::Status), opens(2)]);
        assert!(answers(&effects).is_empty());
        let effects = machine.step(NOW, [Event::Commit(BatchNo(1), Commit::Durable)]);
        assert_eq!(answers(&effects), [(1, true), (2, true)]);
    }

    #[test]
    fn what_comes_while_the_shard_is_taken_over_waits() {
        let mut machine = owner();
        machine.step(NOW, [Event::Deposed]);
        machine.expect_recovery();
        machine.step(NOW, [opens(1)]);
        assert!(machine.waits_for_journal() && machine.backlog() == 1);
        // It was lost again before the journal was read.
        machine.step(NOW, [Event::Deposed]);
        assert!(machine.stands_by() && machine.backlog() == 0);
    }

    #[test]
    fn a_deposed_owner_answers_nobody_and_decides_nothing() {
        let mut machine = owner();
        machine.step(NOW, [opens(1)]);
        let effects = machine.step(NOW, [Event::Deposed, asks(2, Command::Status)]);
        assert!(
            matches!(effects.as_slice(), [Effect::Discard(_), Effect::StandBy]),
            "{effects:?}"
        );
        let effects = machine.step(NOW, [Event::Commit(BatchNo(1), Commit::Durable)]);
        assert!(answers(&effects).is_empty());
        assert!(machine.core().is_none() && machine.next_due() == Time::NEVER);
    }
}
