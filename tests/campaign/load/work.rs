//! Tasks that leave witnesses: each marks its start and its end in a table of its target, so that
//! its executions are known without the log of the service.

use super::resources::{self, TASK_USES};
use crate::{
    history::{Asked, Work},
    rng::Rng,
};
use rallypoint_client::api::{self, task::Kind};
use std::time::Duration;

/// A random task; `token` names it in the table of witnesses.
///
/// `exact`: the servers know exactly-once tasks.
pub(super) fn asked(token: i64, order: Option<i64>, exact: bool, rng: &mut Rng) -> Asked {
    let work = match rng.below(100) {
        0..=34 => Work::Noop,
        35..=54 if exact => Work::Exact,
        35..=89 => Work::Marked,
        90..=95 => Work::Failing,
        _ => Work::Endless,
    };
    let token = if work == Work::Noop { 0 } else { token };
    let at_most_once = !matches!(work, Work::Noop | Work::Exact) && rng.percent(20);
    let retried = !at_most_once && matches!(work, Work::Failing | Work::Endless) && rng.percent(50);
    Asked {
        token,
        work,
        order,
        at_most_once,
        attempts: if retried { 2 } else { 1 },
        uses: None,
    }
}

/// The same task, with resources if it has a session, which hold them.
pub(super) fn with_resources(asked: Asked, rng: &mut Rng) -> Asked {
    let uses = (asked.work != Work::Noop).then(|| rng.place(TASK_USES.len()));
    Asked { uses, ..asked }
}

/// The same task, or one that does not fail again when it is retried.
pub(super) fn repairable(asked: Asked) -> Asked {
    match asked.work {
        Work::Failing | Work::Endless => Asked {
            work: Work::FailingOnce,
            attempts: 1,
            uses: None,
            ..asked
        },
        _ => asked,
    }
}

/// The task as a message to the service.
pub(super) fn task(asked: &Asked, rng: &mut Rng) -> api::Task {
    let kind = match asked.work {
        Work::Noop => Kind::Noop(api::NoopTask::default()),
        _ => Kind::Sql(api::SqlTask {
            statement: statement(asked, rng),
            ..Default::default()
        }),
    };
    let at_most_once = api::Delivery::AtMostOnce;
    let options = api::TaskOptions {
        timeout: (asked.work == Work::Endless).then(|| duration(150)),
        retry: (!asked.at_most_once).then(|| retry(asked)),
        delivery: match asked.work {
            Work::Exact => api::Delivery::ExactlyOnce.into(),
            _ if asked.at_most_once => at_most_once.into(),
            _ => 0,
        },
        resources: asked.uses.map(resources::of_task).unwrap_or_default(),
        ..Default::default()
    };
    api::Task {
        kind: Some(kind),
        order: asked.order,
        options: Some(options),
    }
}

/// A task that lasts for seconds.
pub(super) fn long(token: i64) -> (Asked, api::Task) {
    let asked = Asked {
        token,
        work: Work::Marked,
        order: None,
        at_most_once: false,
        attempts: 1,
        uses: None,
    };
    let options = api::TaskOptions {
        retry: Some(retry(&asked)),
        ..Default::default()
    };
    let sql = api::SqlTask {
        statement: format!(
            "{}; select pg_sleep(3); {}",
            mark(token, true),
            mark(token, false)
        ),
        ..Default::default()
    };
    let task = api::Task {
        kind: Some(Kind::Sql(sql)),
        options: Some(options),
        ..Default::default()
    };
    (asked, task)
}

/// Each mark is committed at once, so that it stays when the task fails later.
fn mark(token: i64, start: bool) -> String {
    format!("insert into witness (token, start) values ({token}, {start}); commit")
}

fn statement(asked: &Asked, rng: &mut Rng) -> String {
    let (start, end) = (mark(asked.token, true), mark(asked.token, false));
    match asked.work {
        Work::Exact => {
            let mark = |start| {
                format!(
                    "insert into witness (token, start) values ({}, {start})",
                    asked.token
                )
            };
            format!("{}; {}", mark(true), mark(false))
        }
        Work::Failing => format!("{start}; select 1/0"),
        // The retry of one that failed has its token, too.
        Work::FailingOnce => format!(
            "{start}; select 1/(count(*) - 1) from witness where token = {} and start; {end}",
            asked.token
        ),
        // By whichever clock: one that is set ends a sleep.
        Work::Endless => format!("{start}; do 'begin loop perform pg_sleep(60); end loop; end'"),
        Work::Noop | Work::Marked => match rng.below(10) {
            0..=5 => format!("{start}; {end}"),
            6..=8 => format!("{start}; select pg_sleep(0.02); {end}"),
            _ => format!("{start}; select pg_sleep(0.3); {end}"),
        },
    }
}

fn retry(asked: &Asked) -> api::RetryPolicy {
    api::RetryPolicy {
        max_attempts: Some(asked.attempts),
        // Hosts are lost all the time here: no task may be given up for that.
        max_losses: Some(1_000),
        initial_backoff: Some(duration(20)),
        max_backoff: Some(duration(200)),
        ..Default::default()
    }
}

fn duration(ms: i64) -> prost_types::Duration {
    let whole = Duration::from_millis(ms as u64);
    prost_types::Duration {
        seconds: whole.as_secs() as i64,
        nanos: whole.subsec_nanos() as i32,
    }
}
