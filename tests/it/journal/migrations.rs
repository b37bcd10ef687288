//! A database that an earlier version has made is brought up to date, with all that lies in it.

use super::{Owned, config, database, make::*};
use crate::harness::{
    postgres::{self, POSTGRES},
    process::PROGRAM,
};
use rallypoint::{
    core::*,
    journal::{Journal, JournalError, recover},
    postgres::{COORDINATION, SUPERUSER},
};
use sqlx::{
    AssertSqlSafe, Connection, Executor, PgConnection, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
    postgres::PgConnectOptions,
};
use std::{
    fs,
    future::pending,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use tokio::sync::mpsc;
use uuid::Uuid;

/// Longer than a test takes.
const NEVER: Duration = Duration::from_secs(86_400);

/// A scheduler with two tasks, of which the first has ended; as the first version had them already.
const ROWS: &str = "
insert into scheduler (shard, handle, namespace, caller, settings, state, paused, opened_at, first_day, highest_seq, done_no,
        unfinished)
    values (0, HANDLE, 'default', 'alice', '{}', 1, false, now(), '2000-01-01', 0, 0, '{}');
insert into submission (shard, handle, first_seq, day, count, submitted_at, specs, body_ends, bodies)
    values (0, HANDLE, 1, '2000-01-01', 2, now(), '[{\"work\":\"sql/app\",\"options\":{}}]', '{8,16}',
        'select 1select 2');
insert into completion (shard, handle, first_done_no, day, count, failed, min_seq, max_seq, started_at, ended_at)
    values (0, HANDLE, 1, '2000-01-01', 1, 0, 1, 1, now(), now());
insert into attempt (shard, handle, seq, attempt, kind, day, at)
    values (0, HANDLE, 2, 1, 1, '2000-01-01', now());";

/// A database as the program left it whose newest migration was `newest`, with a day of rows.
async fn database_of(newest: i64, rows_of: Uuid) -> PgConnectOptions {
    let options = database();
    leave_behind(&options, newest, rows_of).await;
    options
}

/// Has an empty database be one of these.
async fn leave_behind(options: &PgConnectOptions, newest: i64, rows_of: Uuid) {
    let mut psql = PgConnection::connect_with(options).await.unwrap();
    let known: Vec<Migration> = files()
        .into_iter()
        .filter(|one| one.version <= newest)
        .collect();
    assert_eq!(known.last().map(|one| one.version), Some(newest));
    let mut migrator = Migrator::with_migrations(known);
    migrator.set_locking(false);
    migrator.run_direct(None, &mut psql, false).await.unwrap();
    for table in ["submission", "completion", "attempt"] {
        make_day(&mut psql, table, "2000-01-01", "2000-01-02").await;
    }
    let rows = ROWS.replace("HANDLE", &format!("'{rows_of}'"));
    psql.execute(AssertSqlSafe(rows)).await.unwrap();
}

/// As the service makes one.
async fn make_day(psql: &mut PgConnection, table: &str, from: &str, to: &str) {
    let name = format!("{table}_{}", from.replace('-', "_"));
    let make = format!(
        "create table {name} (like {table} including all);
        alter table {table} attach partition {name} for values from ('{from}') to ('{to}')"
    );
    psql.execute(AssertSqlSafe(make)).await.unwrap();
}

fn files() -> Vec<Migration> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut files: Vec<Migration> = fs::read_dir(folder)
        .unwrap()
        .map(|file| {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            let (version, description) = name.split_once('_').unwrap();
            let description = description.trim_end_matches(".sql").to_owned();
            let sql = AssertSqlSafe(fs::read_to_string(file.path()).unwrap()).into_sql_str();
            let (version, kind) = (version.parse().unwrap(), MigrationType::Simple);
            Migration::new(version, description.into(), kind, sql, false)
        })
        .collect();
    files.sort_by_key(|file| file.version);
    files
}

#[tokio::test]
async fn a_journal_of_any_earlier_version_goes_on_with_its_rows() {
    let versions: Vec<i64> = files().iter().map(|file| file.version).collect();
    for version in versions {
        let old = handle();
        let mut owned = Owned::on(database_of(version, old.uuid()).await).await;
        let recovered = recover(&owned.journal, ENOUGH, since(owned.now))
            .await
            .unwrap();
        assert!(
            recovered.unreadable.is_empty(),
            "{:?}",
            recovered.unreadable
        );
        let of_old = &recovered.schedulers[0];
        assert_eq!(
            (of_old.runs.len(), of_old.outcomes.len()),
            (1, 1),
            "version {version}"
        );
        let later = vec![plain(old, 3, 1, None, owned.now)];
        owned
            .write(records(
                later,
                vec![completion(old, 2, vec![done(2, 1, owned.now)])],
            ))
            .await;
        let task = owned
            .journal
            .reader()
            .task(old, Seq(2))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(task.done.unwrap().0, DoneNo(2), "{version}");
    }
}

