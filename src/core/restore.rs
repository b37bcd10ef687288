//! Rebuilding a shard from what the journal remembers: the same unfinished set gives the same barriers, limits and
//! numbers.

use super::{
    Accepted, Action, Attempt, AttemptEvent, AttemptRecord, Ending, Handle, History, InFlight, KindId, Load, Outcome, Output,
    RecoveredRequest, RecoveredRun, RecoveredScheduler, ReleaseMode, Running, Scheduler, SchedulerState, Seq, Shard, Share, Span,
    Time, Work,
    limits::{self, Limits},
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Ranges of task numbers, inclusive: first → last.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<i64, i64>);

/// What recovery leaves to be done in the first batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leftover {
    /// The task was lost and must not run again.
    End(Outcome),
    /// The attempt was lost; another one follows.
    Lost(Attempt),
    /// The attempt goes on, and its executor may not have been told to stop it.
    Stop(Attempt),
}

/// What the recorded attempts of one unfinished task say.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    history: History,
    /// An attempt began and its end is unknown.
    open: Option<Attempt>,
    /// The last attempt whose end is on record.
    closed: Attempt,
    next_at: Option<Time>,
    cancel: bool,
    /// Its executor still runs it, or its report is still to be taken in.
    survives: bool,
}

impl Shard {
    /// The shard as it stood at the last durable batch, with `running` still running.
    pub fn restore(limits: Limits, now: Time, recovered: Vec<RecoveredScheduler>, running: &[Running]) -> Self {
        let mut shard = Shard::new(limits);
        let mut survivors: FxHashMap<Handle, Vec<Running>> = FxHashMap::default();
        for one in running {
            survivors.entry(one.handle).or_default().push(*one);
        }
        let mut accepted: Vec<Accepted> = Vec::new();
        for mut one in recovered {
            let handle = one.image.handle;
            accepted.extend(std::mem::take(&mut one.requests).into_iter().map(|request| Accepted::of(handle, request)));
            let survivors = survivors.remove(&one.image.handle).unwrap_or_default();
            shard.restore_scheduler(now, one, &survivors);
        }
        accepted.sort_unstable_by_key(|call| call.at);
        accepted.into_iter().for_each(|call| shard.accepted.insert(call));
        shard
    }

    /// Does what recovery left, in the first batch: tasks that must not run again end, and a lost attempt counts from now
    /// on, whatever number of hosts a task takes with it.
    pub(super) fn run_leftovers(&mut self, now: Time, out: &mut Output) {
        for (handle, seq, leftover) in std::mem::take(&mut self.leftovers) {
            match leftover {
                Leftover::End(outcome) => self.end_lost_task(now, handle, seq, outcome, out),
                Leftover::Lost(attempt) => {
                    let what = AttemptEvent::Lost { next_at: now, error: None };
                    out.records.attempts.push(AttemptRecord { handle, seq, attempt, what, at: now });
                }
                Leftover::Stop(attempt) => out.actions.push(Action::Stop { handle, first: seq, attempt }),
            }
        }
    }

    fn end_lost_task(&mut self, now: Time, handle: Handle, seq: Seq, outcome: Outcome, out: &mut Output) {
        let Some(scheduler) = self.schedulers.get_mut(&handle) else { return };
        let attempt = scheduler.histories.get(&seq).map_or(Attempt(0), |history| history.attempt);
        let (code, message) = match outcome {
            Outcome::Cancelled => ("CANCELLED", "stopped while it ran; its host was lost"),
            _ => ("LOST", "its host was lost while it ran"),
        };
        for span in scheduler.queue.remove(seq, seq) {
            self.finish(now, handle, &span, Ending::idle(outcome, attempt, now, code, message), out);
        }
        self.refresh(handle);
    }

