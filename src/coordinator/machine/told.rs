//! What executors have told the loop, or were given by it: kept so that a core that is built anew learns it again.

use super::Envelope;
use crate::core::{Action, Assignment, Attempt, Command, Completion, Epoch, Handle, Running, Seq, Time, Window, Work};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Told {
    /// Slots as last told.
    slots: BTreeMap<Work, u32>,
    /// Assignments released or reported, and not yet durably over.
    running: FxHashMap<(Handle, Seq), Running>,
    /// What others who owned the shard before may have been running.
    window: Window,
    /// Kinds that are cleared since, and whether something was lost; `None`: nobody else has owned the shard.
    cleared: Option<BTreeMap<Work, bool>>,
    /// The ownership since which nobody else has had the shard.
    since: Epoch,
}

impl Told {
    /// Others have owned the shard: executors tell everything anew.
    pub fn inherit(&mut self, window: Window, since: Epoch) {
        // Work without a session runs nowhere but with the owner.
        *self = Told { window, cleared: Some(BTreeMap::from([(Work::Noop, true)])), since, ..Told::default() };
    }

    /// Whether a command is about executors as they were under an earlier ownership.
    pub fn is_stale(&self, command: &Command) -> bool {
        matches!(command, Command::Cleared { since, .. } if *since != self.since)
    }

    /// What others who owned the shard before may have been running.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Everything once more, for a new core.
    pub fn again(&self) -> Vec<Command> {
        let slots = self.slots.iter().map(|(work, total)| Command::Slots { work: work.clone(), total: *total });
        let mut running: Vec<Running> = self.running.values().copied().collect();
        running.sort_unstable_by_key(|one| (one.handle, one.first));
        let mut commands: Vec<Command> = slots.chain([Command::Reported(running)]).collect();
        match &self.cleared {
            None => commands.push(Command::Cleared { work: None, lost: false, since: self.since }),
            Some(kinds) => {
                let cleared = |(work, lost): (&Work, &bool)| (Some(work.clone()), *lost);
                let cleared = kinds.iter().map(cleared);
                commands.extend(cleared.map(|(work, lost)| Command::Cleared { work, lost, since: self.since }));
            }
        }
        commands
    }

    /// Notes what a command tells.
    pub fn note(&mut self, command: &Command) {
        match command {
            Command::Slots { work, total } => {
                self.slots.insert(work.clone(), *total);
            }
            Command::Reported(running) => {
                for one in running {
                    let known = self.running.entry((one.handle, one.first)).or_insert(*one);
                    // Of two attempts of a task the later one counts, whichever is told of first.
                    if known.attempt < one.attempt {
                        *known = *one;
                    }
                }
            }
            Command::Cleared { work: Some(work), lost, .. } => {
                if let Some(cleared) = &mut self.cleared {
                    *cleared.entry(work.clone()).or_default() |= lost;
                }
            }
            _ => {}
        }
    }

    /// Notes what a durable batch gives to executors, and what it ends; returns the latter.
    pub fn released(&mut self, now: Time, commands: &[Envelope], actions: &[Action]) -> Vec<(Handle, Seq, Attempt)> {
        let mut over = Vec::new();
        for envelope in commands {
            let Command::Completed(completions) = &envelope.command else { continue };
            for completion in completions {
                let Completion { handle, first, attempt, .. } = *completion;
                if self.running.get(&(handle, first)).is_some_and(|running| running.attempt == attempt) {
                    self.running.remove(&(handle, first));
                }
                if !completion.is_sessionless() {
                    over.push((handle, first, attempt));
                }
            }
        }
        for action in actions {
            if let Action::Dispatch(Assignment { handle, first, count, attempt, .. }) = action {
                let running = Running { handle: *handle, first: *first, count: *count, attempt: *attempt, since: now };
                self.running.insert((*handle, *first), running);
            }
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ShardId;

    #[test]
    fn a_new_core_learns_of_the_later_of_two_attempts_whichever_was_told_of_first() {
        let handle = Handle::new(ShardId(0), 1, [0; 10]);
        let attempt = |no| Running { handle, first: Seq(11), count: 1, attempt: Attempt(no), since: Time(no.into()) };
        for order in [[attempt(2), attempt(3)], [attempt(3), attempt(2)]] {
            let mut told = Told::default();
            order.into_iter().for_each(|running| told.note(&Command::Reported(vec![running])));
            let again = told.again();
            let reported = again.iter().find_map(|command| if let Command::Reported(all) = command { Some(all) } else { None });
            assert_eq!(reported, Some(&vec![attempt(3)]));
        }
    }
}
