//! When the database refuses what a batch holds, or has lost what it acknowledged, nobody else is
//! held up, and those who are concerned learn of it.

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    postgres::{connect, value},
    server::{Server, Setup},
    work::{noop, sql},
};
use futures_util::future::BoxFuture;
use rallypoint::core::model::limits::Limits;
use rallypoint_client::{
    Error,
    api::{SchedulerSettings, until::Kind},
};
use sqlx::Executor;
use std::time::Duration;
use tokio::time::timeout;

#[tokio::test]
async fn a_call_that_the_database_cannot_write_fails_alone() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let poison = "create function poison() returns trigger language plpgsql as $$ begin
            if position('poison'::bytea in new.bodies) > 0 then
                raise exception 'no room for it' using errcode = 'XX000';
            end if;
            return new;
        end $$;
        create trigger poison before insert on submission for each row execute function poison()";
    let mut journal = connect(&server.journal).await;
    journal.execute(poison).await.expect("a trigger");

    let patient = server.client.clone().with_retry_timeout(WAIT_TIMEOUT);
    let (other, handle) = (patient.scheduler(scheduler.handle()), scheduler.handle());
    let poisoned = server.client.scheduler(handle);
    let (refused, accepted) = tokio::join!(
        timeout(
            WAIT_TIMEOUT,
            poisoned.exec(vec![sql("select 'poison'").into()])
        ),
        timeout(WAIT_TIMEOUT, other.exec(vec![noop().into()])),
    );
    let refused = refused
        .expect("it is answered")
        .expect_err("it cannot be written");
    assert_eq!(
        refused.reason.as_deref(),
        Some("JOURNAL_REJECTED"),
        "{refused:?}"
    );
    accepted.expect("it is answered").expect("it is accepted");
}

#[tokio::test]
async fn a_stream_ends_when_the_database_has_lost_the_events_it_told() {
    let server = Server::with(Setup {
        limits: Limits {
            streams: 1,
            ..Limits::default()
        },
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut journal = connect(&server.journal).await;
    let mut stream = scheduler
        .scheduler
        .synchronize(0, Some(Kind::Forever(())))
        .await
        .expect("a stream");
    scheduler.submit(noop().times(3)).await;
    while stream.cursor() < 3 {
        timeout(WAIT_TIMEOUT, stream.next())
            .await
            .expect("in time")
            .expect("it goes on");
    }

    // What an older copy of the database does not hold, which ends the sessions of the other one:
    // one batch, whose number the next ownership begins with.
    let lose = "begin;
         delete from submission;
         delete from completion;
         delete from batch where batch_no = (select max(batch_no) from batch);
         update scheduler set highest_seq = 0, done_no = 0, unfinished = '{}';
         commit";
    journal.execute(lose).await.expect("lost");
    let end = "select count(pg_terminate_backend(pid))::text
        from pg_stat_activity
        where datname = current_database() and application_name = 'rallypoint journal writer'";
    assert_eq!(value(&mut journal, end).await, "1");
    // Something is written, and found out.
    let pause = server.open(SchedulerSettings::default()).await;
    drop(pause);

    let ended = async { while let Ok(Some(_)) = stream.next().await {} };
    timeout(WAIT_TIMEOUT, ended).await.expect("the stream ends");
    drop(stream);
    // It takes the place of no other one.
    let patient = server.client.clone().with_retry_timeout(WAIT_TIMEOUT);
    let again = patient.scheduler(scheduler.handle());
    let again = again.synchronize(0, Some(Kind::Forever(()))).await;
    again.expect("there is room");
}

#[tokio::test]
async fn numbers_of_batches_that_have_run_out_are_made_although_nothing_becomes_durable() {
    let server = Server::start().await;
    server.open(SchedulerSettings::default()).await;
    let mut journal = connect(&server.journal).await;
    // The hourly round would make them, too.
    let first_round = async {
        while value(&mut journal, "select count(*)::text from lived_day").await == "0" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(WAIT_TIMEOUT, first_round).await.expect("in time");
    // Another owner, which has written up to the last number of the only range there is.
    let run_out = "begin;
        update shard set epoch = epoch + 1;
        insert into batch (shard, batch_no, epoch, at)
        select s.shard, b.no, s.epoch, now()
        from shard s
        cross join (
            select max(batch_no) + 1
            from batch
            union all
            select 999999
        ) as b (no);
        drop table batch_1, batch_2, batch_3, batch_4;
        commit";
    journal.execute(run_out).await.expect("they have run out");
    let patient = server.client.clone().with_retry_timeout(WAIT_TIMEOUT);
    let opened = timeout(WAIT_TIMEOUT, patient.open(SchedulerSettings::default()));
    opened.await.expect("in time").expect("it is durable");
}

#[tokio::test]
async fn nothing_of_others_is_read_before_the_namespace_is_checked() {
    let server = Server::with(Setup {
        trusted: true,
        ..Setup::default()
    })
    .await;
    let ours = server.of_namespace("one");
    let scheduler = server.open_as(&ours, SchedulerSettings::default()).await;
    scheduler.submit([noop()]).await;
    scheduler.all_done().await;
    // Whoever reads tasks or events waits for ever.
    let mut journal = connect(&server.journal).await;
    let lock = "begin; lock table submission, completion, attempt in access exclusive mode";
    journal.execute(lock).await.expect("locked");
    let theirs = server.of_namespace("two").scheduler(scheduler.handle());
    let calls: [BoxFuture<'_, Option<Error>>; 5] = [
        Box::pin(async { theirs.task(1).await.err() }),
        Box::pin(async { theirs.cancel(1).await.err() }),
        Box::pin(async { theirs.retry(1).await.err() }),
        Box::pin(async { theirs.explain(1).await.err() }),
        Box::pin(async { theirs.attempts(1, Default::default()).await.err() }),
    ];
    for call in calls {
        let error = timeout(WAIT_TIMEOUT, call).await.expect("an answer");
        let error = error.expect("it is not theirs");
        assert!(error.is("HANDLE_NOT_FOUND"), "{error:?}");
    }
}
