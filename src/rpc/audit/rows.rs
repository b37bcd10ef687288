//! The rows of the audit that wait to be written, and the task that writes them.
//!
//! Rows of refused calls have the room that is left, so that strangers cannot push out what others
//! did, and the last places are for operators, whose calls wait for their rows. A row that the
//! database refuses for what is in it is left out, so that it does not stop those behind it.

use crate::{
    clock::Clock,
    core::Time,
    journal::{AuditEntry, JournalError, Reader},
    metrics::Metrics,
};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

/// Rows that may wait to be written.
const MAX_QUEUED: usize = 10_000;
/// Of them, those of calls that no operator waits for.
const MAX_OF_CALLERS: usize = 8_000;
/// Of them, those of refused calls.
const MAX_REFUSED: usize = 2_000;
/// Rows of refused calls that are written in a second, and in a day, of callers who are known and
/// as many of strangers: these fill no disk.
const REFUSED_PER_SECOND: u32 = 100;
const REFUSED_PER_DAY: u32 = 100_000;
const SECOND: Duration = Duration::from_secs(1);
/// Rows in one statement.
const MAX_WRITTEN: usize = 500;
/// How long an operator's call waits for its row.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a statement that failed is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Which places a row may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// All: somebody waits until the row is durable.
    Operators,
    /// Those that are not kept for operators.
    Callers,
    /// Few, and few in a second.
    Refused,
}

/// A row, and whom to tell when it is durable, with all before it.
struct Queued {
    entry: Option<AuditEntry>,
    durable: Option<oneshot::Sender<()>>,
}

/// The rows that wait to be written. Clones share them.
#[derive(Clone)]
pub(crate) struct Audit {
    rows: mpsc::Sender<Queued>,
    clock: Clock,
    metrics: Metrics,
    left_out: Arc<AtomicU32>,
    refused: Arc<Mutex<Refused>>,
}

/// Refused calls of those who are known and of strangers, who take no rows from the others.
struct Refused {
    of_known: Counts,
    of_strangers: Counts,
}

/// Calls within a second and within a day, and when these began.
#[derive(Clone, Copy)]
struct Counts {
    second: (Instant, u32),
    day: (Instant, u32),
}

impl Refused {
    fn new() -> Self {
        let begun = (Instant::now(), 0);
        let none = Counts {
            second: begun,
            day: begun,
        };
        Refused {
            of_known: none,
            of_strangers: none,
        }
    }

    /// Counts one; false: there are too many by now.
    fn is_in_time(&mut self, now: Instant, is_known: bool) -> bool {
        let limit = |(since, count): &mut (Instant, u32), length, most| {
            if now.duration_since(*since) >= length {
                (*since, *count) = (now, 0);
            }
            *count = count.saturating_add(1);
            *count <= most
        };
        let counts = match is_known {
            true => &mut self.of_known,
            false => &mut self.of_strangers,
        };
        // What is over the limit of its second is no row of the day.
        limit(&mut counts.second, SECOND, REFUSED_PER_SECOND)
            && limit(&mut counts.day, 86_400 * SECOND, REFUSED_PER_DAY)
    }
}

impl Audit {
    /// Starts writing. It ends with the last clone, when all is written.
    pub(crate) fn start(
        reader: Reader,
        clock: Clock,
        replica: Arc<str>,
        metrics: Metrics,
    ) -> Audit {
        let (audit, queued) = Audit::new(clock, metrics);
        let writer = Writer {
            reader,
            replica,
            metrics: audit.metrics.clone(),
            left_out: audit.left_out.clone(),
            warned: false,
        };
        tokio::spawn(writer.run(queued));
        audit
    }

    fn new(clock: Clock, metrics: Metrics) -> (Audit, mpsc::Receiver<Queued>) {
        let (rows, queued) = mpsc::channel(MAX_QUEUED);
        let audit = Audit {
            rows,
            clock,
            metrics,
            left_out: Arc::default(),
            refused: Arc::new(Mutex::new(Refused::new())),
        };
        (audit, queued)
    }

