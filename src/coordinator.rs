//! The loop around the core (design section 3): gather every command that is waiting, let the core decide, append the
//! records of the whole batch, release the actions. While one batch commits the next one is gathered.
//!
//! [`Coordinator`] is the door for the edges: a command in, an answer out, and never an answer before it is durable.

mod admission;
pub mod body_cache;
pub(crate) mod commands;
mod driver;
pub mod machine;
mod maintenance;
mod ownership;
pub(crate) mod streams;

pub use crate::hub::registration::{Registered, Registration};
pub use ownership::role::{Health, JournalHealth, Role};
pub use streams::cursor::{EVENT_RESULT_BYTES, End, EventStream, Page};

use crate::hub::fencing::Fencing;
use crate::hub::pool::Pool;
use crate::{
    clock::Clock,
    core::{
        Caller, Command, CoreStatus, DoneNo, Handle, Reject, Reply, Seq, ShardId, Until, Verb,
        model::limits::{CALL_BYTES, Limits},
    },
    executor::Executor,
    journal::{Journal, JournalError, Membership, Reader, Replica, Sessions},
};
use admission::{Admission, Demand, Permit};
use body_cache::prefetch::Prefetch;
use commands::Asked;
use driver::Driver;
use machine::Machine;
use ownership::heartbeat::HeartbeatTrigger;
use ownership::lease_watch::LeaseTiming;
use ownership::{OwnershipRequest, OwnershipTask};
use std::time::Duration;
use streams::cursor::Goal;
use streams::ended::EndedStreams;
use streams::event_buffer::EventBuffers;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

/// Commands that may wait for the loop; a namespace gets as many as stay free for others.
const COMMANDS: usize = 50_000;
/// Bytes of bodies that may wait for the loop, shared likewise.
const COMMAND_BYTES: usize = 64 << 20;
/// Ended streams that may wait for the loop.
const CLOSED_STREAMS: usize = 1_024;
/// Batches of reports of executors that may wait for the loop.
const REPORTS: usize = 1_024;
/// Executors that come and go may wait for the loop.
const CHANGES: usize = 64;
/// Changes of ownership that may wait for the loop, and wishes that may wait for whoever keeps it.
const OWNERSHIP: usize = 16;
/// What a caller is told to wait before the next try.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the coordinator is made of.
pub struct Parts {
    /// The record.
    pub journal: Journal,
    /// This run of the server.
    pub replica: Replica,
    /// How long it owns the shard without a heartbeat.
    pub lease: Duration,
    /// Database time.
    pub clock: Clock,
    /// Who runs tasks in this process.
    pub executor: Executor,
    /// The register of its sessions, and of everybody else's.
    pub sessions: Sessions,
    /// Tasks without a session at any time.
    pub noop_slots: u32,
    /// What an operator limits.
    pub limits: Limits,
    /// Bytes of bodies kept in memory.
    pub body_bytes: usize,
}

/// The door to the loop. Cheap to clone.
#[derive(Clone)]
pub struct Coordinator {
    commands: mpsc::Sender<Asked>,
    closed_streams: mpsc::Sender<Command>,
    room: Admission,
    ended_streams: EndedStreams,
    journal: Journal,
    reader: Reader,
    shard: ShardId,
    clock: Clock,
    buffers: EventBuffers,
    health: Health,
    entrance: Registration,
    membership: watch::Receiver<Membership>,
    replica: Replica,
    nudge: HeartbeatTrigger,
    wishes: mpsc::Sender<OwnershipRequest>,
}

/// Why a call got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// It had no effect.
    Rejected(Reject),
    /// It had no effect here: another replica owns the shard, or nobody does.
    NotOwner,
    /// The shard changed hands while it was under way: nobody knows whether it had an effect.
    OwnerChanged,
    /// Nobody knows whether it had an effect: call again with the same request id.
    Unavailable {
        /// When.
        retry_after: Duration,
        /// For people.
        reason: &'static str,
    },
    /// The events after the cursor are older than the retention, and gone.
    Truncated {
        /// The lowest cursor whose events are there.
        oldest: DoneNo,
    },
    /// A queue is full; it had no effect.
    Overloaded {
        /// When to try again.
        retry_after: Duration,
        /// Which queue.
        limit: &'static str,
    },
}

impl CallError {
    fn unavailable(reason: &'static str) -> Self {
        CallError::Unavailable {
            retry_after: RETRY_AFTER,
            reason,
        }
    }

    fn overloaded(limit: &'static str) -> Self {
        CallError::Overloaded {
            retry_after: RETRY_AFTER,
            limit,
        }
    }

