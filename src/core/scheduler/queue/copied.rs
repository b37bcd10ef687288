//! A copy of what waits, in a bounded number of spans: of the lowest orders span by span, of those
//! above one span an order, and of the rest nothing.

use super::{Queue, group::Group, span::Span};

/// What waits, as far as it was copied.
#[derive(Debug, Default)]
pub(crate) struct CopiedQueue {
    /// Those without order first, then by order.
    pub spans: Vec<CopiedSpan>,
    /// Tasks in them that were not looked at: each is taken to be like the one before.
    pub assumed: i64,
}

/// A span that waits.
#[derive(Debug)]
pub(crate) struct CopiedSpan {
    pub span: Span,
    /// It stands for tasks that were not looked at, and its numbers are made up.
    pub assumed: bool,
}

impl Queue {
    /// Copies about `most` spans, and one each of as many orders above them.
    pub(crate) fn copy(&self, most: usize) -> CopiedQueue {
        let mut copied = CopiedQueue::default();
        let groups = [&self.free].into_iter().chain(self.ordered.values());
        for (looked_at, group) in groups.enumerate() {
            if copied.spans.len() + looked_at >= 2 * most {
                break;
            }
            copied.take(group, most);
        }
        copied
    }
}

impl CopiedQueue {
    fn take(&mut self, group: &Group, most: usize) {
        let room = most.saturating_sub(self.spans.len()).max(1);
        let mut tasks = 0;
        for span in group.spans().take(room) {
            tasks += i64::from(span.count);
            self.spans.push(CopiedSpan {
                span: span.clone(),
                assumed: false,
            });
        }
        let rest = group.waiting - tasks;
        if rest > 0
            && let Some(CopiedSpan { span: last, .. }) = self.spans.last()
        {
            let count = u32::try_from(rest).unwrap_or(u32::MAX);
            let like_it = Span {
                first: last.end(),
                count,
                ..last.clone()
            };
            self.assumed += i64::from(count);
            self.spans.push(CopiedSpan {
                span: like_it,
                assumed: true,
            });
        }
    }
}
