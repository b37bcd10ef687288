//! What an operator changes on a target while it runs.

use super::{
    fixture::{Fixture, Task, failed, login, sql, succeeded, token},
    namespaces::administer,
};
use crate::harness::postgres::{POSTGRES, connect, database, prepare_target, value};
use rallypoint::{
    core::{Attempt, Namespace, Report, SessionOptions, TaskId},
    executor::TargetConfig,
    postgres::{SUPERUSER, TARGET},
};
use sqlx::{AssertSqlSafe, ConnectOptions};
use std::{slice, time::Duration};
use tokio::time::{sleep, timeout};

struct Changing {
    fixture: Fixture,
    config: TargetConfig,
}

impl Changing {
    /// An executor with two slots, and a second login of this name that may do what the first may.
    async fn new(second: &str) -> Self {
        let changing = Changing::with_stranger(second).await;
        let mut superuser = connect(&changing.fixture.options.clone().username(SUPERUSER)).await;
        let grant = format!("grant app, pg_signal_backend, pg_read_all_stats to {second}");
        let granted = sqlx::raw_sql(AssertSqlSafe(grant)).execute(&mut superuser);
        granted.await.expect("granted");
        changing
    }

    /// The same with a second login that may nothing but connect.
    async fn with_stranger(second: &str) -> Self {
        let options = POSTGRES.options_for(&database(TARGET), TARGET);
        let mut superuser = connect(&options.clone().username(SUPERUSER)).await;
        let database = options.get_database().expect("a name");
        let statements =
            format!("create role {second} login; grant connect on database {database} to {second}");
        let made = sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut superuser);
        made.await.expect("a login");
        let config = TargetConfig::new("app", login(&options), 2);
        let mut fixture = Fixture::of(config.clone(), options);
        assert_eq!(fixture.slots().await, 2);
        Changing { fixture, config }
    }

    fn change(&mut self, change: impl FnOnce(&mut TargetConfig)) {
        change(&mut self.config);
        self.fixture
            .executor
            .reconfigure(slice::from_ref(&self.config));
    }

    /// Sessions of this login that the server shows.
    async fn sessions(&self, user: &str) -> i64 {
        let mut session = connect(&self.fixture.options.clone().username(SUPERUSER)).await;
        let query = "select count(*)
            from pg_stat_activity
            where usename = $1 and datname = current_database()";
        let count = sqlx::query_scalar(query).bind(user).fetch_one(&mut session);
        count.await.expect("a number")
    }
}

