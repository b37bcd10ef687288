//! EXACTLY_ONCE tasks: what they do is there if and only if their marker is, whatever the text is,
//! and a task that has a marker is not run again.

mod transfers;

use crate::harness::{
    conversation::{Conversation, WAIT_TIMEOUT},
    postgres::{POSTGRES, connect, durable, prepare_target, value},
    server::{Server, Setup},
    work::{Work, sql},
};
use rallypoint::postgres::{SUPERUSER, TARGET};
use rallypoint_client::api::{AsyncDone, Outcome, SchedulerSettings};
use sqlx::PgConnection;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// A server whose target is prepared, and an administrator of the target's database.
struct Scene {
    server: Server,
    administrator: PgConnection,
}

impl Scene {
    async fn start() -> Scene {
        let server = Server::start().await;
        let database = server.app.get_database().expect("a database");
        prepare_target(&POSTGRES, database, &[TARGET]);
        let options = POSTGRES.options_for(database, SUPERUSER);
        let mut administrator = connect(&options).await;
        let ledger =
            "create table public.ledger (entry int not null); alter table ledger owner to app";
        run(&mut administrator, ledger).await;
        Scene {
            server,
            administrator,
        }
    }

    async fn open(&self) -> Conversation {
        self.server.open(SchedulerSettings::default()).await
    }

    /// Runs one task and returns how it ended.
    async fn done(&self, work: Work) -> AsyncDone {
        let conversation = self.open().await;
        conversation.submit([work.exactly_once()]).await;
        conversation.all_done().await.remove(0)
    }

    async fn entries(&mut self) -> String {
        let query = "select coalesce(string_agg(entry::text, ' ' order by entry), '') from ledger";
        value(&mut self.administrator, query).await
    }

    async fn markers(&mut self) -> String {
        let query = "select count(*)::text from rallypoint.marker where ended is not null";
        value(&mut self.administrator, query).await
    }
}

async fn run(session: &mut PgConnection, text: &'static str) {
    sqlx::raw_sql(text).execute(session).await.expect(text);
}

fn ending(done: &AsyncDone) -> (Outcome, &str) {
    let code = done.error.as_ref().map_or("", |error| &error.code);
    (done.outcome(), code)
}

#[tokio::test]
async fn what_a_task_does_comes_with_its_marker_or_not_at_all() {
    let mut scene = Scene::start().await;
    let done = scene
        .done(sql(
            "insert into ledger values (1); insert into ledger values (2), (3)",
        ))
        .await;
    assert_eq!(ending(&done), (Outcome::Succeeded, ""), "{done:?}");
    assert_eq!(done.result.map(|result| result.rows_affected), Some(2));
    let done = scene
        .done(sql("insert into ledger values (4); select 1/0"))
        .await;
    assert_eq!(ending(&done), (Outcome::Failed, "22012"));
    let done = scene
        .done(sql("insert into ledger values (5); select pg_sleep(3600)").timeout(200))
        .await;
    assert_eq!(ending(&done), (Outcome::TimedOut, "TIMEOUT"));
    assert_eq!(scene.entries().await, "1 2 3");
    assert_eq!(scene.markers().await, "1");
}

#[tokio::test]
async fn a_failed_attempt_has_done_nothing_and_is_retried() {
    let mut scene = Scene::start().await;
    let text = "insert into ledger values (nextval('tries'));
        select 1 / (currval('tries') - 1)";
    run(
        &mut scene.administrator,
        "create sequence public.tries; grant all on tries to app",
    )
    .await;
    let done = scene.done(sql(text).attempts(3)).await;
    assert_eq!((ending(&done), done.attempt), ((Outcome::Succeeded, ""), 2));
    assert_eq!(scene.entries().await, "2");
}

#[tokio::test]
async fn a_text_cannot_end_its_transaction() {
    let mut scene = Scene::start().await;
    run(
        &mut scene.administrator,
        "create procedure public.commits() language plpgsql as
            $$ begin insert into ledger values (9); commit; end $$;
        grant execute on procedure commits to app",
    )
    .await;
    let texts = [
        "insert into ledger values (9); commit; insert into ledger values (9)",
        "commit",
        "insert into ledger values (9); rollback; insert into ledger values (9)",
        "rollback and chain",
        "begin; insert into ledger values (9); commit",
        "savepoint here; insert into ledger values (9)",
        "insert into ledger values (9); prepare transaction 'here'",
        "call commits()",
        "do $$ begin insert into ledger values (9); commit; end $$",
        "do $$ begin execute 'commit'; end $$",
        "vacuum ledger",
        "create index concurrently on ledger (entry)",
        "insert into ledger values (9); select 1 as a into temp mine",
        "copy ledger to stdout",
    ];
    for text in texts {
        let done = scene.done(sql(text)).await;
        assert_eq!(
            ending(&done),
            (Outcome::Failed, "NOT_TRANSACTIONAL"),
            "{text}: {done:?}"
        );
        let message = done.error.expect("an error").message;
        assert!(!message.contains("not implemented"), "{text}: {message}");
    }
    // One statement that the server prepares: its grammar knows none that ends a transaction.
    for text in [
        "commit",
        "rollback",
        "call commits()",
        "vacuum",
        "prepare transaction 'x'",
    ] {
        let done = scene.done(sql(text).rows(1)).await;
        assert_eq!(ending(&done), (Outcome::Failed, "42601"), "{text}");
        let error = done.error.expect("an error");
        assert!(
            error.hint.contains("is one statement: SELECT, "),
            "{error:?}"
        );
        assert!(error.message.contains(&error.hint), "{error:?}");
    }
    let two = sql("insert into ledger values (9); commit").rows(1);
    assert_eq!(ending(&scene.done(two).await), (Outcome::Failed, "42601"));
    assert_eq!(scene.entries().await, "");
    assert_eq!(scene.markers().await, "0");
}

