//! Waiting tasks of one order and kind, by ascending number.
//!
//! Every step costs the logarithm of what waits: a span that is taken out from the middle leaves a
//! hole (a span of no tasks), and holes are swept when they are the greater part.

use super::span::Span;
use crate::core::{Seq, fairness::pool::KindId, scheduler::queue::piece::Piece};
use std::collections::VecDeque;

/// Spare capacity of an empty or shrinking lane, in spans.
const SPARE: usize = 64;

#[derive(Debug)]
pub(crate) struct Lane {
    pub kind: KindId,
    /// Neither the first nor the last one is a hole.
    spans: VecDeque<Span>,
    holes: usize,
}

impl Lane {
    pub(crate) fn new(kind: KindId) -> Self {
        Lane {
            kind,
            spans: VecDeque::with_capacity(1),
            holes: 0,
        }
    }

    pub(crate) fn front(&self) -> Option<&Span> {
        self.spans.front()
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(|span| span.count > 0)
    }

    pub(crate) fn holds(&self, seq: Seq) -> bool {
        let at = self.spans.partition_point(|span| span.end() <= seq);
        self.spans.get(at).is_some_and(|span| span.first <= seq)
    }

    /// Its tasks up to `newest`, newest first.
    pub(crate) fn newest(&self, newest: Seq) -> impl Iterator<Item = Piece> {
        let until = self.spans.partition_point(|span| span.first <= newest);
        let spans = self
            .spans
            .range(..until)
            .rev()
            .filter(|span| span.count > 0);
        spans.map(move |span| Piece::new(span.first, span.last().min(newest)))
    }

    /// Takes in tasks newer than all others here.
    pub(crate) fn push_back(&mut self, mut span: Span) {
        if let Some(back) = self.spans.back_mut() {
            if back.join(&span) {
                return;
            }
            if back.alike(&span.spec) {
                span.spec = back.spec.clone();
            }
        }
        self.spans.push_back(span);
    }

    /// Takes in tasks that may be older than others here.
    pub(crate) fn insert(&mut self, span: Span) {
        let at = self.spans.partition_point(|other| other.first < span.first);
        match self.spans.get_mut(at) {
            Some(hole) if hole.count == 0 => {
                *hole = span;
                self.holes -= 1;
            }
            _ => self.spans.insert(at, span),
        }
    }

    /// Takes up to `max` tasks from the front.
    pub(crate) fn take(&mut self, max: u32) -> Option<Span> {
        let front = self.spans.front_mut()?;
        if front.count > max {
            return Some(front.cut(max));
        }
        let span = self.spans.pop_front();
        self.trim();
        span
    }

    /// Takes out the tasks among `first..=last`.
    pub(crate) fn remove(&mut self, first: Seq, last: Seq, out: &mut Vec<Span>) {
        let mut at = self.spans.partition_point(|span| span.end() <= first);
        while let Some(span) = self.spans.get_mut(at)
            && span.first <= last
        {
            let (before, inside) = span.parts(first, last);
            if inside > 0 {
                let head = (before > 0).then(|| span.cut(before));
                out.push(span.cut(inside));
                match (head, span.count > 0) {
                    (None, true) => {}
                    (None, false) => self.holes += 1,
                    (Some(head), false) => *span = head,
                    (Some(head), true) => {
                        self.spans.insert(at, head);
                        at += 1;
                    }
                }
            }
            at += 1;
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.spans.front().is_some_and(|span| span.count == 0) {
            self.spans.pop_front();
            self.holes -= 1;
        }
        while self.spans.back().is_some_and(|span| span.count == 0) {
            self.spans.pop_back();
            self.holes -= 1;
        }
        if self.holes > SPARE && self.holes > self.spans.len() / 2 {
            self.spans.retain(|span| span.count > 0);
            self.holes = 0;
        }
        if self.spans.capacity() > SPARE && self.spans.len() < self.spans.capacity() / 4 {
            self.spans.shrink_to(self.spans.len() * 2);
        }
    }
}
