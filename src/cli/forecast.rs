//! `forecast HANDLE [SEQ]`: when a scheduler, an order or a task will have ended.

use super::{
    api_words,
    connect::Server,
    error::CliError,
    number::whole,
    output::{self, BOLD, DIM},
    plural, shell,
    table::Table,
    task_name,
    terminal_text::plain,
    time_text,
};
use crate::core::model::limits::MAX_ORDER;
use clap::Args;
use jiff::SignedDuration;
use prost_types::Timestamp;
use rallypoint_client::api::{
    ForecastBasis, ForecastEnd, ForecastSchedulerRequest, ForecastSchedulerResponse, SlotKind,
    slot_kind::Kind,
};
use std::process::ExitCode;

/// Orders that people are shown, unless they ask for one.
const ORDERS: usize = 40;
/// Kinds of ended tasks that people are shown.
const BASIS: usize = 5;
const DAY_US: i64 = 86_400_000_000;

/// Arguments of `forecast`.
#[derive(Args, Debug)]
pub(super) struct Forecast {
    /// The scheduler: its handle or its name; HANDLE SEQ, or HANDLE/SEQ, is a task of it
    #[arg(num_args = 1..=2, required = true, value_names = ["HANDLE", "SEQ"])]
    named: Vec<String>,
    /// Only this order
    #[arg(long, value_name = "N", value_parser = whole::<i64>(0..=MAX_ORDER))]
    order: Option<i64>,
    /// What if every target had so many slots
    #[arg(long, value_name = "N", value_parser = whole::<i32>(1..=100_000))]
    slots: Option<i32>,
}

impl Forecast {
    /// Asks the server and prints what it says.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let (handle, seq) = named(&self.named)?;
        if seq.is_some() && self.order.is_some() {
            let message = "a task and an order cannot be asked for at once";
            return Err(CliError::usage(message).next("leave one of them out"));
        }
        let what = || match seq {
            Some(seq) => format!("cannot forecast task {handle}/{seq}"),
            None => format!("cannot forecast {handle}"),
        };
        let scheduler = server.scheduler(&handle).await?;
        let request = ForecastSchedulerRequest {
            seqs: seq.into_iter().collect(),
            slots: self.slots,
            ..Default::default()
        };
        let answer = scheduler.forecast(request).await;
        let failed = |error| CliError::call(what(), &error).naming("HANDLE", shell::word(&handle));
        let mut answer = answer.map_err(failed)?;
        if let Some(order) = self.order {
            answer.orders.retain(|one| one.order == Some(order));
        }
        output::answer(&answer, |answer| print(answer, self.order, seq));
        Ok(ExitCode::SUCCESS)
    }
}

