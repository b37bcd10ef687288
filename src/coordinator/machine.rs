//! The loop as a pure machine: gather, apply, append, release; one batch ahead and no more.
//!
//! Invariants: no action is released before the records it depends on are durable; batches are
//! released in the order of their numbers; a batch of unknown outcome is sent again, unchanged and
//! under its number, until its outcome is known; a completion that an executor reported is never
//! dropped. No I/O and no clock: `driver` runs it on tokio, the simulator in the tests.

mod batching;
mod commit;
mod envelope;
mod event;
mod executor_state;
#[cfg(test)]
mod fixture;
mod linger;
mod ownership;

use crate::{
    core::{
        Action, Attempt, BatchNo, Epoch, Handle, Output, Progress, Seq, Shard, ShardId, Tally,
        Ticket, Time, Unwritten, model::limits::Limits,
    },
    journal::Batch,
};
pub use envelope::Envelope;
pub use event::{Effect, Event, Release};
use executor_state::ExecutorState;
use rustc_hash::FxHashSet;
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// What the core has decided for one batch.
#[derive(Debug)]
struct Decided {
    commands: Vec<Envelope>,
    actions: Vec<Action>,
    progress: Vec<(Handle, Progress)>,
    tally: Tally,
}

impl Decided {
    /// What it releases, as part of `batch` if it had records.
    fn release(self, batch: Option<Arc<Batch>>, over: Vec<(Handle, Seq, Attempt)>) -> Effect {
        Effect::Release(Release {
            batch,
            actions: self.actions,
            progress: self.progress,
            over,
            tally: self.tally,
        })
    }
}

#[derive(Debug)]
struct InFlight {
    batch: Arc<Batch>,
    decided: Decided,
    /// What starts of later batches may depend on.
    unwritten: Unwritten,
    pause: Duration,
    /// How often Postgres has said that it did not accept it.
    refusals: u32,
    /// The outcome of an earlier send is unknown.
    uncertain: bool,
    /// As time passes.
    sent_at: Time,
}

#[derive(Debug)]
enum State {
    /// No core: nothing is decided until `Recovered`.
    Recovering,
    /// No core, and none before the next `Recovered`: commands are dropped.
    Standby,
    Working(Box<Shard>),
}

/// The loop of one shard.
#[derive(Debug)]
pub struct Machine {
    shard: ShardId,
    epoch: Epoch,
    next_batch: BatchNo,
    state: State,
    in_flight: Option<InFlight>,
    /// Decided but not sealed.
    open: Output,
    open_commands: Vec<Envelope>,
    open_bytes: usize,
    /// Until when the open batch waits for more ends.
    linger_until: Option<Time>,
    inbox: VecDeque<Envelope>,
    /// Commands of a rejected batch: applied one per batch, to find the culprit.
    isolated: VecDeque<Envelope>,
    /// The open batch or the one in flight holds an isolated command.
    isolating: bool,
    limits: Limits,
    executors: ExecutorState,
    /// No other replica can own the shard now.
    lease_holds: bool,
    /// By how many microseconds the time of the service leads time as it passes.
    lead: i64,
}

impl Machine {
    /// A loop without a core, and the recovery it asks for.
    pub fn new(shard: ShardId, limits: Limits) -> (Self, Effect) {
        let machine = Machine {
            shard,
            epoch: Epoch(0),
            next_batch: BatchNo(0),
            state: State::Recovering,
            in_flight: None,
            open: Output::default(),
            open_commands: Vec::new(),
            open_bytes: 0,
            linger_until: None,
            inbox: VecDeque::new(),
            isolated: VecDeque::new(),
            isolating: false,
            limits,
            executors: ExecutorState::default(),
            lease_holds: true,
            lead: 0,
        };
        (machine, Effect::Recover)
    }

