//! Messages of a session as they travel. What another replica says is checked like anything from
//! the network: what makes no sense is refused, never believed in part.

use super::message::{ToExecutor, ToOwner};
use crate::{
    core::{
        Assignment, Attempt, Completion, Epoch, Handle, Namespace, Order, Report, Running, Seq,
        SessionReset, TaskError, TaskResult, Time, TimeLimit, Work,
    },
    executor_protocol::{
        Body, Dispatch, Event, HeldAssignment, Hello, Host, Instruction, Snapshot, Token,
    },
};
use rallypoint_client::api::peer::{
    self, assignment::Limit, completion::Report as WireReport, from_executor, to_executor,
};
use std::{sync::Arc, time::Duration};
use tonic::Status;
use uuid::Uuid;

pub(crate) fn from_executor(message: ToOwner) -> peer::FromExecutor {
    use from_executor::Message;
    let message = match message {
        ToOwner::Hello(one) => Message::Hello(hello(one)),
        ToOwner::Event(Event::Slots { work, total }) => Message::Slots(slots(&work, total)),
        ToOwner::Event(Event::Completed(token, one)) => Message::Completion(completed(token, one)),
        ToOwner::Heartbeat => Message::Beat(peer::Beat::default()),
    };
    peer::FromExecutor {
        message: Some(message),
    }
}

pub(crate) fn from_executor_of(message: peer::FromExecutor) -> Result<ToOwner, Status> {
    use from_executor::Message;
    Ok(match message.message {
        // Of a later version: it says at least that the executor lives.
        None | Some(Message::Beat(_)) => ToOwner::Heartbeat,
        Some(Message::Hello(hello)) => ToOwner::Hello(hello_of(hello)?),
        Some(Message::Slots(slots)) => match slots_of(slots) {
            Some((work, total)) => ToOwner::Event(Event::Slots { work, total }),
            None => ToOwner::Heartbeat,
        },
        Some(Message::Completion(completion)) => ToOwner::Event(completed_of(completion)?),
    })
}

/// One message, but for several acknowledgements, which travel one by one.
pub(crate) fn to_executor(message: ToExecutor) -> Vec<peer::ToExecutor> {
    use to_executor::Message;
    let messages = match message {
        ToExecutor::Welcome => vec![Message::Welcome(peer::Beat::default())],
        ToExecutor::Fenced => vec![Message::Fenced(peer::Beat::default())],
        ToExecutor::Heartbeat => vec![Message::Beat(peer::Beat::default())],
        ToExecutor::Instruction(Instruction::Run(dispatch)) => {
            vec![Message::Run(dispatched(*dispatch))]
        }
        ToExecutor::Instruction(Instruction::Stop(stopped)) => vec![Message::Stop(token(stopped))],
        ToExecutor::Instruction(Instruction::Acknowledge(tokens)) => {
            let acknowledge = |one| Message::Acknowledge(token(one));
            tokens.into_iter().map(acknowledge).collect()
        }
    };
    let message = |message| peer::ToExecutor {
        message: Some(message),
    };
    messages.into_iter().map(message).collect()
}

pub(crate) fn to_executor_of(message: peer::ToExecutor) -> Result<ToExecutor, Status> {
    use to_executor::Message;
    let instruction = match message.message {
        // Of a later version: it says at least that the owner lives.
        None | Some(Message::Beat(_)) => return Ok(ToExecutor::Heartbeat),
        Some(Message::Welcome(_)) => return Ok(ToExecutor::Welcome),
        Some(Message::Fenced(_)) => return Ok(ToExecutor::Fenced),
        Some(Message::Run(assignment)) => Instruction::Run(Box::new(dispatched_of(assignment)?)),
        Some(Message::Stop(token)) => Instruction::Stop(token_of(Some(token))?),
        Some(Message::Acknowledge(token)) => Instruction::Acknowledge(vec![token_of(Some(token))?]),
    };
    Ok(ToExecutor::Instruction(instruction))
}

/// Lets a message that only says that the owner is there also say what time it is.
pub(crate) fn with_time(mut message: peer::ToExecutor, now: Time) -> peer::ToExecutor {
    use to_executor::Message;
    if let Some(Message::Welcome(beat) | Message::Beat(beat)) = &mut message.message {
        beat.now_us = now.0;
    }
    message
}

/// What time it is by the clock of the owner; `None`: the message does not say.
pub(crate) fn time_of(message: &peer::ToExecutor) -> Option<Time> {
    use to_executor::Message;
    match &message.message {
        Some(Message::Welcome(beat) | Message::Beat(beat)) if beat.now_us > 0 => {
            Some(Time(beat.now_us))
        }
        _ => None,
    }
}

fn hello(hello: Hello) -> peer::Hello {
    let Hello {
        host,
        epoch,
        session,
        name,
        snapshot,
    } = hello;
    let total = |(work, total): &(Work, u32)| slots(work, *total);
    peer::Hello {
        replica: host.replica.to_string(),
        incarnation: host.incarnation,
        name: name.to_string(),
        epoch: epoch.0,
        session,
        slots: snapshot.slots.iter().map(total).collect(),
        begun_per_slot: snapshot.begun_per_slot,
        line_per_slot: snapshot.line_per_slot,
        attempts: snapshot.attempts.iter().map(attempt).collect(),
    }
}

