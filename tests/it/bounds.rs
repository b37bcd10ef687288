//! Texts that say far more than anybody asked for: the right outcome, memory that stays flat,
//! neighbours that go on, and nothing of it in the server's log.

use crate::harness::{
    conversation::Conversation,
    standalone::Standalone,
    work::{Work, sql},
};
use rallypoint_client::{
    Client,
    api::{AsyncDone, Outcome, SchedulerSettings},
};
use sqlx::postgres::PgConnectOptions;

/// What the server may grow by while it runs any of them: some frames of 1 MiB.
const GROWTH_MIB: u64 = 48;
/// In every text and in every thing that one says.
const SECRET: &str = "open sesame";

struct Bounded {
    server: Standalone,
    scheduler: Conversation,
    before: u64,
}

impl Bounded {
    async fn start() -> Self {
        let server = Standalone::start();
        let client = Client::connect(&server.url).await.expect("connected");
        let scheduler = Conversation {
            scheduler: client
                .open(SchedulerSettings::default())
                .await
                .expect("opened"),
            journal: PgConnectOptions::new_without_pgpass(),
        };
        scheduler.submit(sql("select 1").times(100)).await;
        scheduler.all_done().await;
        let before = server.peak_mib();
        Bounded {
            server,
            scheduler,
            before,
        }
    }

    /// Runs it beside neighbours, which must not notice it.
    async fn run(&self, text: &str) -> AsyncDone {
        let text = text.replace("SECRET", SECRET);
        let neighbours = sql("select 1, pg_sleep(0.01)").times(20);
        let first = self.scheduler.submit(neighbours).await;
        let culprit: Work = sql(text).rows(1).attempts(1);
        let seq = self.scheduler.submit([culprit]).await;
        self.scheduler.submit(sql("select 1").times(20)).await;
        let mut done = self.scheduler.all_done().await;
        done.retain(|done| done.seq >= first);
        let at = done.iter().position(|done| done.seq == seq);
        let culprit = done.swap_remove(at.expect("it has ended"));
        for neighbour in done {
            assert_eq!(neighbour.outcome(), Outcome::Succeeded, "{neighbour:?}");
            assert_eq!(neighbour.attempt, 1, "{neighbour:?}");
        }
        let grown = self.server.peak_mib().saturating_sub(self.before);
        assert!(grown < GROWTH_MIB, "{grown} MiB");
        culprit
    }

    fn said_nothing(&self) {
        let log = self.server.log();
        assert!(!log.contains(SECRET), "{log}");
    }
}

fn code(done: &AsyncDone) -> &str {
    done.error.as_ref().map_or("", |error| error.code.as_str())
}

#[tokio::test]
async fn a_row_of_900_megabytes_is_left_out() {
    let bounded = Bounded::start().await;
    let done = bounded
        .run("select 'SECRET', repeat('x', 900000000) as a")
        .await;
    let result = done.result.as_ref().expect("it succeeds");
    assert_eq!(done.outcome(), Outcome::Succeeded);
    assert_eq!((result.rows_affected, result.truncated), (1, true));
    assert_eq!(result.rows_json, "[]");
    bounded.said_nothing();
}

#[tokio::test]
async fn a_gigabyte_of_rows_needs_no_gigabyte_of_memory() {
    let bounded = Bounded::start().await;
    let done = bounded
        .run("select 'SECRET', repeat('x', 100000) as a from generate_series(1, 10000)")
        .await;
    assert_eq!(done.outcome(), Outcome::Succeeded);
    let result = done.result.as_ref().expect("it succeeds");
    assert_eq!((result.rows_affected, result.truncated), (10_000, true));
    bounded.said_nothing();
}

#[tokio::test]
async fn a_flood_of_notices_goes_nowhere() {
    let bounded = Bounded::start().await;
    let flood = "do $$ begin
        for i in 1..100000 loop raise notice 'SECRET %', repeat('x', 1000); end loop;
    end $$";
    let done = bounded.run(flood).await;
    assert_eq!(done.outcome(), Outcome::Succeeded);
    let kept = done.notices.len();
    assert!((7 << 10..=8 << 10).contains(&kept), "{kept} bytes are kept");
    let one = "do $$ begin raise warning 'SECRET %', repeat('x', 200000000); end $$";
    assert_eq!(bounded.run(one).await.outcome(), Outcome::Succeeded);
    let debug = "set client_min_messages = debug5; select 'SECRET' from generate_series(1, 1000)";
    assert_eq!(bounded.run(debug).await.outcome(), Outcome::Succeeded);
    bounded.said_nothing();
}

#[tokio::test]
async fn an_error_of_200_megabytes_says_its_code() {
    let bounded = Bounded::start().await;
    let text = "do $$ begin raise exception 'SECRET %', repeat('x', 200000000); end $$";
    let done = bounded.run(text).await;
    assert_eq!((done.outcome(), code(&done)), (Outcome::Failed, "P0001"));
    let message = done.error.expect("an error").message;
    assert!(message.starts_with(SECRET) && message.len() <= 8 << 10);
    bounded.said_nothing();
}

#[tokio::test]
async fn a_copy_of_a_gigabyte_to_the_client_fails() {
    let bounded = Bounded::start().await;
    for text in [
        "copy (select 'SECRET', repeat('x', 1000) from generate_series(1, 1000000)) to stdout",
        "create table t (a text); copy t from stdin; select 'SECRET'",
    ] {
        let done = bounded.run(text).await;
        assert_eq!((done.outcome(), code(&done)), (Outcome::Failed, "PROTOCOL"));
    }
    bounded.said_nothing();
}
