//! Three replicas under a steady load. The owner is killed repeatedly, and the time to the next
//! event is taken; then each replica is shut down and restarted, and the longest silence is taken.
//! Callers know all three addresses.

use crate::{
    environment::{Environment, Server},
    latency, load,
    report::{Report, median},
};
use anyhow::{Context, Result};
use rallypoint::server::DEFAULT_LEASE;
use rallypoint_client::{
    Client, Scheduler,
    api::{SchedulerSettings, until::Kind},
};
use std::{
    net::TcpListener,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

const REPLICAS: usize = 3;
const CALLERS: u64 = 8;
/// Pause between two calls of a caller, and between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Undisturbed load before the first fault and after each.
const CALM: Duration = Duration::from_secs(2);
/// The longest wait for an owner or an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn run(kills: u64) -> Result<Report> {
    let environment = Environment::new().await?;
    let database = environment.database("bench_takeover").await?;
    let mut replicas = Replicas::start(&environment, &database).await?;
    let client = Client::connect_lazy(&replicas.addresses.join(","))?;
    let load = Load::begin(&client).await?;
    sleep(CALM).await;
    let mut silences = Vec::new();
    for _ in 0..kills {
        let owner = replicas.owner(&client).await?;
        let killed = Instant::now();
        replicas.kill(owner).await?;
        silences.push(load.next_after(killed).await?.as_secs_f64());
        replicas.restart(owner).await?;
        sleep(CALM).await;
    }
    let begun = Instant::now();
    for index in 0..REPLICAS {
        replicas.shut_down(index).await?;
        replicas.restart(index).await?;
        sleep(CALM).await;
    }
    let rolling = load.longest_silence(begun);
    let (figure, lease) = (median(&silences), DEFAULT_LEASE.as_secs_f64());
    let slowest = silences.iter().copied().fold(0.0, f64::max);
    let p90 = latency::at(&silences, 0.9);
    Ok(Report {
        name: "takeover",
        figure,
        unit: "s",
        runs: silences,
        baseline: ("the lease", lease),
        ratio: figure / lease,
        also: vec![
            ("p90_s", p90),
            ("slowest_s", slowest),
            ("rolling_restart_longest_silence_s", rolling.as_secs_f64()),
            ("calls_failed", load.failed.load(Ordering::Relaxed) as f64),
            ("calls", load.calls.load(Ordering::Relaxed) as f64),
        ],
        ran: format!(
            "from kill -9 of the owner of {REPLICAS} replicas to the next AsyncDone, no-op tasks, \
             {CALLERS} callers; then each replica shut down and started again"
        ),
    })
}

/// Servers at fixed addresses.
pub(crate) struct Replicas {
    servers: Vec<Option<Server>>,
    pub addresses: Vec<String>,
    arguments: Vec<Vec<String>>,
}

impl Replicas {
    pub(crate) async fn start(environment: &Environment, database: &str) -> Result<Replicas> {
        let mut replicas = Replicas {
            servers: Vec::new(),
            addresses: Vec::new(),
            arguments: Vec::new(),
        };
        for (index, [listen, peer]) in free_addresses()?.into_iter().enumerate() {
            let name = format!("r{index}");
            let target = format!("app={}", environment.target());
            let at = [
                "serve",
                "--listen",
                &listen,
                "--peer-listen",
                &peer,
                "--replica-name",
                &name,
            ];
            let on = ["--database", database, "--target", &target];
            replicas
                .arguments
                .push(at.iter().chain(&on).map(|text| text.to_string()).collect());
            replicas.addresses.push(format!("http://{listen}"));
            replicas.servers.push(None);
            replicas.restart(index).await?;
        }
        Ok(replicas)
    }

    /// Starts a replica and waits until it answers.
    async fn restart(&mut self, index: usize) -> Result<()> {
        let arguments: Vec<&str> = self.arguments[index].iter().map(String::as_str).collect();
        self.servers[index] = Some(Server::with(&arguments).await?);
        Client::connect(&self.addresses[index])
            .await?
            .status()
            .await?;
        Ok(())
    }

    pub(crate) async fn owner(&self, client: &Client) -> Result<usize> {
        let begun = Instant::now();
        while begun.elapsed() < EVENT_TIMEOUT {
            let status = client.status().await?;
            let owner = status.replicas.iter().find(|row| row.owner);
            if let Some(index) = owner.and_then(|row| row.name.strip_prefix('r')?.parse().ok()) {
                return Ok(index);
            }
            sleep(POLL_INTERVAL).await;
        }
        anyhow::bail!("no replica owns the shard")
    }

    pub(crate) async fn kill(&mut self, index: usize) -> Result<()> {
        self.servers[index].take().context("it runs")?.kill().await
    }

    async fn shut_down(&mut self, index: usize) -> Result<()> {
        self.servers[index]
            .take()
            .context("it runs")?
            .shut_down()
            .await
    }
}

/// Two for each replica. All are taken before any is free again, so none is given twice.
fn free_addresses() -> Result<Vec<[String; 2]>> {
    let free = || TcpListener::bind("127.0.0.1:0");
    let pairs = (0..REPLICAS).map(|_| Ok([free()?, free()?]));
    let pairs: Vec<[TcpListener; 2]> = pairs.collect::<Result<_>>()?;
    let addresses = |[listen, peer]: &[TcpListener; 2]| {
        Ok([
            listen.local_addr()?.to_string(),
            peer.local_addr()?.to_string(),
        ])
    };
    pairs.iter().map(addresses).collect()
}

/// Callers that submit tasks and one that reads the events, all stopped when dropped.
struct Load {
    received: Arc<Mutex<Vec<Instant>>>,
    calls: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Load {
    async fn begin(client: &Client) -> Result<Load> {
        let scheduler = client.open(SchedulerSettings::default()).await?;
        let (received, calls, failed) = (Arc::default(), Arc::default(), Arc::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(scheduler.clone(), Arc::clone(&received)));
        for _ in 0..CALLERS {
            tasks.spawn(submit(
                scheduler.clone(),
                Arc::clone(&calls),
                Arc::clone(&failed),
            ));
        }
        Ok(Load {
            received,
            calls,
            failed,
            _tasks: tasks,
        })
    }

    /// Time from a kill to the first event that was not in flight already.
    async fn next_after(&self, killed: Instant) -> Result<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < EVENT_TIMEOUT {
            let since = killed + Duration::from_millis(200);
            if let Some(first) = self.moments().into_iter().find(|moment| *moment > since) {
                return Ok(first - killed);
            }
            sleep(POLL_INTERVAL).await;
        }
        anyhow::bail!("no event came after the owner was killed")
    }

    fn longest_silence(&self, since: Instant) -> Duration {
        let moments: Vec<Instant> = self
            .moments()
            .into_iter()
            .filter(|moment| *moment > since)
            .collect();
        moments
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or_default()
    }

    fn moments(&self) -> Vec<Instant> {
        self.received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn listen(scheduler: Scheduler, received: Arc<Mutex<Vec<Instant>>>) {
    let until = Some(Kind::Forever(()));
    let Ok(mut stream) = scheduler.synchronize(0, until).await else {
        return;
    };
    while let Ok(Some(_)) = stream.next().await {
        received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Instant::now());
    }
}

async fn submit(scheduler: Scheduler, calls: Arc<AtomicU64>, failed: Arc<AtomicU64>) {
    for number in 0.. {
        calls.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = scheduler.exec(vec![load::task(number)]).await {
            eprintln!("a call failed: {error}");
            failed.fetch_add(1, Ordering::Relaxed);
        }
        sleep(POLL_INTERVAL).await;
    }
}
