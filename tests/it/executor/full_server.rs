//! Servers that have no place for one session more.

use super::{
    fixture::{Fixture, Task, limited, login, sql, succeeded},
    login_limits::{of_a, with_login_of_a},
};
use crate::harness::postgres::{connect, start, value};
use rallypoint::{
    core::{Report, Seq, Time},
    executor::{Session, TargetConfig},
    postgres::{PrivatePostgres, SUPERUSER, TARGET},
};
use sqlx::{AssertSqlSafe, PgConnection};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A target of two slots with a task that sleeps, on a server that has no place for one session
/// more of its login.
struct Full {
    fixture: Fixture,
    running: Seq,
    superuser: PgConnection,
    /// Stops when it is dropped.
    _postgres: PrivatePostgres,
}

impl Full {
    async fn new(task: Task) -> Self {
        let postgres = start(Vec::new());
        let options = postgres.options_for(TARGET, TARGET);
        let idle = Duration::from_secs(2);
        let mut fixture = Fixture::with(login(&options), options, 2, idle);
        assert_eq!(fixture.slots().await, 2);
        let running = fixture.start(task);
        fixture.asleep().await;
        let mut superuser = connect(&fixture.options.clone().username(SUPERUSER)).await;
        // One runs the task, one stops it, which is opened later.
        let sessions = "select count(*)::text
            from pg_stat_activity s
            join pg_stat_activity r on r.backend_start < s.backend_start
            where s.usename = 'app' and s.state = 'idle' and r.wait_event = 'PgSleep'";
        while value(&mut superuser, sessions).await != "1" {
            sleep(Duration::from_millis(5)).await;
        }
        let mut full = Full {
            fixture,
            running,
            superuser,
            _postgres: postgres,
        };
        full.limit(1).await;
        full
    }

    async fn limit(&mut self, sessions: i32) {
        let limit = format!("alter role app connection limit {sessions}");
        let done = sqlx::raw_sql(AssertSqlSafe(limit)).execute(&mut self.superuser);
        done.await.expect("done");
    }

    fn is_available(&self) -> bool {
        let target = self.fixture.executor.targets().remove(0);
        target.unavailable.is_none()
    }
}

#[tokio::test]
async fn a_full_server_takes_no_slots_from_a_target_that_has_sessions_there() {
    let mut full = Full::new(sql("select pg_sleep(60)")).await;
    let refused = full.fixture.start(sql("select 1"));
    assert_eq!(full.fixture.ended(refused).await.report, Report::NotStarted);
    assert!(full.is_available());
    full.limit(-1).await;
    assert_eq!(full.fixture.value("select 1").await, "1");
    full.fixture.silent(full.running).await;
}

#[tokio::test]
async fn the_connection_that_stops_texts_takes_no_place_from_a_task() {
    let mut full = Full::new(sql("select pg_sleep(60)")).await;
    full.limit(2).await;
    succeeded(full.fixture.text("select 1").await);
    full.fixture.silent(full.running).await;
}

#[tokio::test]
async fn a_text_on_a_full_server_is_stopped() {
    let limit = Duration::from_secs(5);
    let mut full = Full::new(limited("select pg_sleep(60)", limit)).await;
    let ended = timeout(WAIT_TIMEOUT, full.fixture.ended(full.running)).await;
    let report = ended.expect("it is stopped").report;
    assert!(
        matches!(&report, Report::TimedOut(why) if why.code == "TIMEOUT"),
        "{report:?}"
    );
}

#[tokio::test]
async fn a_text_is_stopped_though_others_have_taken_all_places() {
    let limit = Duration::from_secs(5);
    let mut full = Full::new(limited("select pg_sleep(60)", limit)).await;
    full.limit(2).await;
    // Nothing of it stays for the connection that stops texts, whose place it takes.
    let stopped = async {
        loop {
            full.fixture.run(sql("select 1")).await;
            let ended = full.fixture.ended(full.running);
            if let Ok(completion) = timeout(Duration::from_millis(20), ended).await {
                return completion.report;
            }
        }
    };
    let report = timeout(WAIT_TIMEOUT, stopped).await.expect("it is stopped");
    assert!(
        matches!(&report, Report::TimedOut(why) if why.code == "TIMEOUT"),
        "{report:?}"
    );
}

