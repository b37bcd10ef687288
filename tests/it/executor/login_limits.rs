//! Logins that may open no more sessions, beside others that may.

use super::fixture::{Fixture, Task, login, sql, succeeded};
use crate::harness::postgres::{connect, start, value};
use rallypoint::{
    core::Report,
    executor::TargetConfig,
    postgres::{SUPERUSER, TARGET},
};
use sqlx::{AssertSqlSafe, PgConnection, postgres::PgConnectOptions};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A target with this login, where tasks of the namespace `a` have one of their own.
pub(super) async fn with_login_of_a(
    superuser: &mut PgConnection,
    options: &PgConnectOptions,
    slots: u32,
) -> TargetConfig {
    let role = format!("create role of_a login; grant connect on database {TARGET} to of_a");
    let created = sqlx::raw_sql(AssertSqlSafe(role)).execute(superuser);
    created.await.expect("created");
    let base = login(options);
    let own = base.clone().as_user("of_a".to_owned(), None);
    TargetConfig {
        logins: [("a".into(), own)].into(),
        ..TargetConfig::new("app", base, slots)
    }
}

pub(super) fn of_a() -> Task {
    Task {
        namespace: "a",
        ..sql("select 1")
    }
}

#[tokio::test]
async fn a_login_of_the_target_at_its_limit_keeps_no_namespace_from_its_own() {
    let postgres = start(Vec::new());
    let options = postgres.options_for(TARGET, TARGET);
    let mut superuser = connect(&options.clone().username(SUPERUSER)).await;
    let limit = sqlx::raw_sql("alter role app connection limit 0").execute(&mut superuser);
    limit.await.expect("limited");
    let mut fixture = Fixture::of(with_login_of_a(&mut superuser, &options, 1).await, options);
    assert_eq!(fixture.slots().await, 1);
    for _ in 0..2 {
        assert_eq!(fixture.run(sql("select 1")).await, Report::NotStarted);
        succeeded(fixture.run(of_a()).await);
    }
    let status = fixture.executor.targets().remove(0);
    assert_eq!(status.unavailable, None);
    let why = status.refused.unwrap_or_default();
    assert!(why.contains("53300"), "{why}");
}

#[tokio::test]
async fn the_only_place_of_a_login_is_not_kept_from_it_by_the_connection_that_stops_texts() {
    let postgres = start(Vec::new());
    let options = postgres.options_for(TARGET, TARGET);
    let mut superuser = connect(&options.clone().username(SUPERUSER)).await;
    let mut config = with_login_of_a(&mut superuser, &options, 1).await;
    let mut fixture = Fixture::of(config.clone(), options.clone());
    assert_eq!(fixture.slots().await, 1);
    fixture.result(of_a()).await;
    connections(&fixture, &mut superuser, "1").await;
    let changes = format!(
        "alter role app connection limit 1;
        create role of_b login; grant connect on database {TARGET} to of_b"
    );
    let changed = sqlx::raw_sql(AssertSqlSafe(changes)).execute(&mut superuser);
    changed.await.expect("changed");
    let of_b = login(&options).as_user("of_b".to_owned(), None);
    config.logins = [("b".into(), of_b)].into();
    fixture.executor.reconfigure(&[config]);
    // It has given its place, and the target has no session for which it would be opened again.
    connections(&fixture, &mut superuser, "0").await;
    assert_eq!(fixture.executor.targets()[0].unavailable, None);
}

/// Waits until the server shows so many connections of the target's login, which is not called
/// refused meanwhile.
async fn connections(fixture: &Fixture, superuser: &mut PgConnection, count: &str) {
    let query = "select count(*)::text from pg_stat_activity where usename = 'app'";
    let wait = async {
        while value(superuser, query).await != count {
            assert_eq!(fixture.executor.targets()[0].refused, None);
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait).await.expect(count);
}