    /// Takes no rows.
    #[cfg(test)]
    pub(super) fn closed() -> Audit {
        Audit::new(Clock::new(), Metrics::default()).0
    }

    /// Takes rows and writes none, for as long as what is returned beside it lives.
    #[cfg(test)]
    pub(super) fn unwritten() -> (Audit, impl Sized) {
        Audit::new(Clock::new(), Metrics::default())
    }

    /// The time of the service.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns when everything so far is durable, or after a while.
    pub(crate) async fn flush(&self) {
        let written = async {
            let (durable, written) = oneshot::channel();
            let last = Queued {
                entry: None,
                durable: Some(durable),
            };
            if self.rows.send(last).await.is_ok() {
                let _ = written.await;
            }
        };
        if timeout(WRITE_TIMEOUT, written).await.is_err() {
            tracing::warn!("the audit of the last calls could not be written");
        }
    }

    /// Queues a row. Returns the receiver that hears when it is durable, or is closed when it is
    /// not kept; `None`: nobody waits for that, or there is no room.
    pub(super) fn queue(&self, mut entry: AuditEntry, room: Room) -> Option<oneshot::Receiver<()>> {
        if !self.has_room(room, !entry.caller.is_empty()) {
            self.leave_out(1);
            return None;
        }
        entry.left_out = self.left_out.swap(0, Ordering::Relaxed);
        let waits = room == Room::Operators;
        let (durable, written) = oneshot::channel();
        let row = Queued {
            entry: Some(entry),
            durable: waits.then_some(durable),
        };
        match self.rows.try_send(row) {
            Ok(()) => waits.then_some(written),
            Err(error) => {
                let entry = error.into_inner().entry;
                let earlier = entry.map_or(0, |entry| entry.left_out);
                self.left_out.fetch_add(earlier, Ordering::Relaxed);
                self.leave_out(1);
                None
            }
        }
    }

    fn leave_out(&self, rows: u32) {
        self.metrics.calls.audit_left_out.inc_by(rows.into());
        self.left_out.fetch_add(rows, Ordering::Relaxed);
    }

    fn has_room(&self, room: Room, is_known: bool) -> bool {
        let queued = MAX_QUEUED - self.rows.capacity();
        match room {
            Room::Operators => true,
            Room::Callers => queued < MAX_OF_CALLERS,
            Room::Refused => queued < MAX_REFUSED && self.is_in_time(is_known),
        }
    }

    fn is_in_time(&self, is_known: bool) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.is_in_time(Instant::now(), is_known)
    }
}

/// Writes rows.
struct Writer {
    reader: Reader,
    replica: Arc<str>,
    metrics: Metrics,
    left_out: Arc<AtomicU32>,
    /// The log says already that the database does not take rows.
    warned: bool,
}

impl Writer {
    /// Writes what is queued, in groups, until nobody can queue any more.
    async fn run(mut self, mut queued: mpsc::Receiver<Queued>) {
        let mut group = Vec::new();
        while queued.recv_many(&mut group, MAX_WRITTEN).await > 0 {
            if self.write(&group).await.is_ok() {
                for row in group.drain(..) {
                    row.answer();
                }
                continue;
            }
            // One of them at least is not taken, and which is not known.
            for row in group.drain(..) {
                match self.write(std::slice::from_ref(&row)).await {
                    Ok(()) => row.answer(),
                    Err(error) => self.leave_out(row, &error),
                }
            }
        }
    }

