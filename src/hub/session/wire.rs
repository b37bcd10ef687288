//! Messages of a session, to and from the types of the executor. What another replica says is checked like anything from the
//! network: what makes no sense is refused, never believed in part.

use crate::{
    assignment::{Body, Dispatch, Event, HeldAssignment, Token},
    core::{
        Assignment, Attempt, Completion, Epoch, Handle, Order, Report, Running, Seq, TaskError,
        TaskResult, Time, TimeLimit, Work,
    },
    hub::pool::Instruction,
};
use rallypoint_client::api::peer::{
    self, assignment::Limit, completion::Report as WireReport, from_executor::Message, to_executor,
};
use std::{sync::Arc, time::Duration};
use tonic::Status;

pub(crate) fn from_executor(message: Message) -> peer::FromExecutor {
    peer::FromExecutor {
        message: Some(message),
    }
}

pub(crate) fn to_executor(message: to_executor::Message) -> peer::ToExecutor {
    peer::ToExecutor {
        message: Some(message),
    }
}

/// What the pool sends, as messages.
pub(crate) fn sent(message: Instruction) -> Vec<peer::ToExecutor> {
    match message {
        Instruction::Run(order) => vec![to_executor(to_executor::Message::Run(handed(*order)))],
        Instruction::Stop(stopped) => vec![to_executor(to_executor::Message::Stop(token(stopped)))],
        Instruction::Acknowledge(tokens) => tokens
            .into_iter()
            .map(|one| to_executor(to_executor::Message::Acknowledge(token(one))))
            .collect(),
    }
}

/// What an executor tells, as a message.
pub(crate) fn told(event: Event) -> peer::FromExecutor {
    from_executor(match event {
        Event::Slots { work, total } => Message::Slots(slots(&work, total)),
        Event::Completed(token, completion) => Message::Completion(completed(token, completion)),
    })
}

pub(crate) fn slots(work: &Work, total: u32) -> peer::Slots {
    peer::Slots {
        work: work.to_string(),
        total,
    }
}

pub(crate) fn slots_of(slots: peer::Slots) -> Result<(Work, u32), Status> {
    Ok((
        slots.work.parse().map_err(Status::invalid_argument)?,
        slots.total,
    ))
}

pub(crate) fn token(token: Token) -> peer::Token {
    peer::Token {
        epoch: token.epoch.0,
        serial: token.serial,
    }
}

pub(crate) fn token_of(token: Option<peer::Token>) -> Result<Token, Status> {
    let peer::Token { epoch, serial } = token.ok_or_else(|| missing("token"))?;
    Ok(Token {
        epoch: Epoch(epoch),
        serial,
    })
}

pub(crate) fn attempt(kept: &HeldAssignment) -> peer::Attempt {
    let Running {
        handle,
        first,
        count,
        attempt,
        since,
    } = kept.running;
    peer::Attempt {
        token: Some(token(kept.token)),
        work: kept.work.to_string(),
        handle: handle.to_string(),
        first: first.0,
        count,
        attempt: attempt.0,
        since: since.0,
    }
}

pub(crate) fn attempt_of(attempt: peer::Attempt) -> Result<HeldAssignment, Status> {
    Ok(HeldAssignment {
        token: token_of(attempt.token)?,
        running: Running {
            handle: handle_of(&attempt.handle)?,
            first: Seq(attempt.first),
            count: attempt.count.max(1),
            attempt: Attempt(attempt.attempt),
            since: Time(attempt.since),
        },
        work: attempt.work.parse().map_err(Status::invalid_argument)?,
    })
}

fn handed(order: Dispatch) -> peer::Assignment {
    let Dispatch {
        token: named,
        assignment,
        body,
    } = order;
    peer::Assignment {
        token: Some(token(named)),
        handle: assignment.handle.to_string(),
        first: assignment.first.0,
        count: assignment.count,
        attempt: assignment.attempt.0,
        order: assignment.order.map(|order| order.0),
        // Plain data always has a JSON form.
        spec: serde_json::to_string(&*assignment.spec).unwrap_or_default(),
        caller: assignment.caller.to_string(),
        limit: assignment.time_limit.map(|limit| match limit {
            TimeLimit::Timeout(timeout) => {
                Limit::Timeout(i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX))
            }
            TimeLimit::Deadline(at) => Limit::Deadline(at.0),
        }),
        payload: body.payload,
        params: body.params,
    }
}

