//! Locks taken and given back, durable, and how long a hand-over takes: against etcd's own lock in
//! the same run, and a loop of `select … for update`. One pair alone against two commits of one
//! row and two gRPC round trips. And the same beside many who wait, and many names that are held.

mod etcd;
mod load;

use crate::{
    environment::{Environment, Server},
    latency::{self, Commits},
    null_server,
    report::{Report, median},
};
use anyhow::{Context, Result};
use etcd::{Etcd, EtcdLocks};
use load::{Caller, Done};
use rallypoint_client::{
    Client,
    api::{
        CreateResourceRequest, ResourceSettings, TryAcquireRequest,
        resource_service_client::ResourceServiceClient,
    },
};
use sqlx::Executor;
use std::{collections::BTreeMap, time::Duration};
use tokio::task::JoinSet;
use tonic::transport::Channel;

/// Each system works for so long, then the next.
const TURN: Duration = Duration::from_secs(2);
/// How many callers there are, and whether all want the same name.
const LOADS: [(&str, usize, bool); 4] = [
    ("1_caller", 1, false),
    ("64_callers", 64, false),
    ("64_callers_one_name", 64, true),
    ("1000_callers", 1_000, false),
];
/// Connections that callers share: fewer wait for each other behind one.
const CHANNELS: usize = 8;
/// Callers of Postgres have a connection each.
const MOST_CONNECTIONS: usize = 64;
const ALONE: u64 = 500;
/// Resources of one claim.
const NAMES_OF_CLAIM: usize = 16;
/// Of claims that are there meanwhile, in seconds.
const LEASE_S: i64 = 3_600;

/// The systems under load.
struct Systems {
    environment: Environment,
    database: String,
    service: Server,
    client: Client,
    channels: Vec<Channel>,
    etcd: Option<(Etcd, Vec<Channel>)>,
}

/// Every figure of every turn by its name.
type Figures = BTreeMap<String, Vec<f64>>;

pub(crate) async fn run(most: u64, runs: usize) -> Result<Report> {
    let systems = Systems::start().await?;
    let mut figures = Figures::new();
    for _ in 0..runs {
        for (name, callers, one_name) in LOADS {
            for system in ["rallypoint", "etcd", "postgres"] {
                let mut callers = systems.callers(system, callers).await?;
                if !callers.is_empty() {
                    let done = load::run(&mut callers, one_name, TURN).await?;
                    note(&mut figures, &format!("{system}_{name}"), &done, one_name);
                }
            }
        }
        systems.alone(&mut figures).await?;
    }
    systems.crowded(&mut figures, most).await?;
    Ok(report(figures, most))
}

fn note(figures: &mut Figures, name: &str, done: &Done, one_name: bool) {
    let mut add = |name: String, figure| figures.entry(name).or_default().push(figure);
    add(format!("{name}_pairs_s"), done.rate);
    if one_name {
        for (of, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let at = latency::at(&done.hand_overs, quantile);
            add(format!("{name}_hand_over_{of}_us"), at);
        }
    }
}

