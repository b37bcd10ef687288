//! Rebuilding a shard from what the journal remembers: the same unfinished set gives the same barriers, limits and
//! numbers.

use super::{
    Accepted, Attempt, AttemptEvent, AttemptRecord, Handle, History, KindId, Load, NamespaceId, RecoveredRequest, RecoveredRun,
    RecoveredScheduler, ReleaseMode, Scheduler, SchedulerState, Seq, Shard, Share, Span, Time, Window, limits::Limits,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Ranges of task numbers, inclusive: first → last.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<i64, i64>);

/// What the recorded attempts of one unfinished task say.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    history: History,
    /// An attempt began and its end is unknown.
    open: Option<Attempt>,
    next_at: Option<Time>,
    cancel: bool,
}

impl Shard {
    /// The shard as it stood at the last durable batch. What may still run, by its rows or because it lies within `window`, is
    /// suspect until it is reported or cleared.
    pub fn restore(limits: Limits, now: Time, recovered: Vec<RecoveredScheduler>, window: &Window) -> Self {
        let mut shard = Shard::new(limits);
        let mut accepted: Vec<Accepted> = Vec::new();
        for mut one in recovered {
            let handle = one.image.handle;
            let namespace = shard.fair.namespace(&one.image.namespace);
            accepted
                .extend(std::mem::take(&mut one.requests).into_iter().map(|request| Accepted::of(handle, namespace, request)));
            shard.restore_scheduler(now, one, window);
        }
        accepted.sort_unstable_by_key(|call| call.at);
        accepted.into_iter().for_each(|call| shard.accepted.insert(call));
        shard
    }

    fn restore_scheduler(&mut self, now: Time, recovered: RecoveredScheduler, window: &Window) {
        let RecoveredScheduler { image, runs, outcomes, attempts, .. } = recovered;
        let image = self.shared.share(image);
        let handle = image.handle;
        let namespace = self.fair.namespace(&image.namespace);
        if let Some(request) = image.request {
            self.opened.insert(image.opened_at, namespace, request, handle);
        }
        if image.state == SchedulerState::Released {
            // The journal answers for it; only its calls may be repeated.
            return;
        }
        if image.state == SchedulerState::Open {
            self.quotas.opened(namespace);
        }
        let mut open = Ranges(image.checkpoint.unfinished.iter().map(|(first, last)| (first.0, last.0)).collect());
        let share = Share::new(handle, namespace, image.settings.weight);
        let mut scheduler = Scheduler::new(image, share, now);
        let last = runs.iter().map(|run| run.first.plus(run.count - 1)).max();
        if let Some(last) = last.filter(|last| *last > scheduler.highest_seq) {
            open.0.insert(scheduler.highest_seq.0 + 1, last.0);
            scheduler.highest_seq = last;
        }
        for outcome in &outcomes {
            let last = i64::from(outcome.count) - 1;
            open.remove(outcome.first.0, outcome.first.0 + last);
            scheduler.done_no.0 = scheduler.done_no.0.max(outcome.done_no.0 + last);
        }
        let pasts = pasts(attempts);
        let mut bytes = 0;
        for run in &runs {
            let kind = self.fair.kind(&run.spec.work);
            for (first, last) in open.within(run.first.0, run.first.0 + i64::from(run.count) - 1) {
                bytes += scheduler.sizes.add(Seq(first), (last - first + 1) as u32, run.blocks);
                scheduler.restore_span(now, span_of(run, kind, first, last), &pasts);
            }
        }
        self.quotas.queued(namespace, Load { tasks: scheduler.unfinished, bytes });
        if scheduler.image.state == SchedulerState::Releasing && scheduler.image.release_mode == Some(ReleaseMode::Cancel) {
            scheduler.intend_cancel(None);
        }
        for (work, most) in window {
            let kind = self.fair.kind(work);
            scheduler.suspect_first(now, kind, *most);
        }
        if scheduler.image.cancel_rest.is_some() {
            scheduler.sliced = true;
            self.bulk.push_back(handle);
        }
        self.schedulers.insert(handle, Box::new(scheduler));
        self.refresh(handle);
    }
}