/// Opens it where no owner is to be waited for.
async fn beside_owner(
    options: &PgConnectOptions,
    return_time: Duration,
) -> Result<Journal, JournalError> {
    fn fail(owner: &str) {
        panic!("it waits for {owner}");
    }
    Journal::open_beside_owner(config(options), return_time, &mut fail).await
}

#[tokio::test]
async fn what_the_owner_could_not_live_with_is_refused_while_there_is_one_where_that_is_asked_for()
{
    let owned = "update lease set owner = 'old', lease_until = now() + interval '1 hour'";
    for (version, breaks) in [(33, true), (35, false)] {
        let options = database_of(version, Uuid::now_v7()).await;
        let mut psql = PgConnection::connect_with(&options).await.unwrap();
        psql.execute(owned).await.unwrap();
        let opened = beside_owner(&options, Duration::ZERO).await;
        if !breaks {
            opened.expect("the owner may go on");
            continue;
        }
        let error = opened.expect_err("the owner could not go on");
        assert!(
            matches!(&error, JournalError::Owned { owner, migration: 34 } if owner == "old"),
            "{error}"
        );
        psql.execute("update lease set lease_until = now()")
            .await
            .unwrap();
        let opened = beside_owner(&options, Duration::ZERO).await;
        opened.expect("nobody owns the shard");
    }
    let first = database_of(2, Uuid::now_v7()).await;
    let opened = beside_owner(&first, NEVER).await;
    opened.expect("it had no leases");
}

#[tokio::test]
async fn an_owner_that_the_database_was_away_from_has_time_to_come_back() {
    let options = database_of(33, Uuid::now_v7()).await;
    let mut psql = PgConnection::connect_with(&options).await.unwrap();
    let over = "update lease set owner = 'old', lease_until = now() - interval '1 hour'";
    psql.execute(over).await.unwrap();
    let (said, mut waited_for) = mpsc::channel(1);
    let mut says = |owner: &str| said.try_send(owner.to_owned()).expect("it says so once");
    let comes_back = async {
        assert_eq!(waited_for.recv().await.as_deref(), Some("old"));
        let renewed = "update lease set lease_until = now() + interval '1 hour'";
        psql.execute(renewed).await.unwrap();
        pending::<()>().await;
    };
    let opened = tokio::select! {
        opened = Journal::open_beside_owner(config(&options), NEVER, &mut says) => opened,
        () = comes_back => unreachable!("it goes on"),
    };
    let error = opened.expect_err("the owner is there");
    assert!(
        matches!(&error, JournalError::Owned { owner, .. } if owner == "old"),
        "{error}"
    );
    // One that stops in good order leaves nobody to be waited for.
    let mut psql = PgConnection::connect_with(&options).await.unwrap();
    psql.execute("update lease set owner = null").await.unwrap();
    let opened = beside_owner(&options, NEVER).await;
    opened.expect("nobody owns the shard");
}

#[tokio::test]
async fn the_program_says_for_which_owner_a_migration_waits_and_how_long_at_most() {
    let postgres = postgres::durable(Vec::new());
    let options = postgres.options_for(COORDINATION, COORDINATION);
    leave_behind(&options, 33, Uuid::now_v7()).await;
    let mut psql = PgConnection::connect_with(&options).await.unwrap();
    let over = "update lease set owner = 'old', lease_until = now() - interval '1 hour'";
    psql.execute(over).await.unwrap();
    let mut waits = Command::new(PROGRAM)
        .args(["migrate", "--database", &postgres.coordination_url()])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let said = BufReader::new(waits.stderr.take().expect("stderr is piped"));
    let mut lines = said.lines().map(|line| line.expect("text"));
    let line = lines.next().expect("a line");
    let expected = "waiting for up to 30 s: the server \"old\" owns the shard";
    assert!(line.starts_with(expected), "{line}");
    let renewed = "update lease set lease_until = now() + interval '1 hour'";
    psql.execute(renewed).await.unwrap();
    let line = lines.next().expect("how it ends");
    assert_eq!(line, "error: cannot migrate the database");
    let status = waits.wait().expect("it ends");
    assert_eq!(status.code(), Some(1));
}

