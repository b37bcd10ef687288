//! Cancelling a million tasks by a filter, page by page: the rate, the longest time without
//! progress, and what other callers notice meanwhile. All tasks of whole calls are meant, and every
//! other task of each call, which is the worst that a filter can ask for.

use crate::{
    environment::{Environment, Server},
    fill,
    latency::{self, at},
    report::{Report, median},
};
use anyhow::{Result, ensure};
use rallypoint_client::{
    Scheduler,
    api::{CancelTasksRequest, Task, TaskFilter, TaskOptions},
};
use std::time::Instant;
use tokio::sync::watch;

/// Tasks run one at a time between two looks whether everything is cancelled.
const ROUND: u64 = 50;
const PER_CALL: u64 = 1_000;
/// Rounds before the cancellation.
const ROUNDS_BEFORE: usize = 60;

/// What the cancellation of one backlog has shown.
struct Cancelled {
    per_s: f64,
    longest_page_ms: f64,
    pages: f64,
}

/// The same of every run.
#[derive(Default)]
struct Figures {
    calm: Vec<f64>,
    busy: Vec<f64>,
    per_s: Vec<f64>,
    longest_page_ms: Vec<f64>,
    pages: Vec<f64>,
}

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let (mut whole, mut half) = (Figures::default(), Figures::default());
    for run in 0..runs {
        for (figures, name, task, meant) in [
            (&mut whole, "whole", labelled as fn(u64) -> Task, total),
            (&mut half, "half", half_labelled, total / 2),
        ] {
            let database = environment.database(&format!("bench_{name}_{run}")).await?;
            let server = environment.server(&database).await?;
            let backlog = fill::paused(&server.address).await?;
            fill::fill_with(&backlog, 0, total, PER_CALL, 8, task).await?;
            environment.checkpoint().await?;
            figures.measure(&server, backlog, meant).await?;
        }
    }
    let (figure, baseline) = (median(&whole.busy), median(&whole.calm));
    Ok(Report {
        name: "cancel-tasks",
        figure,
        unit: "us (p99)",
        baseline: (
            "tasks of other callers before the cancellation, same run",
            baseline,
        ),
        ratio: figure / baseline,
        also: vec![
            ("cancelled_per_s", median(&whole.per_s)),
            ("longest_page_ms", median(&whole.longest_page_ms)),
            ("pages", median(&whole.pages)),
            ("half_p99_us", median(&half.busy)),
            ("half_ratio", median(&half.busy) / median(&half.calm)),
            ("half_cancelled_per_s", median(&half.per_s)),
            ("half_longest_page_ms", median(&half.longest_page_ms)),
        ],
        ran: format!(
            "{total} queued SQL tasks of 1 KiB, {PER_CALL} a call, cancelled by CancelTasks with a \
             label: all of them, and every other one, while others run theirs one at a time"
        ),
        runs: whole.busy,
    })
}

impl Figures {
    async fn measure(&mut self, server: &Server, backlog: Scheduler, meant: u64) -> Result<()> {
        let mut before = Vec::new();
        for _ in 0..ROUNDS_BEFORE {
            before.extend(latency::tasks(&server.address, ROUND).await?);
        }
        self.calm.push(at(&before, 0.99));
        let (over, mut is_over) = watch::channel(false);
        let cancelling = tokio::spawn(async move {
            let cancelled = cancel(&backlog, meant).await;
            over.send_replace(true);
            cancelled
        });
        let mut meanwhile = Vec::new();
        while !*is_over.borrow_and_update() {
            meanwhile.extend(latency::tasks(&server.address, ROUND).await?);
        }
        let cancelled = cancelling.await??;
        self.busy.push(at(&meanwhile, 0.99));
        self.per_s.push(cancelled.per_s);
        self.longest_page_ms.push(cancelled.longest_page_ms);
        self.pages.push(cancelled.pages);
        Ok(())
    }
}

/// Cancels the tasks with the label, to the last page.
async fn cancel(backlog: &Scheduler, meant: u64) -> Result<Cancelled> {
    let labels = [("night".to_owned(), "yes".to_owned())].into();
    let mut request = CancelTasksRequest {
        filter: Some(TaskFilter {
            labels,
            ..TaskFilter::default()
        }),
        ..CancelTasksRequest::default()
    };
    let (start, mut longest, mut tasks, mut pages) = (Instant::now(), 0.0_f64, 0, 0.0);
    loop {
        let begun = Instant::now();
        let page = backlog.cancel_tasks(request.clone()).await?;
        longest = longest.max(begun.elapsed().as_secs_f64() * 1e3);
        tasks += page.waiting as u64;
        pages += 1.0;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    let passed = start.elapsed().as_secs_f64();
    ensure!(tasks == meant, "{tasks} were cancelled instead of {meant}");
    Ok(Cancelled {
        per_s: tasks as f64 / passed,
        longest_page_ms: longest,
        pages,
    })
}

fn labelled(number: u64) -> Task {
    with_label(number, "yes")
}

fn half_labelled(number: u64) -> Task {
    with_label(
        number,
        if number.is_multiple_of(2) {
            "yes"
        } else {
            "no"
        },
    )
}

fn with_label(number: u64, night: &str) -> Task {
    let labels = [("night".to_owned(), night.to_owned())].into();
    Task {
        options: Some(TaskOptions {
            labels,
            ..TaskOptions::default()
        }),
        ..fill::sql(number)
    }
}
