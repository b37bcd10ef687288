//! ExecAsync: accepting the tasks of a call, all or none.

use super::idempotency::Accepted;
use crate::core::{
    Caller, DoneNo, Handle, LateOrder, Order, Reject, Reply, Request, Run, SchedulerState, Seq,
    Settings, Shard, Spec, SubmissionRecord, Submit, Time, Turn, Verb,
    fairness::quota::{Over, Usage},
    model::limits::{LIMIT_WAIT, Limit, Limits},
    scheduler::{Scheduler, body_sizes, queue::span::Span},
};
use std::{collections::BTreeSet, sync::Arc};

/// The numbers of tasks that were taken in.
struct NewTasks {
    first_seq: Seq,
    count: u32,
    /// The last event before them.
    done_no: DoneNo,
}

impl Shard {
    /// The answer to a repeated submit whose scheduler has left memory.
    pub(crate) fn answered_before(
        &mut self,
        now: Time,
        caller: &Caller,
        handle: Handle,
        verb: &Verb,
    ) -> Option<Reply> {
        let request = match verb {
            Verb::Submit(submit) => submit.request?,
            Verb::Submitted(request) => *request,
            _ => return None,
        };
        let namespace = self.fair.namespace(&caller.namespace);
        let accepted = self
            .accepted
            .get(handle, request.id, self.memory.since(now))
            .filter(|call| call.namespace == namespace)?;
        Some(repeat(accepted, request))
    }

    pub(crate) fn submit(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        caller: &Caller,
        handle: Handle,
        submit: &Arc<Submit>,
    ) -> Reply {
        self.forget_requests(turn.now);
        let scheduler = self.schedulers.expect(handle);
        if let Some(request) = submit.request
            && let Some(accepted) =
                self.accepted
                    .get(handle, request.id, self.memory.since(turn.now))
        {
            return repeat(accepted, request);
        }
        if scheduler.image.state != SchedulerState::Open {
            return Reply::Rejected(Reject::Released);
        }
        let may_retry = |retries| self.may_retry(handle, retries);
        let resolved = submit.retries.as_ref().map_or(Ok(()), may_retry);
        let resolved = match resolved.and_then(|()| resolve(scheduler, submit)) {
            Ok(resolved) => resolved,
            Err(reject) => return Reply::Rejected(reject),
        };
        if let Err(reject) = self.check_resources(handle, submit, &resolved) {
            return Reply::Rejected(reject);
        }
        let scheduler = self.schedulers.expect(handle);
        if let Err(over) = self.admits(turn.now, limits, scheduler, submit, &resolved) {
            return Shard::limit_reached(&scheduler.image.namespace, over);
        }
        let new = self.accept(turn, caller, handle, submit, resolved);
        Reply::Submitted {
            first_seq: new.first_seq,
            count: new.count,
            done_no: new.done_no,
            repeated: false,
        }
    }

    /// What a submit under this request id was answered.
    pub(crate) fn submitted(&self, now: Time, handle: Handle, request: Request) -> Reply {
        let since = self.memory.since(now);
        let scheduler = self.schedulers.expect(handle);
        match self.accepted.get(handle, request.id, since) {
            Some(accepted) => repeat(accepted, request),
            None if scheduler.image.state != SchedulerState::Open => {
                Reply::Rejected(Reject::Released)
            }
            None => Reply::NotSubmitted {
                done_no: scheduler.done_no,
            },
        }
    }

    /// Whether the limits admit a call.
    fn admits(
        &self,
        now: Time,
        limits: &Limits,
        scheduler: &Scheduler,
        submit: &Submit,
        resolved: &[(Option<Order>, Arc<Spec>)],
    ) -> Result<(), Over> {
        self.quotas
            .may_submit(now, scheduler.share.namespace, submit.load(), limits)?;
        if scheduler.queue.orders() + submit.runs.len() <= limits.unfinished_orders {
            // Each run brings one order at most.
            return Ok(());
        }
        let orders: BTreeSet<Order> = resolved.iter().filter_map(|(order, _)| *order).collect();
        let new = orders.iter().filter(|order| !scheduler.queue.has(**order));
        if scheduler.queue.orders() + new.count() <= limits.unfinished_orders {
            return Ok(());
        }
        let wait = (orders.len() <= limits.unfinished_orders).then_some(LIMIT_WAIT);
        Err(Over {
            limit: Limit::UnfinishedOrders,
            value: limits.unfinished_orders as i64,
            wait,
        })
    }

