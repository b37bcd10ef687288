//! An operator pauses targets and resumes them, and says it again when an owner may have lost it;
//! and the journal asks for checkpoints, to let go of old rows.

use super::{World, command};
use rallypoint::{
    coordinator::machine::Event,
    core::{Command, PauseChange, PauseMode, Work},
};
use std::sync::Arc;

/// Happenings of a hundred in which a pause that was asked for is ended.
const ENDS_PERCENT: u64 = 4;

impl World<'_> {
    /// Some checkpoints are written anew, so that old rows could go.
    pub(super) fn write_checkpoints(&mut self, events: &mut Vec<Event>) {
        let rng = &mut self.rng;
        let stale = self
            .callers
            .known
            .iter()
            .filter(|_| rng.percent(50))
            .copied()
            .collect();
        events.push(command(Command::Checkpoint(stale)));
    }

    /// A target is paused, or all of them.
    pub(super) fn operator_pauses(&mut self, events: &mut Vec<Event>) {
        let named = |work: &Work| match work {
            Work::Sql { target } => Some(target.clone()),
            Work::Noop => None,
        };
        let at = self.rng.place(3);
        let target = self.fixtures.targets.get(at).and_then(named);
        let mode = *self
            .rng
            .one_of(&[PauseMode::Drain, PauseMode::CancelRunning]);
        events.push(change(target.clone(), Some(mode)));
        self.paused.insert(target);
    }

    /// A pause does not last long.
    pub(super) fn operator_resumes(&mut self, events: &mut Vec<Event>) {
        if self.paused.is_empty() || !self.rng.percent(ENDS_PERCENT) {
            return;
        }
        let all: Vec<_> = self.paused.iter().cloned().collect();
        let target = self.rng.one_of(&all);
        events.push(change(target.clone(), None));
        // It may be lost with the owner that is asked: then it is said again.
        if self.rng.percent(50) {
            self.paused.remove(target);
        }
    }

    /// Everything is resumed, whatever has become of what was said before.
    pub(super) fn resume_everything(&self) -> Vec<Event> {
        let all = self.journal.pauses_in_force().into_iter();
        let asked = self.paused.iter().cloned();
        let targets = all.map(|pause| pause.target).chain(asked);
        targets.map(|target| change(target, None)).collect()
    }
}

fn change(target: Option<Arc<str>>, mode: Option<PauseMode>) -> Event {
    command(Command::ChangePause(PauseChange {
        target,
        mode,
        by: "operator".into(),
        reason: "maintenance".into(),
    }))
}