#[tokio::test]
async fn views_that_people_have_built_on_the_log_go_on() {
    let old = Uuid::now_v7();
    let options = database_of(10, old).await;
    let mut psql = PgConnection::connect_with(&options).await.unwrap();
    let theirs = "create view theirs as select seq from execution_log order by seq";
    psql.execute(theirs).await.unwrap();
    drop(Owned::on(options).await);
    for view in ["theirs", "rallypoint_log.execution_log"] {
        let tasks = format!("select seq from {view} order by seq");
        let tasks = sqlx::query_scalar::<_, i64>(AssertSqlSafe(tasks));
        assert_eq!(tasks.fetch_all(&mut psql).await.unwrap(), [1, 2], "{view}");
    }
}

#[tokio::test]
async fn no_day_old_or_new_has_a_check_and_other_tables_keep_theirs() {
    let options = database_of(7, Uuid::now_v7()).await;
    let mut psql = PgConnection::connect_with(&options).await.unwrap();
    let theirs = "create table theirs (kind int4, constraint attempt_kind check (kind < 6))";
    psql.execute(theirs).await.unwrap();
    let before = checked(&mut psql).await;
    assert_eq!(before.len(), 2 * 3 + 1, "{before:?}");
    let owned = Owned::on(options).await;
    let far = Day(owned.now.day().0 + 100);
    owned
        .journal
        .maintenance()
        .ensure_partitions(Some(far))
        .await
        .unwrap();
    assert_eq!(checked(&mut psql).await, ["theirs"]);
}

#[tokio::test]
async fn a_day_that_was_about_to_go_holds_no_migration_up() {
    let options = database_of(7, Uuid::now_v7()).await;
    let mut psql = PgConnection::connect_with(&options).await.unwrap();
    let mut reader = PgConnection::connect_with(&options).await.unwrap();
    reader
        .execute("begin; select from submission, completion, attempt")
        .await
        .unwrap();
    psql.execute("set lock_timeout = '100ms'").await.unwrap();
    for table in ["submission", "completion", "attempt"] {
        let detach =
            format!("alter table {table} detach partition {table}_2000_01_01 concurrently");
        psql.execute(AssertSqlSafe(detach))
            .await
            .expect_err("a reader has it");
    }
    let pending = "select count(*) from pg_inherits where inhdetachpending";
    let pending: i64 = sqlx::query_scalar(pending)
        .fetch_one(&mut psql)
        .await
        .unwrap();
    assert_eq!(pending, 3);
    reader.execute("commit").await.unwrap();
    let mut owned = Owned::on(options).await;
    owned
        .write(records(
            vec![plain(handle(), 1, 1, None, owned.now)],
            vec![],
        ))
        .await;
}

#[tokio::test]
async fn a_login_that_may_create_in_a_database_it_does_not_own_serves_as_well() {
    let name = postgres::database(SUPERUSER);
    let mut psql = postgres::connect(&POSTGRES.options_for(&name, SUPERUSER)).await;
    let rights = format!(
        "grant connect, create on database {name} to {COORDINATION};
        grant usage, create on schema public to {COORDINATION}"
    );
    psql.execute(AssertSqlSafe(rights)).await.unwrap();
    let mut owned = Owned::on(POSTGRES.options_for(&name, COORDINATION)).await;
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    let one = vec![plain(handle, 1, 1, None, now)];
    owned.write(records(one, vec![])).await;
    let shown = "select concat_ws('|', current_setting('jit'), count(*))
        from rallypoint_log.execution_log";
    assert_eq!(owned.texts(shown).await, ["on|1"]);
    // An owner turns off what costs seconds and brings nothing.
    assert_eq!(Owned::new().await.texts(shown).await, ["off|0"]);
}

/// The tables of the log, and others, that have checks.
async fn checked(psql: &mut PgConnection) -> Vec<String> {
    let tables = "select distinct c.conrelid::regclass::text
        from pg_constraint c
        where c.contype = 'c' and c.conname in ('submission_count', 'completion_count', 'attempt_kind')
        order by 1";
    sqlx::query_scalar(tables).fetch_all(psql).await.unwrap()
}

#[tokio::test]
async fn a_migration_may_take_as_long_as_the_log_is_large() {
    let options = database_of(16, Uuid::now_v7()).await;
    let superuser = options.clone().username(SUPERUSER);
    let note = "
        create table limits (statement_timeout text);
        grant insert, select on limits to public;
        create function note() returns event_trigger language plpgsql as $$ begin
            insert into limits values (current_setting('statement_timeout'));
        end $$;
        create event trigger note on ddl_command_start when tag in ('COMMENT')
            execute function note()";
    let mut psql = PgConnection::connect_with(&superuser).await.unwrap();
    psql.execute(note).await.unwrap();
    Owned::on(options).await;
    let limits: Vec<String> = sqlx::query_scalar("select distinct statement_timeout from limits")
        .fetch_all(&mut psql)
        .await
        .unwrap();
    assert_eq!(limits, ["0"]);
}