    /// Takes the tasks of a call in, whoever makes it, and records the call.
    fn accept(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        handle: Handle,
        submit: &Arc<Submit>,
        resolved: Vec<(Option<Order>, Arc<Spec>)>,
    ) -> NewTasks {
        let scheduler = self.schedulers.expect_mut(handle);
        let (namespace, blocks) = (scheduler.share.namespace, submit.blocks());
        let (first_seq, done_no) = (scheduler.highest_seq.plus(1), scheduler.done_no);
        let mut usage = Usage::default();
        for (run, (order, spec)) in submit.runs.iter().zip(&resolved) {
            let kind = self.fair.kind(&spec.work);
            self.fair.slots.add_users(kind, run.count);
            let span = Span {
                first: scheduler.highest_seq.plus(1),
                count: run.count,
                order: *order,
                kind,
                spec: spec.clone(),
                submitted_at: turn.now,
            };
            scheduler.highest_seq = span.last();
            usage += scheduler.ledger.add(&span, blocks);
            scheduler.enqueue(turn.now, span);
        }
        self.quotas.queued(namespace, usage);
        self.quotas
            .submitted(turn.now, namespace, usage.tasks, &self.limits);
        let new = NewTasks {
            first_seq,
            count: usage.tasks as u32,
            done_no,
        };
        if let Some(request) = submit.request {
            self.remember(turn.now, handle, request, &new);
        }
        self.note_retries(turn, handle, first_seq, submit);
        turn.out.unwritten.submitted(handle, first_seq);
        turn.out.records.submissions.push(SubmissionRecord {
            handle,
            caller: caller.name.clone(),
            first_seq,
            submitted_at: turn.now,
            done_no,
            submit: submit.clone(),
            resolved,
        });
        turn.progressed(handle);
        self.resume_if_quiesced(turn, handle);
        new
    }

    /// Remembers the answer to a call that may be repeated.
    fn remember(&mut self, now: Time, handle: Handle, request: Request, new: &NewTasks) {
        self.accepted.insert(Accepted {
            at: now,
            handle,
            namespace: self.schedulers.expect(handle).share.namespace,
            request,
            first_seq: new.first_seq,
            done_no: new.done_no,
            count: new.count,
        });
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

    /// What they take of the limits of their namespace.
    pub(crate) fn load(&self) -> Usage {
        let (tasks, blocks) = (self.bodies.len() as u32, self.blocks());
        Usage {
            tasks: tasks.into(),
            bytes: body_sizes::bytes(tasks, blocks),
        }
    }
}

impl Scheduler {
    /// Takes new tasks in: they wait for their order, or first for their `not_before`.
    pub(crate) fn enqueue(&mut self, now: Time, span: Span) {
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
        repeated: true,
    }
}

/// The order and options in force for each run, or why the call is refused. A call is judged as a
/// whole, against the order that is current before it. The copies of a retry have the options of
/// the tasks they repeat, defaults of that time included.
fn resolve(
    scheduler: &Scheduler,
    submit: &Submit,
) -> Result<Vec<(Option<Order>, Arc<Spec>)>, Reject> {
    let current = scheduler.queue.current_order();
    let settings = &scheduler.image.settings;
    if submit.retries.is_some() {
        let copy = |run: &Run| (scheduler.order_of_retry(run.order), run.spec.clone());
        return Ok(submit.runs.iter().map(copy).collect());
    }
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
        trace: run.spec.trace.clone(),
    })
}
