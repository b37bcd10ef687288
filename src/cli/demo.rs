//! `demo`: the whole service on this machine in ten seconds.
//!
//! It starts a server in this process on a private Postgres, talks to it over gRPC as any caller
//! would, and judges the run by the execution log. It leaves nothing behind.

mod tasks;
mod verdict;

use super::{
    connect::Server,
    error::CliError,
    exit::Exit,
    health,
    output::{self, BOLD, DIM},
    progress::Bars,
    signals::Signals,
    submit_calls::submit,
};
use crate::{
    core::model::limits::Limits,
    server::{Config, DEFAULT_LEASE, DEFAULT_SESSION_IDLE, DEFAULT_SHUTDOWN_GRACE, serve},
};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use rallypoint_client::{
    DoneStream, Error,
    api::{ListTasksRequest, Outcome, ReleaseMode, SchedulerSettings},
};
use std::{net::Ipv4Addr, ops::ControlFlow, path::PathBuf, process::ExitCode, time::Duration};
use tasks::Sleep;
use tokio::{net::TcpListener, task::JoinHandle, time};
use tokio_util::sync::CancellationToken;
use verdict::Verdict;

/// How long the server may take to start.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Arguments of `demo`.
#[derive(Args, Debug)]
pub(super) struct Demo {
    /// Factor on the times of the tasks; 1 takes 41.5 s
    #[arg(
        long,
        env = "SCALE",
        hide_env_values = true,
        default_value_t = 0.1,
        value_parser = scale,
        value_name = "FACTOR"
    )]
    scale: f64,
}