#[tokio::test]
async fn a_text_is_stopped_beside_a_queue_on_a_full_server() {
    let limit = Duration::from_secs(5);
    let mut full = Full::new(limited("select pg_sleep(60)", limit)).await;
    full.limit(2).await;
    let (mut queue, mut ran) = (Vec::new(), 0);
    let stopped = async {
        loop {
            while queue.len() < 5 {
                queue.push(full.fixture.start(Task {
                    leaves_free: Some(0),
                    ..sql("select pg_sleep(0.2)")
                }));
            }
            let ended = full.fixture.ended(full.running);
            if let Ok(completion) = timeout(Duration::from_millis(10), ended).await {
                return completion.report;
            }
            for seq in std::mem::take(&mut queue) {
                let ended = full.fixture.ended(seq);
                match timeout(Duration::from_millis(1), ended).await {
                    Ok(completion) => {
                        ran += u32::from(matches!(completion.report, Report::Succeeded(_)));
                    }
                    Err(_) => queue.push(seq),
                }
            }
        }
    };
    let report = timeout(WAIT_TIMEOUT, stopped).await.expect("it is stopped");
    assert!(
        matches!(&report, Report::TimedOut(why) if why.code == "TIMEOUT"),
        "{report:?}"
    );
    assert!(ran > 5, "{ran} ran beside it");
    assert!(full.is_available());
}

