//! GetScheduler and ExecAsync: opening a scheduler, and accepting tasks.

use super::idempotency::Accepted;
use crate::core::{
    Caller, Handle, LateOrder, Order, Output, Reject, Reply, Request, Run, SchedulerImage,
    SchedulerState, Seq, Settings, Shard, Spec, SubmissionRecord, Submit, Time, Verb,
    fairness::{
        fair_share::FairShare,
        quota::{Over, Usage},
    },
    model::limits::{LIMIT_WAIT, Limit},
    scheduler::{Scheduler, body_sizes, queue::Span},
};
use std::sync::Arc;

impl Shard {
    pub(crate) fn open(
        &mut self,
        now: Time,
        caller: &Caller,
        handle: Handle,
        settings: &Arc<Settings>,
        request: Option<Request>,
        out: &mut Output,
    ) -> Reply {
        self.forget_requests(now);
        let namespace = self.fair.namespace(&caller.namespace);
        if let Some(request) = request
            && let Some((handle, hash)) = self.opened.get(namespace, request.id)
        {
            return match self.schedulers.get(&handle) {
                _ if hash != request.hash => Reply::Rejected(Reject::RequestIdReused),
                Some(scheduler) => Reply::Scheduler(Box::new(scheduler.view())),
                None => Reply::Rejected(Reject::UnknownHandle),
            };
        }
        if self.schedulers.contains_key(&handle) {
            return Reply::Rejected(Reject::RequestIdReused);
        }
        if let Err(over) = self.quotas.may_open(namespace, &self.limits) {
            return Shard::over(&caller.namespace, over);
        }
        self.quotas.opened(namespace);
        if let Some(request) = request {
            self.opened.insert(now, namespace, request, handle);
        }
        let image = self
            .interner
            .share(new_image(now, caller, handle, settings, request));
        let scheduler = Scheduler::new(
            image,
            FairShare::new(handle, namespace, settings.weight),
            now,
        );
        let view = scheduler.view();
        self.schedulers.insert(handle, Box::new(scheduler));
        self.checkpoint(now, handle, out);
        self.doze(now, handle);
        self.refresh(handle);
        Reply::Scheduler(Box::new(view))
    }

    /// The answer to a repeated submit whose scheduler has left memory.
    pub(crate) fn answered_before(
        &mut self,
        caller: &Caller,
        handle: Handle,
        verb: &Verb,
    ) -> Option<Reply> {
        let Verb::Submit(submit) = verb else {
            return None;
        };
        let request = submit.request?;
        let namespace = self.fair.namespace(&caller.namespace);
        let accepted = self
            .accepted
            .get(handle, request.id)
            .filter(|call| call.namespace == namespace)?;
        Some(repeat(accepted, request))
    }

    pub(crate) fn submit(
        &mut self,
        now: Time,
        handle: Handle,
        submit: &Arc<Submit>,
        out: &mut Output,
    ) -> Reply {
        self.forget_requests(now);
        let scheduler = &self.schedulers[&handle];
        if let Some(request) = submit.request
            && let Some(accepted) = self.accepted.get(handle, request.id)
        {
            return repeat(accepted, request);
        }
        if scheduler.image.state != SchedulerState::Open {
            return Reply::Rejected(Reject::Released);
        }
        let resolved = match resolve(scheduler, submit) {
            Ok(resolved) => resolved,
            Err(reject) => return Reply::Rejected(reject),
        };
        let count = submit.bodies.len() as u32;
        if let Err(over) = self.admits(now, scheduler, submit) {
            return Shard::over(&scheduler.image.namespace, over);
        }
        let record = SubmissionRecord {
            handle,
            first_seq: scheduler.highest_seq.plus(1),
            submitted_at: now,
            done_no: scheduler.done_no,
            submit: submit.clone(),
            resolved,
        };
        self.accept(now, &record);
        self.stir(now, handle, out);
        let reply = Reply::Submitted {
            first_seq: record.first_seq,
            count,
            done_no: record.done_no,
        };
        out.records.submissions.push(record);
        out.touched.insert(handle);
        reply
    }

    /// Whether the limits leave room for a call.
    fn admits(&self, now: Time, scheduler: &Scheduler, submit: &Submit) -> Result<(), Over> {
        let limits = &self.limits;
        let (tasks, blocks) = (submit.bodies.len() as u32, submit.blocks());
        let load = Usage {
            tasks: tasks.into(),
            bytes: body_sizes::bytes(tasks, blocks),
        };
        self.quotas
            .may_submit(now, scheduler.share.namespace, load, limits)?;
        if scheduler.queue.orders() + submit.runs.len() <= limits.unfinished_orders {
            return Ok(());
        }
        let wait = (submit.runs.len() <= limits.unfinished_orders).then_some(LIMIT_WAIT);
        Err(Over {
            limit: Limit::UnfinishedOrders,
            value: limits.unfinished_orders as i64,
            wait,
        })
    }

