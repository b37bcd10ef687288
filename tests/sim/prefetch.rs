//! Bodies in a scenario: the real budget and read-ahead, read from the model journal, in part and
//! in any sequence.

use crate::{journal::Journal, rng::Rng};
use rallypoint::{
    coordinator::body_cache::Bodies,
    core::{Assignment, Packed, Seq, SeqRange, Shard},
    executor_protocol::Body,
    journal::BodyChunk,
};

pub(crate) struct Prefetch {
    pub bodies: Bodies,
    budget: usize,
    /// Reads under way.
    reads: Vec<Vec<SeqRange>>,
}

impl Prefetch {
    pub(crate) fn new(budget: usize) -> Self {
        Prefetch {
            bodies: Bodies::new(budget),
            budget,
            reads: Vec::new(),
        }
    }

    /// As after a crash.
    pub(crate) fn fresh(&self) -> Self {
        Prefetch::new(self.budget)
    }

    /// Asks for what the next tasks need.
    pub(crate) fn look_ahead(&mut self, core: &Shard) {
        if self.bodies.look_ahead(core) {
            self.reads.extend(self.bodies.next_read());
        }
        assert!(
            self.bodies.bytes() <= self.budget,
            "bodies take more memory than they may"
        );
    }

    /// A read comes to its end: it fails, or brings all or the first part. Returns what waited for
    /// it.
    pub(crate) fn read(
        &mut self,
        journal: &Journal,
        faults: bool,
        rng: &mut Rng,
    ) -> Vec<(Assignment, Option<Body>)> {
        self.reads.extend(self.bodies.next_read());
        if self.reads.is_empty() {
            return Vec::new();
        }
        let ranges = self.reads.swap_remove(rng.place(self.reads.len()));
        if faults && rng.percent(10) {
            self.bodies.read_failed(ranges);
            return Vec::new();
        }
        let mut chunks: Vec<BodyChunk> = ranges
            .iter()
            .flat_map(|range| chunks(journal, range))
            .collect();
        if rng.percent(30) {
            chunks.truncate(1 + rng.place(chunks.len()));
        }
        let arrival = self.bodies.arrived(&ranges, chunks);
        assert!(arrival.lost.is_empty(), "a body is not in the journal");
        assert!(
            self.bodies.bytes() <= self.budget,
            "bodies take more memory than they may"
        );
        arrival.ready
    }
}

fn chunks(journal: &Journal, range: &SeqRange) -> Vec<BodyChunk> {
    let tables = journal
        .tables(range.handle)
        .expect("bodies of an unknown scheduler are read");
    let of_call = |call: &crate::tables::Call| {
        let record = &call.record;
        let (first, end) = (
            record.first_seq.max(range.first),
            record.first_seq.plus(call.count).min(range.last.plus(1)),
        );
        let body = |seq: i64| {
            record
                .submit
                .bodies
                .slice((seq - record.first_seq.0) as usize)
        };
        (first < end).then(|| BodyChunk {
            handle: range.handle,
            first,
            bodies: Packed::new((first.0..end.0).map(body)),
            params: Packed::default(),
        })
    };
    tables.calls.iter().filter_map(of_call).collect()
}

/// A task is started with its own body.
pub(crate) fn check(journal: &Journal, assignment: &Assignment, body: Option<&Body>) {
    let Assignment { handle, first, .. } = *assignment;
    let tables = journal
        .tables(handle)
        .expect("a task of an unknown scheduler starts");
    let at = tables
        .calls
        .partition_point(|call| call.record.first_seq <= first)
        - 1;
    let record = &tables.calls[at].record;
    let own = record
        .submit
        .bodies
        .slice((first.0 - record.first_seq.0) as usize);
    let Seq(seq) = first;
    assert_eq!(
        body.map(|body| &body.payload[..]),
        Some(own),
        "{handle}/{seq} starts with another body"
    );
}
