//! What becomes of a submitted call: repeated, refused, or accepted with the orders and options in
//! force.

use super::{
    Oracle,
    expected::Expected,
    model::{Scheduler, Task},
    rows::Rows,
};
use rallypoint::core::{
    DoneNo, Handle, LateOrder, Order, Reject, Request, Retries, RetryOf, RetryPolicy,
    SchedulerState, Seq, Settings, Spec, SubmissionRecord, Submit, TaskOptions, Time,
    model::limits::Limit,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// A call that was accepted.
pub(super) struct Accepted {
    handle: Handle,
    request: Request,
    answer: (Seq, u32, DoneNo),
    at: Time,
}

impl Oracle {
    pub(super) fn submit(
        &mut self,
        between: (Time, Time),
        handle: Handle,
        submit: &Submit,
        rows: &mut Rows<'_>,
    ) -> Expected {
        if let Some(expected) = self.repeated(between, handle, submit, rows) {
            return expected;
        }
        let Some(at) = self.at(handle) else {
            return Expected::Rejected(Reject::UnknownHandle);
        };
        let first = Seq(self.schedulers[at].highest() + 1);
        let row = rows.submission((handle, first), submit);
        while row.is_some_and(|row| self.schedulers[at].done_no < row.done_no.0) {
            self.uncaused(handle, between.1, rows);
        }
        let scheduler = &self.schedulers[at];
        if scheduler.state != SchedulerState::Open {
            return Expected::Rejected(Reject::Released);
        }
        if let Some(retries) = &submit.retries
            && let Some(reject) = retried(scheduler, retries)
        {
            assert!(row.is_none(), "{handle}: a task is retried twice");
            return Expected::Rejected(reject);
        }
        // What is known of earlier attempts may have come before a refused call, or after it.
        let unclear = row.is_none() && self.in_doubt && rows.left(handle) > 0;
        let resolved = match resolve(scheduler, submit) {
            _ if unclear => return Expected::Unjudged,
            Ok(resolved) => resolved,
            Err(reject) => return Expected::Rejected(reject),
        };
        let unclear = row.is_some() && self.in_doubt;
        let limit = self.limit_in_the_way(scheduler, submit, &resolved);
        if let Some(limit) = limit.filter(|_| !unclear) {
            return Expected::Limited(limit);
        }
        let Some(row) = row else {
            let may_wait = self.limits.submit_rate.is_some();
            assert!(may_wait, "{handle}: a call that may be accepted is refused");
            return Expected::Limited(Limit::SubmitRate);
        };
        for (of, retry) in of(submit).zip(row.first_seq.0..) {
            let noted = rows.retried(handle, of.seq).map(|retry| retry.0);
            assert_eq!(noted, Some(retry), "{handle}/{}: its retry", of.seq.0);
            let task = self.schedulers[at].task_mut(of.seq);
            task.expect("it has ended").retried_as = Some(retry);
        }
        self.accept(at, between, submit, row, &resolved)
    }

    /// What an earlier call with this id was answered.
    pub(super) fn submitted(
        &self,
        (asked, decided): (Time, Time),
        handle: Handle,
        request: Request,
    ) -> Expected {
        let mut calls = self.calls.iter().rev();
        let call = calls.find(|call| call.handle == handle && call.request.id == request.id);
        let Some(call) = call.filter(|call| call.at >= self.requests_since(asked)) else {
            let scheduler = self.at(handle).map(|at| &self.schedulers[at]);
            let open = scheduler.is_some_and(|one| one.state == SchedulerState::Open);
            return match open {
                true => Expected::NotSubmitted,
                false => Expected::Rejected(Reject::Released),
            };
        };
        match () {
            () if call.at < self.requests_since(decided) => Expected::Unjudged,
            () if call.request.hash == request.hash => Expected::Submitted(call.answer, true),
            () => Expected::Rejected(Reject::RequestIdReused),
        }
    }

    /// As long as a request id is remembered, it gets the same answer, with another payload an
    /// error.
    fn repeated(
        &self,
        (asked, decided): (Time, Time),
        handle: Handle,
        submit: &Submit,
        rows: &Rows<'_>,
    ) -> Option<Expected> {
        let request = submit.request?;
        let call = self.calls.iter().rev();
        let call = call
            .filter(|call| call.handle == handle && call.request.id == request.id)
            .find(|call| call.at >= self.requests_since(asked))?;
        if call.at < self.requests_since(decided) {
            return (!rows.accepts(handle, submit)).then_some(Expected::Unjudged);
        }
        Some(if call.request.hash == request.hash {
            Expected::Submitted(call.answer, true)
        } else {
            Expected::Rejected(Reject::RequestIdReused)
        })
    }

    fn accept(
        &mut self,
        at: usize,
        (asked, decided): (Time, Time),
        submit: &Submit,
        row: &SubmissionRecord,
        resolved: &[(Option<i64>, Arc<Spec>)],
    ) -> Expected {
        let scheduler = &mut self.schedulers[at];
        let (handle, first) = (scheduler.handle, row.first_seq);
        assert!(
            asked <= row.submitted_at && row.submitted_at <= decided,
            "{handle}/{} is accepted at a time at which nothing was decided",
            first.0
        );
        assert_eq!(
            row.done_no.0, scheduler.done_no,
            "{handle}/{}: events before it",
            first.0
        );
        let mut seq = first.0;
        for ((run, written), (order, spec)) in submit.runs.iter().zip(&row.resolved).zip(resolved) {
            let written = (written.0.map(|order| order.0), &written.1);
            assert_eq!(written, (*order, spec), "{handle}/{seq}: order and options");
            seq += i64::from(run.count);
            let task = Task::new(*order, spec, row.submitted_at);
            (0..run.count).for_each(|_| scheduler.tasks.push(task.clone()));
        }
        for (of, seq) in of(submit).zip(first.0..) {
            let copy = scheduler.task_mut(Seq(seq));
            copy.expect("just submitted").retry_of = Some(of.seq.0);
        }
        let count = (seq - first.0) as u32;
        let namespace = scheduler.namespace.clone();
        let answer = (first, count, row.done_no);
        if let Some(request) = submit.request {
            self.calls.push(Accepted {
                handle,
                request,
                answer,
                at: row.submitted_at,
            });
        }
        self.use_rate(&namespace, row.submitted_at, count);
        Expected::Submitted(answer, false)
    }

    /// No more tasks a second than the rate allows, a second's worth at once; a larger call is
    /// taken when a second's worth is saved up.
    fn use_rate(&mut self, namespace: &rallypoint::core::Namespace, now: Time, count: u32) {
        let Some(rate) = self.limits.submit_rate else {
            return;
        };
        let second = Duration::from_secs(1);
        let share = Duration::from_micros(u64::from(count) * 1_000_000 / u64::from(rate.max(1)));
        let from = self.rate_from(namespace, now);
        assert!(
            from + share.min(second) <= now,
            "a call is accepted above the submit rate"
        );
        self.rate_used.insert(namespace.clone(), from + share);
    }

    /// From when on the rate of a namespace is unused: a second's worth at most is saved up.
    pub(super) fn rate_from(&self, namespace: &rallypoint::core::Namespace, now: Time) -> Time {
        let used = self.rate_used.get(namespace).copied().unwrap_or(Time(0));
        used.max(now - Duration::from_secs(1))
    }

    fn limit_in_the_way(
        &self,
        scheduler: &Scheduler,
        submit: &Submit,
        resolved: &[(Option<i64>, Arc<Spec>)],
    ) -> Option<Limit> {
        let of_namespace = self
            .schedulers
            .iter()
            .filter(|other| other.namespace == scheduler.namespace);
        let (mut tasks, count) = (0, submit.bodies.len() as i64);
        for other in of_namespace {
            tasks += other.unfinished().count() as i64;
        }
        if tasks + count > self.limits.queued_tasks {
            return Some(Limit::QueuedTasks);
        }
        // Bodies in a scenario are shorter than the KiB that a task counts for at least.
        if (tasks + count) << 10 > self.limits.queued_bytes {
            return Some(Limit::QueuedBytes);
        }
        let limit = self.limits.unfinished_orders;
        (unfinished_orders(scheduler, resolved) > limit).then_some(Limit::UnfinishedOrders)
    }
}

/// Of which tasks those of a call are copies.
fn of(submit: &Submit) -> impl Iterator<Item = RetryOf> {
    let retries = submit.retries.iter();
    retries.flat_map(|retries| retries.of.iter().copied())
}

/// Why a retry is refused: one of the tasks has a retry that the core was told of, or may have one
/// that the caller did not search for and the core was not told of.
fn retried(scheduler: &Scheduler, retries: &Retries) -> Option<Reject> {
    for of in &retries.of {
        let retry = scheduler.task(of.seq).and_then(|task| task.retried_as);
        if let Some(retry) = retry.filter(|retry| *retry > scheduler.recovered) {
            let (seq, retry) = (of.seq, Seq(retry));
            return Some(Reject::Retried { seq, retry });
        }
    }
    (retries.searched.0 < scheduler.recovered).then_some(Reject::RetriesUnknown)
}

/// Distinct unfinished orders once a call is accepted.
fn unfinished_orders(scheduler: &Scheduler, resolved: &[(Option<i64>, Arc<Spec>)]) -> usize {
    let present = scheduler.unfinished().filter_map(|task| task.order);
    let new = resolved.iter().filter_map(|(order, _)| *order);
    present.chain(new).collect::<BTreeSet<_>>().len()
}

/// The order and options in force for each run. Late orders join the current one or have the call
/// refused.
fn resolve(
    scheduler: &Scheduler,
    submit: &Submit,
) -> Result<Vec<(Option<i64>, Arc<Spec>)>, Reject> {
    let (current, mut index) = (scheduler.current_order(), 0);
    let mut resolved = Vec::new();
    if submit.retries.is_some() {
        for run in &submit.runs {
            let order = run.order.map(|order| order.0);
            let halted = scheduler.halt.as_ref().map(|halt| halt.order.0);
            let is_open = |order: &i64| {
                current.is_none_or(|current| *order >= current)
                    || halted.is_some_and(|halted| *order >= halted)
            };
            resolved.push((order.filter(is_open), run.spec.clone()));
        }
        return Ok(resolved);
    }
    for run in &submit.runs {
        let mut order = run.order.map(|order| order.0);
        if let (Some(late), Some(current)) = (order, current)
            && late < current
        {
            if scheduler.settings.late_order == LateOrder::Reject {
                return Err(Reject::OrderClosed {
                    index,
                    order: Order(late),
                    current: Order(current),
                });
            }
            order = Some(current);
        }
        index += run.count as usize;
        resolved.push((order, with_defaults(&run.spec, &scheduler.settings)));
    }
    Ok(resolved)
}

/// What a task does not say is as its scheduler's defaults say; a retry policy counts as a whole.
fn with_defaults(spec: &Arc<Spec>, settings: &Settings) -> Arc<Spec> {
    let (own, default) = (&spec.options, &settings.default_options);
    if *default == TaskOptions::default() {
        return spec.clone();
    }
    let mut options = own.clone();
    options.not_before = own.not_before.or(default.not_before);
    options.timeout = own.timeout.or(default.timeout);
    options.deadline = own.deadline.or(default.deadline);
    options.delivery = own.delivery.or(default.delivery);
    options.result_rows = own.result_rows.or(default.result_rows);
    if own.retry == RetryPolicy::default() {
        options.retry = default.retry.clone();
    }
    for (name, value) in &default.labels {
        options
            .labels
            .entry(name.clone())
            .or_insert_with(|| value.clone());
    }
    Arc::new(Spec {
        work: spec.work.clone(),
        options,
        trace: spec.trace.clone(),
    })
}
