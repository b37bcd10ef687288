//! A thousand transfers between two rows while whatever takes part is cut off at random: each is
//! done once, and each is reported as done.
//!
//! The moments follow from SEED (default: a fixed one); CUTS is their number (default: 10).

use crate::{
    harness::{
        cluster::Cluster,
        conversation::WAIT_TIMEOUT,
        postgres::{connect, durable, prepare_target, value},
        work::{Work, sql},
    },
    rng::Rng,
};
use rallypoint::postgres::{PrivatePostgres, SUPERUSER, TARGET};
use rallypoint_client::api::{Outcome, SchedulerSettings};
use sqlx::postgres::PgConnectOptions;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream, UnixStream},
    time::{sleep, timeout},
};

const TRANSFERS: i64 = 1000;
const CALL: i64 = 100;
const REPLICAS: usize = 3;
/// The end of the answer to a COMMIT, as the protocol has it.
const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";

#[tokio::test]
async fn each_of_a_thousand_transfers_is_done_once_whatever_is_cut_off() {
    let home = durable(Vec::new());
    let cutter = Cutter::before(&home).await;
    transfer(
        Cluster::on(home, REPLICAS, &cutter.target()).await,
        None,
        cutter,
    )
    .await;
}

#[tokio::test]
async fn so_they_are_on_a_second_postgres() {
    let far = durable(Vec::new());
    let cutter = Cutter::before(&far).await;
    let cluster = Cluster::on(durable(Vec::new()), REPLICAS, &cutter.target()).await;
    transfer(cluster, Some(far), cutter).await;
}

async fn transfer(mut cluster: Cluster, far: Option<PrivatePostgres>, cutter: Cutter) {
    let options = accounts(far.as_ref().unwrap_or(&cluster.postgres)).await;
    let client = cluster.client_of_all();
    let conversation = cluster.open(&client, SchedulerSettings::default()).await;
    for first in (1..=TRANSFERS).step_by(CALL as usize) {
        conversation.submit((first..first + CALL).map(one)).await;
    }
    let mut rng = Rng::new(number("SEED", 7));
    let cuts = number("CUTS", 10);
    let mut done = vec![0; 6];
    for cut in 0..cuts {
        let due = TRANSFERS * (cut as i64) / cuts as i64;
        conversation.until(|now| now.done >= due).await;
        sleep(rng.up_to(Duration::from_millis(50))).await;
        let kind = rng.place(done.len());
        done[kind] += 1;
        match kind {
            0 => replace(&mut cluster, None).await,
            1 => replace(&mut cluster, Some(rng.place(REPLICAS))).await,
            2 => end_sessions(&options).await,
            3 => crash(far.as_ref().unwrap_or(&cluster.postgres)),
            _ => cutter.cut_behind_a_commit().await,
        }
    }
    let cut = cutter.shared.cut.load(Ordering::Relaxed);
    println!("cuts by kind: {done:?}, answers cut off behind a commit: {cut}");
    let ends = conversation.all_done().await;
    assert_eq!(ends.len() as i64, TRANSFERS);
    let mut ends = ends.iter();
    let failed = ends.find(|done| done.outcome() != Outcome::Succeeded);
    assert!(failed.is_none(), "{failed:?}");
    let mut session = connect(&options).await;
    let ledger = "select count(*) || ' ' || count(distinct transfer) from ledger";
    assert_eq!(value(&mut session, ledger).await, "1000 1000");
    let balances = "select string_agg(balance::text, ' ' order by id) from account";
    assert_eq!(value(&mut session, balances).await, "0 1000");
}

/// Makes the tables and returns how an administrator reaches them.
async fn accounts(target: &PrivatePostgres) -> PgConnectOptions {
    prepare_target(target, TARGET, &[TARGET]);
    let options = target.options_for(TARGET, SUPERUSER);
    let accounts = "create table public.account (id int primary key, balance int not null);
        insert into account values (1, 1000), (2, 0);
        create table public.ledger (transfer int not null);
        grant all on account, ledger to app; grant usage on schema public to app";
    let mut session = connect(&options).await;
    let made = sqlx::raw_sql(accounts).execute(&mut session);
    made.await.expect("tables");
    options
}

async fn end_sessions(options: &PgConnectOptions) {
    let query = "select count(pg_terminate_backend(pid))::text
        from pg_stat_activity
        where usename = 'app'";
    value(&mut connect(options).await, query).await;
}

fn crash(target: &PrivatePostgres) {
    target.immediate_stop();
    target.restart().expect("it starts again");
}

/// A transfer, as several statements or as one with a parameter.
fn one(number: i64) -> Work {
    let work = match number % 2 {
        0 => sql(format!(
            "update account set balance = balance - 1 where id = 1;
            update account set balance = balance + 1 where id = 2;
            insert into ledger values ({number})"
        )),
        // Locked in the same sequence, or some would deadlock.
        _ => sql(
            "with both_rows as (select id from account order by id for update),
            moved as (
                update account a set balance = balance + case a.id when 1 then -1 else 1 end
                from both_rows b where b.id = a.id
            )
            insert into ledger values ($1)",
        )
        .params(&[&number.to_string()]),
    };
    work.on("far").exactly_once().losses(1000)
}

/// Kills a replica, or the owner, and starts it again.
async fn replace(cluster: &mut Cluster, index: Option<usize>) {
    let index = match index {
        Some(index) => index,
        None => cluster.owner().await,
    };
    cluster.kill_9(index);
    cluster.restart(index);
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A way to a Postgres that can break between a commit and its answer.
struct Cutter {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    socket: PathBuf,
    /// The next answer to a COMMIT is cut off.
    armed: AtomicBool,
    cut: AtomicU32,
}

impl Cutter {
    async fn before(postgres: &PrivatePostgres) -> Cutter {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            socket: postgres.socket_dir().join(".s.PGSQL.5432"),
            ..Shared::default()
        });
        let passes = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass(near, Arc::clone(&passes)));
            }
        });
        Cutter { port, shared }
    }

    /// The option of `serve` for the target behind it.
    fn target(&self) -> [&'static str; 2] {
        let url = format!(
            "far:4=postgres://{TARGET}@127.0.0.1:{}/{TARGET}?sslmode=disable",
            self.port
        );
        ["--target", url.leak()]
    }

    /// Waits until an answer to a COMMIT has been cut off.
    async fn cut_behind_a_commit(&self) {
        let before = self.shared.cut.load(Ordering::Relaxed);
        self.shared.armed.store(true, Ordering::Release);
        let wait = async {
            while self.shared.cut.load(Ordering::Relaxed) == before {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(WAIT_TIMEOUT, wait).await.expect("a commit in time");
    }
}

async fn pass(near: TcpStream, shared: Arc<Shared>) {
    let Ok(far) = UnixStream::connect(&shared.socket).await else {
        return;
    };
    let ((mut from_near, mut to_near), (mut from_far, mut to_far)) =
        (near.into_split(), far.into_split());
    let up = async {
        copy(&mut from_near, &mut to_far).await.ok();
    };
    let down = async {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from_far.read(&mut bytes).await {
            let piece = &bytes[..count];
            let commits = piece.windows(COMMITTED.len()).any(|part| part == COMMITTED);
            if commits && shared.armed.swap(false, Ordering::AcqRel) {
                shared.cut.fetch_add(1, Ordering::Relaxed);
                return;
            }
            if to_near.write_all(piece).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}
