//! The loop as a pure machine: gather, apply, append, release; one batch ahead and no more (design
//! section 3).
//!
//! Invariants: no action is released before its records are durable; batches are released in the
//! order of their numbers; a batch of unknown fate is sent again, unchanged and under its number,
//! until its fate is known; a completion that an executor reported is never dropped. No I/O, no
//! clock: tokio buffers it in `driver`, the simulator in the tests.

mod envelope;
mod executor_state;
mod ownership;

use crate::{
    core::{
        Action, Attempt, BatchNo, Epoch, Handle, InDoubtWindow, Output, Progress,
        RecoveredScheduler, Reject, Reply, Seq, Shard, ShardId, Ticket, Time,
        model::limits::Limits,
    },
    journal::{Batch, Commit},
};
pub use envelope::Envelope;
use envelope::{bytes, split, storable, survives};
use executor_state::ExecutorState;
use rustc_hash::FxHashSet;
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// Commands and outcomes in one batch, about: what Postgres takes in one go without a stall.
const BATCH_RECORDS: usize = 5_000;
/// What the commands of one batch weigh, about: the bytes of their bodies, and something for each
/// task.
const BATCH_BYTES: usize = 16 << 20;
/// Wait before a batch is sent again, doubled up to `RESEND_MAX`.
const RESEND_MIN: Duration = Duration::from_millis(50);
const RESEND_MAX: Duration = Duration::from_secs(2);

/// Something that happened to the loop.
#[derive(Debug)]
pub enum Event {
    /// A command came in.
    Command(Envelope),
    /// The fate of the batch in flight.
    Commit(BatchNo, Commit),
    /// The journal has been read, under a new epoch.
    Recovered {
        /// What it says.
        schedulers: Vec<RecoveredScheduler>,
        /// The new epoch.
        epoch: Epoch,
        /// The last batch in the journal.
        last_batch: BatchNo,
        /// What others who owned the shard since may have been running; `None`: nobody did.
        window: Option<InDoubtWindow>,
    },
    /// The shard is another replica's.
    Deposed,
}

/// Something the loop wants done, in this order.
#[derive(Debug)]
pub enum Effect {
    /// Append this batch, after a pause (none but for a batch sent again).
    Append(Arc<Batch>, Duration),
    /// These are durable: release what waited for them.
    Release(Release),
    /// The core is of no more use: take the shard over again, recover, and say `Recovered`.
    Recover,
    /// The shard is another's: everybody who waits, and every stream, must go there; what runs here
    /// is over.
    StandBy,
}

/// What a durable batch releases.
#[derive(Debug)]
pub struct Release {
    /// The batch, when it had records.
    pub batch: Option<Arc<Batch>>,
    /// What to do.
    pub actions: Vec<Action>,
    /// How far each touched scheduler is.
    pub progress: Vec<(Handle, Progress)>,
    /// Assignments with a session whose completion is taken in for good.
    pub over: Vec<(Handle, Seq, Attempt)>,
}

/// A batch that has been decided.
#[derive(Debug)]
struct Decided {
    commands: Vec<Envelope>,
    actions: Vec<Action>,
    progress: Vec<(Handle, Progress)>,
}

#[derive(Debug)]
struct InFlight {
    batch: Arc<Batch>,
    decided: Decided,
    pause: Duration,
}

#[derive(Debug)]
enum State {
    /// No core: nothing is decided until `Recovered`.
    Recovering,
    /// No core, and none to come before the next `Recovered`: commands are dropped.
    Standby,
    Working(Box<Shard>),
}

/// The loop of one shard.
#[derive(Debug)]
pub struct Machine {
    shard: ShardId,
    epoch: Epoch,
    next: BatchNo,
    state: State,
    in_flight: Option<InFlight>,
    /// Decided but not sealed.
    open: Output,
    open_commands: Vec<Envelope>,
    open_bytes: usize,
    inbox: VecDeque<Envelope>,
    /// Commands of a refused batch: applied one per batch, to find the culprit.
    suspects: VecDeque<Envelope>,
    /// The batch in flight or open holds a suspect.
    alone: bool,
    limits: Limits,
    /// What executors have told, or were given.
    told: ExecutorState,
    /// Nobody else can own the shard now.
    lease_holds: bool,
}

