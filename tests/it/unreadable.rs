//! A journal that cannot be read, in part or by one replica, costs nobody else anything.

mod locked;

use crate::harness::{
    cluster::Cluster,
    conversation::{Conversation, WAIT_TIMEOUT},
    postgres::{connect, value},
    work::{noop, sql},
};
use prost_types::FieldMask;
use rallypoint::postgres::{COORDINATION, SUPERUSER, TARGET};
use rallypoint_client::{
    Client,
    api::{
        AsyncDone, CreateJobRequest, CreateResourceRequest, JobSettings, Outcome, ResourceSettings,
        ResourceUse, SchedulerSettings, TryAcquireRequest, UpdateResourceRequest,
    },
};
use sqlx::Executor;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::Code;

impl Cluster {
    /// Changes the journal behind the back of the service.
    async fn meddle(&self, role: &str, statements: String) {
        let mut journal = connect(&self.postgres.options_for(COORDINATION, role)).await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(statements))
            .execute(&mut journal)
            .await
            .expect("meddled");
    }

    async fn open_named(&self, client: &Client, name: &str) -> Conversation {
        let opened = client.open_named(name, SchedulerSettings::default()).await;
        self.conversation(client, opened.expect("opened").handle())
    }
}

#[tokio::test]
async fn a_scheduler_that_cannot_be_read_answers_data_loss_and_the_others_are_served() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client(0);
    let open = async |name| cluster.open_named(&client, name).await;
    let (settings, rows, whole) = (open("a").await, open("b").await, open("c").await);
    for scheduler in [&settings, &rows, &whole] {
        scheduler
            .submit([sql("select pg_sleep(600)").order(1), noop().order(2)])
            .await;
    }
    let meddled = format!(
        "update scheduler set settings = '?' where handle = '{}';
        update submission set specs = '?' where handle = '{}'",
        settings.handle(),
        rows.handle()
    );
    cluster.meddle(COORDINATION, meddled).await;
    cluster.kill_9(0);
    cluster.restart(0);
    whole.submit([noop()]).await;
    whole.until(|now| now.done == 1).await;
    for lost in [&settings, &rows] {
        let described = lost.scheduler.describe().await;
        let described = described.expect_err("it cannot be read");
        assert_eq!(described.code, Code::DataLoss, "{described}");
        assert!(described.is("DATA_UNREADABLE"), "{described}");
        let submitted = lost
            .try_submit([noop()])
            .await
            .expect_err("it takes nothing");
        assert_eq!(submitted.code, Code::DataLoss, "{submitted}");
        let stream = lost.scheduler.synchronize(0, None).await;
        let ended = match stream {
            Ok(mut stream) => stream.next().await.map(drop),
            Err(error) => Err(error),
        };
        assert_eq!(ended.expect_err("nothing to read").code, Code::DataLoss);
    }
    keep_their_names(&client).await;
    let status = client.status().await.expect("a status");
    let mut listed: Vec<&str> = status
        .unreadable_schedulers
        .iter()
        .map(|one| &*one.handle)
        .collect();
    let mut lost = [settings.handle(), rows.handle()];
    listed.sort_unstable();
    lost.sort_unstable();
    assert_eq!(listed, lost, "{status:?}");
    assert!(
        status
            .unreadable_schedulers
            .iter()
            .all(|one| !one.why.is_empty()),
        "{status:?}"
    );
    whole.cancel_everything().await;
}

#[tokio::test]
async fn what_must_not_start_twice_does_not_when_its_scheduler_can_be_read_again() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client(0);
    let open = async |name| cluster.open_named(&client, name).await;
    let (lost, whole) = (open("a").await, open("b").await);
    let target = cluster.postgres.options_for(TARGET, TARGET);
    let mut target = connect(&target).await;
    target
        .execute("create sequence starts")
        .await
        .expect("created");
    for scheduler in [&lost, &whole] {
        let task = sql("select nextval('starts'), pg_sleep(600)").at_most_once();
        scheduler.submit([task]).await;
    }
    let starts = "select coalesce(pg_sequence_last_value('starts'), 0)::text";
    while value(&mut target, starts).await != "2" {
        sleep(Duration::from_millis(20)).await;
    }
    let settings = |value: &str| {
        let handle = lost.handle();
        format!("update scheduler set settings = {value} where handle = '{handle}'")
    };
    cluster
        .meddle(COORDINATION, settings("'?'::bytea || settings"))
        .await;
    cluster.kill_9(0);
    cluster.restart(0);
    // The sessions of the last process are fenced, and nobody has reported their tasks.
    assert_eq!(whole.all_done().await[0].outcome(), Outcome::Exhausted);
    assert!(lost.scheduler.describe().await.is_err());
    cluster
        .meddle(COORDINATION, settings("substring(settings from 2)"))
        .await;
    // One that stops in good order leaves no session to be fenced.
    cluster.terminate(0).await;
    cluster.restart(0);
    assert_eq!(lost.all_done().await[0].outcome(), Outcome::Exhausted);
    assert_eq!(value(&mut target, starts).await, "2");
}

