//! `forecast HANDLE[/SEQ]`: when a scheduler, an order or a task will have ended.

use super::{
    api_words,
    connect::Server,
    error::CliError,
    output::{self, BOLD, DIM},
    table::{Table, plain},
    task_name::TaskName,
    time_text,
};
use clap::Args;
use rallypoint_client::api::{
    ForecastBasis, ForecastEnd, ForecastSchedulerRequest, ForecastSchedulerResponse, SlotKind,
    slot_kind::Kind,
};
use std::process::ExitCode;

/// Orders that people are shown, unless they ask for one.
const ORDERS: usize = 40;
/// Kinds of ended tasks that people are shown.
const BASIS: usize = 5;

/// Arguments of `forecast`.
#[derive(Args, Debug)]
pub(super) struct Forecast {
    /// The scheduler: its handle or its name; HANDLE/SEQ is a task of it
    #[arg(value_name = "HANDLE[/SEQ]")]
    handle: String,
    /// Only this order
    #[arg(long, value_name = "N")]
    order: Option<i64>,
    /// What if every target had so many slots
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=100_000))]
    slots: Option<i32>,
}

impl Forecast {
    /// Asks the server and prints what it says.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let (handle, seq) = match self.handle.parse::<TaskName>() {
            Ok(task) => (task.handle, Some(task.seq)),
            Err(_) => (self.handle, None),
        };
        if seq.is_some() && self.order.is_some() {
            let message = "a task and an order cannot be asked for at once";
            return Err(CliError::usage(message).next("leave one of them out"));
        }
        let what = || format!("cannot forecast {handle}");
        let scheduler = server.scheduler(&handle).await?;
        let request = ForecastSchedulerRequest {
            seqs: seq.into_iter().collect(),
            slots: self.slots,
            ..Default::default()
        };
        let answer = scheduler.forecast(request).await;
        let mut answer = answer.map_err(|error| CliError::call(what(), &error))?;
        if let Some(order) = self.order {
            answer.orders.retain(|one| one.order == Some(order));
        }
        output::answer(&answer, |answer| print(answer, self.order, seq));
        Ok(ExitCode::SUCCESS)
    }
}

fn print(answer: &ForecastSchedulerResponse, order: Option<i64>, seq: Option<i64>) {
    let head = match (order, seq) {
        (Some(order), _) => format!("order {order} of scheduler {}", answer.handle),
        (None, Some(seq)) => format!("task {}/{seq}", answer.handle),
        // What follows says so.
        (None, None) if answer.unfinished == 0 => format!("scheduler {}", answer.handle),
        (None, None) => format!(
            "scheduler {}: {} unfinished",
            answer.handle, answer.unfinished
        ),
    };
    output::line(output::paint(&head, BOLD));
    if let Some(task) = answer.tasks.first() {
        output::line(said(task.end.as_ref(), "the task has ended"));
    } else if order.is_some() {
        let found = answer.orders.first().and_then(|order| order.end.as_ref());
        output::line(said(found, "nothing of it is unfinished"));
        if found.is_none() {
            return;
        }
    } else {
        output::line(api_words::translated(&plain(&answer.text)));
        orders(answer);
    }
    for basis in answer.basis.iter().take(BASIS) {
        output::line(output::paint(&seen(basis), DIM));
    }
    let more = answer.basis.len().saturating_sub(BASIS);
    if more > 0 {
        output::line(output::paint(&format!("and from {more} more kinds"), DIM));
    }
    for left_out in &answer.omissions {
        output::line(output::paint(&format!("note: {}", plain(left_out)), DIM));
    }
}

fn orders(answer: &ForecastSchedulerResponse) {
    if answer.orders.len() < 2 {
        return;
    }
    let mut table = Table::new(&[">order", ">unfinished", "about", "nine of ten before"]);
    for one in answer.orders.iter().take(ORDERS) {
        let end = one.end.clone().unwrap_or_default();
        let order = one.order.map_or("none".into(), |order| order.to_string());
        let (p50, p90) = (time(&end.p50), time(&end.p90));
        table.row([order, one.unfinished.to_string(), p50, p90]);
    }
    table.print();
    let more = answer.orders.len().saturating_sub(ORDERS);
    if more > 0 {
        output::line(format!(
            "and {more} more orders: see one with --order, or --json"
        ));
    }
}

fn said(end: Option<&ForecastEnd>, ended: &str) -> String {
    let Some(end) = end else {
        return ended.to_owned();
    };
    let reasons = end.unknown.iter().map(|one| plain(&one.text));
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    match (&end.p50, &end.p90) {
        (Some(_), Some(_)) => format!(
            "ends about {}, in nine of ten cases before {}",
            time(&end.p50),
            time(&end.p90)
        ),
        (Some(_), None) => format!(
            "may end about {}, but nobody knows: {reasons}",
            time(&end.p50)
        ),
        _ => format!("nobody knows when it ends: {reasons}"),
    }
}

/// What durations were taken from.
fn seen(basis: &ForecastBasis) -> String {
    let mut labels: Vec<String> = basis
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.sort_unstable();
    let labels = match labels.is_empty() {
        true => String::new(),
        false => format!(" labelled {}", labels.join(",")),
    };
    let statement = match basis.alike_by.iter().any(|by| by == "statement") {
        true => " with the same statement",
        false => "",
    };
    let mean = time_text::duration(time_text::duration_us(basis.mean.as_ref()));
    let failed = match basis.failed {
        0.0 => String::new(),
        failed => format!(", {:.0} % failed", failed * 100.0),
    };
    let on = place(basis.kind.as_ref());
    plain(&format!(
        "from {} tasks on {on}{labels}{statement}: {mean} on average{failed}",
        basis.seen
    ))
}

fn place(kind: Option<&SlotKind>) -> String {
    match kind.and_then(|kind| kind.kind.as_ref()) {
        Some(Kind::SqlTarget(target)) => target.clone(),
        Some(Kind::Noop(())) => "no target".into(),
        None => "a place that this version does not know".into(),
    }
}

fn time(at: &Option<prost_types::Timestamp>) -> String {
    at.as_ref().map_or("unknown".into(), |at| {
        time_text::time(time_text::micros(Some(at)))
    })
}
