//! What executors have reported to the loop, or were given by it: kept so that a rebuilt core
//! learns it again.
//!
//! It outlives the core but not the ownership: after another replica has owned the shard, executors
//! report everything anew.
//!
//! What runs is kept in three places, because they answer different questions and end at different
//! times. Here: what must a new core know, by task, work without a session included, in step with
//! the durable batches. The hub's pool: which executor has an assignment, under which token, until
//! its completion is durable or the executor is lost. The executor's outbox: what this process was
//! given and no owner has acknowledged, which survives every owner. The machine is pure and the
//! executor may be in another process, so none of them can read another's.

use super::envelope::Envelope;
use crate::core::{
    Action, Assignment, Attempt, Command, Completion, Epoch, Handle, InDoubtWindow, Reply, Running,
    Seq, SlotCounts, Ticket, Time, Unreported, Work,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct ExecutorState {
    /// Slots as last reported.
    slots: BTreeMap<Work, SlotCounts>,
    /// Assignments that were released or reported, and whose end is not durable yet.
    running: FxHashMap<(Handle, Seq), Running>,
    /// What earlier owners may have been running.
    window: InDoubtWindow,
    /// Kinds of work that are cleared since, and what became of their tasks that nobody reported;
    /// `None`: no other replica has owned the shard.
    cleared: Option<BTreeMap<Work, Unreported>>,
    /// Who waits until what became of these kinds is durable.
    clearing: FxHashMap<Ticket, Work>,
    /// The ownership since which no other replica has owned the shard.
    since: Epoch,
    /// Open streams of each scheduler.
    streams: FxHashMap<Handle, u32>,
}

impl ExecutorState {
    /// Another replica has owned the shard: executors report everything anew.
    pub(super) fn inherit(&mut self, window: InDoubtWindow, since: Epoch) {
        // Work without a session runs only in the owner's process.
        *self = ExecutorState {
            window,
            cleared: Some(BTreeMap::from([(Work::Noop, Unreported::MayHaveBegun)])),
            since,
            ..ExecutorState::default()
        };
    }

    /// Every stream has been ended, and none of them says so.
    pub(super) fn forget_streams(&mut self) {
        self.streams.clear();
    }

    /// Whether a command is about executors as they were under an earlier ownership.
    pub(super) fn is_stale(&self, command: &Command) -> bool {
        matches!(command, Command::Cleared { since, .. } if *since != self.since)
    }

    /// What earlier owners may have been running.
    pub(super) fn window(&self) -> &InDoubtWindow {
        &self.window
    }

    /// Commands that tell a new core everything.
    pub(super) fn replay(&self) -> Vec<Command> {
        let slots = self.slots.iter().map(|(work, slots)| Command::Slots {
            work: work.clone(),
            slots: *slots,
        });
        let mut running: Vec<Running> = self.running.values().copied().collect();
        running.sort_unstable_by_key(|one| (one.handle, one.first));
        let mut streams: Vec<(Handle, u32)> = self
            .streams
            .iter()
            .map(|(handle, count)| (*handle, *count))
            .collect();
        streams.sort_unstable();
        let mut commands: Vec<Command> = slots
            .chain([Command::Reported(running), Command::StreamsOpen(streams)])
            .collect();
        match &self.cleared {
            None => commands.push(Command::Cleared {
                work: None,
                unreported: Unreported::NotBegun,
                since: self.since,
            }),
            Some(kinds) => {
                commands.extend(kinds.iter().map(|(work, unreported)| Command::Cleared {
                    work: Some(work.clone()),
                    unreported: *unreported,
                    since: self.since,
                }));
            }
        }
        commands
    }

    /// Remembers what a command reports.
    pub(super) fn observe(&mut self, command: &Command) {
        match command {
            Command::Slots { work, slots } => {
                self.slots.insert(work.clone(), *slots);
            }
            Command::Reported(running) => {
                for one in running {
                    let known = self.running.entry((one.handle, one.first)).or_insert(*one);
                    // Of two attempts of a task the later one counts, whichever is reported first.
                    if known.attempt < one.attempt {
                        *known = *one;
                    }
                }
            }
            Command::Cleared {
                work: Some(work),
                unreported,
                ..
            } => {
                if let Some(cleared) = &mut self.cleared {
                    let known = cleared.entry(work.clone()).or_default();
                    *known = (*known).max(*unreported);
                }
            }
            _ => {}
        }
    }

    /// Remembers what a durable batch gives to executors and what it ends; returns the latter.
    pub(super) fn released(
        &mut self,
        now: Time,
        commands: &[Envelope],
        actions: &[Action],
    ) -> Vec<(Handle, Seq, Attempt)> {
        self.streams_released(commands, actions);
        self.clearing_released(commands, actions);
        let mut over = Vec::new();
        for envelope in commands {
            let Command::Completed(completions) = &envelope.command else {
                continue;
            };
            for completion in completions {
                let Completion {
                    handle,
                    first,
                    attempt,
                    ..
                } = *completion;
                if self
                    .running
                    .get(&(handle, first))
                    .is_some_and(|running| running.attempt == attempt)
                {
                    self.running.remove(&(handle, first));
                }
                if !completion.is_sessionless() {
                    over.push((handle, first, attempt));
                }
            }
        }
        for action in actions {
            if let Action::Dispatch(Assignment {
                handle,
                first,
                count,
                attempt,
                ..
            }) = action
            {
                let running = Running {
                    handle: *handle,
                    first: *first,
                    count: *count,
                    attempt: *attempt,
                    since: now,
                };
                self.running.insert((*handle, *first), running);
            }
        }
        over
    }

    /// Of a kind that is cleared, all that earlier owners may have been running is on record: what
    /// a core that is rebuilt finds without a record has begun under this ownership, or not at all.
    fn clearing_released(&mut self, commands: &[Envelope], actions: &[Action]) {
        for Envelope { ticket, command } in commands {
            if let (
                Some(ticket),
                Command::Cleared {
                    work: Some(work), ..
                },
            ) = (ticket, command)
            {
                self.clearing.insert(*ticket, work.clone());
            }
        }
        for action in actions {
            if let Action::Reply(ticket, Reply::Cleared) = action
                && let Some(work) = self.clearing.remove(ticket)
            {
                self.window.remove(&work);
            }
        }
    }

    /// Counts the streams that a batch opens and closes.
    fn streams_released(&mut self, commands: &[Envelope], actions: &[Action]) {
        let opened: FxHashSet<Ticket> = actions
            .iter()
            .filter_map(|action| {
                if let Action::Reply(ticket, Reply::Watching { .. }) = action {
                    Some(*ticket)
                } else {
                    None
                }
            })
            .collect();
        for Envelope { ticket, command } in commands {
            match command {
                Command::Call { handle, .. }
                    if ticket.is_some_and(|ticket| opened.contains(&ticket)) =>
                {
                    *self.streams.entry(*handle).or_default() += 1;
                }
                Command::StreamClosed(handle) => match self.streams.get_mut(handle) {
                    Some(count) if *count > 1 => *count -= 1,
                    _ => drop(self.streams.remove(handle)),
                },
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Caller, DoneNo, Namespace, ShardId, Until, Verb};

    #[test]
    fn a_new_core_learns_of_the_later_of_two_attempts_whichever_was_reported_first() {
        let handle = Handle::new(ShardId(0), 1, [0; 10]);
        let attempt = |no| Running {
            handle,
            first: Seq(11),
            count: 1,
            attempt: Attempt(no),
            since: Time(no.into()),
        };
        for order in [[attempt(2), attempt(3)], [attempt(3), attempt(2)]] {
            let mut state = ExecutorState::default();
            order
                .into_iter()
                .for_each(|running| state.observe(&Command::Reported(vec![running])));
            let commands = state.replay();
            let reported = commands.iter().find_map(|command| {
                if let Command::Reported(all) = command {
                    Some(all)
                } else {
                    None
                }
            });
            assert_eq!(reported, Some(&vec![attempt(3)]));
        }
    }

    #[test]
    fn what_may_have_been_running_is_forgotten_once_it_is_on_record() {
        let app = Work::Sql {
            target: "app".into(),
        };
        let mut state = ExecutorState::default();
        state.inherit(InDoubtWindow::from([(app.clone(), 64)]), Epoch(2));
        let cleared = Envelope {
            ticket: Some(Ticket(1)),
            command: Command::Cleared {
                work: Some(app.clone()),
                unreported: Unreported::MayHaveBegun,
                since: Epoch(2),
            },
        };
        state.observe(&cleared.command);
        state.released(Time(0), &[cleared], &[]);
        assert_eq!(state.window().get(&app), Some(&64));
        // What became of the last of them comes with a later batch.
        let on_record = Action::Reply(Ticket(1), Reply::Cleared);
        state.released(Time(0), &[], &[on_record]);
        assert!(state.window().is_empty());
        let is_cleared = |command: &Command| matches!(command, Command::Cleared { work: Some(one), .. } if *one == app);
        assert!(state.replay().iter().any(is_cleared));
    }

    #[test]
    fn a_new_core_learns_of_the_streams_that_are_still_open() {
        let (one, other) = (
            Handle::new(ShardId(0), 1, [0; 10]),
            Handle::new(ShardId(0), 2, [0; 10]),
        );
        let mut state = ExecutorState::default();
        let mut watch = |handle, ticket| {
            let (after, verb) = (DoneNo(0), |after| Verb::Watch {
                after,
                until: Until::All,
                last_seq: None,
            });
            let caller = Caller {
                namespace: Namespace("n".into()),
                name: "c".into(),
            };
            let command = Command::Call {
                caller,
                handle,
                verb: verb(after),
            };
            let answer = Reply::Watching {
                handle,
                last_seq: Seq(0),
                outstanding: 0,
                done_no: after,
            };
            let asked = Envelope {
                ticket: Some(Ticket(ticket)),
                command,
            };
            state.released(Time(0), &[asked], &[Action::Reply(Ticket(ticket), answer)]);
        };
        (1..4).for_each(|ticket| watch(if ticket == 3 { other } else { one }, ticket));
        let closed = [one, other].map(|handle| Envelope {
            ticket: None,
            command: Command::StreamClosed(handle),
        });
        state.released(Time(0), &closed, &[]);
        let open = |state: &ExecutorState| {
            state.replay().into_iter().find_map(|c| match c {
                Command::StreamsOpen(open) => Some(open),
                _ => None,
            })
        };
        assert_eq!(open(&state), Some(vec![(one, 1)]));
        state.forget_streams();
        assert_eq!(open(&state), Some(Vec::new()));
    }
}
