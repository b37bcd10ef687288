//! The handle that callers use: a command in, a reply out, and never a reply before it is durable.
//!
//! It holds no state of schedulers. Commands go through the queue to the loop; streams and calls
//! about ended schedulers read the journal beside it.

use super::{
    admission::{Admission, Permit},
    call_error::CallError,
    commands::{CommandSender, NoReply},
    ownership::{
        OwnershipHandle,
        replica_state::{ReplicaState, ReplicaStatus},
        role::Role,
    },
    streams::{
        cursor::EventStream, ended_schedulers::EndedSchedulers, event_buffer::EventBuffers,
        goal::Goal,
    },
};
use crate::{
    clock::Clock,
    core::{
        Caller, Command, CoreStatus, DoneNo, Epoch, Handle, JobReply, JobVerb, Namespace, Naming,
        PauseAnswer, PauseChange, Reject, Reply, Request, ResourceReply, ResourceVerb, Seq,
        ShardId, Until, Verb, model::limits::CALL_BYTES,
    },
    hub::Hub,
    journal::{Journal, Reader},
    traces::Traces,
};
use std::{ops::Deref, sync::Arc, time::Duration};
use tokio::sync::mpsc;
use uuid::Uuid;

/// Between two looks at whether a database that is away is back.
const DRAIN_PAUSE: Duration = Duration::from_millis(100);

/// Handle of the loop. Cheap to clone; the loop ends with the last clone.
#[derive(Clone)]
pub struct Coordinator(Arc<Inner>);

/// What all clones share: calls clone their handle all the time.
pub struct Inner {
    pub(super) commands: CommandSender,
    pub(super) closed_streams: mpsc::Sender<Command>,
    pub(super) admission: Admission,
    pub(super) ended: EndedSchedulers,
    pub(super) journal: Journal,
    pub(super) reader: Reader,
    pub(super) clock: Clock,
    pub(super) buffers: EventBuffers,
    pub(super) state: ReplicaState,
    pub(super) hub: Hub,
    pub(super) ownership: OwnershipHandle,
    pub(super) traces: Traces,
}

impl Deref for Coordinator {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl From<Inner> for Coordinator {
    fn from(inner: Inner) -> Self {
        Coordinator(Arc::new(inner))
    }
}

impl Coordinator {
    /// The shard this coordinator serves.
    pub fn shard(&self) -> ShardId {
        self.journal.shard()
    }

    /// A handle for a new scheduler.
    pub fn new_handle(&self) -> Handle {
        // The random half of another UUIDv7; the bits of version, variant and shard are replaced.
        let mut random = [0; 10];
        random.copy_from_slice(&Uuid::now_v7().as_bytes()[6..]);
        let unix_ms = self.clock.now().0 / 1_000;
        Handle::new(self.shard(), unix_ms.max(0) as u64, random)
    }

    /// The hub of executors, which those of other replicas join.
    pub fn hub(&self) -> Hub {
        self.hub.clone()
    }

    /// The journal, for reads.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The role of this replica, and whether its journal keeps up.
    pub fn replica_status(&self) -> ReplicaStatus {
        self.state.status()
    }

    /// Database time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where calls that submit tasks are traced.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Calls a scheduler. The reply is durable, and never [`Reply::Rejected`].
    pub async fn call(
        &self,
        caller: Caller,
        handle: Handle,
        verb: Verb,
    ) -> Result<Reply, CallError> {
        let namespace = caller.namespace.clone();
        let retry = verb.clone();
        self.check_open(&namespace, &verb)?;
        let command = Command::Call {
            caller,
            handle,
            verb,
        };
        match self.send(command).await? {
            Reply::Rejected(Reject::UnknownHandle) => {
                self.check_readable(&namespace, handle)?;
                self.ended.call(namespace, handle, &retry).await
            }
            Reply::Rejected(reject) => Err(CallError::Rejected(reject)),
            reply => Ok(reply),
        }
    }

    /// Pauses a target, or resumes it.
    pub async fn change_pause(&self, change: PauseChange) -> Result<PauseAnswer, CallError> {
        match self.send(Command::ChangePause(change)).await? {
            Reply::Pauses(answer) => Ok(*answer),
            Reply::Rejected(reject) => Err(CallError::Rejected(reject)),
            other => unreachable!("the core answers ChangePause with Pauses, not {other:?}"),
        }
    }

    /// Asks something about resources. The reply is durable, and never [`Reply::Rejected`]. That to
    /// [`ResourceVerb::Await`] may take any time.
    pub async fn resource(
        &self,
        caller: Caller,
        verb: ResourceVerb,
    ) -> Result<ResourceReply, CallError> {
        match self.send(Command::Resource { caller, verb }).await? {
            Reply::Resource(reply) => Ok(*reply),
            Reply::Rejected(reject) => Err(CallError::Rejected(reject)),
            other => unreachable!("the core answers Resource with Resource, not {other:?}"),
        }
    }