    /// Takes the tasks of a submission into the queue.
    fn accept(&mut self, now: Time, record: &SubmissionRecord) {
        let handle = record.handle;
        let scheduler = self
            .schedulers
            .get_mut(&handle)
            .expect("the scheduler is in memory");
        let mut first = record.first_seq;
        for (run, (order, spec)) in record.submit.runs.iter().zip(&record.resolved) {
            let kind = self.fair.kind(&spec.work);
            let span = Span {
                first,
                count: run.count,
                order: *order,
                kind,
                spec: spec.clone(),
                submitted_at: record.submitted_at,
            };
            first = first.plus(run.count);
            scheduler.enqueue(now, span);
        }
        let count = first.0 - record.first_seq.0;
        scheduler.highest_seq = Seq(first.0 - 1);
        let namespace = scheduler.share.namespace;
        scheduler
            .open
            .add(record.first_seq, scheduler.highest_seq, now.day());
        if let Some(request) = record.submit.request {
            let (first_seq, done_no) = (record.first_seq, record.done_no);
            self.accepted.insert(Accepted {
                at: now,
                handle,
                namespace,
                request,
                first_seq,
                done_no,
                count: count as u32,
            });
        }
        let bytes = scheduler
            .sizes
            .add(record.first_seq, count as u32, record.submit.blocks());
        self.quotas.queued(
            namespace,
            Usage {
                tasks: count,
                bytes,
            },
        );
        self.quotas.submitted(now, namespace, count, &self.limits);
    }
}

impl Submit {
    /// What each of its tasks counts for in the quota of bytes.
    pub fn blocks(&self) -> u32 {
        body_sizes::blocks(
            self.bodies.bytes.len() + self.params.bytes.len(),
            self.bodies.len(),
        )
    }
}

impl Scheduler {
    /// Takes new tasks in: they wait for their order, or first for their `not_before`.
    pub(crate) fn enqueue(&mut self, now: Time, span: Span) {
        self.unfinished += i64::from(span.count);
        self.note_deadline(&span);
        match span.spec.options.not_before {
            Some(at) if at > now => self.queue.add_delayed(at, span),
            _ => self.queue.add(span),
        }
    }
}

fn repeat(accepted: &Accepted, request: Request) -> Reply {
    if accepted.request.hash != request.hash {
        return Reply::Rejected(Reject::RequestIdReused);
    }
    Reply::Submitted {
        first_seq: accepted.first_seq,
        count: accepted.count,
        done_no: accepted.done_no,
    }
}

/// The order and options in force for each run, or why the call is refused. A call is judged as a whole, against the
/// order that is current before it (design 5.1).
fn resolve(
    scheduler: &Scheduler,
    submit: &Submit,
) -> Result<Vec<(Option<Order>, Arc<Spec>)>, Reject> {
    let current = scheduler.queue.current_order();
    let settings = &scheduler.image.settings;
    let mut index = 0;
    let mut resolved = Vec::with_capacity(submit.runs.len());
    for run in &submit.runs {
        let order = match (run.order, current) {
            (Some(order), Some(current)) if order < current => match settings.late_order {
                LateOrder::Join => Some(current),
                LateOrder::Reject => {
                    return Err(Reject::OrderClosed {
                        index,
                        order,
                        current,
                    });
                }
            },
            (order, _) => order,
        };
        index += run.count as usize;
        resolved.push((order, with_defaults(run, settings)));
    }
    Ok(resolved)
}

fn with_defaults(run: &Run, settings: &Settings) -> Arc<Spec> {
    if settings.default_options.is_default() {
        return run.spec.clone();
    }
    Arc::new(Spec {
        work: run.spec.work.clone(),
        options: run.spec.options.or(&settings.default_options),
    })
}

fn new_image(
    now: Time,
    caller: &Caller,
    handle: Handle,
    settings: &Arc<Settings>,
    request: Option<Request>,
) -> SchedulerImage {
    SchedulerImage {
        handle,
        namespace: caller.namespace.clone(),
        caller: caller.name.clone(),
        request,
        settings: settings.clone(),
        state: SchedulerState::Open,
        release_mode: None,
        paused: false,
        halt: None,
        cancel_rest: None,
        opened_at: now,
        released_at: None,
        checkpoint: Default::default(),
    }
}
