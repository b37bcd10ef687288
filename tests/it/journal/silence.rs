//! A connection that has gone silent, as behind a network that swallows everything, holds nobody up
//! for longer than the duty of the connection allows.

use super::{Owned, config, make::*, replica, take_over};
use crate::harness::{
    postgres::POSTGRES,
    proxy::{Proxy, Upstream},
};
use rallypoint::{core::*, journal::*};
use sqlx::{Executor, postgres::PgConnectOptions};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// More than the duty of any connection allows here, and far less than the kernel would wait.
const SOON: Duration = Duration::from_secs(60);

/// A journal behind a proxy that can go silent.
struct Behind {
    owned: Owned,
    proxy: Proxy,
}

impl Behind {
    async fn new() -> Behind {
        let mut owned = Owned::new().await;
        let socket = POSTGRES.socket_dir().join(".s.PGSQL.5432");
        let proxy = Proxy::start(Upstream::Postgres(socket)).await.unwrap();
        let database = owned.options.get_database().expect("a database");
        let url = proxy.url(database, rallypoint::postgres::COORDINATION);
        let options: PgConnectOptions = url.parse().unwrap();
        owned.journal = Journal::open(config(&options)).await.unwrap();
        owned.writer = owned.journal.writer(&owned.replica);
        Behind { owned, proxy }
    }

    /// All connections there are go silent; new ones work.
    fn silence(&self) {
        let next = self.proxy.next_connection();
        self.proxy.change(|now| now.silent_below = next);
    }

    /// So does the next one.
    fn silence_next(&self) {
        let next = self.proxy.next_connection() + 1;
        self.proxy.change(|now| now.silent_below = next);
    }
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(SOON, what).await.expect("in time")
}

#[tokio::test]
async fn a_batch_on_a_silent_connection_is_unknown_and_durable_on_the_next() {
    let mut behind = Behind::new().await;
    behind.owned.write(Records::default()).await;
    behind.silence();
    let begun = Instant::now();
    let commit = in_time(behind.owned.append(Records::default())).await;
    assert!(matches!(commit, Commit::Unknown { .. }), "{commit:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "before the server's own timeout"
    );
    in_time(behind.owned.write(Records::default())).await;
}

#[tokio::test]
async fn a_batch_that_takes_longer_than_its_first_limit_is_durable_in_the_end() {
    let mut owned = Owned::new().await;
    owned.write(Records::default()).await;
    let slow = "create function slow() returns trigger language plpgsql as
            $$ begin perform pg_sleep(7); return new; end $$;
        create trigger slow before insert on submission for each row execute function slow()";
    owned.psql().await.execute(slow).await.unwrap();
    let rows = records(vec![plain(handle(), 1, 1, None, owned.now)], vec![]);
    let batch = owned.batch(rows);
    let mut commits = Vec::new();
    while commits.last() != Some(&Commit::Durable) {
        assert!(commits.len() < 4, "{commits:?}");
        commits.push(in_time(owned.writer.append(&batch)).await);
    }
    assert!(matches!(commits[0], Commit::Unknown { .. }), "{commits:?}");
}

#[tokio::test]
async fn a_read_on_a_silent_connection_is_repeated_on_another() {
    let mut behind = Behind::new().await;
    let (a, now) = (handle(), behind.owned.now);
    behind.owned.write_images([image(a, now)]).await;
    let reader = behind.owned.journal.reader();
    assert!(reader.scheduler(&namespace(), a).await.unwrap().is_some());
    behind.silence();
    assert!(
        in_time(reader.scheduler(&namespace(), a))
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_reader_who_hangs_up_leaves_no_silent_connection_behind() {
    let behind = Behind::new().await;
    let reader = behind.owned.journal.reader();
    reader.scheduler(&namespace(), handle()).await.unwrap();
    behind.silence();
    for _ in 0..8 {
        let namespace = namespace();
        let gone = timeout(
            Duration::from_millis(50),
            reader.scheduler(&namespace, handle()),
        );
        let _ = gone.await;
    }
    in_time(reader.scheduler(&namespace(), handle()))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_heartbeat_on_a_silent_connection_is_given_up_within_the_lease() {
    let behind = Behind::new().await;
    let (lease, me) = (Duration::from_secs(5), replica("heart"));
    let mut heart = behind.owned.journal.heartbeat(me, lease);
    heart.renew(None).await.unwrap();
    behind.silence();
    let lapsed = timeout(lease, heart.renew(None)).await;
    assert!(lapsed.expect("within the lease").is_err());
    in_time(heart.renew(None)).await.unwrap();
}

#[tokio::test]
async fn what_an_owner_does_besides_goes_on_after_a_silence() {
    let behind = Behind::new().await;
    let (journal, now) = (&behind.owned.journal, behind.owned.now);
    behind.silence_next();
    assert!(in_time(recover(journal, ENOUGH, since(now))).await.is_err());
    in_time(recover(journal, ENOUGH, since(now))).await.unwrap();
    behind.silence_next();
    let (me, lease) = (replica("one"), Duration::from_secs(5));
    let silent = journal.take_over(&me, Claim::Start, lease, None, Epoch(0));
    assert!(in_time(silent).await.is_err());
    in_time(take_over(journal, &me)).await;
    let maintenance = journal.maintenance();
    behind.silence_next();
    assert!(in_time(maintenance.make_batches()).await.is_err());
    in_time(maintenance.make_batches()).await.unwrap();
    behind.silence_next();
    assert!(in_time(maintenance.drop_batches()).await.is_err());
    in_time(maintenance.drop_batches()).await.unwrap();
    behind.silence_next();
    assert!(
        in_time(Journal::open(config(&behind.owned.options)))
            .await
            .is_ok()
    );
}