    /// A read of the journal failed.
    pub fn from_journal(error: JournalError) -> Self {
        tracing::warn!(%error, "a read of the journal failed");
        CallError::unavailable("the coordination database cannot be read")
    }
}

impl Coordinator {
    /// Starts the loop. It takes the shard over, recovers, and serves until its last handle is dropped. Fails
    /// when the system gives it no thread.
    pub fn start(parts: Parts) -> std::io::Result<Self> {
        let Parts {
            journal,
            replica,
            lease,
            clock,
            executor,
            sessions,
            noop_slots,
            limits,
            body_bytes,
        } = parts;
        let (changes, changing) = mpsc::channel(CHANGES);
        let (reports, executor_events) = mpsc::channel(REPORTS);
        let pool = Pool::new(noop_slots, clock.clone());
        let (commands, asked) = mpsc::channel(COMMANDS);
        let (closed_streams, closed) = mpsc::channel(CLOSED_STREAMS);
        let ((events, ownership), (wishes, wished)) =
            (mpsc::channel(OWNERSHIP), mpsc::channel(OWNERSHIP));
        let entrance = Registration {
            pool: pool.clone(),
            sessions: sessions.clone(),
            changes: changes.clone(),
            reports: reports.clone(),
        };
        let roll = Fencing {
            pool: pool.clone(),
            executor,
            sessions,
            changes,
            commands: commands.downgrade(),
        };
        let (membership, members) = watch::channel(Membership::default());
        let (looks, seen) = watch::channel(None);
        let (buffers, health, nudge, pace) = (
            EventBuffers::default(),
            Health::default(),
            HeartbeatTrigger::default(),
            LeaseTiming::new(lease),
        );
        tokio::spawn(maintenance::keep(
            journal.upkeep(),
            health.clone(),
            commands.downgrade(),
        ));
        let coordinator = Coordinator {
            commands,
            closed_streams,
            room: Admission::new(Demand {
                calls: COMMANDS,
                bytes: COMMAND_BYTES,
            }),
            ended_streams: EndedStreams::new(limits.streams),
            journal: journal.clone(),
            reader: journal.reader(),
            shard: journal.shard(),
            clock: clock.clone(),
            buffers: buffers.clone(),
            health: health.clone(),
            entrance,
            membership: members,
            replica: replica.clone(),
            nudge: nudge.clone(),
            wishes: wishes.clone(),
        };
        let owner = OwnershipTask {
            journal: journal.clone(),
            requests: limits.requests,
            replica: replica.clone(),
            clock: clock.clone(),
            health: health.clone(),
            roll: roll.clone(),
            pace,
            nudge,
            looks: seen,
            membership,
            wishes: wished,
            events,
        };
        owner.start(looks);
        let (machine, first) = Machine::new(journal.shard(), limits);
        let others = tokio::runtime::Handle::current();
        let driver = Driver {
            machine,
            library: Prefetch::open(body_bytes, &journal, &pool, &others),
            journal,
            clock,
            health,
            buffers,
            roll,
            asked,
            closed_streams: closed,
            replica,
            changes: changing,
            reports: (reports, executor_events),
            ownership,
            wishes,
            margin: pace.heartbeat,
            others,
        };
        driver.start(first)?;
        Ok(coordinator)
    }

    /// The shard this coordinator owns.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// A new name for a scheduler.
    pub fn new_handle(&self) -> Handle {
        // The random half of another UUIDv7: the bits in the places of version, variant and shard are replaced anyway.
        let mut random = [0; 10];
        random.copy_from_slice(&Uuid::now_v7().as_bytes()[6..]);
        let unix_ms = self.clock.now().0 / 1_000;
        Handle::new(self.shard, unix_ms.max(0) as u64, random)
    }

    /// The door for executors of other replicas.
    pub fn entrance(&self) -> Registration {
        self.entrance.clone()
    }

    /// The journal, for reads.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// How the journal does.
    pub fn journal_health(&self) -> JournalHealth {
        self.health.read()
    }

    /// Database time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Asks about a scheduler. The answer is durable. Never [`Reply::Rejected`].
    pub async fn call(
        &self,
        caller: Caller,
        handle: Handle,
        verb: Verb,
    ) -> Result<Reply, CallError> {
        let namespace = caller.namespace.clone();
        let retry = verb.clone();
        match self
            .ask(Command::Call {
                caller,
                handle,
                verb,
            })
            .await?
        {
            Reply::Rejected(Reject::UnknownHandle) => self.ended(namespace, handle, &retry).await,
            Reply::Rejected(reject) => Err(CallError::Rejected(reject)),
            reply => Ok(reply),
        }
    }