impl Scheduler {
    /// Takes unfinished tasks in again: those with recorded attempts one by one, the others as they were.
    fn restore_span(&mut self, now: Time, mut span: Span, pasts: &FxHashMap<Seq, Past>) {
        let mut known: Vec<Seq> = pasts.keys().filter(|seq| span.first <= **seq && **seq <= span.last()).copied().collect();
        known.sort_unstable();
        for seq in known {
            if span.first < seq {
                let before = Span { count: (seq.0 - span.first.0) as u32, ..span.clone() };
                self.enqueue(now, before);
            }
            self.restore_task(now, Span { first: seq, count: 1, ..span.clone() }, &pasts[&seq]);
            let rest = span.last().0 - seq.0;
            span = Span { first: seq.plus(1), count: rest as u32, ..span };
        }
        if span.count > 0 {
            self.enqueue(now, span);
        }
    }

    fn restore_task(&mut self, now: Time, span: Span, past: &Past) {
        self.histories.insert(span.first, past.history);
        self.unfinished += 1;
        self.note_deadline(&span);
        // Only what ran was asked to stop.
        let open = past.open.or(past.cancel.then_some(past.history.attempt));
        match (open, past.next_at) {
            (Some(attempt), _) => self.suspect(now, span, attempt, past.cancel, true),
            (None, Some(at)) if at > now => self.queue.add_retrying(at, span),
            (None, _) => self.queue.add(span),
        }
    }
}

impl Ranges {
    /// Takes `first..=last` out.
    fn remove(&mut self, first: i64, last: i64) {
        let hit: Vec<(i64, i64)> = self.overlapping(first, last).collect();
        for (from, to) in hit {
            self.0.remove(&from);
            if from < first {
                self.0.insert(from, first - 1);
            }
            if to > last {
                self.0.insert(last + 1, to);
            }
        }
    }

    /// The parts of `first..=last` that are in.
    fn within(&self, first: i64, last: i64) -> Vec<(i64, i64)> {
        self.overlapping(first, last).map(|(from, to)| (from.max(first), to.min(last))).collect()
    }

    fn overlapping(&self, first: i64, last: i64) -> impl Iterator<Item = (i64, i64)> {
        let before = self.0.range(..first).next_back().filter(|(_, to)| **to >= first);
        before.into_iter().chain(self.0.range(first..=last)).map(|(from, to)| (*from, *to))
    }
}

impl Accepted {
    fn of(handle: Handle, namespace: NamespaceId, r: RecoveredRequest) -> Self {
        let RecoveredRequest { request, first_seq, count, done_no, at } = r;
        Accepted { at, handle, namespace, request, first_seq, done_no, count }
    }
}

fn span_of(run: &RecoveredRun, kind: KindId, first: i64, last: i64) -> Span {
    Span {
        first: Seq(first),
        count: (last - first + 1) as u32,
        order: run.order,
        kind,
        spec: run.spec.clone(),
        submitted_at: run.submitted_at,
    }
}

fn pasts(attempts: Vec<AttemptRecord>) -> FxHashMap<Seq, Past> {
    let mut pasts: FxHashMap<Seq, Past> = FxHashMap::default();
    for record in attempts {
        let past = pasts.entry(record.seq).or_default();
        past.history.attempt = past.history.attempt.max(record.attempt);
        match record.what {
            AttemptEvent::Start => past.open = Some(record.attempt),
            AttemptEvent::CancelRequested => past.cancel = true,
            AttemptEvent::HandedBack => past.close(record.attempt, None),
            AttemptEvent::Lost { next_at, .. } => {
                past.history.losses += 1;
                past.close(record.attempt, Some(next_at));
            }
            AttemptEvent::Failed { next_at, .. } => {
                past.history.failures += 1;
                past.close(record.attempt, Some(next_at));
            }
        }
    }
    pasts
}

impl Past {
    fn close(&mut self, attempt: Attempt, next_at: Option<Time>) {
        self.next_at = next_at;
        if self.open == Some(attempt) {
            self.open = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lose_what_is_removed_and_nothing_else() {
        let mut ranges = Ranges([(1, 10), (20, 30)].into());
        ranges.remove(5, 5);
        ranges.remove(9, 22);
        assert_eq!(ranges.within(0, 100), [(1, 4), (6, 8), (23, 30)]);
        assert_eq!(ranges.within(3, 7), [(3, 4), (6, 7)]);
        assert_eq!(ranges.within(9, 22), []);
    }
}
