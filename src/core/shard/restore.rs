//! Rebuilding a shard from what the journal remembers: the same unfinished set gives the
//! same barriers, limits and numbers.

use super::idempotency::Accepted;
use crate::core::{
    Attempt, AttemptEvent, AttemptRecord, Handle, InDoubtWindow, RecoveredJobs, RecoveredOutcome,
    RecoveredRequest, RecoveredResources, RecoveredRun, RecoveredScheduler, ReleaseMode,
    RequestMemory, RetryOf, SchedulerState, Seq, Shard, TargetPause, TaskError, Time,
    fairness::{
        fair_share::{Fair, FairShare},
        quota::Usage,
        slot_kinds::{KindId, NamespaceId},
    },
    jobs::Jobs,
    model::limits::Limits,
    resources::Resources,
    scheduler::{
        Scheduler,
        in_flight::{History, InFlight},
        queue::span::Span,
        unfinished::Unfinished,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// What the recorded attempts of one unfinished task say.
#[derive(Clone, Debug, Default)]
struct Past {
    history: History,
    /// An attempt began and its end is unknown.
    open: Option<Attempt>,
    next_at: Option<Time>,
    cancel: Option<Arc<TaskError>>,
}

impl Shard {
    /// The shard as it stood at the last durable batch. What may still run, by its rows or because
    /// it lies within `window`, is in doubt until it is reported or cleared.
    pub fn restore(
        limits: Limits,
        now: Time,
        memory: RequestMemory,
        recovered: Vec<RecoveredScheduler>,
        pauses: Vec<TargetPause>,
        (resources, jobs): (RecoveredResources, RecoveredJobs),
        window: &InDoubtWindow,
    ) -> Self {
        let mut shard = Shard {
            memory,
            ..Shard::new(limits)
        };
        shard.restore_pauses(pauses);
        shard.resources = Resources::restore(now, memory.since(now), resources);
        shard.jobs = Jobs::restore(now, jobs);
        let mut accepted: Vec<Accepted> = Vec::new();
        for mut one in recovered {
            let handle = one.image.handle;
            let namespace = shard.fair.namespace(&one.image.namespace);
            if one.was_set_aside {
                shard.in_doubt.set_aside.insert(handle);
            }
            accepted.extend(
                std::mem::take(&mut one.requests)
                    .into_iter()
                    .map(|request| Accepted::of(handle, namespace, request)),
            );
            shard.restore_scheduler(now, one, window);
        }
        accepted.sort_unstable_by_key(|call| call.at);
        accepted
            .into_iter()
            .for_each(|call| shard.accepted.insert(call));
        shard.forget_all_requests(now);
        shard
    }

    fn restore_scheduler(
        &mut self,
        now: Time,
        recovered: RecoveredScheduler,
        window: &InDoubtWindow,
    ) {
        let RecoveredScheduler {
            image,
            runs,
            outcomes,
            copies,
            attempts,
            ..
        } = recovered;
        let image = self.interner.share(image);
        let handle = image.handle;
        let namespace = self.fair.namespace(&image.namespace);
        if image.state == SchedulerState::Released {
            // The journal answers for it; only its calls may be repeated.
            return self.forget_open(&image, namespace);
        }
        if let Some(request) = image.request {
            self.opened.insert(namespace, request.id, handle);
        }
        self.names.hold(namespace, &image);
        if image.state == SchedulerState::Open {
            self.quotas.opened(namespace);
        }
        let day = image.checkpoint.first_day;
        let mut open = Unfinished::since(day, &image.checkpoint.unfinished);
        let share = FairShare::new(handle, namespace, image.settings.weight);
        let mut scheduler = Scheduler::new(image, share, now);
        scheduler.restore_halt(&runs, &outcomes);
        let last = runs.iter().map(|run| run.first.plus(run.count - 1)).max();
        if let Some(last) = last.filter(|last| *last > scheduler.highest_seq) {
            open.add(scheduler.highest_seq.plus(1), last, day);
            scheduler.highest_seq = last;
        }
        for outcome in &outcomes {
            let last = outcome.count - 1;
            open.remove(outcome.first, outcome.first.plus(last));
            scheduler.done_no.0 = scheduler.done_no.0.max(outcome.done_no.0 + i64::from(last));
        }
        scheduler.restore_copies(copies, &open);
        let usage = self.restore_runs(now, &mut scheduler, &runs, &open, &pasts(attempts));
        self.quotas.queued(namespace, usage);
        self.restore_intentions(now, &mut scheduler, window);
        for InFlight { span, .. } in scheduler.running.by_first.values() {
            self.in_doubt.add(span.kind, handle, span.first);
        }
        let cancels = scheduler.image.cancel_rest.is_some();
        self.schedulers.insert(scheduler);
        cancels.then(|| self.queue_slice(handle));
        for outcome in &outcomes {
            self.add_uncovered(handle, outcome.count, 1);
        }
        self.note_idle(now, handle);
        self.refresh();
    }

    /// Takes the unfinished tasks of `runs` in again. Returns what they count for in the quotas.
    fn restore_runs(
        &mut self,
        now: Time,
        scheduler: &mut Scheduler,
        runs: &[RecoveredRun],
        open: &Unfinished,
        pasts: &BTreeMap<Seq, Past>,
    ) -> Usage {
        let mut usage = Usage::default();
        for run in runs {
            let kind = self.fair.kind(&run.spec.work);
            for (first, last) in open.within(run.first, run.first.plus(run.count - 1)) {
                let span = span_of(run, kind, first, last);
                self.fair.slots.add_users(kind, span.count);
                for (span, past) in span.split_at(pasts) {
                    usage += scheduler.ledger.add(&span, run.blocks);
                    scheduler.restore_span(now, &mut self.fair, span, past);
                }
            }
        }
        usage
    }

    /// A release with CANCEL goes on, and the first tasks of each kind may still run somewhere.
    fn restore_intentions(&mut self, now: Time, scheduler: &mut Scheduler, window: &InDoubtWindow) {
        if scheduler.image.state == SchedulerState::Releasing
            && scheduler.image.release_mode == Some(ReleaseMode::Cancel)
        {
            scheduler.intend_cancel(None);
        }
        for (work, most) in window {
            if let Some(kind) = self.fair.slots.find(work) {
                scheduler.doubt_first(now, &mut self.fair, kind, *most);
            }
        }
    }
}

impl Scheduler {
    /// What a halt counts, unless an older version, which does not, may have seen a failure since.
    fn restore_halt(&mut self, runs: &[RecoveredRun], outcomes: &[RecoveredOutcome]) {
        let checkpointed = self.done_no;
        let Some(halt) = &mut self.image.halt else {
            return;
        };
        let Some(failures) = &mut halt.failures else {
            return;
        };
        let until = std::mem::take(&mut failures.until);
        let is_uncounted = |ended: &RecoveredOutcome| {
            let counted = (until.0 + 1 - ended.done_no.0).clamp(0, ended.count.into());
            let (first, end) = (ended.first.0 + counted, ended.first.plus(ended.count).0);
            ended.outcome.is_failure() && have_orders(runs, first, end)
        };
        if checkpointed > until || outcomes.iter().any(is_uncounted) {
            halt.failures = None;
        }
    }

    /// Which unfinished tasks are copies. The retries of others are for the journal to say.
    fn restore_copies(&mut self, copies: Vec<(Seq, RetryOf)>, open: &Unfinished) {
        let is_open = |(seq, _): &(Seq, RetryOf)| !open.within(*seq, *seq).is_empty();
        self.copies.extend(copies.into_iter().filter(is_open));
        self.forgotten_retries = self.highest_seq;
    }

    /// Takes unfinished tasks in again, as their recorded attempts say.
    fn restore_span(&mut self, now: Time, fair: &mut Fair, span: Span, past: Option<&Past>) {
        let Some(past) = past else {
            return self.enqueue(now, span);
        };
        self.histories.insert(span.first, past.history);
        // The clock by which the wait was recorded may have been set back since.
        let latest = now + span.spec.options.retry.longest_wait();
        let next_at = past.next_at.map(|at| at.min(latest));
        // Only what ran was asked to stop.
        let open = past
            .open
            .or(past.cancel.as_ref().map(|_| past.history.attempt));
        match (open, next_at) {
            (Some(attempt), _) => {
                self.restore_in_doubt(now, fair, span, attempt, past.cancel.clone());
            }
            (None, Some(at)) if at > now => self.queue.add_retrying(at, span),
            (None, _) => self.queue.add(span),
        }
    }
}

impl Accepted {
    fn of(handle: Handle, namespace: NamespaceId, r: RecoveredRequest) -> Self {
        let RecoveredRequest {
            request,
            first_seq,
            count,
            done_no,
            at,
        } = r;
        Accepted {
            at,
            handle,
            namespace,
            request,
            first_seq,
            done_no,
            count,
        }
    }
}

fn span_of(run: &RecoveredRun, kind: KindId, first: Seq, last: Seq) -> Span {
    Span {
        first,
        count: (last.0 - first.0 + 1) as u32,
        order: run.order,
        kind,
        spec: run.spec.clone(),
        submitted_at: run.submitted_at,
    }
}

/// Whether one of the tasks from `first` to before `end` has an order.
fn have_orders(runs: &[RecoveredRun], first: i64, end: i64) -> bool {
    let from = runs.partition_point(|run| run.first.plus(run.count).0 <= first);
    let mut of = runs[from..].iter().take_while(|run| run.first.0 < end);
    first < end && of.any(|run| run.order.is_some())
}

/// What the attempts of each task say, one after the other: the time of a record may be that of
/// another clock, its number is not.
fn pasts(mut attempts: Vec<AttemptRecord>) -> BTreeMap<Seq, Past> {
    attempts.sort_by_key(|record| (record.seq, record.attempt, record.what.number()));
    let mut pasts: BTreeMap<Seq, Past> = BTreeMap::new();
    for record in attempts {
        let past = pasts.entry(record.seq).or_default();
        past.history.attempt = past.history.attempt.max(record.attempt);
        match record.what {
            AttemptEvent::Start => past.open = Some(record.attempt),
            AttemptEvent::CancelRequested { why } => {
                let unknown = || Arc::new(TaskError::cancelled("stopped while it ran"));
                past.cancel = Some(why.unwrap_or_else(unknown));
            }
            AttemptEvent::HandedBack => past.close(record.attempt, None),
            // It has ended.
            AttemptEvent::Retried { .. } => {}
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