    /// Asks something about jobs. The reply is durable, and never [`Reply::Rejected`].
    pub async fn job(&self, caller: Caller, verb: JobVerb) -> Result<JobReply, CallError> {
        match self.send(Command::Job { caller, verb }).await? {
            Reply::Job(reply) => Ok(*reply),
            Reply::Rejected(reject) => Err(CallError::Rejected(reject)),
            other => unreachable!("the core answers Job with Job, not {other:?}"),
        }
    }

    /// Counts over all schedulers.
    pub async fn status(&self) -> Result<CoreStatus, CallError> {
        match self.send(Command::Status).await? {
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
        // On a task of its own: when the caller is dropped half-way, the stream is still opened,
        // and then closed.
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
        // The buffer is opened before the core is asked, so that no event falls between the two.
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
        match self.send(command).await {
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
                        self.check_readable(&namespace, handle)?;
                        self.ended.watch(namespace, handle, after, until).await
                    }
                    Reply::Rejected(reject) => Err(CallError::Rejected(reject)),
                    reply => unreachable!("the core answers Watch with Watching, not {reply:?}"),
                }
            }
        }
    }

    /// Resolves when every task that the scheduler has now has ended; `after` is its last event so
    /// far.
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

    /// Waits until everything reported so far is durable, or until the timeout.
    pub async fn drain(&self, timeout: Duration) {
        let durable = async {
            let mut is_said = false;
            while let Err(CallError::Unavailable { reason, .. }) = self.status().await
                && self.state.owned_epoch().is_some()
            {
                if !std::mem::replace(&mut is_said, true) {
                    tracing::info!(
                        reason,
                        "waits up to {timeout:?} for the last outcomes to become durable"
                    );
                }
                tokio::time::sleep(DRAIN_PAUSE).await;
            }
        };
        if tokio::time::timeout(timeout, durable).await.is_err() {
            tracing::warn!(
                "stopped before the last outcomes were durable; they will be lost or run again"
            );
        }
    }

    /// A scheduler that the core does not know may have been set aside.
    fn check_readable(&self, namespace: &Namespace, handle: Handle) -> Result<(), CallError> {
        match self.state.is_unreadable(namespace, handle) {
            true => Err(CallError::Unreadable),
            false => Ok(()),
        }
    }

    /// The core does not know either which calls have opened those that were set aside, and which
    /// names they have.
    fn check_open(&self, namespace: &Namespace, verb: &Verb) -> Result<(), CallError> {
        let Verb::Open(open) = verb else {
            return Ok(());
        };
        let (state, now) = (&self.state, self.clock.now());
        let has_opened = |request: &Request| state.opened_unreadable(namespace, request.id, now);
        let has_name = |naming: &Naming| state.is_name_unreadable(namespace, &naming.name);
        match open.request.as_ref().is_some_and(has_opened)
            || open.naming.as_ref().is_some_and(has_name)
        {
            true => Err(CallError::Unreadable),
            false => Ok(()),
        }
    }

    async fn send(&self, command: Command) -> Result<Reply, CallError> {
        match self.state.role_and_stall() {
            (Role::Standby, _) => return Err(CallError::NotOwner),
            (_, true) => return Err(CallError::unavailable("the coordination database is away")),
            (_, false) => {}
        }
        let epoch = self.state.owned_epoch();
        let permit = self.permit_for(&command)?;
        let reply = self.commands.try_call(command, permit).await;
        reply.map_err(|error| match error {
            NoReply::Full => CallError::overloaded("commands"),
            NoReply::Closed => CallError::unavailable("the service is shutting down"),
            // It may be this replica again that owns the shard by now.
            NoReply::Dropped if self.has_changed_since(epoch) => CallError::OwnerChanged,
            NoReply::Dropped => CallError::unavailable(
                "the owner reads the journal again; the effect of the call is unknown",
            ),
        })
    }

    /// Whether this replica owns the shard no more, or anew.
    fn has_changed_since(&self, epoch: Option<Epoch>) -> bool {
        self.state.role() == Role::Standby || self.state.owned_epoch() != epoch
    }

    /// Commands of the service itself need no permit: they are few.
    fn permit_for(&self, command: &Command) -> Result<Option<Permit>, CallError> {
        let caller = match command {
            Command::Call { caller, .. }
            | Command::Resource { caller, .. }
            | Command::Job { caller, .. } => caller,
            _ => return Ok(None),
        };
        self.admission
            .admit(&caller.namespace, command.bytes().min(2 * CALL_BYTES))
            .map(Some)
            .map_err(CallError::overloaded)
    }
}