fn hello_of(hello: peer::Hello) -> Result<Hello, Status> {
    let replica = Uuid::try_parse(&hello.replica)
        .map_err(|_| Status::invalid_argument("not the name of a run"))?;
    let slots = hello.slots.into_iter().filter_map(slots_of);
    let attempts = hello.attempts.into_iter().map(attempt_of);
    Ok(Hello {
        host: Host {
            replica,
            incarnation: hello.incarnation,
        },
        epoch: Epoch(hello.epoch),
        session: hello.session,
        name: hello.name.into(),
        snapshot: Snapshot {
            slots: slots.collect(),
            begun_per_slot: hello.begun_per_slot,
            line_per_slot: hello.line_per_slot,
            attempts: attempts.collect::<Result<_, _>>()?,
            completions: Vec::new(),
        },
    })
}

fn slots(work: &Work, total: u32) -> peer::Slots {
    peer::Slots {
        work: work.to_string(),
        total,
    }
}

/// `None`: for a kind of work that only a later version knows, which will not be asked for.
fn slots_of(slots: peer::Slots) -> Option<(Work, u32)> {
    Some((slots.work.parse().ok()?, slots.total))
}

fn token(token: Token) -> peer::Token {
    peer::Token {
        epoch: token.epoch.0,
        serial: token.serial,
    }
}

fn token_of(token: Option<peer::Token>) -> Result<Token, Status> {
    let peer::Token { epoch, serial } = token.ok_or_else(|| missing("token"))?;
    Ok(Token {
        epoch: Epoch(epoch),
        serial,
    })
}

fn attempt(held: &HeldAssignment) -> peer::Attempt {
    let Running {
        handle,
        first,
        count,
        attempt,
        since,
    } = held.running;
    peer::Attempt {
        token: Some(token(held.token)),
        work: held.work.to_string(),
        handle: handle.to_string(),
        first: first.0,
        count,
        attempt: attempt.0,
        since: since.0,
    }
}

fn attempt_of(attempt: peer::Attempt) -> Result<HeldAssignment, Status> {
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

fn dispatched(dispatch: Dispatch) -> peer::Assignment {
    let Dispatch {
        token: named,
        assignment,
        leaves_free,
        body,
    } = dispatch;
    peer::Assignment {
        token: Some(token(named)),
        handle: assignment.handle.to_string(),
        first: assignment.first.0,
        count: assignment.count,
        attempt: assignment.attempt.0,
        order: assignment.order.map(|order| order.0),
        // Plain data always has a JSON form.
        spec: serde_json::to_string(&*assignment.spec).unwrap_or_default(),
        namespace: assignment.namespace.0.to_string(),
        caller: assignment.caller.to_string(),
        limit: assignment.time_limit.map(|limit| match limit {
            TimeLimit::Timeout(timeout) => {
                Limit::Timeout(i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX))
            }
            TimeLimit::Deadline(at) => Limit::Deadline(at.0),
        }),
        payload: body.payload,
        params: body.params,
        cleaned_between_schedulers: assignment.session_reset == SessionReset::Scheduler,
        resource_token: assignment.resource_token.map_or(0, |token| token.0),
        leaves_free,
        total_deadline: assignment.deadline.map(|at| at.0),
    }
}

fn dispatched_of(assignment: peer::Assignment) -> Result<Dispatch, Status> {
    let spec = serde_json::from_str(&assignment.spec)
        .map_err(|error| Status::invalid_argument(error.to_string()))?;
    let time_limit = assignment.limit.map(|limit| match limit {
        Limit::Timeout(us) => TimeLimit::Timeout(Duration::from_micros(us.max(0) as u64)),
        Limit::Deadline(us) => TimeLimit::Deadline(Time(us)),
    });
    let deadline = match time_limit {
        // An older version says it there alone.
        Some(TimeLimit::Deadline(at)) => Some(at),
        Some(TimeLimit::Timeout(_)) | None => assignment.total_deadline.map(Time),
    };
    Ok(Dispatch {
        token: token_of(assignment.token)?,
        assignment: Assignment {
            handle: handle_of(&assignment.handle)?,
            first: Seq(assignment.first),
            count: assignment.count.max(1),
            attempt: Attempt(assignment.attempt),
            order: assignment.order.map(Order),
            spec: Arc::new(spec),
            namespace: Namespace(assignment.namespace.into()),
            caller: assignment.caller.into(),
            time_limit,
            deadline,
            resource_token: (assignment.resource_token > 0)
                .then_some(crate::core::Token(assignment.resource_token)),
            session_reset: match assignment.cleaned_between_schedulers {
                true => SessionReset::Scheduler,
                false => SessionReset::Task,
            },
            leaves_free: assignment.leaves_free,
        },
        leaves_free: assignment.leaves_free,
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
        diagnostics,
    } = completion;
    let failed = |error: Arc<TaskError>, transient| peer::Failed {
        code: error.code.clone(),
        message: error.message.clone(),
        transient,
    };
    let report = match report {
        // Said in place of an executor, never by one.
        Report::Lost | Report::Unstorable(_) | Report::NotStarted => {
            WireReport::NotStarted(peer::Beat::default())
        }
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
        Report::Stopped => WireReport::Stopped(peer::Beat::default()),
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
        diagnostics,
    }
}

fn completed_of(completion: peer::Completion) -> Result<Event, Status> {
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
        diagnostics: completion.diagnostics,
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

#[cfg(test)]
mod tests;
