//! Lists by what is common and by what is rare, of a scheduler with millions of finished tasks and
//! among a hundred thousand schedulers.

use crate::{load, report::median};
use anyhow::{Context, Result, ensure};
use rallypoint_client::{
    Client, Scheduler,
    api::{
        ListSchedulersRequest, ListTasksRequest, Outcome, SchedulerFilter, SchedulerSettings,
        SchedulerState, Task, TaskFilter, TaskOptions,
    },
};
use std::{
    collections::HashMap,
    time::{Duration, Instant, SystemTime},
};
use tokio::task::JoinSet;

/// Repetitions of each first page.
const PAGES: usize = 20;
/// Tasks that are unlike all others.
const RARE: usize = 3;
/// Schedulers opened at a time.
const CALLERS: usize = 64;

type Figures = Vec<(&'static str, f64)>;

/// Adds a label that many tasks have.
pub(crate) fn common(task: Task) -> Task {
    labelled(task, "common")
}

pub(crate) fn labelled(task: Task, value: &str) -> Task {
    Task {
        options: Some(TaskOptions {
            labels: labels(value),
            ..Default::default()
        }),
        ..task
    }
}

pub(crate) fn labels(value: &str) -> HashMap<String, String> {
    [("kind".to_owned(), value.to_owned())].into()
}

/// Submits the rare tasks, with a label of their own, and cancels them. The scheduler is paused.
pub(crate) async fn submit_rare(scheduler: &Scheduler) -> Result<()> {
    let tasks = (0..RARE as u64).map(|number| labelled(load::task(number), "rare"));
    let first = scheduler.exec(tasks.collect()).await?.first_seq;
    for seq in first..first + RARE as i64 {
        scheduler.cancel(seq).await?;
    }
    Ok(())
}

/// Milliseconds of lists of tasks; `half`: when half of them had ended; `order`: one that many
/// tasks have, which all succeeded.
pub(crate) async fn of_tasks(
    scheduler: &Scheduler,
    half: SystemTime,
    order: i64,
) -> Result<Figures> {
    let (mut figures, mut slowest, mut slowest_whole) = (Vec::new(), 0.0, 0.0);
    for (name, filter, tasks) in lists_of_tasks(half, order) {
        let mut times = Vec::new();
        for _ in 0..PAGES {
            let begun = Instant::now();
            let mut request = ListTasksRequest {
                filter: Some(filter.clone()),
                ..Default::default()
            };
            let mut found = 0;
            loop {
                let start = Instant::now();
                let page = scheduler.tasks(request.clone()).await.context(name)?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
                found += page.tasks.len();
                request.page_token = page.next_page_token;
                if request.page_token.is_empty() || (tasks.is_none() && found > 0) {
                    break;
                }
            }
            slowest_whole = f64::max(slowest_whole, begun.elapsed().as_secs_f64() * 1e3);
            let right = tasks.map_or(found > 0, |tasks| found == tasks);
            ensure!(right, "{name}: {found} tasks are listed");
        }
        slowest = times.iter().copied().fold(slowest, f64::max);
        figures.push((name, median(&times)));
    }
    figures.push(("slowest_filtered_page_ms", slowest));
    figures.push(("slowest_filtered_answer_ms", slowest_whole));
    Ok(figures)
}

/// Lists of tasks, and how many each must have; `None`: many, of which the first page is read.
fn lists_of_tasks(half: SystemTime, order: i64) -> [(&'static str, TaskFilter, Option<usize>); 12] {
    let any = TaskFilter::default;
    let label = |value: &str| TaskFilter {
        labels: labels(value),
        ..any()
    };
    let both = TaskFilter {
        labels: labels("common"),
        ..outcome_is(Outcome::Cancelled)
    };
    let of_order = |outcome: Outcome| TaskFilter {
        effective_order: Some(order),
        ..outcome_is(outcome)
    };
    let submitted = TaskFilter {
        submitted_before: Some(half.into()),
        ..any()
    };
    let ended = TaskFilter {
        ended_before: Some(half.into()),
        ..any()
    };
    let never = TaskFilter {
        submitted_from: Some((SystemTime::now() + Duration::from_secs(60)).into()),
        ..any()
    };
    [
        ("list_succeeded_ms", outcome_is(Outcome::Succeeded), None),
        (
            "list_cancelled_ms",
            outcome_is(Outcome::Cancelled),
            Some(RARE),
        ),
        ("list_failed_none_ms", outcome_is(Outcome::Failed), Some(0)),
        ("list_label_common_ms", label("common"), None),
        ("list_label_rare_ms", label("rare"), Some(RARE)),
        ("list_label_none_ms", label("nobody"), Some(0)),
        ("list_cancelled_and_common_ms", both, Some(0)),
        (
            "list_order_succeeded_ms",
            of_order(Outcome::Succeeded),
            None,
        ),
        (
            "list_order_failed_none_ms",
            of_order(Outcome::Failed),
            Some(0),
        ),
        ("list_submitted_before_ms", submitted, None),
        ("list_submitted_never_ms", never, Some(0)),
        ("list_ended_before_ms", ended, None),
    ]
}

fn outcome_is(outcome: Outcome) -> TaskFilter {
    TaskFilter {
        outcomes: vec![outcome.into()],
        ..TaskFilter::default()
    }
}

/// Milliseconds of the first pages of lists among `count` schedulers.
pub(crate) async fn of_schedulers(client: &Client, count: usize) -> Result<Figures> {
    open(client, count).await?;
    let any = SchedulerFilter::default;
    let label = |value: &str| SchedulerFilter {
        labels: labels(value),
        ..any()
    };
    let state = |state: SchedulerState| SchedulerFilter {
        states: vec![state.into()],
        ..any()
    };
    let named = SchedulerFilter {
        display_name: "rare".into(),
        ..any()
    };
    let (mut figures, mut slowest) = (Vec::new(), 0.0);
    for (name, filter, schedulers) in [
        ("schedulers_newest_ms", any(), None),
        ("schedulers_open_ms", state(SchedulerState::Open), None),
        (
            "schedulers_releasing_none_ms",
            state(SchedulerState::Releasing),
            Some(0),
        ),
        ("schedulers_label_common_ms", label("common"), None),
        ("schedulers_label_rare_ms", label("rare"), Some(1)),
        ("schedulers_named_ms", named, Some(1)),
    ] {
        let mut times = Vec::new();
        for _ in 0..PAGES {
            let request = ListSchedulersRequest {
                filter: Some(filter.clone()),
                ..Default::default()
            };
            let start = Instant::now();
            let page = client.schedulers(request).await.context(name)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            let found = page.schedulers.len();
            let right = schedulers.map_or(found > 0, |schedulers| found == schedulers);
            ensure!(right, "{name}: {found} schedulers are listed");
        }
        slowest = times.iter().copied().fold(slowest, f64::max);
        figures.push((name, median(&times)));
    }
    figures.push(("slowest_schedulers_page_ms", slowest));
    Ok(figures)
}

async fn open(client: &Client, count: usize) -> Result<()> {
    let mut opening = JoinSet::new();
    for caller in 0..CALLERS {
        let client = client.clone();
        opening.spawn(async move {
            for number in (caller..count).step_by(CALLERS) {
                let kind = if number == count / 2 {
                    "rare"
                } else {
                    "common"
                };
                let settings = SchedulerSettings {
                    display_name: kind.into(),
                    labels: labels(kind),
                    ..Default::default()
                };
                client.open(settings).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(opened) = opening.join_next().await {
        opened??;
    }
    Ok(())
}