impl Machine {
    /// A loop without a core: asks for recovery by itself.
    pub fn new(shard: ShardId, limits: Limits) -> (Self, Effect) {
        let machine = Machine {
            shard,
            epoch: Epoch(0),
            next: BatchNo(0),
            state: State::Recovering,
            in_flight: None,
            open: Output::default(),
            open_commands: Vec::new(),
            open_bytes: 0,
            inbox: VecDeque::new(),
            suspects: VecDeque::new(),
            alone: false,
            limits,
            told: ExecutorState::default(),
            lease_holds: true,
        };
        (machine, Effect::Recover)
    }

    /// Takes events in and says what is to be done. With no events: what is due at `now`.
    pub fn step(&mut self, now: Time, events: impl IntoIterator<Item = Event>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for event in events {
            match event {
                Event::Command(envelope) => self.take_in(envelope),
                Event::Commit(no, fate) => self.settle_fate(now, no, fate, &mut effects),
                Event::Recovered {
                    schedulers,
                    epoch,
                    last_batch,
                    window,
                } => {
                    self.inherit(window, epoch);
                    self.recover(now, schedulers, epoch, last_batch);
                }
                Event::Deposed => self.stand_by(&mut effects),
            }
        }
        self.fill(now);
        while self.in_flight.is_none() && self.seal(now, &mut effects) {
            self.fill(now);
        }
        // The next batch goes on its way first; what the last one released is done while it
        // commits.
        effects.sort_by_key(|effect| !matches!(effect, Effect::Append(..)));
        effects
    }

    /// Whether nobody else can own the shard now. While that is not certain, what rests on no
    /// record waits: for the lease, or for a batch, which proves as much.
    pub fn set_lease(&mut self, holds: bool) {
        self.lease_holds = holds;
    }

    /// Whether something waits for the lease.
    pub fn waits_for_lease(&self) -> bool {
        !self.lease_holds && self.in_flight.is_none() && !self.open_commands.is_empty()
    }

    /// Whether the shard is another's.
    pub fn stands_by(&self) -> bool {
        matches!(self.state, State::Standby)
    }

    /// When `step` has something to do even without an event.
    pub fn next_due(&self) -> Time {
        match &self.state {
            State::Working(core) if self.in_flight.is_none() && self.lease_holds => core.next_due(),
            _ => Time::NEVER,
        }
    }

    /// Commands that wait to be decided.
    pub fn backlog(&self) -> usize {
        self.inbox.len() + self.suspects.len()
    }

    /// Whose answer is still to be decided.
    pub fn undecided_tickets(&self) -> FxHashSet<Ticket> {
        self.inbox
            .iter()
            .chain(&self.suspects)
            .filter_map(|envelope| envelope.ticket)
            .collect()
    }

    /// Whether a batch waits for its fate, or the core for its recovery.
    pub fn waits_for_journal(&self) -> bool {
        self.in_flight.is_some() || matches!(self.state, State::Recovering)
    }

    /// The number of the present ownership.
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

    /// Applies waiting commands to the open batch, as far as it has room.
    fn fill(&mut self, now: Time) {
        while !self.alone && has_room(&self.open, self.open_bytes) {
            let State::Working(core) = &mut self.state else {
                return;
            };
            let occupied = self.in_flight.is_some() || !self.open_commands.is_empty();
            if occupied && !self.suspects.is_empty() {
                return;
            }
            self.alone = !self.suspects.is_empty();
            let Some(envelope) = self.suspects.pop_front().or_else(|| self.inbox.pop_front())
            else {
                return;
            };
            if self.told.is_stale(&envelope.command) {
                self.alone = false;
                continue;
            }
            self.open_bytes += bytes(&envelope.command);
            core.apply(now, envelope.ticket, &envelope.command, &mut self.open);
            self.told.note(&envelope.command);
            self.open_commands.push(envelope);
        }
    }

