//! What the coordinator is made of, and how the parts are connected: channels, the loop and
//! the tasks beside it.
//!
//! Every queue between them has a limit, named here. Nothing is decided here.

use super::{
    admission::{Admission, Capacity},
    body_cache::prefetch::Prefetch,
    caller_handle::{Coordinator, Inner},
    commands::CommandSender,
    driver::Driver,
    machine::{Event, Machine},
    maintenance::{self, MaintenanceTask},
    ownership::{
        OwnershipHandle, OwnershipTask, heartbeat::HeartbeatTrigger, lease_watch::LeaseTiming,
        replica_state::ReplicaState, unnoted::Unnoted,
    },
    streams::{ended_schedulers::EndedSchedulers, event_buffer::EventBuffers},
};
use crate::{
    clock::Clock,
    core::model::limits::Limits,
    executor::Executor,
    hub::{self, Hub},
    journal::{Journal, Membership, Replica, Sessions},
    metrics::Metrics,
    traces::Traces,
};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Commands that may wait for the loop; a namespace gets as many as stay free for others.
const MAX_COMMANDS: usize = 50_000;
/// Bytes of bodies that may wait for the loop, shared likewise.
const MAX_COMMAND_BYTES: usize = 64 << 20;
/// Ended streams that may wait for the loop.
const MAX_CLOSED_STREAMS: usize = 1_024;
/// Batches of reports of executors that may wait for the loop.
const MAX_REPORTS: usize = 1_024;
/// Ownership events that may wait for the loop, and requests that may wait for the ownership task.
const MAX_OWNERSHIP_EVENTS: usize = 16;

/// What the coordinator is made of.
pub struct Parts {
    pub journal: Journal,
    /// This run of the server.
    pub replica: Replica,
    /// How long an ownership lasts without a heartbeat.
    pub lease: Duration,
    /// Database time.
    pub clock: Clock,
    /// Runs tasks in this process.
    pub executor: Executor,
    /// The register of the sessions of all executors.
    pub sessions: Sessions,
    /// No-op tasks at any time.
    pub noop_slots: u32,
    pub limits: Limits,
    /// Bytes of bodies kept in memory.
    pub body_bytes: usize,
    pub metrics: Metrics,
    /// Where it is said what has ended of traced tasks.
    pub traces: Traces,
}

/// The parts that have been started, as the loop and the handle need them.
struct Started {
    state: ReplicaState,
    buffers: EventBuffers,
    timing: LeaseTiming,
    ownership: OwnershipHandle,
    ownership_events: mpsc::Receiver<Event>,
}

impl Coordinator {
    /// Starts the loop. It takes the shard over, recovers, and serves until its last handle is
    /// dropped.
    pub fn start(parts: Parts) -> Self {
        let (commands, queued) = CommandSender::channel(MAX_COMMANDS);
        let (closed_streams, streams_closed) = mpsc::channel(MAX_CLOSED_STREAMS);
        let (reports, executor_reports) = mpsc::channel(MAX_REPORTS);
        let (membership, members) = watch::channel(Membership::default());
        let hub = Hub::start(hub::driver::Parts {
            replica: parts.replica.clone(),
            noop_slots: parts.noop_slots,
            clock: parts.clock.clone(),
            executor: parts.executor.clone(),
            sessions: parts.sessions.clone(),
            membership: members,
            reports,
        });
        let started = Started::new(&parts, &hub, membership, &commands);
        let (machine, first) = Machine::new(parts.journal.shard(), parts.limits);
        let runtime = tokio::runtime::Handle::current();
        let driver = Driver {
            machine,
            bodies: Prefetch::open(parts.body_bytes, &parts.journal, &hub, &runtime),
            journal: parts.journal.clone(),
            replica: parts.replica.clone(),
            clock: parts.clock.clone(),
            state: started.state.clone(),
            buffers: started.buffers.clone(),
            hub: hub.clone(),
            commands: queued,
            closed_streams: streams_closed,
            reports: executor_reports,
            ownership_events: started.ownership_events,
            ownership_requests: started.ownership.requests.clone(),
            lease_margin: started.timing.heartbeat,
            metrics: parts.metrics,
            traces: parts.traces.clone(),
        };
        driver.start(first);
        let reader = parts.journal.reader();
        Coordinator::from(Inner {
            commands,
            closed_streams,
            admission: Admission::new(Capacity {
                calls: MAX_COMMANDS,
                bytes: MAX_COMMAND_BYTES,
            }),
            ended: EndedSchedulers::new(reader.clone(), parts.limits.streams),
            journal: parts.journal,
            reader,
            clock: parts.clock,
            buffers: started.buffers,
            state: started.state,
            hub,
            ownership: started.ownership,
            traces: parts.traces,
        })
    }
}

impl Started {
    /// Starts the tasks beside the loop: maintenance, heartbeat and ownership.
    fn new(
        parts: &Parts,
        hub: &Hub,
        membership: watch::Sender<Membership>,
        commands: &CommandSender,
    ) -> Self {
        let state = ReplicaState::default();
        let maintenance = parts.journal.maintenance();
        tokio::spawn(maintenance::turn_batches(
            maintenance.clone(),
            state.clone(),
        ));
        let task = MaintenanceTask {
            maintenance,
            state: state.clone(),
            clock: parts.clock.clone(),
            commands: commands.downgrade(),
            hub: hub.clone(),
        };
        tokio::spawn(task.run());
        let (events, ownership_events) = mpsc::channel(MAX_OWNERSHIP_EVENTS);
        let (requests, requested) = mpsc::channel(MAX_OWNERSHIP_EVENTS);
        let (gone_owners, reported_gone) = mpsc::channel(1);
        let ownership = OwnershipHandle {
            replica: parts.replica.clone(),
            membership: membership.clone(),
            heartbeat: HeartbeatTrigger::default(),
            requests,
            gone_owners,
        };
        let timing = LeaseTiming::new(parts.lease);
        let (polled, polls) = watch::channel(None);
        let task = OwnershipTask {
            journal: parts.journal.clone(),
            max_request_ids: parts.limits.requests,
            replica: parts.replica.clone(),
            clock: parts.clock.clone(),
            state: state.clone(),
            hub: hub.clone(),
            timing,
            heartbeat: ownership.heartbeat.clone(),
            polls,
            membership,
            requests: requested,
            unnoted: Unnoted::default(),
            gone_owners: reported_gone,
            events,
        };
        task.start(polled);
        Started {
            state,
            buffers: EventBuffers::default(),
            timing,
            ownership,
            ownership_events,
        }
    }
}