#[tokio::test]
async fn what_a_text_changes_of_its_session_does_not_reach_its_marker() {
    let mut scene = Scene::start().await;
    run(
        &mut scene.administrator,
        "create role other_exactly_once; grant other_exactly_once to app;
        grant insert on ledger to other_exactly_once; grant usage on schema public to other_exactly_once",
    )
    .await;
    let texts = [
        "insert into ledger values (1); reset role",
        "set role other_exactly_once; insert into ledger values (2)",
        "set client_encoding to latin1; insert into ledger values (3)",
        "set search_path to pg_temp; insert into public.ledger values (4)",
        "set synchronous_commit to off; insert into ledger values (5)",
        "set session characteristics as transaction read only; insert into ledger values (6)",
        "create temp table marker (handle text); insert into ledger values (7)",
    ];
    for text in texts {
        let done = scene.done(sql(text)).await;
        assert_eq!(ending(&done), (Outcome::Succeeded, ""), "{text}: {done:?}");
    }
    assert_eq!(scene.entries().await, "1 2 3 4 5 6 7");
    assert_eq!(scene.markers().await, "7");
    run(
        &mut scene.administrator,
        "drop owned by other_exactly_once; drop role other_exactly_once",
    )
    .await;
}

#[tokio::test]
async fn what_a_text_puts_off_is_done_before_its_marker_is_complete() {
    let mut scene = Scene::start().await;
    run(
        &mut scene.administrator,
        "create table public.late (a int unique deferrable initially deferred);
        create table public.noted (a int);
        alter table late owner to app; alter table noted owner to app;
        create function public.notes() returns trigger language plpgsql as $$ begin
            insert into ledger select 100 where current_user = 'app';
            update rallypoint.marker set outcome = 'forged';
            return null;
        end $$;
        create constraint trigger notes after insert on noted deferrable initially deferred
        for each row execute function notes()",
    )
    .await;
    let done = scene
        .done(sql(
            "insert into ledger values (1); insert into late values (1), (1)",
        ))
        .await;
    assert_eq!(ending(&done), (Outcome::Failed, "23505"), "{done:?}");
    let done = scene
        .done(sql(
            "insert into ledger values (2); insert into noted values (2)",
        ))
        .await;
    assert_eq!(
        ending(&done),
        (Outcome::Failed, "42501"),
        "a trigger has no rights of the service"
    );
    assert_eq!(
        (scene.entries().await, scene.markers().await),
        ("".into(), "0".into())
    );
}

#[tokio::test]
async fn a_text_cannot_complete_or_forge_a_marker() {
    let mut scene = Scene::start().await;
    let refused = [
        "update rallypoint.marker set outcome = '{}'",
        "select * from rallypoint.marker",
        "delete from rallypoint.marker",
        "drop schema rallypoint cascade",
    ];
    for text in refused {
        let done = scene.done(sql(text)).await;
        assert_eq!(ending(&done), (Outcome::Failed, "42501"), "{text}");
    }
    let complete = "call rallypoint.complete_task(
        substring(current_query() from 'task=''([^%]*)'), 1, gen_random_uuid(), 0, '{}', '')";
    let done = scene.done(sql(complete)).await;
    assert_eq!(ending(&done), (Outcome::Failed, "NOT_TRANSACTIONAL"));
    let secret = "do $$ begin
        if current_query() like '%-%-7%-%-%' and current_query() not like '%task=%' then
            raise 'the secret is to be seen';
        end if;
    end $$";
    assert_eq!(
        ending(&scene.done(sql(secret)).await),
        (Outcome::Succeeded, "")
    );
    assert_eq!(scene.markers().await, "1");
}

