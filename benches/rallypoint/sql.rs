//! SQL tasks end to end over gRPC, durable, 100 tasks a call, against the bytes that the executor
//! sends for them on as many connections without any service.

use crate::{
    environment::{Environment, Server},
    load,
    report::{Report, median},
    usage::Usage,
};
use anyhow::{Context, Result, ensure};
use bytes::{Buf, BytesMut};
use futures_util::future::try_join_all;
use postgres_protocol::message::{
    backend::{Message, READY_FOR_QUERY_TAG},
    frontend,
};
use rallypoint::{
    core::SessionReset,
    executor::request,
    postgres::{SUPERUSER, TARGET},
};
use rallypoint_client::api::{self, SchedulerSettings, SqlTask, Task, TaskOptions, task::Kind};
use sqlx::{Connection, PgConnection};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

const PER_CALL: u64 = 100;
const CALLERS: u64 = 16;
pub(crate) const SLOTS: usize = 8;

/// A statement, how many of its rows are kept, and when its session is cleaned.
#[derive(Clone, Copy)]
struct Case {
    statement: &'static str,
    rows: i32,
    reset: SessionReset,
}

const SELECT: &str = "select 1";
const INSERT: &str = "insert into bench_sql (body) values ('one row')";
const ROWS: &str = "select repeat('x', 100) as body from generate_series(1, 100)";

/// Each with what its rate and its ratio are called. The first one is the figure.
const CASES: [(Case, &str, &str); 4] = [
    (Case::task(SELECT, 0), "select_1", "select_1_ratio"),
    (
        Case::task(SELECT, 0).between_schedulers(),
        "select_1_cleaned_between_schedulers",
        "select_1_cleaned_between_schedulers_ratio",
    ),
    (Case::task(INSERT, 0), "insert_a_row", "insert_a_row_ratio"),
    (
        Case::task(ROWS, 100),
        "100_rows_returned",
        "100_rows_returned_ratio",
    ),
];

pub(crate) async fn run(total: u64, runs: usize) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench").await?;
    let target = Target::prepare(&environment).await?;
    let slots = SLOTS.to_string();
    let server = environment
        .server_with(&database, &["--slots", &slots])
        .await?;
    let (mut rates, mut raw_rates) = (vec![Vec::new(); 4], vec![Vec::new(); 4]);
    let (mut spent, mut plain) = (Vec::new(), Vec::new());
    for (case, ..) in CASES {
        case.drive(&server.address, total / 10).await?;
    }
    for _ in 0..runs {
        for (index, (case, ..)) in CASES.into_iter().enumerate() {
            let before = Processor::used(&server, &target).await?;
            let took = case.drive(&server.address, total).await?;
            if index == 0 {
                let used = Processor::used(&server, &target).await? - before;
                spent.push(used.per(total));
            }
            rates[index].push(total as f64 / took.as_secs_f64());
            let took = target.send(&case.bytes()?, total).await?;
            raw_rates[index].push(total as f64 / took.as_secs_f64());
        }
        let took = target
            .send(&simple(&["discard all", SELECT])?, total)
            .await?;
        plain.push(total as f64 / took.as_secs_f64());
    }
    let mut also = Vec::new();
    for (index, (_, rate, ratio)) in CASES.into_iter().enumerate() {
        let (figure, raw) = (median(&rates[index]), median(&raw_rates[index]));
        also.extend([(rate, figure), (ratio, figure / raw)]);
    }
    also.push(("discard_all_and_select_1_alone", median(&plain)));
    let part = |part: fn(&Processor) -> f64| median(&spent.iter().map(part).collect::<Vec<_>>());
    also.push(("server_us_per_task", part(|used| used.server)));
    also.push(("target_us_per_task", part(|used| used.target)));
    also.push(("journal_us_per_task", part(|used| used.journal)));
    let (figure, baseline) = (median(&rates[0]), median(&raw_rates[0]));
    Ok(Report {
        name: "sql",
        figure,
        unit: "tasks/s",
        runs: rates.swap_remove(0),
        baseline: (
            "the same bytes on as many connections, each after the answer to the last, no service",
            baseline,
        ),
        ratio: figure / baseline,
        also,
        ran: format!(
            "{total} tasks of `{SELECT}`, {PER_CALL} a call, {CALLERS} callers, one scheduler, \
             {SLOTS} slots, cleaned between tasks, durable"
        ),
    })
}

impl Case {
    const fn task(statement: &'static str, rows: i32) -> Self {
        Case {
            statement,
            rows,
            reset: SessionReset::Task,
        }
    }

    const fn between_schedulers(self) -> Self {
        Case {
            reset: SessionReset::Scheduler,
            ..self
        }
    }

    async fn drive(&self, address: &str, total: u64) -> Result<Duration> {
        let settings = SchedulerSettings {
            session_reset: match self.reset {
                SessionReset::Task => api::SessionReset::Task,
                SessionReset::Scheduler => api::SessionReset::Scheduler,
            }
            .into(),
            ..SchedulerSettings::default()
        };
        let task = |_| Task {
            kind: Some(Kind::Sql(SqlTask {
                statement: self.statement.to_owned(),
                ..SqlTask::default()
            })),
            options: (self.rows > 0).then(|| TaskOptions {
                result_rows: Some(self.rows),
                ..TaskOptions::default()
            }),
            ..Task::default()
        };
        let calls = load::calls(total, PER_CALL, task);
        load::drive_calls(address, settings, calls, CALLERS).await
    }