#[tokio::test]
async fn a_task_whose_body_cannot_be_read_fails_and_the_others_run() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client(0);
    let open = async |name| cluster.open_named(&client, name).await;
    let (torn, gone, whole) = (open("a").await, open("b").await, open("c").await);
    let all = [&torn, &gone, &whole];
    for scheduler in all {
        scheduler.scheduler.pause().await.expect("paused");
        scheduler.submit([sql("select 1"), sql("select 2")]).await;
    }
    let of = |statement: &str, one: &Conversation| {
        format!("{statement} where handle = '{}'", one.handle())
    };
    let tear = of("update submission set bodies = ''", &torn);
    cluster.meddle(COORDINATION, tear).await;
    cluster.kill_9(0);
    cluster.restart(0);
    gone.until(|now| now.paused && now.submitted == 2).await;
    let delete = of("delete from submission", &gone);
    cluster.meddle(COORDINATION, delete).await;
    for scheduler in all {
        scheduler.scheduler.resume(false).await.expect("resumed");
    }
    for scheduler in all {
        scheduler.until(|now| now.done == 2).await;
    }
    for lost in [&torn, &gone] {
        go_on(lost).await;
    }
}

#[tokio::test]
async fn a_row_that_the_storage_does_not_give_keeps_nobody_else_waiting() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client(0);
    let open = async |name| cluster.open_named(&client, name).await;
    let (lost, whole) = (open("a").await, open("b").await);
    for scheduler in [&lost, &whole] {
        scheduler.scheduler.pause().await.expect("paused");
        scheduler.submit((0..5).map(|_| sql("select 1"))).await;
        scheduler.submit((0..5).map(|_| sql("select 2"))).await;
    }
    let bad_sector = format!(
        "create function is_given(handle uuid, first_seq int8) returns bool language plpgsql as $$
        begin
            if handle = '{}' and first_seq = 1 then
                raise 'a bad sector' using errcode = '58030';
            end if;
            return true;
        end $$;
        create policy given on submission using (is_given(handle, first_seq));
        alter table submission enable row level security;
        alter table submission force row level security",
        lost.handle()
    );
    cluster.kill_9(0);
    cluster.restart(0);
    lost.until(|now| now.paused && now.submitted == 10).await;
    cluster.meddle(COORDINATION, bad_sector).await;
    for scheduler in [&lost, &whole] {
        scheduler.scheduler.resume(false).await.expect("resumed");
    }
    whole.until(|now| now.done == 10).await;
    lost.until(|now| now.done == 10).await;
    for (seq, ending) in endings(&lost, 10).await {
        assert_eq!(ending, if seq <= 5 { unreadable() } else { good() });
    }
}

type Ending = (Outcome, Option<String>);

fn good() -> Ending {
    (Outcome::Succeeded, None)
}

fn unreadable() -> Ending {
    (Outcome::Failed, Some("DATA_UNREADABLE".to_owned()))
}

/// How so many tasks have ended, and with which error.
async fn endings(of: &Conversation, count: usize) -> Vec<(i64, Ending)> {
    let events = of.scheduler.synchronize(0, None).await;
    let mut events = events.expect("a stream");
    let mut seen = Vec::new();
    while seen.len() < count {
        let next = timeout(WAIT_TIMEOUT, events.next()).await.expect("in time");
        seen.extend(next.expect("it goes on").expect("more events"));
    }
    let ending = |done: &AsyncDone| {
        let code = done.error.as_ref().map(|error| error.code.clone());
        (done.seq, (done.outcome(), code))
    };
    seen.iter().map(ending).collect()
}

/// The tasks before cannot be read; what is new goes on in the same scheduler.
async fn go_on(lost: &Conversation) {
    lost.submit([sql("select 3")]).await;
    lost.until(|now| now.done == 3).await;
    for (seq, ending) in endings(lost, 3).await {
        assert_eq!(ending, if seq == 3 { good() } else { unreadable() });
    }
}

/// Nobody else may be found or opened under the names of those that cannot be read.
async fn keep_their_names(client: &Client) {
    for name in ["a", "b"] {
        let taken = client.reuse(name, SchedulerSettings::default()).await;
        let taken = taken.expect_err("whoever has the name cannot be served");
        assert!(taken.is("DATA_UNREADABLE"), "{taken}");
    }
}