    /// Writes rows, however long it takes. Fails when the database refuses them for what is in
    /// them, so that it will always do so.
    async fn write(&mut self, rows: &[Queued]) -> Result<(), JournalError> {
        let entries: Vec<AuditEntry> = rows.iter().filter_map(|row| row.entry.clone()).collect();
        loop {
            match self.reader.write_audit(&self.replica, &entries).await {
                Ok(()) => {
                    self.warned = false;
                    return Ok(());
                }
                Err(error) if error.is_of_the_content() => return Err(error),
                Err(error) => {
                    if !std::mem::replace(&mut self.warned, true) {
                        tracing::warn!(%error, "the audit cannot be written; it is tried again");
                    }
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    fn leave_out(&self, row: Queued, error: &JournalError) {
        if let Some(AuditEntry {
            caller,
            method,
            left_out,
            ..
        }) = row.entry
        {
            tracing::error!(
                %error, %caller, method,
                "the coordination database refuses a row of the audit for what is in it: it is \
                 left out"
            );
            self.metrics.calls.audit_left_out.inc();
            self.left_out.fetch_add(1 + left_out, Ordering::Relaxed);
        }
    }
}

impl Queued {
    /// The row is durable.
    fn answer(self) {
        // Who waited may have given up.
        let _ = self.durable.map(|durable| durable.send(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn entry(outcome: &str) -> AuditEntry {
        AuditEntry {
            id: Uuid::now_v7(),
            at: Clock::new().now(),
            caller: "".into(),
            address: "192.0.2.7".into(),
            namespace: "".into(),
            method: "JobService/PauseJob".into(),
            object: String::new(),
            reason: String::new(),
            outcome: outcome.into(),
            left_out: 0,
        }
    }

    /// Queues this many of a kind, then one of an operator; returns how many of them have places,
    /// and how many rows are said to be left out.
    fn beside_operators(calls: u32, outcome: &str, room: Room) -> (u32, u32) {
        let (audit, mut queued) = Audit::new(Clock::new(), Metrics::default());
        for _ in 0..calls {
            audit.queue(entry(outcome), room);
        }
        let of_operator = audit.queue(entry("OK"), Room::Operators);
        assert!(of_operator.is_some(), "there is room");
        let mut kept = Vec::new();
        while let Ok(row) = queued.try_recv() {
            kept.extend(row.entry);
        }
        let left_out = kept.iter().map(|row| row.left_out).sum();
        assert_eq!(
            audit.metrics.calls.audit_left_out.get(),
            u64::from(left_out)
        );
        (kept.len() as u32 - 1, left_out)
    }

    #[tokio::test]
    async fn strangers_fill_neither_the_queue_nor_the_disk() {
        const CALLS: u32 = 50_000;
        let (kept, left_out) = beside_operators(CALLS, "IDENTITY_MISSING", Room::Refused);
        assert!(kept <= MAX_REFUSED as u32, "{kept}");
        assert_eq!(kept + left_out, CALLS, "each of them is counted");
    }

    #[tokio::test]
    async fn rows_that_nobody_waits_for_leave_places_for_operators() {
        const CALLS: u32 = 50_000;
        let (kept, left_out) = beside_operators(CALLS, "UNKNOWN", Room::Callers);
        assert_eq!(kept, MAX_OF_CALLERS as u32);
        assert_eq!(kept + left_out, CALLS, "each of them is counted");
    }

    #[test]
    fn strangers_have_so_many_rows_in_a_second_and_in_a_day() {
        let mut refused = Refused::new();
        let begun = refused.of_known.second.0;
        let mut in_a_second = |second: u32, is_known| {
            let now = begun + second * SECOND;
            let in_time = |_: &u32| refused.is_in_time(now, is_known);
            (0..200).filter(in_time).count() as u32
        };
        assert_eq!(in_a_second(1, false), REFUSED_PER_SECOND);
        let day: u32 = (2..2_000).map(|second| in_a_second(second, false)).sum();
        assert_eq!(day, REFUSED_PER_DAY - REFUSED_PER_SECOND);
        assert_eq!(in_a_second(1_999, true), REFUSED_PER_SECOND);
        assert_eq!(in_a_second(86_400, false), REFUSED_PER_SECOND);
    }
}
