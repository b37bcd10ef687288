//! The log in words: every view and function for people says what the journal holds.

use super::{Owned, make::*, scene::scene};
use crate::harness::postgres::{POSTGRES, connect, value};
use rallypoint::{core::*, postgres::SUPERUSER};
use sqlx::{AssertSqlSafe, Executor, PgConnection};
use std::{sync::Arc, time::Duration};

/// Tables, views, their columns and functions without a comment.
const SILENT: &str = "
with object as (
    select 'pg_class'::regclass as class, c.oid, 0 as sub, c.oid::regclass::text as name
    from pg_class c
    where c.relkind in ('r', 'p', 'v')
        and not c.relispartition
        and c.relnamespace in ('public'::regnamespace, 'rallypoint_log'::regnamespace)
    union all
    select 'pg_class'::regclass, c.oid, a.attnum, c.oid::regclass || '.' || a.attname
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relkind in ('r', 'p', 'v')
        and not c.relispartition
        and c.relnamespace in ('public'::regnamespace, 'rallypoint_log'::regnamespace)
    union all
    select 'pg_proc'::regclass, p.oid, 0, p.oid::regprocedure::text
    from pg_proc p
    where p.pronamespace in ('public'::regnamespace, 'rallypoint_log'::regnamespace)
    union all
    select 'pg_namespace'::regclass, 'rallypoint_log'::regnamespace, 0, 'rallypoint_log'
)
select o.name
from object o
where not exists (
    select from pg_description d where d.classoid = o.class and d.objoid = o.oid and d.objsubid = o.sub
)
order by o.name";

#[tokio::test]
async fn everything_in_the_database_says_what_it_is() {
    let owned = Owned::new().await;
    let mut psql = owned.psql().await;
    assert_eq!(texts(&mut psql, SILENT).await, [""; 0]);
    let caller = "select col_description(attrelid, attnum) from pg_attribute
        where attrelid = 'rallypoint_log.execution_log'::regclass and attname = 'caller'";
    let said = texts(&mut psql, caller).await.join("");
    assert!(said.ends_with("see submitted_by."), "{said}");
    let silence = "comment on column batch.at is null;
        comment on function rallypoint_log.task(uuid, int8) is null;
        comment on view rallypoint_log.failures is null";
    psql.execute(silence).await.unwrap();
    assert_eq!(
        texts(&mut psql, SILENT).await,
        [
            "batch.at",
            "rallypoint_log.failures",
            "rallypoint_log.task(uuid,bigint)"
        ]
    );
}

#[tokio::test]
async fn a_scheduler_is_shown_in_words_with_what_it_has_done() {
    let mut scene = scene().await;
    let shown =
        "select concat_ws('|', namespace, caller, display_name, state, release_mode, paused,
            halted_by_order, submitted, ended, opened_at is not null, released_at is not null,
            max_parallelism, settings ->> 'weight', name)
        from rallypoint_log.schedulers
        order by handle";
    let caller = "default|alice \\000 \\303\\274|nul \u{fffd} too";
    assert_eq!(
        scene.owned.texts(shown).await,
        [format!("{caller}|open|f|6|5|t|f|3|1.0|nightly")]
    );
    let mut image = image(scene.handle, scene.now);
    image.state = SchedulerState::Releasing;
    image.release_mode = Some(ReleaseMode::Finish);
    image.paused = true;
    image.halt = Some(Halt {
        order: Order(7),
        failed: vec![Seq(1)],
        failures: None,
    });
    image.settings = Arc::default();
    scene.owned.write_images([image.clone()]).await;
    let caller = "default|alice \\000 \\303\\274";
    assert_eq!(
        scene.owned.texts(shown).await,
        [format!("{caller}|releasing|finish|t|7|6|5|t|f|1.0|nightly")]
    );
    image.state = SchedulerState::Released;
    image.release_mode = Some(ReleaseMode::Cancel);
    image.released_at = Some(scene.now);
    (image.paused, image.halt) = (false, None);
    // At rest the checkpoint counts, whatever rows are left.
    image.checkpoint.highest_seq = Seq(60);
    image.checkpoint.done_no = DoneNo(60);
    image.checkpoint.quiesced = true;
    scene.owned.write_images([image]).await;
    assert_eq!(
        scene.owned.texts(shown).await,
        [format!("{caller}|released|cancel|f|60|60|t|t|1.0|nightly")]
    );
}

#[tokio::test]
async fn what_cannot_be_read_hides_nothing_else() {
    let scene = scene().await;
    let broken = "update scheduler set settings = '\\xff'; update submission set specs = 'x';
        update completion set diagnostics = null, diagnostics_ends = null";
    scene.owned.psql().await.execute(broken).await.unwrap();
    let shown = "select concat_ws('|', state, submitted, settings) from rallypoint_log.schedulers";
    assert_eq!(scene.owned.texts(shown).await, ["open|6"]);
    let log = "select concat_ws('|', seq, target, statement, outcome, replica)
        from rallypoint_log.execution_log
        where seq in (1, 6)
        order by seq";
    assert_eq!(
        scene.owned.texts(log).await,
        ["1|body 1|failed", "6|body 6"]
    );
}

#[tokio::test]
async fn where_a_task_ran_and_what_failed_is_shown() {
    let scene = scene().await;
    let ran = "select concat_ws('|', seq, target, replica, slot, backend_pid, notices,
            diagnostics ->> 'replica')
        from rallypoint_log.execution_log
        where replica is not null";
    assert_eq!(
        scene.owned.texts(ran).await,
        ["2|app|r|3|4711|NOTICE: ü\n|r"]
    );
    let failed = "select concat_ws('|', seq, namespace, outcome, attempt, error_code, statement)
        from rallypoint_log.failures";
    assert_eq!(
        scene.owned.texts(failed).await,
        ["1|default|failed|2|22012|body 1"]
    );
}

