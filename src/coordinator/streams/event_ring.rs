//! The recent durable events of one scheduler, without gaps.
//!
//! A ring holds references to the records of durable batches; when it gives up the oldest one,
//! readers that are not there yet read the journal.

use crate::core::{CompletionRecord, Done, DoneNo};
use std::{collections::VecDeque, mem, sync::Arc};

#[derive(Debug, Default)]
pub(super) struct EventRing {
    rows: VecDeque<BufferedRow>,
    /// Bytes of memory of all rows.
    pub bytes: usize,
}

#[derive(Debug)]
struct BufferedRow {
    record: Arc<CompletionRecord>,
    last: DoneNo,
    bytes: usize,
}

impl EventRing {
    /// Records in the ring.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn push(&mut self, record: Arc<CompletionRecord>) {
        // Outcomes that became durable unseen, before a change of owner, leave a gap: what lies
        // before it is of no use.
        if self
            .rows
            .back()
            .is_some_and(|newest| newest.last.0 + 1 != record.first_done_no.0)
        {
            *self = EventRing::default();
        }
        let (last, bytes) = (record.last_done_no(), size(&record));
        self.bytes += bytes;
        self.rows.push_back(BufferedRow {
            record,
            last,
            bytes,
        });
    }

    /// Drops the oldest record.
    pub(super) fn drop_oldest(&mut self) {
        self.bytes -= self.rows.pop_front().map_or(0, |oldest| oldest.bytes);
    }

    /// The records that hold the events after `after`, of about `max_bytes`; empty when the ring
    /// does not reach back that far.
    pub(crate) fn read(&self, after: DoneNo, max_bytes: usize) -> Vec<Arc<CompletionRecord>> {
        let at = self.rows.partition_point(|row| row.last <= after);
        let mut bytes = 0;
        let within = |row: &&BufferedRow| {
            let before = bytes;
            bytes += row.bytes;
            before < max_bytes
        };
        match self.rows.get(at) {
            Some(first) if first.record.first_done_no.0 <= after.0 + 1 => self
                .rows
                .range(at..)
                .take_while(within)
                .map(|row| row.record.clone())
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// Bytes of memory.
fn size(record: &CompletionRecord) -> usize {
    let payload = |done: &Done| {
        let error = done
            .error
            .as_ref()
            .map_or(0, |error| error.code.len() + error.message.len());
        error
            + done.diagnostics.len()
            + done
                .result
                .as_ref()
                .map_or(0, |result| result.rows_json.len())
    };
    let fixed = mem::size_of::<BufferedRow>()
        + mem::size_of::<CompletionRecord>()
        + record.done.capacity() * mem::size_of::<Done>();
    fixed + record.done.iter().map(payload).sum::<usize>()
}

/// The events of a record after `after`, each with the number of its first task's event.
pub(crate) fn events_after(
    record: &CompletionRecord,
    after: DoneNo,
) -> impl Iterator<Item = (DoneNo, Done)> {
    let mut next = record.first_done_no.0;
    record.done.iter().filter_map(move |done| {
        let first = next;
        next += i64::from(done.count);
        let skipped = (after.0 + 1 - first).clamp(0, i64::from(done.count)) as u32;
        let count = done.count - skipped;
        let rest = || Done {
            first: done.first.plus(skipped),
            count,
            ..done.clone()
        };
        (count > 0).then(|| (DoneNo(first + i64::from(skipped)), rest()))
    })
}

/// Records for the tests of rings and buffers.
#[cfg(test)]
pub(super) mod fixtures {
    use super::*;
    use crate::core::{Attempt, Handle, Outcome, Seq, ShardId, TaskResult, Time};

    pub(crate) fn handle(number: u64) -> Handle {
        Handle::new(ShardId(0), number, [0; 10])
    }

    pub(crate) fn record(first_done_no: i64, counts: &[u32]) -> CompletionRecord {
        let done = |first: i64, count: u32| Done {
            first: Seq(first),
            count,
            order: None,
            retry_of: None,
            outcome: Outcome::Succeeded,
            attempt: Attempt(1),
            started: None,
            ended: Time(0),
            slot: 0,
            backend_pid: 0,
            diagnostics: Default::default(),
            error: None,
            result: None,
        };
        let mut first = 100;
        let done = counts
            .iter()
            .map(|count| (done(first, *count), first += i64::from(*count)).0)
            .collect();
        CompletionRecord {
            handle: handle(1),
            first_done_no: DoneNo(first_done_no),
            done,
        }
    }

    /// One event with a result of so many bytes.
    pub(crate) fn large(of: u64, done_no: i64, bytes: usize) -> Arc<CompletionRecord> {
        let mut record = record(done_no, &[1]);
        record.handle = handle(of);
        record.done[0].result = Some(Arc::new(TaskResult {
            rows_json: vec![b'1'; bytes].into(),
            ..TaskResult::default()
        }));
        Arc::new(record)
    }

    pub(crate) fn numbers(events: impl Iterator<Item = (DoneNo, Done)>) -> Vec<(i64, i64, u32)> {
        events
            .map(|(no, done)| (no.0, done.first.0, done.count))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{fixtures::*, *};

    #[test]
    fn a_cursor_inside_a_span_gets_the_rest_of_it() {
        let record = record(5, &[3, 4]);
        assert_eq!(
            numbers(events_after(&record, DoneNo(0))),
            [(5, 100, 3), (8, 103, 4)]
        );
        assert_eq!(
            numbers(events_after(&record, DoneNo(6))),
            [(7, 102, 1), (8, 103, 4)]
        );
        assert_eq!(numbers(events_after(&record, DoneNo(9))), [(10, 105, 2)]);
        assert_eq!(numbers(events_after(&record, DoneNo(11))), []);
    }

    #[test]
    fn a_gap_in_the_ring_is_never_skipped() {
        let mut ring = EventRing::default();
        for first in [1, 2, 5] {
            ring.push(Arc::new(record(first, &[1])));
        }
        assert!(ring.read(DoneNo(1), 1 << 20).is_empty());
        assert_eq!(ring.read(DoneNo(4), 1 << 20).len(), 1);
    }
}