    /// What the executor sends for one of these tasks.
    fn bytes(&self) -> Result<BytesMut> {
        request(self.statement, self.reset).context("a request")
    }
}

fn simple(texts: &[&str]) -> Result<BytesMut> {
    let mut bytes = BytesMut::new();
    for text in texts {
        frontend::query(text, &mut bytes)?;
    }
    Ok(bytes)
}

/// The target database, spoken to without any service.
pub(crate) struct Target {
    socket: String,
    /// For looking at the backends.
    admin: sqlx::postgres::PgConnectOptions,
}

impl Target {
    pub(crate) async fn prepare(environment: &Environment) -> Result<Self> {
        let mut owner = environment.connect(&environment.target()).await?;
        sqlx::raw_sql("create table bench_sql (id bigint generated always as identity, body text)")
            .execute(&mut owner)
            .await?;
        Ok(Target {
            socket: environment.socket(),
            admin: environment.options("postgres", SUPERUSER),
        })
    }

    /// Sends these bytes `total` times over as many connections as the service has slots, each time
    /// after the last answer has come; returns how long that took.
    pub(crate) async fn send(&self, bytes: &BytesMut, total: u64) -> Result<Duration> {
        let mut connections = Vec::new();
        for _ in 0..SLOTS {
            connections.push(Raw::open(&self.socket).await?);
        }
        let left = Arc::new(AtomicI64::new(total as i64));
        let start = Instant::now();
        let sending = connections.into_iter().map(|mut connection| {
            let (bytes, left) = (bytes.clone().freeze(), Arc::clone(&left));
            tokio::spawn(async move {
                let answers = requests(&bytes);
                while left.fetch_sub(1, Ordering::Relaxed) > 0 {
                    connection.stream.write_all(&bytes).await?;
                    connection.read(answers).await?;
                }
                anyhow::Ok(())
            })
        });
        for sent in try_join_all(sending).await? {
            sent?;
        }
        Ok(start.elapsed())
    }
}

/// How many answers these messages get: one each, as all of them are simple queries.
fn requests(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while bytes.has_remaining() {
        bytes.advance(1);
        let length = bytes.get_u32() as usize - 4;
        bytes.advance(length);
        count += 1;
    }
    count
}

/// A connection that reads no more of an answer than where it ends.
struct Raw {
    stream: UnixStream,
    arrived: BytesMut,
}

impl Raw {
    async fn open(socket: &str) -> Result<Self> {
        let mut raw = Raw {
            stream: UnixStream::connect(socket).await?,
            arrived: BytesMut::new(),
        };
        let mut startup = BytesMut::new();
        let who = [
            ("user", TARGET),
            ("database", TARGET),
            ("client_encoding", "UTF8"),
        ];
        frontend::startup_message(who, &mut startup)?;
        raw.stream.write_all(&startup).await?;
        raw.read(1).await?;
        Ok(raw)
    }

    /// Reads so many answers.
    async fn read(&mut self, mut answers: usize) -> Result<()> {
        while answers > 0 {
            let whole = self.arrived.len() > 4 && {
                let length = u32::from_be_bytes(self.arrived[1..5].try_into()?) as usize;
                self.arrived.len() > length
            };
            if !whole {
                self.arrived.reserve(8 << 10);
                let read = self.stream.read_buf(&mut self.arrived).await?;
                ensure!(read > 0, "the server has ended the connection");
                continue;
            }
            let tag = self.arrived[0];
            let message = Message::parse(&mut self.arrived)?;
            ensure!(
                !matches!(message, Some(Message::ErrorResponse(_))),
                "the server reports an error"
            );
            answers -= usize::from(tag == READY_FOR_QUERY_TAG);
        }
        Ok(())
    }
}

/// Processor time by part.
#[derive(Clone, Copy, Debug, Default)]
struct Processor {
    server: f64,
    target: f64,
    journal: f64,
}

impl Processor {
    /// What the server, its sessions on the target and its journal have used, in seconds.
    async fn used(server: &Server, target: &Target) -> Result<Self> {
        let mut admin = PgConnection::connect_with(&target.admin).await?;
        let query = "select pid, usename = 'app' as is_target
            from pg_stat_activity
            where usename in ('app', 'rallypoint')";
        let backends: Vec<(i32, bool)> = sqlx::query_as(query).fetch_all(&mut admin).await?;
        let mut used = Processor {
            server: server.usage()?.processor,
            ..Processor::default()
        };
        for (pid, is_target) in backends {
            let part = match is_target {
                true => &mut used.target,
                false => &mut used.journal,
            };
            *part += Usage::of(pid as u32)?.processor;
        }
        Ok(used)
    }

    /// Microseconds a task.
    fn per(self, tasks: u64) -> Self {
        let us = |seconds: f64| seconds * 1e6 / tasks as f64;
        Processor {
            server: us(self.server),
            target: us(self.target),
            journal: us(self.journal),
        }
    }
}

impl std::ops::Sub for Processor {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Processor {
            server: self.server - before.server,
            target: self.target - before.target,
            journal: self.journal - before.journal,
        }
    }
}