fn report(figures: Figures, most: u64) -> Report {
    let medians: BTreeMap<String, f64> = figures
        .iter()
        .map(|(name, runs)| (name.clone(), median(runs)))
        .collect();
    let of = |name: &str| medians.get(name).copied().unwrap_or_default();
    let (ours, theirs) = ("rallypoint_64_callers_pairs_s", "etcd_64_callers_pairs_s");
    let mut also: Vec<(&'static str, f64)> = medians
        .iter()
        .map(|(name, figure)| (&*name.clone().leak(), *figure))
        .collect();
    let least = 2.0 * of("single_row_commit_us") + 2.0 * of("grpc_round_trip_us");
    also.push(("one_pair_ratio", of("one_pair_us") / least));
    let one_name = of("rallypoint_64_callers_one_name_pairs_s")
        / of("etcd_64_callers_one_name_pairs_s").max(f64::MIN_POSITIVE);
    also.push(("one_name_ratio", one_name));
    Report {
        name: "locks",
        figure: of(ours),
        unit: "locks taken and given back/s",
        runs: figures.get(ours).cloned().unwrap_or_default(),
        baseline: ("64 callers with a name each of etcd's own lock", of(theirs)),
        ratio: of(ours) / of(theirs).max(f64::MIN_POSITIVE),
        also,
        ran: format!(
            "64 callers, each a name of its own or all the same; systems in turns of {} s; {} who \
             wait, {most} names held",
            TURN.as_secs(),
            most / 10
        ),
    }
}

impl Systems {
    async fn start() -> Result<Systems> {
        let environment = Environment::new().await?;
        let database = environment.database("bench").await?;
        let service = environment.server(&database).await?;
        let client = Client::connect(&service.address).await?;
        for name in ["bench/*", "queue", "key/*"] {
            let settings = ResourceSettings {
                capacity: 1,
                ..ResourceSettings::default()
            };
            let request = CreateResourceRequest {
                name: name.into(),
                settings: Some(settings),
            };
            client.create_resource(request).await?;
        }
        let mut channels = Vec::new();
        for _ in 0..CHANNELS {
            channels.push(null_server::channel(&service.address).await?);
        }
        let etcd = match Etcd::start().await? {
            Some(etcd) => {
                let channels: Result<Vec<_>> = (0..CHANNELS).map(|_| etcd.channel()).collect();
                Some((etcd, channels?))
            }
            None => None,
        };
        let mut connection = environment.connect(&environment.target()).await?;
        let table = "create table bench_lock as
            select 'bench/' || n as name from generate_series(0, 99) n
            union all select 'bench/one'";
        connection.execute(table).await?;
        connection
            .execute("alter table bench_lock add primary key (name)")
            .await?;
        Ok(Systems {
            environment,
            database,
            service,
            client,
            channels,
            etcd,
        })
    }

    /// So many callers of a system; none: it does not take part.
    async fn callers(&self, system: &str, count: usize) -> Result<Vec<Caller>> {
        let mut callers = Vec::with_capacity(count);
        for number in 0..count {
            let at = number % CHANNELS;
            callers.push(match (system, &self.etcd) {
                ("rallypoint", _) => Caller::Service(self.client.clone()),
                ("etcd", Some((_, channels))) => {
                    Caller::Etcd(EtcdLocks::open(&channels[at]).await?)
                }
                ("postgres", _) if count <= MOST_CONNECTIONS => {
                    let target = self.environment.target();
                    Caller::Postgres(self.environment.connect(&target).await?)
                }
                _ => return Ok(Vec::new()),
            });
        }
        Ok(callers)
    }

    /// One pair after the other, and what it is made of.
    async fn alone(&self, figures: &mut Figures) -> Result<()> {
        let null_server = Server::null().await?;
        let mut calls = null_server::Caller::connect(&null_server.address).await?;
        let mut commits = Commits::open(&self.environment, &self.database).await?;
        let mut callers = self.callers("rallypoint", 1).await?;
        let pairs = load::run(&mut callers, false, TURN).await?.pairs;
        for (name, latencies) in [
            ("one_pair_us", pairs),
            ("single_row_commit_us", commits.make(ALONE).await?),
            ("grpc_round_trip_us", calls.make(ALONE).await?),
        ] {
            let p50 = latency::at(&latencies, 0.5);
            figures.entry(name.to_owned()).or_default().push(p50);
        }
        Ok(())
    }

    /// The same while many wait for one resource, and while many names of a pattern are held.
    async fn crowded(&self, figures: &mut Figures, most: u64) -> Result<()> {
        for (what, name, most) in [
            ("waiting", "queue", most / 10),
            ("names_held", "key/", most),
        ] {
            self.fill(name, most).await?;
            for (load, one_name) in [("64_callers", false), ("64_callers_one_name", true)] {
                let mut callers = self.callers("rallypoint", 64).await?;
                let done = load::run(&mut callers, one_name, TURN).await?;
                let name = format!("with_{what}_{load}");
                note(figures, &name, &done, one_name);
            }
        }
        let memory = self.service.usage()?.mib();
        figures.insert("memory_mib".to_owned(), vec![memory]);
        Ok(())
    }

    /// Has so many claims wait for a resource, or hold as many names.
    async fn fill(&self, name: &str, count: u64) -> Result<()> {
        let mut filling = JoinSet::new();
        for part in 0..64 {
            let channel = self.channels[part as usize % CHANNELS].clone();
            let client = ResourceServiceClient::new(channel);
            match name.ends_with('/') {
                true => filling.spawn(hold_names(client, name.to_owned(), part, count)),
                false => filling.spawn(wait_often(client, name.to_owned(), part, count)),
            };
        }
        while let Some(filled) = filling.join_next().await {
            filled??;
        }
        Ok(())
    }
}

/// One of 64 shares of claims that wait for one resource. A stream for each: that takes longest.
async fn wait_often(
    mut client: ResourceServiceClient<Channel>,
    name: String,
    part: u64,
    count: u64,
) -> Result<()> {
    for _ in (part..count).step_by(64) {
        let asked = client.acquire(load::request(&name, LEASE_S)).await?;
        // The claim outlives its stream.
        let mut claims = asked.into_inner();
        claims.message().await?.context("the stream has ended")?;
    }
    Ok(())
}

/// One of 64 shares of names of a pattern that are held, as many by one claim as it may name.
async fn hold_names(
    mut client: ResourceServiceClient<Channel>,
    pattern: String,
    part: u64,
    count: u64,
) -> Result<()> {
    let names: Vec<u64> = (part..count).step_by(64).collect();
    for names in names.chunks(NAMES_OF_CLAIM) {
        let uses = names.iter().flat_map(|number| {
            let request = load::request(&format!("{pattern}{number}"), LEASE_S);
            request.resources
        });
        let request = TryAcquireRequest {
            resources: uses.collect(),
            lease: load::request(&pattern, LEASE_S).lease,
            ..TryAcquireRequest::default()
        };
        let held = client.try_acquire(request).await?.into_inner();
        held.claim.context("a name is held by somebody else")?;
    }
    Ok(())
}
