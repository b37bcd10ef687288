//! `explain HANDLE SEQ`: why a task is not running. The sentences are the server's.

use super::{
    connect::Server,
    enum_text,
    error::CliError,
    output::{self, BOLD, Output},
    table::plain,
    task_name::TaskName,
    time_text,
};
use clap::{Args, error::ErrorKind};
use rallypoint_client::api::{
    Blocker, ExplainTaskResponse, QueuePlace, RunningAttempt, SessionWait,
    blocker::{self, Kind, target_away},
};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Arguments of `explain`.
#[derive(Args, Debug)]
pub(super) struct Explain {
    /// The task: handle of its scheduler and its number; HANDLE/SEQ does as well
    #[arg(num_args = 1..=2, required = true, value_names = ["HANDLE", "SEQ"])]
    task: Vec<String>,
    #[command(flatten)]
    output: Output,
}

impl Explain {
    /// Asks the server and prints what it says.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let named = self.task.join("/").parse();
        let TaskName { handle, seq } = named.unwrap_or_else(|wrong: String| {
            clap::Error::raw(ErrorKind::ValueValidation, wrong + "\n").exit()
        });
        let what = format!("cannot explain task {handle}/{seq}");
        let answer = server.client().await?.scheduler(handle).explain(seq).await;
        let answer = answer.map_err(|error| CliError::call(what, &error))?;
        match self.output.json() {
            true => output::json(&to_json(&answer)),
            false => print(&answer),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(answer: &ExplainTaskResponse) {
    let task = answer.id.clone().unwrap_or_default();
    let state = enum_text::task_state(answer.state());
    let head = format!("task {}/{}: {state}", task.handle, task.seq);
    output::line(output::paint(&head, BOLD));
    match &answer.running {
        Some(running) => output::line(plain(&running.text)),
        None if answer.blockers.is_empty() => output::line(plain(&answer.text)),
        None => {}
    }
    for (number, blocker) in answer.blockers.iter().enumerate() {
        output::line(format!("{:>3}. {}", number + 1, plain(&blocker.text)));
    }
    if let Some(place) = &answer.place {
        let least = if place.at_least { "at least " } else { "" };
        output::line(format!(
            "     ahead of it: {least}{}, and {} in lower orders",
            place.ahead, place.in_lower_orders
        ));
    }
    if let Some(deadline) = &answer.deadline {
        let at = time_text::time(time_text::micros(Some(deadline)));
        output::line(format!("     deadline: {at}"));
    }
}

fn to_json(answer: &ExplainTaskResponse) -> Value {
    let task = answer.id.clone().unwrap_or_default();
    let done = answer.outcome != 0;
    json!({
        "handle": task.handle,
        "seq": task.seq,
        "state": enum_text::task_state(answer.state()),
        "outcome": done.then(|| enum_text::outcome(answer.outcome())),
        "attempt": answer.attempt,
        "text": answer.text,
        "blockers": answer.blockers.iter().map(blocker).collect::<Vec<_>>(),
        "place": answer.place.as_ref().map(place),
        "running": answer.running.as_ref().map(running),
        "deadline": time(answer.deadline.as_ref()),
        "as_of": time(answer.as_of.as_ref()),
    })
}

fn time(at: Option<&prost_types::Timestamp>) -> Value {
    time_text::rfc3339(time_text::micros(at))
}

fn place(place: &QueuePlace) -> Value {
    json!({
        "ahead": place.ahead,
        "at_least": place.at_least,
        "in_lower_orders": place.in_lower_orders,
    })
}

fn running(running: &RunningAttempt) -> Value {
    json!({
        "started_at": time(running.started_at.as_ref()),
        "stopping": running.stopping,
        "replica": running.replica,
        "slot": running.slot,
        "backend_pid": running.backend_pid,
        "unreachable": running.unreachable,
        "wait": running.wait.as_ref().map(wait),
        "wait_unknown": running.wait_unknown,
        "text": running.text,
    })
}

fn wait(wait: &SessionWait) -> Value {
    json!({
        "state": wait.state,
        "wait_event_type": wait.wait_event_type,
        "wait_event": wait.wait_event,
        "lock_type": wait.lock_type,
        "lock_mode": wait.lock_mode,
        "lock_relation": wait.lock_relation,
    })
}

/// The reason, its sentence, and its numbers.
fn blocker(blocker: &Blocker) -> Value {
    let (reason, numbers) = match &blocker.kind {
        Some(kind) => numbers(kind),
        // A newer server has it.
        None => ("unknown", json!({})),
    };
    json!({ "reason": reason, "text": blocker.text, reason: numbers })
}

fn numbers(kind: &Kind) -> (&'static str, Value) {
    match kind {
        Kind::Cancellation(one) => (
            "cancellation",
            json!({ "covered": one.covered, "above": one.above, "released": one.released }),
        ),
        Kind::Paused(_) => ("paused", json!({})),
        Kind::Halted(one) => (
            "halted",
            json!({ "order": one.order, "failed": one.failed_seqs }),
        ),
        Kind::LowerOrder(one) => (
            "lower_order",
            json!({ "order": one.order, "unfinished": one.unfinished, "tasks": one.seqs }),
        ),
        Kind::NotBefore(one) => ("not_before", json!({ "at": time(one.at.as_ref()) })),
        Kind::NextAttempt(one) => (
            "next_attempt",
            json!({
                "at": time(one.at.as_ref()), "failures": one.failures, "losses": one.losses,
            }),
        ),
        Kind::DeadlinePassed(one) => ("deadline_passed", json!({ "own": one.own })),
        Kind::Limit(one) => (
            "limit",
            json!({
                "max_parallelism": one.max_parallelism, "running": one.running,
                "in_doubt": one.in_doubt,
            }),
        ),
        Kind::InDoubt(_) => ("in_doubt", json!({})),
        Kind::Resolving(_) => ("resolving", json!({})),
        Kind::FencePending(one) => (
            "fence_pending",
            json!({
                "target": one.target, "replica": one.replica, "backend_pid": one.backend_pid,
                "since": time(one.since.as_ref()), "why": one.why,
            }),
        ),
        Kind::Session(one) => ("session", session(one)),
        about_slots => numbers_of_slots(about_slots),
    }
}

fn numbers_of_slots(kind: &Kind) -> (&'static str, Value) {
    match kind {
        Kind::NoExecutor(one) => ("no_executor", json!({ "kind": one.kind })),
        Kind::TargetAway(one) => {
            let outages = one.outages.iter().map(outage).collect::<Vec<_>>();
            (
                "target_away",
                json!({ "kind": one.kind, "outages": outages }),
            )
        }
        Kind::SlotsBusy(one) => (
            "slots_busy",
            json!({ "kind": one.kind, "total": one.total, "busy": one.busy }),
        ),
        Kind::Share(one) => (
            "share",
            json!({
                "namespaces": one.namespaces, "schedulers": one.schedulers,
                "held_by_namespace": one.held_by_namespace,
                "held_by_scheduler": one.held_by_scheduler, "at_least": one.at_least,
            }),
        ),
        _ => ("unknown", json!({})),
    }
}

fn session(one: &blocker::Session) -> Value {
    let age = one.transaction_age.as_ref();
    json!({
        "backend_pid": one.backend_pid,
        "depth": one.depth,
        "user": one.user,
        "application": one.application,
        "backend_type": one.backend_type,
        "state": one.state,
        "wait_event_type": one.wait_event_type,
        "wait_event": one.wait_event,
        "transaction_s": age.map(|age| age.seconds as f64 + f64::from(age.nanos) / 1e9),
    })
}

fn outage(outage: &target_away::Outage) -> Value {
    json!({
        "replica": outage.replica,
        "error": outage.error,
        "since": time(outage.since.as_ref()),
    })
}