#[tokio::test]
async fn the_only_session_gives_its_place_when_one_is_to_be_ended() {
    let postgres = start(Vec::new());
    let options = postgres.options_for(TARGET, TARGET);
    let mut superuser = connect(&options.clone().username(SUPERUSER)).await;
    let limit = sqlx::raw_sql("alter role app connection limit 2").execute(&mut superuser);
    limit.await.expect("limited");
    let mut fixture = Fixture::with(login(&options), options.clone(), 1, Duration::from_secs(2));
    assert_eq!(fixture.slots().await, 1);
    // Of an executor that is lost.
    let mut left = connect(&options).await;
    let who = "select pid, (extract(epoch from backend_start) * 1000000)::int8
        from pg_stat_activity
        where pid = pg_backend_pid()";
    let (pid, started) = sqlx::query_as(who)
        .fetch_one(&mut left)
        .await
        .expect("a backend");
    let gone = Session {
        host: None,
        target: "app".into(),
        slot: 1,
        pid,
        backend_start: Time(started),
        postmaster: None,
    };
    // The connection that has looked at the target at the start may still have a place.
    fixture.result(sql("select 1")).await;
    let ended = timeout(WAIT_TIMEOUT, fixture.executor.end_session(&gone)).await;
    ended.expect("there is a place for the connection that ends it");
    assert!(sqlx::query("select 1").execute(&mut left).await.is_err());
    assert_eq!(fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn a_login_at_its_limit_costs_a_watchdog_no_connection() {
    let mut full = Full::new(sql("select pg_sleep(60)")).await;
    let watch = "create role watch login superuser password 'watch'";
    let created = sqlx::raw_sql(watch).execute(&mut full.superuser);
    created.await.expect("created");
    let mut config = TargetConfig::new("app", login(&full.fixture.options), 2);
    let options = full.fixture.options.clone();
    config.watchdog = Some(login(&options.username("watch").password("watch")));
    full.fixture.executor.reconfigure(&[config]);
    let watching = "select min(backend_start)::text from pg_stat_activity where usename = 'watch'";
    let mut since = String::new();
    while since.is_empty() {
        since = value(&mut full.superuser, watching).await;
        sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..3 {
        let refused = full.fixture.start(sql("select 1"));
        assert_eq!(full.fixture.ended(refused).await.report, Report::NotStarted);
        assert_eq!(value(&mut full.superuser, watching).await, since);
    }
    full.fixture.silent(full.running).await;
}

#[tokio::test]
async fn a_login_at_its_limit_takes_no_sessions_from_others() {
    let mut full = Full::new(sql("select pg_sleep(60)")).await;
    let other = "create role other login superuser password 'other'";
    let created = sqlx::raw_sql(other).execute(&mut full.superuser);
    created.await.expect("created");
    let options = full.fixture.options.clone();
    let mut config = TargetConfig::new("app", login(&options), 3);
    let other = login(&options.username("other").password("other"));
    config.logins = [("a".into(), other)].into();
    full.fixture.executor.reconfigure(&[config]);
    let of_a = Task {
        namespace: "a",
        ..sql("select 1")
    };
    full.fixture.result(of_a).await;
    let opened = "select coalesce(min(backend_start)::text, 'none')
        from pg_stat_activity
        where usename = 'other'";
    let since = value(&mut full.superuser, opened).await;
    assert_ne!(since, "none");
    for _ in 0..3 {
        let refused = full.fixture.start(sql("select 1"));
        assert_eq!(full.fixture.ended(refused).await.report, Report::NotStarted);
        assert_eq!(value(&mut full.superuser, opened).await, since);
    }
}

#[tokio::test]
async fn a_login_takes_an_idle_place_though_that_of_the_target_is_at_its_limit() {
    let mut full = Full::new(sql("select pg_sleep(60)")).await;
    let roles = format!(
        "create role of_a login; create role of_b login;
        grant connect on database {TARGET} to of_a, of_b"
    );
    let created = sqlx::raw_sql(AssertSqlSafe(roles)).execute(&mut full.superuser);
    created.await.expect("created");
    let base = login(&full.fixture.options);
    let as_whom = |name: &str| base.clone().as_user(name.to_owned(), None);
    let mut config = TargetConfig::new("app", base.clone(), 3);
    config.logins = [("a".into(), as_whom("of_a")), ("b".into(), as_whom("of_b"))].into();
    full.fixture.executor.reconfigure(&[config]);
    let of = |namespace| Task {
        namespace,
        ..sql("select 1")
    };
    full.fixture.result(of("a")).await;
    // The one that sleeps, that of this test, and one more.
    let limit = format!("alter database {TARGET} connection limit 3");
    let set = sqlx::raw_sql(AssertSqlSafe(limit)).execute(&mut full.superuser);
    set.await.expect("limited");
    full.fixture.result(of("b")).await;
}

#[tokio::test]
async fn a_login_takes_an_idle_place_though_that_of_the_target_has_a_reserved_one() {
    let postgres = start(Vec::new());
    // A superuser gets in beyond the limit.
    let options = postgres.options_for(TARGET, SUPERUSER);
    let mut superuser = connect(&options).await;
    let mut fixture = Fixture::of(with_login_of_a(&mut superuser, &options, 2).await, options);
    assert_eq!(fixture.slots().await, 2);
    fixture.result(sql("select 1")).await;
    // The idle session of the target's login, and that of this test.
    let limit = format!("alter database {TARGET} connection limit 2");
    let set = sqlx::raw_sql(AssertSqlSafe(limit)).execute(&mut superuser);
    set.await.expect("limited");
    fixture.result(of_a()).await;
}

#[tokio::test]
async fn a_login_whose_places_our_tasks_have_is_not_called_refused() {
    let mut full = Full::new(sql("select pg_sleep(60)")).await;
    let options = full.fixture.options.clone();
    let config = with_login_of_a(&mut full.superuser, &options, 2).await;
    full.fixture.executor.reconfigure(&[config]);
    // The connection that stops texts gives its place when the login is tried, in vain.
    let sessions = "select count(*)::text from pg_stat_activity where usename = 'app'";
    let tried = async {
        while value(&mut full.superuser, sessions).await != "1" {
            assert_eq!(full.fixture.executor.targets()[0].refused, None);
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT_TIMEOUT, tried).await.expect("it is tried");
    succeeded(full.fixture.run(of_a()).await);
    let status = full.fixture.executor.targets().remove(0);
    assert_eq!((status.unavailable, status.refused), (None, None));
    full.fixture.silent(full.running).await;
}

#[tokio::test]
async fn a_reload_while_the_server_is_full_takes_no_slots_away() {
    let mut full = Full::new(sql("select pg_sleep(60)")).await;
    let config = TargetConfig::new("app", login(&full.fixture.options), 3);
    full.fixture.executor.reconfigure(&[config]);
    assert_eq!(full.fixture.slots().await, 3);
    // As long as it takes to find out.
    sleep(Duration::from_secs(2)).await;
    assert!(full.is_available());
    full.fixture.silent(full.running).await;
}
