//! How an ownership begins and ends for the loop. What executors say is said again to every new owner, so nothing of it is
//! carried from one ownership of others to the next.

use super::{Effect, Envelope, Machine, State, Told};
use crate::core::{BatchNo, Command, Epoch, Output, RecoveredScheduler, Shard, Time, Window};

impl Machine {
    /// After others have owned the shard, what executors did for this loop before is theirs to report anew.
    pub(super) fn inherit(&mut self, window: Option<Window>, epoch: Epoch) {
        let Some(window) = window else { return };
        self.told.inherit(window, epoch);
        let stale = |command: &Command| matches!(command, Command::Completed(_) | Command::Slots { .. } | Command::Reported(_));
        self.inbox.retain(|envelope| !stale(&envelope.command));
        self.suspects.retain(|envelope| !stale(&envelope.command));
    }

    pub(super) fn take_in(&mut self, envelope: Envelope) {
        // What executors say to somebody who is not the owner they say again to the owner.
        if !self.stands_by() {
            self.inbox.push_back(envelope);
        }
    }

    /// The shard is another's, and so is everything about it.
    pub(super) fn stand_by(&mut self, effects: &mut Vec<Effect>) {
        self.state = State::Standby;
        self.in_flight = None;
        self.open = Output::default();
        self.open_commands.clear();
        self.open_bytes = 0;
        self.alone = false;
        self.told = Told::default();
        self.inbox.clear();
        self.suspects.clear();
        effects.push(Effect::StandBy);
    }

    /// Rebuilds the core. What executors still run for this loop, or have reported and not seen durable, goes on.
    pub(super) fn recover(&mut self, now: Time, schedulers: Vec<RecoveredScheduler>, epoch: Epoch, last_batch: BatchNo) {
        let mut core = Shard::restore(self.limits, now, schedulers, self.told.window());
        for command in self.told.again() {
            core.apply(now, None, &command, &mut self.open);
        }
        self.state = State::Working(Box::new(core));
        self.epoch = epoch;
        self.next = BatchNo(last_batch.0 + 1);
    }
}