pub(crate) fn handed_of(assignment: peer::Assignment) -> Result<Dispatch, Status> {
    let spec = serde_json::from_str(&assignment.spec)
        .map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok(Dispatch {
        token: token_of(assignment.token)?,
        assignment: Assignment {
            handle: handle_of(&assignment.handle)?,
            first: Seq(assignment.first),
            count: assignment.count.max(1),
            attempt: Attempt(assignment.attempt),
            order: assignment.order.map(Order),
            spec: Arc::new(spec),
            caller: assignment.caller.into(),
            time_limit: assignment.limit.map(|limit| match limit {
                Limit::Timeout(us) => TimeLimit::Timeout(Duration::from_micros(us.max(0) as u64)),
                Limit::Deadline(us) => TimeLimit::Deadline(Time(us)),
            }),
        },
        body: Body {
            payload: assignment.payload,
            params: assignment.params,
        },
    })
}

fn completed(named: Token, completion: Completion) -> peer::Completion {
    let Completion {
        handle,
        first,
        attempt,
        report,
        started,
        ended,
        slot,
        backend_pid,
    } = completion;
    let failed = |error: Arc<TaskError>, transient| peer::Failed {
        code: error.code.clone(),
        message: error.message.clone(),
        transient,
    };
    let report = match report {
        Report::Succeeded(result) => {
            let result = result.map(|result| (*result).clone()).unwrap_or_default();
            let TaskResult {
                rows_affected,
                rows_json,
                truncated,
            } = result;
            WireReport::Succeeded(peer::Succeeded {
                rows_affected,
                rows_json,
                truncated,
            })
        }
        Report::Failed { error, transient } => WireReport::Failed(failed(error, transient)),
        Report::TimedOut(error) => WireReport::TimedOut(failed(error, false)),
        Report::Stopped => WireReport::Stopped(peer::Beat {}),
        Report::NotStarted => WireReport::NotStarted(peer::Beat {}),
    };
    peer::Completion {
        token: Some(token(named)),
        handle: handle.to_string(),
        first: first.0,
        attempt: attempt.0,
        report: Some(report),
        started: started.0,
        ended: ended.0,
        slot,
        backend_pid,
    }
}

pub(crate) fn completed_of(completion: peer::Completion) -> Result<Event, Status> {
    let error = |failed: peer::Failed| {
        Arc::new(TaskError {
            code: failed.code,
            message: failed.message,
        })
    };
    let report = match completion.report.ok_or_else(|| missing("report"))? {
        WireReport::Succeeded(peer::Succeeded {
            rows_affected,
            rows_json,
            truncated,
        }) => Report::Succeeded(Some(Arc::new(TaskResult {
            rows_affected,
            rows_json,
            truncated,
        }))),
        WireReport::Failed(failed) => Report::Failed {
            transient: failed.transient,
            error: error(failed),
        },
        WireReport::TimedOut(failed) => Report::TimedOut(error(failed)),
        WireReport::Stopped(_) => Report::Stopped,
        WireReport::NotStarted(_) => Report::NotStarted,
    };
    let token = token_of(completion.token)?;
    let completion = Completion {
        handle: handle_of(&completion.handle)?,
        first: Seq(completion.first),
        attempt: Attempt(completion.attempt),
        report,
        started: Time(completion.started),
        ended: Time(completion.ended),
        slot: completion.slot,
        backend_pid: completion.backend_pid,
    };
    Ok(Event::Completed(token, completion))
}

fn handle_of(text: &str) -> Result<Handle, Status> {
    text.parse()
        .map_err(|_| Status::invalid_argument("not a handle"))
}

pub(crate) fn missing(what: &str) -> Status {
    Status::invalid_argument(format!("a message of a session has no {what}"))
}
