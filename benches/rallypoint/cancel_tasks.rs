//! Cancelling a million tasks by a filter, page by page: the rate, the longest time without
//! progress, and what other callers notice meanwhile. All tasks of whole calls are meant, and every
//! other task of each call, which is the worst that a filter can ask for. The others are one that
//! keeps its scheduler and its stream, and newcomers, whose first task waits for their stream too.

use crate::{
    environment::{Environment, Server},
    fill,
    latency::{self, Tasks, at},
    load,
    report::{Report, median},
};
use anyhow::{Result, ensure};
use rallypoint_client::{
    Scheduler,
    api::{CancelTasksRequest, Task, TaskFilter, TaskOptions},
};
use std::time::Instant;
use tokio::sync::watch;

/// Tasks run one at a time between two newcomers.
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
    newcomers_calm: Vec<f64>,
    newcomers_busy: Vec<f64>,
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
            ("newcomers_p50_us", median(&whole.newcomers_busy)),
            (
                "newcomers_ratio",
                median(&whole.newcomers_busy) / median(&whole.newcomers_calm),
            ),
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
        let mut others = Others::open(server).await?;
        others.round().await?;
        others.forget();
        for _ in 0..ROUNDS_BEFORE {
            others.round().await?;
        }
        self.calm.push(at(&others.kept_us, 0.99));
        self.newcomers_calm.push(at(&others.newcomers_us, 0.50));
        others.forget();
        let (over, mut is_over) = watch::channel(false);
        let cancelling = tokio::spawn(async move {
            let cancelled = cancel(&backlog, meant).await;
            over.send_replace(true);
            cancelled
        });
        while !*is_over.borrow_and_update() {
            others.round().await?;
        }
        let cancelled = cancelling.await??;
        self.busy.push(at(&others.kept_us, 0.99));
        self.newcomers_busy.push(at(&others.newcomers_us, 0.50));
        self.per_s.push(cancelled.per_s);
        self.longest_page_ms.push(cancelled.longest_page_ms);
        self.pages.push(cancelled.pages);
        Ok(())
    }
}

/// Callers who have nothing to do with the backlog, and how long their tasks took, in microseconds.
struct Others<'a> {
    server: &'a Server,
    kept: Tasks,
    kept_us: Vec<f64>,
    newcomers_us: Vec<f64>,
}

impl<'a> Others<'a> {
    async fn open(server: &'a Server) -> Result<Self> {
        Ok(Others {
            server,
            kept: Tasks::open(&server.address, load::task).await?,
            kept_us: Vec::new(),
            newcomers_us: Vec::new(),
        })
    }

    async fn round(&mut self) -> Result<()> {
        self.kept_us.extend(self.kept.run(ROUND).await?);
        let first = latency::tasks(&self.server.address, 1).await?;
        self.newcomers_us.extend(first);
        Ok(())
    }

    fn forget(&mut self) {
        self.kept_us.clear();
        self.newcomers_us.clear();
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