impl Demo {
    /// Runs the tasks and judges the run.
    pub(super) async fn run(self) -> Result<ExitCode, CliError> {
        let mut signals = Signals::with_hangups()?;
        let host = tokio::select! {
            host = Host::start() => host?,
            exit = signals.next() => return Err(interrupted(exit)),
        };
        let judged = tokio::select! {
            judged = self.series(&host.server) => judged,
            exit = signals.next() => Err(interrupted(exit)),
        };
        tokio::select! {
            stopped = host.stop() => stopped?,
            exit = signals.next() => exit.now(),
        }
        let verdict = judged?;
        if output::is_json() {
            output::verbatim(verdict.to_json().to_string());
        } else {
            verdict.print();
            hints();
        }
        Ok(if verdict.good() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    async fn series(&self, server: &Server) -> Result<Verdict, CliError> {
        let tasks = tasks::tasks(self.scale);
        let settings = SchedulerSettings {
            display_name: "demo".to_owned(),
            ..SchedulerSettings::default()
        };
        let scheduler = server
            .client()
            .await?
            .open(settings)
            .await
            .map_err(broken)?;
        output::note(format!(
            "Ten tasks in five orders, all submitted at once (scheduler {}):",
            scheduler.handle()
        ));
        let all = tasks.iter().map(Sleep::task).collect();
        submit(&scheduler, all, output::note, |_| ControlFlow::Continue(())).await?;
        let mut bars = Bars::new(tasks.iter().map(|task| Some(task.order)));
        let events = scheduler.synchronize(0, None).await.map_err(broken)?;
        watch(events, &mut bars).await.map_err(broken)?;
        scheduler
            .release(ReleaseMode::Finish, true)
            .await
            .map_err(broken)?;
        bars.finish("");
        let log = super::tasks::read(&scheduler, ListTasksRequest::default(), tasks.len()).await?;
        Ok(Verdict::new(log.tasks, tasks::expected(&tasks)))
    }
}

fn interrupted(exit: Exit) -> CliError {
    CliError::interrupted("the demo was interrupted", exit)
}

fn broken(error: Error) -> CliError {
    CliError::call("the demo was interrupted", &error)
}

/// Counts the tasks as they end.
async fn watch(mut events: DoneStream, bars: &mut Bars) -> Result<(), Error> {
    while let Some(ended) = events.next().await? {
        for done in &ended {
            let is_good = done.outcome() == Outcome::Succeeded;
            bars.done(done.effective_order, is_good, done.attempt > 0);
        }
    }
    Ok(())
}

/// A server in this process, and the data directory of its private Postgres.
struct Host {
    server: Server,
    folder: PathBuf,
    stop: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
}

impl Host {
    async fn start() -> Result<Host, CliError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(anyhow::Error::from)?;
        let listen = listener.local_addr().map_err(anyhow::Error::from)?;
        let folder = std::env::temp_dir().join(format!("rallypoint-demo-{}", std::process::id()));
        let stop = CancellationToken::new();
        let config = Config {
            listen,
            database: None,
            data_dir: Some(folder.clone()),
            targets: Vec::new(),
            config_file: None,
            slots: 8,
            noop_slots: 64,
            retention_days: 30,
            body_bytes: 192 << 20,
            replica_name: "demo".to_owned(),
            peer: None,
            tls: None,
            authenticator: None,
            lease: DEFAULT_LEASE,
            shutdown_grace: DEFAULT_SHUTDOWN_GRACE,
            session_idle: DEFAULT_SESSION_IDLE,
            trusted_namespace_metadata: false,
            http_hosts: Vec::new(),
            limits: Limits::default(),
            admin: None,
            traces: None,
            allow_unsafe_database: false,
        };
        let running = tokio::spawn(serve(
            config,
            listener,
            stop.clone().cancelled_owned(),
            |_| {},
        ));
        let mut host = Host {
            server: Server::at(listen),
            folder,
            stop,
            running,
        };
        match host.ready().await {
            Ok(()) => Ok(host),
            Err(error) => {
                host.stop().await.ok();
                Err(error)
            }
        }
    }

    /// Waits until the server serves. Fails when it ends before that.
    async fn ready(&mut self) -> Result<(), CliError> {
        let spinner =
            ProgressBar::new_spinner().with_message("starting a private Postgres and a server …");
        spinner.set_style(ProgressStyle::default_spinner());
        spinner.enable_steady_tick(Duration::from_millis(80));
        let ready = async {
            while !matches!(health::serving(&self.server, String::new()).await, Ok(true)) {
                time::sleep(Duration::from_millis(20)).await;
            }
        };
        let outcome = tokio::select! {
            ended = &mut self.running => {
                let ended = ended.map_err(anyhow::Error::from).flatten();
                Err(ended.map_or_else(CliError::from, |()| {
                    CliError::new("the server ended before it was ready")
                }))
            }
            waited = time::timeout(READY_TIMEOUT, ready) => waited.map_err(|_| {
                CliError::new("the server was not ready after a minute")
                    .next("try `rallypoint serve` and read its log")
            }),
        };
        spinner.finish_and_clear();
        outcome
    }

    /// Stops the server and removes its data.
    async fn stop(self) -> Result<(), CliError> {
        self.stop.cancel();
        let ended = if self.running.is_finished() {
            Ok(Ok(()))
        } else {
            self.running.await
        };
        std::fs::remove_dir_all(&self.folder).ok();
        Ok(ended.map_err(anyhow::Error::from).flatten()?)
    }
}

/// What to try next, as commands that work from the present directory.
fn hints() {
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "rallypoint".to_owned());
    let hints = [
        (
            "a server that keeps its private Postgres between runs",
            "serve &",
        ),
        (
            "statements in parallel on that server, with an event as each is done",
            "exec 'select 1' 'select pg_sleep(2)'",
        ),
        ("the same tasks at full length: 41.5 s", "demo --scale 1"),
    ];
    output::line("");
    output::styled("Try next", BOLD);
    for (what, arguments) in hints {
        output::line(format!("  {program} {arguments}"));
        output::styled(format!("    {what}"), DIM);
    }
}

fn scale(text: &str) -> Result<f64, String> {
    let scale = text
        .parse()
        .ok()
        .filter(|scale: &f64| *scale >= 0.001 && *scale <= 100.0);
    scale.ok_or_else(|| "the scale is a number from 0.001 to 100".to_owned())
}
