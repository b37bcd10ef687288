//! The campaign: real servers, a real Postgres, real callers, and a plan of faults that follows
//! from a seed. Afterwards every promise is checked against what was recorded and what the tasks
//! left behind.
//!
//! `make campaign MINUTES=n SEED=s REPLICAS=r`. The same seed makes the same plan. Without MINUTES
//! every kind of fault comes once. A run that checks too little, or a promise never, proves nothing
//! and fails as INVALID, and so does one in which no fault had an effect, or none of a kind that
//! FAULTS names or that came often.

mod check;
mod claims;
mod clock;
mod database;
mod disk;
mod dump;
mod faults;
mod fixture;
mod history;
mod jobs;
mod load;
mod memory;
mod plan;
mod postgres_log;
mod proxy;
mod recorder;
mod report;
mod server;
mod upgrade;

#[path = "../support/http2_abuse.rs"]
mod http2_abuse;
#[path = "../support/process.rs"]
mod process;
#[path = "../sim/rng.rs"]
#[allow(dead_code)]
mod rng;
#[path = "../support/stock_client.rs"]
mod stock_client;

use check::{Facts, Verdict};
use faults::Faults;
use fixture::Fixture;
use history::{Entry, History};
use load::{CONVERSATIONS, Load};
use plan::{Kind, Plan};
use report::Proof;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use stock_client::StockClient;
use tokio::task::JoinSet;
use upgrade::{Programs, Upgrade};

fn from_environment<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().map_or(default, |value| {
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} has a value that makes no sense"))
    })
}

/// The kinds named in FAULTS, all of which must be possible here; or all that are.
fn kinds(replicas: usize) -> Vec<Kind> {
    let named = from_environment("FAULTS", String::new());
    let possible = |kind: &Kind| match kind {
        Kind::DiskFull => nix::unistd::geteuid().is_root(),
        Kind::MemoryLimit => memory::MemoryCgroup::create().is_some(),
        kind if kind.is_among_servers() => replicas > 1,
        kind if kind.is_of_clocks() => clock::faketime().is_some(),
        _ => true,
    };
    let (kinds, impossible): (Vec<Kind>, Vec<Kind>) =
        Kind::named(&named).into_iter().partition(possible);
    assert!(
        named.is_empty() || impossible.is_empty(),
        "FAULTS names {impossible:?}, which is not possible here: DiskFull and MemoryLimit need \
         root and cgroups, faults among servers REPLICAS=2 or more, clocks libfaketime"
    );
    kinds
}

/// A violation is the test's error and not a panic, so that it is the last line of what is printed,
/// which a log that was cut keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_promise_is_kept_whatever_goes_wrong() -> Result<(), String> {
    let (minutes, seed) = (
        from_environment("MINUTES", 0.0_f64),
        from_environment("SEED", 1_u64),
    );
    let replicas = from_environment("REPLICAS", 3_usize);
    let kinds = kinds(replicas);
    let plan = Plan::new(seed, Duration::from_secs_f64(minutes * 60.0), &kinds);
    println!(
        "campaign of {} faults on {replicas} servers, SEED={seed}: {:?}",
        plan.faults.len(),
        plan.by_kind()
    );
    let folder = folder(&format!("campaign-{seed}"));
    let path = folder.join("history.jsonl");
    let history = Arc::new(History::create(&path).expect("a history"));
    println!("history and logs: {}", folder.display());
    let left_out = plan::KINDS.iter().filter(|kind| !kinds.contains(kind));
    println!("left out: {:?}", left_out.collect::<Vec<_>>());
    let clocks = kinds.iter().any(|kind| kind.is_of_clocks());
    let program = Path::new(process::PROGRAM);
    let fixture = Fixture::start(replicas, minutes, clocks, &folder, history.clone(), program);
    let fixture = Arc::new(fixture.await);
    let (_, settled) = run(&fixture, seed, Load::of_one_version, async |load| {
        let faults = Faults {
            fixture: fixture.clone(),
            load: load.clone(),
        };
        faults.carry_out(&plan).await;
    })
    .await;
    history.flush();
    let facts = Facts::gather(history::read(&path).expect("a history"));
    let mut verdict = Verdict::of(&facts);
    verdict.expect("everything ends", settled, || {
        "work is left over after the last fault".into()
    });
    report::report(&fixture, &facts, &verdict);
    let named = match std::env::var("FAULTS") {
        Ok(named) if !named.is_empty() => kinds,
        _ => Vec::new(),
    };
    match report::result(&facts, &verdict, minutes, &named) {
        Proof::Green => Ok(()),
        proof => Err(format!("SEED={seed}, see {}: {proof:?}", folder.display())),
    }
}

