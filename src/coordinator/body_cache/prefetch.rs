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
    journal::{BodyChunk, Journal, JournalError, Reader},
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

/// Wait before a task's body that the database refuses to read is tried again.
const ALONE_INTERVAL: Duration = Duration::from_secs(5);

/// The bodies, and the tasks that read what is missing; the tasks end with this value, but for
/// those that read one body again, which end when nobody waits for it.
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
                read_forever(shared.clone(), journal.own_reader(), hub.clone()),
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

/// Returns whether the database has answered.
async fn read(shared: &Arc<Shared>, reader: &Reader, hub: &Hub, ranges: Vec<SeqRange>) -> bool {
    match reader.body_chunks(&ranges, READ_BYTES).await {
        Ok(chunks) => arrived(shared, hub, &ranges, chunks),
        Err(error) if error.is_outage() => {
            tracing::warn!(%error, "cannot read bodies");
            shared.lock().read_failed(ranges);
            return false;
        }
        Err(error) => match &ranges[..] {
            [task] if task.first == task.last => {
                let (shared, reader, hub) = (Arc::clone(shared), reader.clone(), hub.clone());
                tokio::spawn(read_task(shared, reader, hub, *task, error));
            }
            [range] => shared.lock().read_singly(range),
            _ => shared.lock().read_apart(ranges),
        },
    }
    true
}

fn arrived(shared: &Shared, hub: &Hub, ranges: &[SeqRange], chunks: Vec<BodyChunk>) {
    let mut bodies = shared.lock();
    let arrival = bodies.arrived(ranges, chunks);
    // Under the lock, so that a stop finds the assignment here or in the hub.
    hub.dispatch(arrival.ready);
    for lost in arrival.lost {
        let why = "the journal does not have it";
        fail(hub, lost, why);
    }
    // For want of slots some may have been given back.
    hub.wake();
}

/// Reads the body of a task that the database refuses to read, beside the others: again and again
/// while somebody waits for it, unless it is damaged.
async fn read_task(
    shared: Arc<Shared>,
    reader: Reader,
    hub: Hub,
    task: SeqRange,
    mut error: JournalError,
) {
    while is_worth_a_try(&shared, &hub, &task, &error) {
        tracing::warn!(handle = %task.handle, task = task.first.0, %error, "cannot read a body");
        tokio::time::sleep(ALONE_INTERVAL).await;
        error = match reader.body_chunks(&[task], READ_BYTES).await {
            Ok(chunks) => {
                shared.lock().is_given_again(task.handle);
                return arrived(&shared, &hub, &[task], chunks);
            }
            Err(error) => error,
        };
    }
}

/// Whether somebody still waits for a body that could not be read, which may be read later.
fn is_worth_a_try(shared: &Shared, hub: &Hub, task: &SeqRange, error: &JournalError) -> bool {
    let mut bodies = shared.lock();
    let is_awaited = bodies.is_awaited(task.handle, task.first);
    let is_damaged = is_awaited && error.is_of_storage() && bodies.note_withheld(task.handle);
    if is_awaited && !is_damaged && !error.is_of_a_row() {
        return true;
    }
    if let Some(assignment) = bodies.give_up(task) {
        fail(hub, assignment, error);
    }
    false
}

/// Ends a task whose body cannot be read. Called under the lock of the bodies, so that a stop finds
/// the assignment there or in the hub.
fn fail(hub: &Hub, assignment: Assignment, error: impl Display) {
    let (handle, task) = (assignment.handle, assignment.first.0);
    tracing::error!(%handle, task, %error, "the body of a task cannot be read: it fails");
    hub.decline(assignment, unreadable());
    hub.wake();
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