    /// Counts over everything.
    pub async fn status(&self) -> Result<CoreStatus, CallError> {
        match self.ask(Command::Status).await? {
            Reply::Status(status) => Ok(*status),
            other => unreachable!("the core answers Status with a status, not {other:?}"),
        }
    }

    /// Opens a stream of a scheduler's events after `after`.
    pub async fn watch(
        &self,
        caller: Caller,
        handle: Handle,
        after: DoneNo,
        until: Until,
        last_seq: Option<Seq>,
    ) -> Result<EventStream, CallError> {
        let this = self.clone();
        // On a task of its own: when the asking handler is dropped half-way, the stream is still opened, and closed.
        let opening = tokio::spawn(async move {
            this.open_stream(caller, handle, after, until, last_seq)
                .await
        });
        opening
            .await
            .unwrap_or_else(|_| Err(CallError::unavailable("the service is shutting down")))
    }

    async fn open_stream(
        &self,
        caller: Caller,
        handle: Handle,
        after: DoneNo,
        until: Until,
        last_seq: Option<Seq>,
    ) -> Result<EventStream, CallError> {
        // The buffer stands before the core is asked, so that no event falls between the two.
        let buffer = self.buffers.open(handle);
        let namespace = caller.namespace.clone();
        let command = Command::Call {
            caller,
            handle,
            verb: Verb::Watch {
                after,
                until,
                last_seq,
            },
        };
        match self.ask(command).await {
            Ok(Reply::Watching {
                last_seq,
                outstanding,
                done_no,
                ..
            }) => {
                let goal = Goal {
                    until,
                    last_seq,
                    outstanding,
                    opened_at: done_no,
                };
                let stream = EventStream::new(handle, after, goal, self.reader.clone());
                Ok(stream.live(buffer, self.buffers.clone(), self.closed_streams.clone()))
            }
            other => {
                self.buffers.close(handle, buffer);
                match other? {
                    Reply::Rejected(Reject::UnknownHandle) => {
                        self.watch_ended(namespace, handle, after, until).await
                    }
                    Reply::Rejected(reject) => Err(CallError::Rejected(reject)),
                    reply => unreachable!("the core answers Watch with Watching, not {reply:?}"),
                }
            }
        }
    }

    /// Resolves when every task that a scheduler has now has ended; `after` is its last event so far.
    pub async fn wait_done(
        &self,
        caller: Caller,
        handle: Handle,
        after: DoneNo,
    ) -> Result<(), CallError> {
        let mut stream = self.watch(caller, handle, after, Until::All, None).await?;
        while stream.next().await?.end.is_none() {}
        Ok(())
    }

    /// Waits until everything reported so far is durable, at most `patience`.
    pub async fn drain(&self, patience: Duration) {
        if tokio::time::timeout(patience, self.status()).await.is_err() {
            tracing::warn!(
                "stopped before the last outcomes were durable; they will be found lost or run again"
            );
        }
    }

    async fn ask(&self, command: Command) -> Result<Reply, CallError> {
        match self.health.door() {
            (Role::Standby, _) => return Err(CallError::NotOwner),
            (_, true) => return Err(CallError::unavailable("the coordination database is away")),
            (_, false) => {}
        }
        let place = self.place_for(&command)?;
        let (reply, answer) = oneshot::channel();
        self.commands
            .try_send(Asked {
                command,
                reply,
                _place: place,
            })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => CallError::overloaded("commands"),
                mpsc::error::TrySendError::Closed(_) => {
                    CallError::unavailable("the service is shutting down")
                }
            })?;
        answer.await.map_err(|_| match self.health.standing() {
            Role::Standby => CallError::OwnerChanged,
            _ => CallError::unavailable(
                "the coordination database is away; the effect of the call is unknown",
            ),
        })
    }

    /// Commands of the service itself need no place: they are few.
    fn place_for(&self, command: &Command) -> Result<Option<Permit>, CallError> {
        let Command::Call { caller, verb, .. } = command else {
            return Ok(None);
        };
        let bytes = match verb {
            Verb::Submit(submit) => {
                (submit.bodies.bytes.len() + submit.params.bytes.len()).min(2 * CALL_BYTES)
            }
            _ => 0,
        };
        self.room
            .take(&caller.namespace, bytes)
            .map(Some)
            .map_err(CallError::overloaded)
    }
}