#[tokio::test]
async fn an_owner_that_cannot_read_the_journal_hands_the_shard_to_one_that_can() {
    let mut cluster = Cluster::start(2).await;
    let owner = cluster.owner().await;
    let conversation = cluster
        .open(&cluster.client_of_all(), SchedulerSettings::default())
        .await;
    // The other one has a login that will find something else under the name of a table.
    let prepared = "create role weak login in role rallypoint; grant pg_read_all_stats to weak";
    let prepared = prepared.to_owned();
    cluster.meddle(SUPERUSER, prepared).await;
    let weak = cluster.postgres.url_for(COORDINATION, "weak");
    cluster.terminate(1 - owner).await;
    cluster.restart_on(1 - owner, &weak);
    cluster.wait_until_ready(1 - owner).await;
    let broken = "create schema broken;
        create view broken.scheduler as
            select * from public.scheduler where 1 / (shard - shard) = 0;
        grant usage on schema broken to weak;
        grant select on broken.scheduler to weak;
        alter role weak set search_path = broken, public"
        .to_owned();
    cluster.meddle(SUPERUSER, broken).await;
    cluster.kill_9(owner);
    let other = 1 - owner;
    let taken = async {
        while cluster.owner_in_the_journal().await.as_deref() != Some(&*format!("r{other}")) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, taken).await.expect("it takes over");
    cluster.restart(owner);
    conversation.submit([noop()]).await;
    assert_eq!(conversation.all_done().await.len(), 1);
    assert_eq!(cluster.owner().await, owner);
}

#[tokio::test]
async fn a_handover_to_who_never_comes_leaves_the_shard_an_owner() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client(0);
    // As if only the answer to the handover had been lost, and then the successor.
    let handed_over = "update lease set lease_until = now(), handover_to = gen_random_uuid()";
    cluster.meddle(COORDINATION, handed_over.into()).await;
    let coordination = cluster.postgres.options_for(COORDINATION, COORDINATION);
    let mut journal = connect(&coordination).await;
    let owned_again = async {
        while let Ok(true) = sqlx::query_scalar("select handover_to is not null from lease")
            .fetch_one(&mut journal)
            .await
        {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let owned_again = timeout(WAIT_TIMEOUT, owned_again).await;
    owned_again.expect("the owner leaves the shard, and takes it when nobody comes");
    let scheduler = cluster.open(&client, SchedulerSettings::default()).await;
    scheduler.submit([noop()]).await;
    assert_eq!(scheduler.all_done().await.len(), 1);
}

#[tokio::test]
async fn a_hold_whose_row_makes_no_sense_is_kept_and_a_resource_is_closed() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client(0);
    let settings = ResourceSettings {
        capacity: 1,
        ..ResourceSettings::default()
    };
    for name in ["orders", "invoices"] {
        let request = CreateResourceRequest {
            name: name.into(),
            settings: Some(settings),
        };
        client.create_resource(request).await.expect("created");
    }
    let is_free = async |name: &str| {
        let request = TryAcquireRequest {
            resources: vec![ResourceUse {
                name: name.into(),
                ..ResourceUse::default()
            }],
            ..TryAcquireRequest::default()
        };
        let tried = client.try_acquire(request).await.expect("answered");
        tried.claim.is_some()
    };
    let hold = client.acquire("orders").await.expect("granted");
    let meddled = "update claim
        set spec = convert_to(replace(convert_from(spec, 'UTF8'), 'Exclusive', 'New'), 'UTF8');
        update resource set settings = '?' where name = 'invoices'";
    cluster.meddle(COORDINATION, meddled.into()).await;
    cluster.kill_9(0);
    cluster.restart(0);
    assert!(!is_free("orders").await);
    assert!(!is_free("invoices").await);
    hold.release().await.expect("it is kept for its holder");
    assert!(is_free("orders").await);
    let update = UpdateResourceRequest {
        name: "invoices".into(),
        settings: Some(settings),
        update_mask: Some(FieldMask {
            paths: vec!["capacity".into()],
        }),
    };
    client.update_resource(update).await.expect("updated");
    assert!(is_free("invoices").await);
}

#[tokio::test]
async fn a_job_that_cannot_be_read_keeps_its_name_and_the_others_are_served() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client(0);
    let create = |name: &str| CreateJobRequest {
        name: name.into(),
        settings: Some(JobSettings {
            schedule: crate::jobs::every(7 * 86_400),
            steps: vec![noop().into()],
            ..JobSettings::default()
        }),
        ..CreateJobRequest::default()
    };
    for name in ["torn", "whole"] {
        client.create_job(create(name)).await.expect("created");
    }
    let tear = "update job set settings = '?' where name = 'torn'::bytea";
    cluster.meddle(COORDINATION, tear.to_owned()).await;
    cluster.kill_9(0);
    cluster.restart(0);
    let refused = client.create_job(create("torn")).await;
    let refused = refused.expect_err("its name is taken");
    assert!(refused.is("DATA_UNREADABLE"), "{refused}");
    let again = client
        .create_job(create("whole"))
        .await
        .expect("it is there");
    assert!(again.already_exists);
    let status = client.status().await.expect("a status");
    let counts = status.jobs.expect("of the owner");
    assert_eq!((counts.jobs, counts.unreadable), (1, 1));
}