    fn restore_scheduler(&mut self, now: Time, recovered: RecoveredScheduler, survivors: &[Running]) {
        let RecoveredScheduler { image, runs, outcomes, attempts, .. } = recovered;
        let image = self.shared.share(image);
        let handle = image.handle;
        let namespace = self.fair.namespace(&image.namespace);
        if let Some(request) = image.request {
            self.opened.insert(image.opened_at, namespace, request, handle);
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
        let pasts = pasts(attempts, survivors);
        let mut bytes = 0;
        for run in &runs {
            let kind = self.fair.kind(&run.spec.work);
            for (first, last) in open.within(run.first.0, run.first.0 + i64::from(run.count) - 1) {
                bytes += scheduler.sizes.add(Seq(first), (last - first + 1) as u32, run.blocks);
                let left = scheduler.restore_span(now, span_of(run, kind, first, last), &pasts);
                self.leftovers.extend(left.into_iter().map(|(seq, leftover)| (handle, seq, leftover)));
            }
        }
        for survivor in survivors {
            let past = pasts.get(&survivor.first).copied().unwrap_or_default();
            if let Some(kind) = scheduler.adopt(now, survivor, &past) {
                self.adopted(now, &mut scheduler, kind, survivor);
            }
        }
        self.quotas.queued(namespace, Load { tasks: scheduler.unfinished, bytes });
        if scheduler.image.state == SchedulerState::Releasing && scheduler.image.release_mode == Some(ReleaseMode::Cancel) {
            // What ran without a row of its own waits again.
            scheduler.intend_cancel(None);
        }
        if scheduler.image.cancel_rest.is_some() {
            self.bulk.push_back(handle);
        }
        self.schedulers.insert(handle, Box::new(scheduler));
        self.refresh(handle);
    }

    /// Counts a surviving assignment where a new one is counted.
    fn adopted(&mut self, now: Time, scheduler: &mut Scheduler, kind: KindId, survivor: &Running) {
        let Some(flight) = scheduler.in_flight.get(&survivor.first) else { return };
        if flight.cancel {
            self.leftovers.push((scheduler.handle(), survivor.first, Leftover::Stop(flight.attempt)));
        }
        let (count, ahead) = (flight.span.count, survivor.since.0 + flight.charged - now.0);
        self.fair.occupy(&mut scheduler.share, kind, count);
        self.fair.charge(&mut scheduler.share, ahead * i64::from(count));
        if flight.span.spec.work != Work::Noop {
            self.young.push_back((survivor.since, scheduler.handle(), survivor.first));
        }
    }
}

impl Scheduler {
    /// Moves the tasks of a surviving assignment from waiting to running; `None` when they have ended, or the attempt has.
    fn adopt(&mut self, now: Time, survivor: &Running, past: &Past) -> Option<KindId> {
        if survivor.attempt <= past.closed || survivor.attempt < past.history.attempt {
            return None;
        }
        let spans = self.queue.remove(survivor.first, survivor.first.plus(survivor.count - 1));
        let count: u32 = spans.iter().map(|span| span.count).sum();
        let span = Span { count, ..spans.into_iter().min_by_key(|span| span.first)? };
        let (kind, since) = (span.kind, survivor.since);
        self.running += count;
        // As if charged every second until now: that time was charged to the core that is gone.
        let second = limits::CHARGE.as_micros() as i64;
        let charged = ((now.0 - since.0).max(0) / second + 1) * second;
        let (cancel, recorded) = (past.cancel, past.survives);
        let flight = InFlight { span, attempt: survivor.attempt, since, charged, cancel, recorded };
        self.in_flight.insert(survivor.first, flight);
        Some(kind)
    }

    /// Takes unfinished tasks in again: those with recorded attempts one by one, the others as they were. Returns what is
    /// left to be done.
    fn restore_span(&mut self, now: Time, mut span: Span, pasts: &FxHashMap<Seq, Past>) -> Vec<(Seq, Leftover)> {
        let mut left = Vec::new();
        let mut known: Vec<Seq> = pasts.keys().filter(|seq| span.first <= **seq && **seq <= span.last()).copied().collect();
        known.sort_unstable();
        let ordered = span.order.is_some();
        if span.spec.work != Work::Noop && !self.suspects.iter().any(|(kind, o, _)| (*kind, *o) == (span.kind, ordered)) {
            self.suspects.push((span.kind, ordered, u32::MAX));
        }
        for seq in known {
            if span.first < seq {
                let before = Span { count: (seq.0 - span.first.0) as u32, ..span.clone() };
                self.enqueue(now, before);
            }
            let one = Span { first: seq, count: 1, ..span.clone() };
            left.extend(self.restore_task(now, one, &pasts[&seq]).map(|leftover| (seq, leftover)));
            let rest = span.last().0 - seq.0;
            span = Span { first: seq.plus(1), count: rest as u32, ..span };
        }
        if span.count > 0 {
            self.enqueue(now, span);
        }
        left
    }

    fn restore_task(&mut self, now: Time, span: Span, past: &Past) -> Option<Leftover> {
        let options = span.spec.options.clone();
        self.histories.insert(span.first, past.history);
        match past.next_at {
            Some(at) if at > now => {
                self.unfinished += 1;
                self.note_deadline(&span);
                self.queue.add_retrying(at, span);
            }
            _ => self.enqueue(now, span),
        }
        let spent = past.open.is_some() && options.at_most_once() || past.history.losses >= options.retry.max_losses();
        match (past.cancel, spent) {
            _ if past.survives => None,
            (true, _) => Some(Leftover::End(Outcome::Cancelled)),
            (false, true) => Some(Leftover::End(Outcome::Exhausted)),
            (false, false) => past.open.map(Leftover::Lost),
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
    fn of(handle: Handle, r: RecoveredRequest) -> Self {
        Accepted { at: r.at, handle, request: r.request, first_seq: r.first_seq, done_no: r.done_no, count: r.count }
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
        recovered: true,
    }
}

fn pasts(attempts: Vec<AttemptRecord>, survivors: &[Running]) -> FxHashMap<Seq, Past> {
    let mut pasts: FxHashMap<Seq, Past> = FxHashMap::default();
    for record in attempts {
        let past = pasts.entry(record.seq).or_default();
        past.history.attempt = past.history.attempt.max(record.attempt);
        match record.what {
            AttemptEvent::Start => past.open = Some(record.attempt),
            AttemptEvent::CancelRequested => past.cancel = true,
            AttemptEvent::Lost { next_at, .. } => {
                past.history.losses += 1;
                past.close(record.attempt, next_at);
            }
            AttemptEvent::Failed { next_at, .. } => {
                past.history.failures += 1;
                past.close(record.attempt, next_at);
            }
        }
    }
    for survivor in survivors {
        if let Some(past) = pasts.get_mut(&survivor.first).filter(|past| past.open == Some(survivor.attempt)) {
            past.open = None;
            past.survives = true;
        }
    }
    for past in pasts.values_mut() {
        past.history.losses += u32::from(past.open.is_some());
    }
    pasts
}

impl Past {
    fn close(&mut self, attempt: Attempt, next_at: Time) {
        self.next_at = Some(next_at);
        self.closed = self.closed.max(attempt);
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
