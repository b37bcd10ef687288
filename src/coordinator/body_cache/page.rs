//! A page: the bodies of consecutive tasks in memory, and which of them are still needed.
//!
//! A page keeps the memory of a whole call or row until its last needed body has been given out; a
//! body that is given out is a copy, so that it does not keep the page.

use crate::{
    core::{Packed, Seq, Submit, Time},
    executor_protocol::Body,
    journal::BodyChunk,
};
use bytes::Bytes;
use std::sync::Arc;

/// Bytes of a page besides its bodies: its entries in maps, the allocations.
const OVERHEAD_BYTES: usize = 256;

/// How soon the first of some tasks may start: its order; lower is sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(pub i64);

/// The bodies of consecutive tasks.
#[derive(Debug)]
pub(crate) struct Page {
    pub first: Seq,
    pub rank: Rank,
    /// Bytes of memory.
    pub bytes: usize,
    source: Source,
    /// One bit per task: its body is still needed.
    needed: Vec<u64>,
    needed_count: u32,
}

#[derive(Debug)]
enum Source {
    Call(Arc<Submit>),
    Chunk { bodies: Packed, params: Packed },
}

impl Page {
    /// The bodies of an accepted call; `None`: none is needed.
    pub(crate) fn of_call(first: Seq, at: Time, submit: &Arc<Submit>) -> Option<Self> {
        let mut page = Page::new(first, Rank(i64::MAX), Source::Call(submit.clone()));
        let mut index = 0;
        for run in &submit.runs {
            if run.spec.work.has_session() {
                let later = run
                    .spec
                    .options
                    .not_before
                    .is_some_and(|not_before| not_before > at);
                let rank = if later {
                    i64::MAX
                } else {
                    run.order.map_or(-1, |order| order.0)
                };
                page.rank = page.rank.min(Rank(rank));
                page.need(index, run.count as usize);
            }
            index += run.count as usize;
        }
        page.bytes += submit.runs.len() * size_of::<crate::core::Run>();
        (page.needed_count > 0).then_some(page)
    }

    /// Bodies that were read back: all of them are needed.
    pub(crate) fn of_chunk(chunk: BodyChunk, rank: Rank) -> Self {
        let BodyChunk {
            first,
            bodies,
            params,
            ..
        } = chunk;
        let count = bodies.len();
        let mut page = Page::new(first, rank, Source::Chunk { bodies, params });
        page.need(0, count);
        page
    }

    fn new(first: Seq, rank: Rank, source: Source) -> Self {
        let mut page = Page {
            first,
            rank,
            bytes: 0,
            source,
            needed: Vec::new(),
            needed_count: 0,
        };
        let (bodies, params) = page.packed();
        let count = bodies.len();
        let memory = |packed: &Packed| packed.bytes.len() + packed.ends.len() * size_of::<u32>();
        page.bytes = OVERHEAD_BYTES + memory(bodies) + memory(params) + count / 8;
        page.needed = vec![0; count.div_ceil(64)];
        page
    }

    fn packed(&self) -> (&Packed, &Packed) {
        match &self.source {
            Source::Call(submit) => (&submit.bodies, &submit.params),
            Source::Chunk { bodies, params } => (bodies, params),
        }
    }

    fn need(&mut self, index: usize, count: usize) {
        for at in index..index + count {
            self.needed[at / 64] |= 1 << (at % 64);
        }
        self.needed_count += count as u32;
    }

    /// The last task.
    pub(crate) fn last(&self) -> Seq {
        Seq(self.first.0 + self.packed().0.len() as i64 - 1)
    }

    /// Whether none of its bodies is needed any more.
    pub(crate) fn is_spent(&self) -> bool {
        self.needed_count == 0
    }

    /// A copy of the body of a task: a slice would keep the whole page. `None`: not on this page.
    pub(crate) fn body(&self, seq: Seq) -> Option<Body> {
        let (bodies, params) = self.packed();
        let index = usize::try_from(seq.0 - self.first.0)
            .ok()
            .filter(|index| *index < bodies.len())?;
        let copy = |packed: &Packed| match packed.len() {
            1 => packed.get(index),
            _ => Bytes::copy_from_slice(packed.slice(index)),
        };
        let params = (!params.is_empty())
            .then(|| copy(params))
            .filter(|params| !params.is_empty());
        Some(Body {
            payload: copy(bodies),
            params,
        })
    }

    /// The bodies of the tasks `first..=last` are not needed any more.
    pub(crate) fn spend(&mut self, first: Seq, last: Seq) {
        let from = first.0.max(self.first.0) - self.first.0;
        let to = last.0.min(self.last().0) - self.first.0;
        for at in from..=to {
            let (word, bit) = (at as usize / 64, 1u64 << (at as usize % 64));
            if self.needed[word] & bit != 0 {
                self.needed[word] &= !bit;
                self.needed_count -= 1;
            }
        }
    }
}