/// Has something happen under load and writes the end into the history; says whether all work
/// ended.
async fn run(
    fixture: &Arc<Fixture>,
    seed: u64,
    prepared: impl FnOnce(Load) -> Load,
    happens: impl AsyncFnOnce(&Arc<Load>),
) -> (Arc<Load>, bool) {
    let recording = recorder::start(fixture);
    let urls = fixture.servers.iter().map(server::Server::url);
    let load = prepared(Load::new(urls, fixture.history.clone()));
    let load = Arc::new(load);
    let restarting = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.restart_ended_servers().await }
    });
    load.call_every_server().await;
    let addresses: Vec<String> = fixture
        .servers
        .iter()
        .map(server::Server::address)
        .collect();
    let stock = StockClient::of_each_family(&addresses);
    let mut conversations = JoinSet::new();
    for number in 0..CONVERSATIONS {
        let seed = seed.wrapping_mul(1_000).wrapping_add(number);
        conversations.spawn(load.clone().hold_conversations(seed));
    }
    let claimants = load.claim_resources(fixture, seed).await;
    let keepers = load.keep_jobs(fixture, seed).await;
    happens(&load).await;
    load.go_on_quietly().await;
    load.stop();
    conversations.join_all().await;
    claimants.join_all().await;
    keepers.join_all().await;
    for (answer, count) in stock.into_iter().flat_map(StockClient::stop) {
        fixture.history.write(&Entry::Stock { answer, count });
    }
    let settled = dump::settled(fixture).await;
    load.call_every_server().await;
    dump::dump(fixture).await;
    let count = load.given_up.load(Relaxed);
    fixture.history.write(&Entry::GivenUp { count });
    restarting.abort();
    drop(recording);
    (load, settled)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`make upgrade FROM=commit` builds the programs and runs it"]
async fn two_versions_keep_every_promise_side_by_side() {
    let (minutes, seed) = (
        from_environment("MINUTES", 0.0_f64),
        from_environment("SEED", 1_u64),
    );
    let replicas = from_environment("REPLICAS", 3_usize);
    assert!(
        replicas >= upgrade::LEAST_REPLICAS,
        "REPLICAS={replicas}: an upgrade takes {} servers or more",
        upgrade::LEAST_REPLICAS
    );
    let programs = Programs::from_environment();
    let folder = folder(&format!("upgrade-{seed}"));
    let path = folder.join("history.jsonl");
    let history = Arc::new(History::create(&path).expect("a history"));
    println!("history and logs: {}", folder.display());
    let older = &programs.older;
    let fixture = Fixture::start(replicas, minutes, false, &folder, history.clone(), older);
    let fixture = Arc::new(fixture.await);
    let mut upgrade = Upgrade::new(fixture.clone(), programs, seed);
    let length = Duration::from_secs_f64(minutes * 60.0);
    let (load, settled) = run(
        &fixture,
        seed,
        |load| load,
        async |load| {
            upgrade.back_and_forth(load, length).await;
        },
    )
    .await;
    history.flush();
    let facts = Facts::gather(history::read(&path).expect("a history"));
    let mut verdict = Verdict::of(&facts);
    verdict.expect("everything ends", settled, || "work is left over".into());
    upgrade.judge(&load, &facts, &mut verdict).await;
    upgrade.break_with_older(&mut verdict).await;
    upgrade.report(&facts, &verdict);
    assert!(verdict.violations.is_empty(), "see {}", folder.display());
    assert_eq!(verdict.unchecked(&facts), [""; 0], "never checked");
}

#[test]
#[ignore = "make recheck HISTORY=…/history.jsonl"]
fn a_recorded_history_breaks_no_promise() {
    let path = std::env::var("HISTORY").expect("HISTORY names a history");
    let facts = Facts::gather(history::read(path.as_ref()).expect("a history"));
    let verdict = Verdict::of(&facts);
    report::promises(&verdict);
    report::broken(&verdict);
    println!("operations checked {}", verdict.operations());
    assert!(verdict.violations.is_empty());
}

/// An empty folder for what this run leaves behind.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}