/// The scheduler, and its task if the words name one.
fn named(words: &[String]) -> Result<(String, Option<i64>), CliError> {
    let (handle, more) = words
        .split_first()
        .map_or(("", words), |(first, more)| (first, more));
    let (handle, seqs) = task_name::tasks(handle, more)?;
    match seqs[..] {
        [] => Ok((handle, None)),
        [seq] => Ok((handle, Some(seq))),
        _ => {
            let error = CliError::usage("more than one task is named");
            Err(error.next("write HANDLE SEQ, or HANDLE/SEQ"))
        }
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
    output::styled(head, BOLD);
    let now = answer.as_of.as_ref();
    if let Some(task) = answer.tasks.first() {
        output::line(said(task.end.as_ref(), now, "the task has ended"));
    } else if order.is_some() {
        let found = answer.orders.first().and_then(|order| order.end.as_ref());
        output::line(said(found, now, "nothing of it is unfinished"));
        if found.is_none() {
            return;
        }
    } else {
        output::line(api_words::translated(&plain(&answer.text)));
        orders(answer);
    }
    for basis in answer.basis.iter().take(BASIS) {
        output::styled(seen(basis), DIM);
    }
    let more = answer.basis.len().saturating_sub(BASIS);
    if more > 0 {
        output::styled(
            format!("and from {}", plural::count(more, "more kind")),
            DIM,
        );
    }
    for left_out in &answer.omissions {
        output::styled(format!("note: {}", plain(left_out)), DIM);
    }
}

fn orders(answer: &ForecastSchedulerResponse) {
    if answer.orders.len() < 2 {
        return;
    }
    let mut table = Table::new(&[">order", ">unfinished", "about", "nine of ten before"]);
    let now = answer.as_of.as_ref();
    for one in answer.orders.iter().take(ORDERS) {
        let end = one.end.clone().unwrap_or_default();
        let order = one.order.map_or("none".into(), |order| order.to_string());
        let (p50, p90) = (time(&end.p50, now), time(&end.p90, now));
        table.row([order, one.unfinished.to_string(), p50, p90]);
    }
    table.print();
    let more = answer.orders.len().saturating_sub(ORDERS);
    if more > 0 {
        output::line(format!(
            "and {}: see one with --order, or --json",
            plural::count(more, "more order")
        ));
    }
}

fn said(end: Option<&ForecastEnd>, now: Option<&Timestamp>, ended: &str) -> String {
    let Some(end) = end else {
        return ended.to_owned();
    };
    let reasons = end.unknown.iter().map(|one| plain(&one.text));
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    match (&end.p50, &end.p90) {
        (Some(_), Some(_)) => format!(
            "ends about {}, in nine of ten cases before {}",
            time(&end.p50, now),
            time(&end.p90, now)
        ),
        (Some(_), None) => format!(
            "may end about {}, but nobody knows: {reasons}",
            time(&end.p50, now)
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
        "from {} on {on}{labels}{statement}: {mean} on average{failed}",
        plural::count(basis.seen, "task")
    ))
}

fn place(kind: Option<&SlotKind>) -> String {
    match kind.and_then(|kind| kind.kind.as_ref()) {
        Some(Kind::SqlTarget(target)) => target.clone(),
        Some(Kind::Noop(())) => "no target".into(),
        None => "a place that this version does not know".into(),
    }
}

/// As the sentence of the server has it: a time of the day, with the date when it is another one,
/// and how far off it is.
fn time(at: &Option<Timestamp>, now: Option<&Timestamp>) -> String {
    let Some(at) = at.as_ref().map(|at| time_text::micros(Some(at))) else {
        return "unknown".into();
    };
    let now = time_text::micros(now);
    let stamp = jiff::Timestamp::from_microsecond(at).unwrap_or(jiff::Timestamp::MAX);
    let format = match at.div_euclid(DAY_US) == now.div_euclid(DAY_US) {
        true => "%H:%M:%S",
        false => "%Y-%m-%d %H:%M:%S",
    };
    let seconds = at.saturating_sub(now).max(0) as u64;
    let off = SignedDuration::from_secs(seconds.div_ceil(1_000_000) as i64);
    format!("{} UTC (in {off:#})", stamp.strftime(format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_that_of_the_sentence_of_the_server() {
        let at = |seconds| Timestamp { seconds, nanos: 0 };
        let now = at(86_400 - 10);
        assert_eq!(time(&Some(at(86_395)), Some(&now)), "23:59:55 UTC (in 5s)");
        let tomorrow = "1970-01-02 00:00:05 UTC (in 15s)";
        assert_eq!(time(&Some(at(86_405)), Some(&now)), tomorrow);
        assert_eq!(time(&None, Some(&now)), "unknown");
    }

    #[test]
    fn a_task_is_named_in_one_word_or_two() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let named = |text| named(&words(text)).expect("a name");
        assert_eq!(named("load"), ("load".into(), None));
        assert_eq!(named("load/5"), ("load".into(), Some(5)));
        assert_eq!(named("load 5"), ("load".into(), Some(5)));
        assert!(super::named(&words("load/5 6")).is_err());
        assert!(super::named(&words("load five")).is_err());
    }
}
