//! What jobs cost that are not due: three servers side by side in which nobody does anything, one
//! without jobs, one with many due times a year ahead, and one with jobs that fire once a day.

use crate::{
    environment::{Environment, Server},
    jobs,
    report::{Report, median},
};
use anyhow::{Result, ensure};
use jiff::{Span, Timestamp, ToSpan, tz::TimeZone};
use rallypoint_client::{
    Client,
    api::{JobSettings, Schedule, schedule::Rule},
};
use sqlx::PgConnection;
use std::time::Duration;
use tokio::time::sleep;

/// Due times a year ahead that one job stands for.
const DUE_TIMES: i64 = 100;
const DAY_S: i64 = 86_400;
/// Until the servers are quiet after the jobs were made, and what they have done is counted.
const SETTLE: Duration = Duration::from_secs(15);

/// What one server has done so far, or within a while.
#[derive(Clone, Copy, Debug)]
struct Done {
    transactions: f64,
    rows: f64,
    processor: f64,
    firings: f64,
}

/// A server on a database of its own.
struct Side {
    server: Server,
    name: String,
    url: String,
}

/// A while of `seconds`, so often; `count` jobs of either kind.
pub(crate) async fn run(count: u64, seconds: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let sides = [
        side(&environment, "bench_nothing").await?,
        side(&environment, "bench_year_ahead").await?,
        side(&environment, "bench_daily").await?,
    ];
    let next_year = settings_a_year_ahead();
    jobs::create(&client(&sides[1])?, count, |_| next_year.clone()).await?;
    // Spread over the day, so that some of them fire meanwhile.
    let daily = |number: u64| {
        let phase = number as i64 * DAY_S / count.max(1) as i64;
        jobs::settings(DAY_S, phase)
    };
    jobs::create(&client(&sides[2])?, count, daily).await?;
    let away = environment.database("bench_counting").await?;
    let mut counting = environment.connect(&away).await?;
    sleep(SETTLE).await;
    let mut rounds = Vec::new();
    for _ in 0..runs {
        let before = counted(&environment, &mut counting, &sides).await?;
        sleep(Duration::from_secs(seconds)).await;
        let after = counted(&environment, &mut counting, &sides).await?;
        rounds.push([0, 1, 2].map(|at| after[at].since(&before[at])));
    }
    ensure!(
        rounds.iter().all(|round| round[0].transactions > 0.0),
        "a server that does nothing has a heartbeat"
    );
    ensure!(
        rounds.iter().all(|round| round[1].firings == 0.0),
        "a job fired that is due in a year"
    );
    ensure!(
        rounds.iter().all(|round| round[2].firings > 0.0),
        "no job was due in {seconds} s: {count} jobs are too few for that"
    );
    Ok(report(&rounds, (count, seconds)))
}

fn report(rounds: &[[Done; 3]], (count, seconds): (u64, u64)) -> Report {
    let of = |value: &dyn Fn(&[Done; 3]) -> f64| {
        let values: Vec<f64> = rounds.iter().map(value).collect();
        median(&values)
    };
    let a_second = |value: f64| value / seconds as f64;
    let ratio = |at: usize, value: fn(&Done) -> f64| {
        of(&|round: &[Done; 3]| value(&round[at]) / value(&round[0]).max(f64::MIN_POSITIVE))
    };
    let transactions = |done: &Done| done.transactions;
    let rates = rounds.iter().map(|round| a_second(round[1].transactions));
    let firings = of(&|round| round[2].firings);
    let a_firing = |value: fn(&Done) -> f64| {
        of(&|round: &[Done; 3]| (value(&round[2]) - value(&round[0])) / round[2].firings.max(1.0))
    };
    Report {
        name: "idle-jobs",
        figure: of(&|round| a_second(round[1].transactions)),
        unit: "transactions/s",
        runs: rates.collect(),
        baseline: (
            "a server without jobs",
            of(&|round| a_second(round[0].transactions)),
        ),
        ratio: ratio(1, transactions),
        also: vec![
            ("rows_ratio", ratio(1, |done| done.rows)),
            ("processor_ratio", ratio(1, |done| done.processor)),
            ("idle_rows_a_second", of(&|round| a_second(round[0].rows))),
            (
                "idle_processor_ms_a_second",
                of(&|round| 1e3 * a_second(round[0].processor)),
            ),
            ("daily_transactions_ratio", ratio(2, transactions)),
            ("daily_processor_ratio", ratio(2, |done| done.processor)),
            ("daily_firings", firings),
            ("transactions_a_firing", a_firing(transactions)),
            ("rows_a_firing", a_firing(|done| done.rows)),
        ],
        ran: format!(
            "{count} jobs with {DUE_TIMES} due times each a year ahead, and {count} that fire once \
             a day, beside a server without jobs, for {seconds} s; transactions and rows written \
             of their databases, processor time of the servers"
        ),
    }
}

async fn side(environment: &Environment, name: &str) -> Result<Side> {
    let url = environment.database(name).await?;
    Ok(Side {
        server: environment.server(&url).await?,
        name: name.to_owned(),
        url,
    })
}

fn client(side: &Side) -> Result<Client> {
    Ok(Client::connect_lazy(&side.server.address)?)
}

/// Due often on one day in a year, and then never again.
fn settings_a_year_ahead() -> JobSettings {
    let date = |after: Span| {
        let now = Timestamp::now().to_zoned(TimeZone::UTC);
        let at = now.checked_add(after);
        at.map_or_else(|_| String::new(), |at| at.date().to_string())
    };
    let settings = jobs::settings(DAY_S / DUE_TIMES, 0);
    let rule: Option<Rule> = settings.schedule.and_then(|schedule| schedule.rule);
    JobSettings {
        schedule: Some(Schedule {
            rule,
            start: date(365.days()),
            end: date(366.days()),
            ..Schedule::default()
        }),
        ..settings
    }
}

async fn counted(
    environment: &Environment,
    counting: &mut PgConnection,
    sides: &[Side; 3],
) -> Result<[Done; 3]> {
    let mut all = Vec::new();
    for side in sides {
        all.push(side.done(environment, counting).await?);
    }
    Ok([all[0], all[1], all[2]])
}

impl Side {
    async fn done(&self, environment: &Environment, counting: &mut PgConnection) -> Result<Done> {
        let (transactions, rows): (i64, i64) = sqlx::query_as(
            "select xact_commit + xact_rollback, tup_inserted + tup_updated + tup_deleted
             from pg_stat_database
             where datname = $1",
        )
        .bind(&self.name)
        .fetch_one(counting)
        .await?;
        // Two transactions in a while, alike on all sides.
        let mut journal = environment.connect(&self.url).await?;
        let fired = "select count(*) from job_run where attempt > 0";
        let firings: i64 = sqlx::query_scalar(fired).fetch_one(&mut journal).await?;
        Ok(Done {
            transactions: transactions as f64,
            rows: rows as f64,
            processor: self.server.usage()?.processor,
            firings: firings as f64,
        })
    }
}

impl Done {
    fn since(&self, before: &Done) -> Done {
        Done {
            transactions: self.transactions - before.transactions,
            rows: self.rows - before.rows,
            processor: self.processor - before.processor,
            firings: self.firings - before.firings,
        }
    }
}