#[tokio::test]
async fn parameters_and_rows_are_as_of_any_other_task() {
    let mut scene = Scene::start().await;
    let insert = sql("insert into ledger values ($1), ($2) returning entry, $3::text as said")
        .params(&["7", "8", "it's"])
        .rows(5);
    let done = scene.done(insert).await;
    assert_eq!(ending(&done), (Outcome::Succeeded, ""), "{done:?}");
    let result = done.result.expect("a result");
    let rows = result.rows_json.clone();
    assert_eq!(
        rows,
        r#"[{"entry":7,"said":"it's"},{"entry":8,"said":"it's"}]"#
    );
    assert_eq!(result.rows_affected, 2);
    let few = sql("insert into ledger values ($1), ($2)").params(&["7"]);
    assert_eq!(
        ending(&scene.done(few).await),
        (Outcome::Failed, "PARAMS_INVALID")
    );
    for (work, position) in [
        (sql("select nothing"), 8),
        (sql("select nothing").rows(1), 8),
    ] {
        let done = scene.done(work).await;
        assert_eq!(ending(&done), (Outcome::Failed, "42703"));
        let error = done.error.expect("an error");
        assert_eq!(
            (error.position, &*error.context),
            (Some(position), ""),
            "{error:?}"
        );
    }
    assert_eq!(scene.entries().await, "7 8");
}

#[tokio::test]
async fn a_task_that_has_a_marker_is_not_run_and_ends_as_that_says() {
    let mut scene = Scene::start().await;
    let first = scene.open().await;
    let text = "insert into ledger values (1) returning entry";
    first.submit([sql(text).rows(3).exactly_once()]).await;
    let original = first.all_done().await.remove(0);
    let second = scene.open().await;
    sqlx::query("update rallypoint.marker set handle = $1 where handle = $2")
        .bind(second.handle())
        .bind(first.handle())
        .execute(&mut scene.administrator)
        .await
        .expect("updated");
    second.submit([sql(text).rows(3).exactly_once()]).await;
    let repeated = second.all_done().await.remove(0);
    assert_eq!(repeated.outcome(), Outcome::Succeeded);
    assert_eq!(repeated.result, original.result);
    assert_eq!(repeated.backend_pid, original.backend_pid);
    assert_eq!(repeated.replica, original.replica);
    assert_eq!(scene.entries().await, "1");
}

#[tokio::test]
async fn a_marker_that_no_attempt_has_completed_is_said_to_be_wrong() {
    let mut scene = Scene::start().await;
    let conversation = scene.open().await;
    // Of today, so that it is not past the retention.
    let insert = "insert into rallypoint.marker (handle, seq, secret, begun)
        values ($1, 1, gen_random_uuid(), extract(epoch from now())::int8 * 1000000)";
    sqlx::query(insert)
        .bind(conversation.handle())
        .execute(&mut scene.administrator)
        .await
        .expect("inserted");
    let work = sql("insert into ledger values (1)").exactly_once();
    conversation.submit([work]).await;
    let done = conversation.all_done().await.remove(0);
    assert_eq!(ending(&done), (Outcome::Failed, "MARKER_INVALID"));
    assert_eq!(scene.entries().await, "");
}

#[tokio::test]
async fn a_target_without_a_place_for_markers_says_what_to_run() {
    let server = Server::start().await;
    let conversation = server.open(SchedulerSettings::default()).await;
    conversation
        .submit([sql("create table here ()").exactly_once()])
        .await;
    let done = conversation.all_done().await.remove(0);
    assert_eq!(ending(&done), (Outcome::Failed, "EXACTLY_ONCE_UNPREPARED"));
    let message = done.error.expect("an error").message;
    assert!(message.contains("rallypoint prepare-target"), "{message}");
    let mut app = connect(&server.app).await;
    let query = "select coalesce(to_regclass('here')::text, 'none')";
    assert_eq!(value(&mut app, query).await, "none");
}

#[tokio::test]
async fn markers_go_when_their_tasks_are_past_the_retention() {
    let postgres = durable(Vec::new());
    prepare_target(&postgres, TARGET, &[TARGET]);
    let mut administrator = connect(&postgres.options_for(TARGET, SUPERUSER)).await;
    // Days ago: of its beginning, and of its end.
    for (name, begun, ended) in [
        ("old", 60, Some(60)),
        ("long", 60, Some(10)),
        ("young", 10, Some(10)),
        ("open", 60, None),
    ] {
        let insert = "insert into rallypoint.marker (handle, seq, secret, begun, ended)
            select $1, n, gen_random_uuid(), now.us - $2 * day.us, now.us - $3 * day.us
            from generate_series(1, 2500) n,
                (select (extract(epoch from now()) * 1000000)::int8 as us) now,
                (select 86400000000 as us) day";
        sqlx::query(insert)
            .bind(name)
            .bind(begun)
            .bind(ended)
            .execute(&mut administrator)
            .await
            .expect("inserted");
    }
    let setup = Setup {
        postgres: Some(&postgres),
        ..Setup::default()
    };
    let _server = Server::with(setup).await;
    let left = "select string_agg(distinct handle, ' ' order by handle) from rallypoint.marker";
    let wait = async {
        while value(&mut administrator, left).await != "long young" {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait).await.expect("they go in time");
    let count = "select count(*)::text from rallypoint.marker";
    assert_eq!(value(&mut administrator, count).await, "5000");
}