    /// Closes the open batch and sends it, or releases it at once when it has nothing to remember.
    /// Says whether it did the latter, so that more may follow.
    fn seal(&mut self, now: Time, effects: &mut Vec<Effect>) -> bool {
        let State::Working(core) = &mut self.state else {
            return false;
        };
        if !self.alone {
            core.settle(now, &mut self.open);
        }
        if self.open.is_empty() && self.open_commands.is_empty() {
            return false;
        }
        if self.open.records.is_empty() && !self.lease_holds {
            return false;
        }
        let output = std::mem::take(&mut self.open);
        let progress = output
            .touched
            .iter()
            .filter_map(|handle| Some((*handle, core.progress(*handle)?)))
            .collect();
        let decided = Decided {
            commands: std::mem::take(&mut self.open_commands),
            actions: output.actions,
            progress,
        };
        self.open_bytes = 0;
        if output.records.is_empty() {
            self.alone = false;
            let over = self.told.released(now, &decided.commands, &decided.actions);
            let Decided {
                actions, progress, ..
            } = decided;
            effects.push(Effect::Release(Release {
                batch: None,
                actions,
                progress,
                over,
            }));
            return true;
        }
        let batch = Arc::new(Batch {
            shard: self.shard,
            epoch: self.epoch,
            no: self.next,
            day: now.day(),
            records: output.records,
        });
        self.next.0 += 1;
        effects.push(Effect::Append(batch.clone(), Duration::ZERO));
        self.in_flight = Some(InFlight {
            batch,
            decided,
            pause: RESEND_MIN,
        });
        false
    }

    fn settle_fate(&mut self, now: Time, no: BatchNo, fate: Commit, effects: &mut Vec<Effect>) {
        // A fate of an earlier core's batch decides nothing any more.
        let Some(mut flight) = self.in_flight.take_if(|flight| flight.batch.no == no) else {
            return;
        };
        match fate {
            Commit::Durable => {
                self.alone = false;
                let over =
                    self.told
                        .released(now, &flight.decided.commands, &flight.decided.actions);
                let Decided {
                    actions, progress, ..
                } = flight.decided;
                effects.push(Effect::Release(Release {
                    batch: Some(flight.batch),
                    actions,
                    progress,
                    over,
                }));
            }
            Commit::Unknown { .. } => {
                effects.push(Effect::Append(flight.batch.clone(), flight.pause));
                flight.pause = (flight.pause * 2).min(RESEND_MAX);
                self.in_flight = Some(flight);
            }
            Commit::Fenced => self.step_down(flight.decided, effects),
            Commit::Rejected { .. } => self.take_apart(flight.decided, effects),
        }
    }

    /// The batch can never be durable: the core is wrong about everything since. Callers get
    /// "unknown"; what executors reported is kept for the rebuilt core.
    fn step_down(&mut self, decided: Decided, effects: &mut Vec<Effect>) {
        let open = std::mem::take(&mut self.open_commands);
        let mut kept: Vec<Envelope> = Vec::new();
        for envelope in decided.commands.into_iter().chain(open) {
            // Dropping the ticket tells its caller "unknown".
            if survives(&envelope.command) {
                kept.push(Envelope {
                    ticket: None,
                    ..envelope
                });
            }
        }
        for envelope in kept.into_iter().rev() {
            self.inbox.push_front(envelope);
        }
        self.discard(effects);
    }

    /// Postgres refused the batch: its commands are applied again one per batch, so that only the
    /// culprit fails.
    fn take_apart(&mut self, decided: Decided, effects: &mut Vec<Effect>) {
        let mut commands = decided.commands;
        if self.alone {
            // The one suspect of this batch is the culprit.
            let rejected = commands.iter().filter_map(|culprit| culprit.ticket);
            let actions = rejected
                .map(|ticket| Action::Reply(ticket, Reply::Rejected(Reject::JournalRejected)))
                .collect();
            effects.push(Effect::Release(Release {
                batch: None,
                actions,
                progress: Vec::new(),
                over: Vec::new(),
            }));
            commands = commands.into_iter().filter_map(storable).collect();
        }
        commands.append(&mut self.open_commands);
        for envelope in split(commands).into_iter().rev() {
            self.suspects.push_front(envelope);
        }
        self.discard(effects);
    }

    fn discard(&mut self, effects: &mut Vec<Effect>) {
        self.state = State::Recovering;
        self.open = Output::default();
        self.open_bytes = 0;
        self.alone = false;
        effects.push(Effect::Recover);
    }
}

fn has_room(open: &Output, bytes: usize) -> bool {
    let records = &open.records;
    records.submissions.len()
        + records.completions.len()
        + records.attempts.len()
        + open.actions.len()
        < BATCH_RECORDS
        && bytes < BATCH_BYTES
}