#[tokio::test]
async fn a_changed_login_is_used_from_the_next_task_on_and_what_runs_goes_on() {
    let mut changing = Changing::new("changed_login").await;
    let mut gate = changing.fixture.session().await;
    value(&mut gate, "select pg_advisory_lock(1)::text").await;
    let user = "select session_user";
    assert_eq!(changing.fixture.value(user).await, "app");
    let running = changing.fixture.start(Task {
        rows: 1,
        ..sql("select pg_advisory_lock_shared(1), session_user::text as u")
    });
    let waits = "select count(*)::text
        from pg_locks l
        join pg_database d on d.oid = l.database
        where d.datname = current_database() and not l.granted";
    while value(&mut gate, waits).await != "1" {
        sleep(Duration::from_millis(5)).await;
    }
    changing.change(|config| {
        config.login = config.login.clone().as_user("changed_login".into(), None);
    });
    assert_eq!(changing.fixture.value(user).await, "changed_login");
    value(&mut gate, "select pg_advisory_unlock(1)::text").await;
    drop(gate);
    let result = succeeded(changing.fixture.ended(running).await.report);
    assert!(String::from_utf8_lossy(&result.rows_json).contains(r#""u":"app""#));
    for _ in 0..4 {
        assert_eq!(changing.fixture.value(user).await, "changed_login");
    }
    // The look at it is a session of the superuser.
    while changing.sessions("app").await > 0 {
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn slots_come_and_go_while_tasks_run() {
    let mut changing = Changing::new("changed_slots").await;
    changing.change(|config| config.slots = 3);
    assert_eq!(changing.fixture.slots().await, 3);
    let mut gate = changing.fixture.session().await;
    value(&mut gate, "select pg_advisory_lock(1)::text").await;
    let running: Vec<_> = (0..3)
        .map(|_| {
            changing
                .fixture
                .start(sql("select pg_advisory_lock_shared(1)"))
        })
        .collect();
    changing.change(|config| config.slots = 1);
    while changing.fixture.slots().await != 1 {}
    value(&mut gate, "select pg_advisory_unlock(1)::text").await;
    for seq in running {
        succeeded(changing.fixture.ended(seq).await.report);
    }
    let numbers = |fixture: &Fixture| -> Vec<u32> {
        let rows = fixture.executor.executions();
        rows.iter().map(|row| row.slot).collect()
    };
    assert_eq!(numbers(&changing.fixture), [1]);
    changing.change(|config| config.slots = 2);
    while changing.fixture.slots().await != 2 {}
    assert_eq!(numbers(&changing.fixture), [1, 2]);
    assert_eq!(changing.fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn changed_options_and_roles_count_from_the_next_task_on() {
    let mut changing = Changing::new("changed_options").await;
    let path = "select current_setting('search_path')";
    changing.change(|config| {
        config.defaults = SessionOptions {
            search_path: vec!["changed".into()],
            ..SessionOptions::default()
        };
    });
    assert_eq!(changing.fixture.value(path).await, "\"changed\"");
    changing.change(|config| config.defaults = SessionOptions::default());
    assert_eq!(changing.fixture.value(path).await, "\"$user\", public");
}

#[tokio::test]
async fn a_target_that_no_login_reaches_is_back_when_the_login_is_mended() {
    let mut changing = Changing::new("changed_back").await;
    let good = changing.config.login.clone();
    let bad = good.clone().as_user("nobody_at_all".into(), None);
    changing.change(|config| config.login = bad);
    while changing.fixture.slots().await != 0 {}
    changing.change(|config| config.login = good);
    while changing.fixture.slots().await != 2 {}
    assert_eq!(changing.fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn a_setting_that_the_server_refuses_takes_nothing_from_later_sessions() {
    let mut changing = Changing::new("changed_setting").await;
    let good = changing.config.login.clone();
    let mut url = changing.fixture.options.to_url_lossy();
    url.query_pairs_mut()
        .append_pair("options[work_mem]", "nonsense");
    changing.change(|config| config.login = url.as_str().parse().expect("a login"));
    let report = changing.fixture.run(sql("select 1")).await;
    assert!(matches!(report, Report::NotStarted), "{report:?}");
    while changing.fixture.slots().await != 0 {}
    changing.change(|config| config.login = good);
    while changing.fixture.slots().await != 2 {}
    let check = "select current_setting('client_connection_check_interval')";
    assert_eq!(changing.fixture.value(check).await, "500ms");
}

#[tokio::test]
async fn a_login_of_the_target_that_is_refused_keeps_no_namespace_from_its_own() {
    let mut changing = Changing::new("changed_first").await;
    let good = changing.config.login.clone();
    changing.change(|config| {
        config.logins = [("a".into(), good.clone())].into();
        config.login = good.clone().as_user("nobody_at_all".into(), None);
    });
    for _ in 0..2 {
        let report = changing.fixture.run(sql("select 1")).await;
        assert!(matches!(report, Report::NotStarted), "{report:?}");
        let of_a = Task {
            namespace: "a",
            ..sql("select 1")
        };
        succeeded(changing.fixture.run(of_a).await);
    }
    let status = &changing.fixture.executor.targets()[0];
    assert_eq!(status.unavailable, None);
    let why = status.refused.as_deref().unwrap_or_default();
    assert!(why.contains("nobody_at_all"), "{why}");
    let why = why_it_waits(&mut changing.fixture).await;
    assert!(why.contains("nobody_at_all"), "{why}");
    changing.change(|config| config.login = good);
    assert_eq!(changing.fixture.executor.targets()[0].refused, None);
    assert_eq!(changing.fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn a_login_of_the_target_is_not_called_refused_once_it_gets_in_though_no_task_needs_it() {
    let mut changing = Changing::new("changed_before").await;
    let good = changing.config.login.clone();
    changing.change(|config| {
        // A quarter of this is between two looks.
        config.session_idle = Duration::from_millis(200);
        config.logins = [("a".into(), good.clone())].into();
        config.login = good.as_user("admitted_late".into(), None);
    });
    let report = changing.fixture.run(sql("select 1")).await;
    assert!(matches!(report, Report::NotStarted), "{report:?}");
    assert!(changing.fixture.executor.targets()[0].refused.is_some());
    let database = changing.fixture.options.get_database().expect("a name");
    let admit = format!(
        "create role admitted_late login connection limit 0; grant connect on database {database} \
         to admitted_late"
    );
    administer(&changing.fixture, admit).await;
    let has_no_place = |why: Option<&str>| why.is_some_and(|why| why.contains("53300"));
    refused_because(&changing.fixture, has_no_place).await;
    let limit = "alter role admitted_late connection limit -1".to_owned();
    administer(&changing.fixture, limit).await;
    refused_because(&changing.fixture, |why| why.is_none()).await;
}

/// Waits until the login of the target is said to be refused for such a reason.
async fn refused_because(fixture: &Fixture, is_it: impl Fn(Option<&str>) -> bool) {
    let tried = async {
        while !is_it(fixture.executor.targets()[0].refused.as_deref()) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let tried = timeout(Duration::from_secs(60), tried).await;
    tried.expect("it is tried again");
}

/// What is said of a task that gets no session. It is given back after a moment, and asked about
/// until it was seen before that.
async fn why_it_waits(fixture: &mut Fixture) -> String {
    loop {
        let seq = fixture.start(sql("select 1"));
        let task = TaskId {
            handle: fixture.handle,
            seq,
        };
        sleep(Duration::from_millis(20)).await;
        let found = fixture.executor.attempt(task, Attempt(1)).await;
        assert_eq!(fixture.ended(seq).await.report, Report::NotStarted);
        if let Some(Err(why)) = found.and_then(|found| found.wait) {
            return why;
        }
    }
}

#[tokio::test]
async fn what_runs_as_a_former_user_can_still_be_stopped() {
    let mut changing = Changing::with_stranger("changed_user").await;
    let running = changing.fixture.start(sql("select pg_sleep(3600)"));
    changing.fixture.asleep().await;
    changing.change(|config| {
        config.login = config.login.clone().as_user("changed_user".into(), None);
    });
    assert_eq!(
        changing.fixture.value("select session_user").await,
        "changed_user"
    );
    changing.fixture.executor.stop(token(running));
    let report = changing.fixture.ended(running).await.report;
    assert!(matches!(report, Report::Stopped), "{report:?}");
}

#[tokio::test]
async fn what_runs_can_be_stopped_though_the_new_user_has_no_place() {
    let mut changing = Changing::with_stranger("changed_full").await;
    let running = changing.fixture.start(sql("select pg_sleep(3600)"));
    changing.fixture.asleep().await;
    let limit = "alter role changed_full connection limit 0";
    administer(&changing.fixture, limit.into()).await;
    changing.change(|config| {
        config.login = config.login.clone().as_user("changed_full".into(), None);
    });
    changing.fixture.executor.stop(token(running));
    let report = changing.fixture.ended(running).await.report;
    assert!(matches!(report, Report::Stopped), "{report:?}");
}

#[tokio::test]
async fn what_runs_can_be_stopped_after_two_changes_to_logins_that_do_not_get_in() {
    let mut changing = Changing::with_stranger("changed_twice").await;
    let running = changing.fixture.start(sql("select pg_sleep(3600)"));
    changing.fixture.asleep().await;
    for missing in ["no_database", "no_database_either"] {
        let options = changing.fixture.options.clone().database(missing);
        changing.change(|config| config.login = login(&options));
    }
    changing.fixture.executor.stop(token(running));
    let report = changing.fixture.ended(running).await.report;
    assert!(matches!(report, Report::Stopped), "{report:?}");
}

#[tokio::test]
async fn the_marker_of_a_former_user_is_found_though_the_new_one_may_not_see_it() {
    let mut changing = Changing::with_stranger("changed_marker").await;
    let database = changing.fixture.options.get_database().expect("a name");
    prepare_target(&POSTGRES, database, &[TARGET]);
    let running = changing.fixture.start(Task {
        exactly_once: true,
        ..sql("select pg_sleep(3600)")
    });
    let pid = changing.fixture.asleep().await;
    changing.change(|config| {
        config.login = config.login.clone().as_user("changed_marker".into(), None);
    });
    // Its executor cannot know whether it has committed.
    let terminate = format!("select pg_terminate_backend({pid})");
    administer(&changing.fixture, terminate).await;
    let report = changing.fixture.ended(running).await.report;
    assert_eq!(failed(report), ("57P01".into(), true));
}

#[tokio::test]
async fn who_shuts_down_announces_no_slots_whatever_is_changed() {
    let mut changing = Changing::new("changed_late").await;
    let mut gate = changing.fixture.session().await;
    value(&mut gate, "select pg_advisory_lock(1)::text").await;
    let running = changing
        .fixture
        .start(sql("select pg_advisory_lock_shared(1)"));
    let executor = changing.fixture.executor.clone();
    let leaving = tokio::spawn(async move { executor.shutdown(Duration::from_secs(600)).await });
    while changing.fixture.slots().await != 0 {}
    changing.change(|config| config.slots = 3);
    assert_eq!(changing.fixture.slots().await, 0);
    value(&mut gate, "select pg_advisory_unlock(1)::text").await;
    succeeded(changing.fixture.ended(running).await.report);
    leaving.await.expect("it ends");
}

#[tokio::test]
async fn a_target_that_was_closed_runs_nothing_that_was_submitted_before() {
    let mut changing = Changing::new("closed_login").await;
    changing.fixture.result(sql("select 1")).await;
    changing.change(|config| config.namespaces = Some([Namespace("etl".into())].into()));
    let report = changing.fixture.run(sql("select 1")).await;
    let Report::Failed { error, transient } = report else {
        panic!("{report:?}");
    };
    assert_eq!((error.code.as_str(), transient), ("TARGET_CLOSED", false));
    assert!(error.message.contains("`namespaces`"), "{error:?}");
    changing.change(|config| config.namespaces = None);
    changing.fixture.result(sql("select 1")).await;
}