#[tokio::test]
async fn one_task_is_found_by_its_name_with_all_of_its_statement() {
    let mut scene = scene().await;
    let (handle, now) = (scene.handle.uuid(), scene.now);
    let long = format!("select '{}'", "ü".repeat(1000));
    let mut call = plain(scene.handle, 7, 1, None, now);
    Arc::make_mut(&mut call.submit).bodies = Packed::new([long.as_bytes()]);
    scene.owned.write(records(vec![call], vec![])).await;
    let same = format!(
        "select count(*)::text
        from rallypoint_log.execution_log l
        cross join lateral rallypoint_log.task(l.handle, l.seq) t
        where l::text = t::text and l.handle = '{handle}'"
    );
    assert_eq!(scene.owned.texts(&same).await, ["7"]);
    let one = |seq| {
        format!(
            "select concat_ws('|', outcome, length(statement),
                (select length(w) from rallypoint_log.statement('{handle}', {seq}) w))
            from rallypoint_log.task('{handle}', {seq})"
        )
    };
    assert_eq!(scene.owned.texts(&one(1)).await, ["failed|6|6"]);
    assert_eq!(scene.owned.texts(&one(7)).await, ["200|1009"]);
    assert_eq!(
        scene.owned.texts(&one(3)).await,
        ["cancelled"],
        "a no-op has no statement"
    );
    assert_eq!(scene.owned.texts(&one(8)).await, [""; 0]);
    let whole = format!("select rallypoint_log.statement('{handle}', 7)");
    assert_eq!(scene.owned.texts(&whole).await, [long]);
}

#[tokio::test]
async fn the_steps_of_an_attempt_are_shown_in_words() {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    let error = Arc::new(TaskError {
        code: "40001".into(),
        message: "could not serialize".into(),
    });
    let next_at = now + Duration::from_secs(1);
    let steps = [
        AttemptEvent::Start,
        AttemptEvent::CancelRequested {
            why: Some(Arc::new(TaskError::cancelled(
                "cancelled by ann while it ran",
            ))),
        },
        AttemptEvent::Lost {
            next_at,
            error: None,
        },
        AttemptEvent::Failed { next_at, error },
        AttemptEvent::HandedBack,
    ];
    let attempts = steps.map(|what| AttemptRecord {
        handle,
        seq: Seq(1),
        attempt: Attempt(what.number() as i32),
        what,
        at: now,
        ran: None,
    });
    owned
        .write(Records {
            attempts: attempts.into(),
            ..Records::default()
        })
        .await;
    let newer = "insert into attempt (shard, handle, seq, attempt, kind, day, at)
        select shard, handle, seq, 6, 1000, day, at from attempt limit 1";
    owned.psql().await.execute(newer).await.unwrap();
    let shown = "select concat_ws('|', attempt, event, next_at > at, error_code, error_message)
        from rallypoint_log.attempts
        order by attempt";
    assert_eq!(
        owned.texts(shown).await,
        [
            "1|started",
            "2|cancel requested|CANCELLED|cancelled by ann while it ran",
            "3|lost|t",
            "4|failed|t|40001|could not serialize",
            "5|handed back",
            "6|1000"
        ]
    );
}

#[tokio::test]
async fn a_role_that_may_read_the_log_reads_all_of_it_and_nothing_else() {
    let scene = scene().await;
    let database = scene.owned.options.get_database().unwrap().to_owned();
    let role = format!("reader_of_{database}");
    let grants = format!(
        "create role {role} login;
        grant connect on database {database} to {role};
        grant usage on schema rallypoint_log to {role};
        grant select on all tables in schema rallypoint_log to {role}"
    );
    let superuser = POSTGRES.options_for(&database, SUPERUSER);
    let grants = AssertSqlSafe(grants);
    connect(&superuser).await.execute(grants).await.unwrap();
    let mut reader = connect(&POSTGRES.options_for(&database, &role)).await;
    let views = "select format('select count(*)::text from rallypoint_log.%I', relname)
        from pg_class
        where relnamespace = 'rallypoint_log'::regnamespace and relkind = 'v'";
    let views = texts(&mut reader, views).await;
    assert!(views.len() >= 9, "{views:?}");
    for view in views {
        texts(&mut reader, &view).await;
    }
    let all = "select concat_ws('|', count(*), count(r.statement),
            count(rallypoint_log.statement(l.handle, l.seq)),
            (select count(*) from rallypoint_log.executions_since('1 hour')))
        from rallypoint_log.execution_log l
        cross join lateral rallypoint_log.task(l.handle, l.seq) r";
    assert_eq!(value(&mut reader, all).await, "6|4|4|5");
    for other in [
        "select count(*) from submission",
        "select count(*) from public.scheduler",
        "delete from rallypoint_log.submission_row",
        "create table public.mine (a int4)",
        "create table rallypoint_log.mine (a int4)",
    ] {
        let error = reader.execute(other).await.expect_err(other);
        let code = error.as_database_error().and_then(|error| error.code());
        assert!(
            matches!(code.as_deref(), Some("42501" | "42P01")),
            "{other}: {error}"
        );
    }
}

impl Owned {
    /// The one column of a query, as a person reads it.
    pub(super) async fn texts(&self, query: &str) -> Vec<String> {
        texts(&mut self.psql().await, query).await
    }
}

async fn texts(psql: &mut PgConnection, query: &str) -> Vec<String> {
    let rows = sqlx::query_scalar(AssertSqlSafe(query.to_owned()));
    rows.fetch_all(psql).await.expect(query)
}