    /// Takes events in and returns what is to be done. Without events: what is due at `now`.
    pub fn step(&mut self, now: Time, events: impl IntoIterator<Item = Event>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for event in events {
            match event {
                Event::Command(envelope) => self.enqueue(envelope),
                Event::Commit(no, commit) => self.committed(now, no, commit, &mut effects),
                Event::Recovered {
                    schedulers,
                    pauses,
                    resources,
                    jobs,
                    epoch,
                    last_batch,
                    memory,
                    window,
                } => {
                    self.inherit(window, epoch);
                    let read = (schedulers, pauses, (resources, *jobs));
                    self.recover(now, memory, read, (epoch, last_batch));
                }
                Event::Deposed => self.stand_by(&mut effects),
            }
        }
        if let State::Working(core) = &mut self.state {
            // One that was made just now does not know it yet.
            core.set_lead(self.lead);
            core.set_outage(now, !self.lease_holds);
        }
        self.fill(now);
        while self.in_flight.is_none()
            && !self.lingers(now, &mut effects)
            && self.seal(now, &mut effects)
        {
            self.fill(now);
        }
        self.start_meanwhile(now, &mut effects);
        // The next batch is sent first; what the last one released is done while it
        // commits.
        effects.sort_by_key(|effect| !matches!(effect, Effect::Append(..)));
        effects
    }

    /// Whether no other replica can own the shard now. While that is not certain, what rests on no
    /// record waits for the lease, or for a durable batch, which proves as much.
    pub fn set_lease(&mut self, holds: bool) {
        self.lease_holds = holds;
    }

    /// Every stream has been ended, and none of them will say so.
    pub fn forget_streams(&mut self) {
        self.executors.forget_streams();
    }

    /// By how many microseconds the time of the service leads that which has passed since any
    /// moment: it may follow a clock that was set.
    pub fn set_lead(&mut self, lead: i64) {
        self.lead = lead;
        if let State::Working(core) = &mut self.state {
            core.set_lead(lead);
        }
    }

    /// The same time, if it ran as time passes.
    fn steady(&self, now: Time) -> Time {
        Time(now.0 - self.lead)
    }

    /// Nothing was taken in for a while: who was to be heard meanwhile is not to blame.
    pub fn was_paused(&mut self, now: Time) {
        if let State::Working(core) = &mut self.state {
            core.renew_claims(now);
        }
    }

    /// Whether something waits for the lease.
    pub fn waits_for_lease(&self) -> bool {
        !self.lease_holds && self.in_flight.is_none() && !self.open_commands.is_empty()
    }

    /// Whether another replica owns the shard.
    pub fn stands_by(&self) -> bool {
        matches!(self.state, State::Standby)
    }

    /// When `step` has something to do even without an event.
    pub fn next_due(&self) -> Time {
        match (&self.state, self.linger_until) {
            (State::Working(core), Some(until)) => until.min(core.next_settling()),
            (State::Working(core), None) if self.in_flight.is_none() && self.lease_holds => {
                core.next_due()
            }
            _ => Time::NEVER,
        }
    }

    /// Commands that wait to be decided.
    pub fn backlog(&self) -> usize {
        self.inbox.len() + self.isolated.len()
    }

    /// The callers of commands that are still to be decided.
    pub fn undecided_tickets(&self) -> FxHashSet<Ticket> {
        self.inbox
            .iter()
            .chain(&self.isolated)
            .filter_map(|envelope| envelope.ticket)
            .collect()
    }

    /// Whether it can make use of a slot that becomes free, even if it has to wait for the journal.
    pub fn can_start_tasks(&self) -> bool {
        matches!(self.state, State::Working(_)) && !self.isolating
    }

    /// Whether a batch waits for its outcome, or the core for its recovery.
    pub fn waits_for_journal(&self) -> bool {
        self.in_flight.is_some() || matches!(self.state, State::Recovering)
    }

    /// Whether the core knows of ends that no batch has taken along yet.
    pub fn is_lingering(&self) -> bool {
        self.linger_until.is_some()
    }

    /// The epoch of the present ownership.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The core, for checks in the simulator.
    pub fn core(&self) -> Option<&Shard> {
        match &self.state {
            State::Working(core) => Some(core),
            State::Recovering | State::Standby => None,
        }
    }

    /// The commands of the batch in flight as they were decided, for checks in the simulator.
    pub fn commands_in_flight(&self) -> &[Envelope] {
        self.in_flight
            .as_ref()
            .map_or(&[], |flight| &flight.decided.commands)
    }
}
