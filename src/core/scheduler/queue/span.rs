//! Consecutive waiting tasks that are alike: what a backlog is made of.

use super::step_counter::step;
use crate::core::{Order, Seq, Spec, Time, fairness::slot_kinds::KindId};
use std::{collections::BTreeMap, sync::Arc};

/// Consecutive waiting tasks that are alike.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub first: Seq,
    pub count: u32,
    pub order: Option<Order>,
    pub kind: KindId,
    pub spec: Arc<Spec>,
    pub submitted_at: Time,
}

impl Span {
    /// The last task.
    pub(crate) fn last(&self) -> Seq {
        self.first.plus(self.count - 1)
    }

    /// The number after the last task; the first one when there is none.
    pub(crate) fn end(&self) -> Seq {
        self.first.plus(self.count)
    }

    /// Whether its tasks hold resources while they run.
    pub(crate) fn needs_resources(&self) -> bool {
        self.spec.work.has_session() && !self.spec.options.resources.is_empty()
    }

    /// When its tasks must have ended.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let deadline = self.spec.options.deadline?;
        Some(self.submitted_at + deadline)
    }

    /// Cuts the first `count` tasks off; `self` becomes the remainder, perhaps none.
    pub(crate) fn cut(&mut self, count: u32) -> Span {
        let head = Span {
            count,
            ..self.clone()
        };
        self.first = self.first.plus(count);
        self.count -= count;
        head
    }

    /// Takes `next` in as its continuation, if they are alike.
    pub(crate) fn join(&mut self, next: &Span) -> bool {
        let joins = self.end() == next.first
            && self.order == next.order
            && self.submitted_at.day() == next.submitted_at.day()
            && self.spec.options.deadline.is_none()
            && self.alike(&next.spec);
        if joins {
            self.count += next.count;
        }
        joins
    }

    /// Whether its tasks have this spec.
    pub(crate) fn alike(&self, spec: &Arc<Spec>) -> bool {
        Arc::ptr_eq(&self.spec, spec) || self.spec == *spec
    }

    /// How many of its tasks lie before `first`, and how many among `first..=last`.
    pub(crate) fn parts(&self, first: Seq, last: Seq) -> (u32, u32) {
        let before = (first.0 - self.first.0).clamp(0, i64::from(self.count));
        let until = (last.0 + 1 - self.first.0).clamp(before, i64::from(self.count));
        (before as u32, (until - before) as u32)
    }

    /// Cuts out the tasks that have a mark one by one; the others stay together. By ascending
    /// number.
    pub(crate) fn split_at<T>(mut self, marks: &BTreeMap<Seq, T>) -> Vec<(Span, Option<&T>)> {
        let mut parts = Vec::with_capacity(1);
        for (seq, mark) in marks.range(self.first..=self.last()) {
            step();
            let (before, _) = self.parts(*seq, *seq);
            if before > 0 {
                parts.push((self.cut(before), None));
            }
            parts.push((self.cut(1), Some(mark)));
        }
        if self.count > 0 {
            parts.push((self, None));
        }
        parts
    }
}
