//! Reads bodies from the journal beside the loop: the loop takes what is in memory and never waits
//! for the database.
//!
//! Invariant: an assignment that waits for its body is either in [`Bodies`] or with the pool,
//! decided under one lock.

use super::Bodies;
use crate::{
    backoff::Backoff,
    core::{Assignment, Report, SeqRange, Shard, TaskError},
    hub::Hub,
    journal::{Journal, Reader},
};
use std::{
    fmt::Display,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{runtime::Handle, sync::Notify, task::JoinSet};

/// Reads in flight.
const READERS: usize = 2;
/// Bytes of rows in one read, approximately.
const READ_BYTES: usize = 4 << 20;
/// Wait before a failed read is tried again.
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// Wait before what the database refuses to read is tried again.
const APART_INTERVAL: Duration = Duration::from_secs(5);

/// The bodies, and the tasks that read what is missing; the tasks end with this value.
pub(crate) struct Prefetch {
    shared: Arc<Shared>,
    _readers: JoinSet<()>,
}

struct Shared {
    bodies: Mutex<Bodies>,
    read_wanted: Notify,
}

impl Prefetch {
    /// A cache of `budget` bytes; its readers run on `runtime` and hand assignments that waited for
    /// a body to `hub`.
    pub(crate) fn open(budget: usize, journal: &Journal, hub: &Hub, runtime: &Handle) -> Self {
        let shared = Arc::new(Shared {
            bodies: Mutex::new(Bodies::new(budget)),
            read_wanted: Notify::new(),
        });
        let mut readers = JoinSet::new();
        for _ in 0..READERS {
            readers.spawn_on(
                read_forever(shared.clone(), journal.reader(), hub.clone()),
                runtime,
            );
        }
        Prefetch {
            shared,
            _readers: readers,
        }
    }

    /// What is decided about an assignment under this lock holds: it waits for its body, or the
    /// hub has it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Bodies> {
        self.shared.lock()
    }

    /// Requests the bodies that the next tasks need.
    pub(crate) fn look_ahead(&self, core: &Shard) {
        if self.lock().look_ahead(core) {
            self.shared.read_wanted.notify_one();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Bodies> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_forever(shared: Arc<Shared>, reader: Reader, hub: Hub) {
    let mut failures = 0;
    loop {
        let next = shared.lock().next_read();
        let Some(ranges) = next else {
            shared.read_wanted.notified().await;
            continue;
        };
        // When there is more than one read's worth, another reader takes the rest.
        shared.read_wanted.notify_one();
        if read(&shared, &reader, &hub, ranges).await {
            failures = 0;
        } else {
            tokio::time::sleep(RETRY_BACKOFF.delay(failures)).await;
            failures += 1;
        }
    }
}

/// Returns whether it brought something.
async fn read(shared: &Arc<Shared>, reader: &Reader, hub: &Hub, ranges: Vec<SeqRange>) -> bool {
    match reader.body_chunks(&ranges, READ_BYTES).await {
        Ok(chunks) => {
            let mut bodies = shared.lock();
            let arrival = bodies.arrived(&ranges, chunks);
            // Under the lock, so that a stop finds the assignment here or in the hub.
            hub.dispatch(arrival.ready);
            for lost in arrival.lost {
                give_up(hub, lost, &"the journal does not have it");
            }
            true
        }
        Err(error) if error.is_outage() => {
            tracing::warn!(%error, "cannot read bodies");
            shared.lock().read_failed(ranges);
            false
        }
        Err(error) => {
            tracing::warn!(%error, "cannot read some bodies");
            match &ranges[..] {
                [range] if error.is_of_a_row() => {
                    let mut bodies = shared.lock();
                    if let Some(unreadable) = bodies.row_unreadable(range) {
                        give_up(hub, unreadable, &error);
                    }
                }
                [_] => read_later(shared, ranges),
                _ => shared.lock().read_apart(ranges),
            }
            // Others are read at once.
            true
        }
    }
}

/// Called under the lock of the bodies, so that a stop finds the assignment there or in the hub.
fn give_up(hub: &Hub, assignment: Assignment, error: &dyn Display) {
    let (handle, task) = (assignment.handle, assignment.first.0);
    tracing::error!(%handle, task, %error, "the body of a task cannot be read: it fails");
    hub.decline(assignment, unreadable());
}

/// Tries again what the database refuses to read, for whatever reason.
fn read_later(shared: &Arc<Shared>, ranges: Vec<SeqRange>) {
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        tokio::time::sleep(APART_INTERVAL).await;
        shared.lock().read_apart(ranges);
        shared.read_wanted.notify_one();
    });
}

/// How a task ends whose body cannot be read.
fn unreadable() -> Report {
    let what = "what it was to run cannot be read from the journal: it was not run, and RetryTask \
                runs it once it can be read; the log of the owner says what is wrong";
    Report::Failed {
        error: Arc::new(TaskError::new("DATA_UNREADABLE", what)),
        transient: false,
    }
}
