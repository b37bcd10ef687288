//! A scheduler is found by its name: one at a time has it, however many ask.

use crate::harness::{
    postgres::{connect, durable},
    server::{Server, Setup},
    work::{noop, sleep},
};
use rallypoint_client::api::{
    GetSchedulerRequest, GetSchedulerResponse, ListSchedulersRequest, ReleaseMode, SchedulerFilter,
    SchedulerSettings, SchedulerState,
};
use sqlx::AssertSqlSafe;
use std::collections::BTreeSet;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use uuid::Uuid;

fn named(name: &str, reuse: bool) -> GetSchedulerRequest {
    GetSchedulerRequest {
        request_id: Uuid::now_v7().to_string(),
        name: name.into(),
        reuse,
        ..Default::default()
    }
}

/// One call, without the repetitions of the client.
async fn get(server: &Server, request: GetSchedulerRequest) -> Result<(String, bool), Status> {
    let response = server.raw().get_scheduler(request).await?.into_inner();
    let GetSchedulerResponse { scheduler, reused } = response;
    Ok((scheduler.expect("a scheduler").handle, reused))
}

#[tokio::test]
async fn of_fifty_callers_one_opens_the_scheduler_and_the_others_find_it() {
    let server = Server::start().await;
    for round in 0..5 {
        let name = format!("nightly-{round}");
        let calls = (0..50).map(|_| {
            let (client, name) = (server.client.clone(), name.clone());
            tokio::spawn(async move {
                let found = client.reuse(&name, SchedulerSettings::default()).await;
                let (scheduler, reused) = found.expect("opened or found");
                assert_eq!(scheduler.name, name);
                (scheduler.handle, reused)
            })
        });
        let (mut handles, mut found) = (BTreeSet::new(), 0);
        for call in calls.collect::<Vec<_>>() {
            let (handle, reused) = call.await.expect("no panic");
            handles.insert(handle);
            found += usize::from(reused);
        }
        assert_eq!((handles.len(), found), (1, 49), "{handles:?}");
    }
}

#[tokio::test]
async fn a_taken_name_is_refused_with_the_handle_that_has_it() {
    let server = Server::start().await;
    let client = &server.client;
    let first = client
        .open_named("nightly", SchedulerSettings::default())
        .await
        .expect("opened");
    let taken = get(&server, named("nightly", false)).await;
    let taken = taken.expect_err("refused");
    assert_eq!(taken.code(), Code::AlreadyExists);
    let details = taken.get_error_details();
    let info = details.error_info().expect("a reason");
    assert_eq!(info.reason, "NAME_TAKEN");
    assert_eq!(info.metadata["handle"], first.handle());
    assert_eq!(info.metadata["effect"], "none");
    assert!(taken.message().contains("`reuse`"), "{taken}");
    let error = client
        .open_named("nightly", SchedulerSettings::default())
        .await
        .expect_err("refused");
    assert!(error.is("NAME_TAKEN") && error.remedy().is_some());
    let found = get(&server, named("nightly", true)).await.expect("found");
    assert_eq!(found, (first.handle().to_owned(), true));
}

#[tokio::test]
async fn a_release_frees_the_name_at_once_though_tasks_are_left() {
    let server = Server::start().await;
    for mode in [ReleaseMode::Finish, ReleaseMode::Cancel] {
        let open = || server.client.open_named("nightly", Default::default());
        let first = open().await.expect("opened");
        let tasks = [sleep(600), sleep(600)].map(Into::into).into();
        first.exec(tasks).await.expect("accepted");
        first.release(mode, false).await.expect("released");
        let second = open().await.expect("the name is free");
        assert_ne!(first.handle(), second.handle());
        let newest = server.client.find("nightly").await.expect("a list");
        assert_eq!(newest.expect("found").handle(), second.handle());
        for scheduler in [first, second] {
            let released = scheduler.release(ReleaseMode::Cancel, true).await;
            released.expect("released");
        }
    }
}

#[tokio::test]
async fn who_is_found_keeps_its_settings_and_the_answer_shows_them() {
    let server = Server::start().await;
    let weight = |weight| SchedulerSettings {
        weight: Some(weight),
        ..Default::default()
    };
    let (opened, reused) = server.client.reuse("a", weight(2.0)).await.expect("opened");
    assert!(!reused && opened.settings.expect("settings").weight == Some(2.0));
    let (found, reused) = server.client.reuse("a", weight(3.0)).await.expect("found");
    assert!(reused && found.settings.expect("settings").weight == Some(2.0));
}

#[tokio::test]
async fn a_call_that_opened_is_remembered_and_one_that_found_looks_again() {
    let server = Server::start().await;
    let (opens, finds) = (named("nightly", true), named("nightly", true));
    let first = get(&server, opens.clone()).await.expect("opened");
    assert_eq!(first, (first.0.clone(), false));
    let found = get(&server, finds.clone()).await.expect("found");
    assert_eq!(found, (first.0.clone(), true));
    let scheduler = server.client.scheduler(&first.0);
    let released = scheduler.release(ReleaseMode::Finish, true).await;
    released.expect("released");
    let again = get(&server, opens.clone()).await.expect("the same");
    assert_eq!(again, first, "released by now");
    let looked = get(&server, finds).await.expect("opened");
    assert!(!looked.1 && looked.0 != first.0, "{looked:?}");
    let other = GetSchedulerRequest {
        name: "hourly".into(),
        ..opens
    };
    let reused = get(&server, other).await.expect_err("refused");
    let details = reused.get_error_details();
    let reason = details.error_info().map(|info| info.reason.clone());
    assert_eq!(reason.as_deref(), Some("REQUEST_ID_REUSED"));
}

#[tokio::test]
async fn a_name_outlives_its_server_and_a_release_as_well() {
    let postgres = durable(Vec::new());
    let setup = || Setup {
        postgres: Some(&postgres),
        ..Setup::default()
    };
    let server = Server::with(setup()).await;
    let open = async |server: &Server, name: &str| {
        // A new owner may refuse at first.
        let found = server.client.reuse(name, SchedulerSettings::default());
        let (scheduler, reused) = found.await.expect("opened or found");
        (scheduler.handle, reused)
    };
    let kept = open(&server, "kept").await.0;
    let freed = open(&server, "freed").await.0;
    let scheduler = server.client.scheduler(&freed);
    let tasks = vec![sleep(600).into(), noop().into()];
    scheduler.exec(tasks).await.expect("accepted");
    let released = scheduler.release(ReleaseMode::Finish, false).await;
    released.expect("released");
    drop((server, scheduler));
    let server = Server::with(setup()).await;
    assert_eq!(open(&server, "kept").await, (kept, true));
    let again = open(&server, "freed").await;
    assert!(!again.1 && again.0 != freed, "{again:?}");
    let scheduler = server.client.scheduler(&freed);
    let cancelled = scheduler.release(ReleaseMode::Cancel, true).await;
    cancelled.expect("cancelled");
}

#[tokio::test]
async fn names_are_shown_and_schedulers_listed_by_them() {
    let server = Server::start().await;
    let open = async |name: &str| get(&server, named(name, false)).await.expect("opened").0;
    let (first, other) = (open("nightly").await, open("hourly").await);
    let scheduler = server.client.scheduler(&first);
    assert_eq!(
        scheduler.describe().await.expect("described").name,
        "nightly"
    );
    let released = scheduler.release(ReleaseMode::Finish, true).await;
    released.expect("released");
    let second = open("nightly").await;
    let listed = async |name: &str, states: &[SchedulerState]| {
        let filter = SchedulerFilter {
            name: name.into(),
            states: states.iter().map(|state| (*state).into()).collect(),
            ..Default::default()
        };
        let request = ListSchedulersRequest {
            filter: Some(filter),
            ..Default::default()
        };
        let list = server.client.schedulers(request).await.expect("a list");
        let named = list.schedulers.into_iter();
        named.map(|one| (one.handle, one.name)).collect::<Vec<_>>()
    };
    let is = |handle: &String, name: &str| (handle.clone(), name.to_owned());
    let nightly = [is(&second, "nightly"), is(&first, "nightly")];
    assert_eq!(listed("nightly", &[]).await, nightly);
    let open_ones = [SchedulerState::Open];
    assert_eq!(listed("nightly", &open_ones).await, nightly[..1]);
    assert_eq!(listed("hourly", &[]).await, [is(&other, "hourly")]);
    assert_eq!(listed("weekly", &[]).await, []);
    assert!(
        server
            .client
            .find("weekly")
            .await
            .expect("a list")
            .is_none()
    );
    assert!(
        server
            .client
            .find("two words")
            .await
            .expect("no name")
            .is_none()
    );
}

#[tokio::test]
async fn a_name_means_the_open_scheduler_also_when_a_released_one_has_a_higher_handle() {
    let postgres = durable(Vec::new());
    let setup = || Setup {
        postgres: Some(&postgres),
        ..Setup::default()
    };
    let server = Server::with(setup()).await;
    let open = server.client.open(SchedulerSettings::default()).await;
    let open = open.expect("opened").handle().to_owned();
    let settings = SchedulerSettings::default();
    let released = server.client.open_named("night", settings).await;
    let released = released.expect("opened");
    let call = released.release(ReleaseMode::Finish, true);
    call.await.expect("released");
    let released = released.handle().to_owned();
    assert!(released > open);
    let found = server.client.find("night").await.expect("found");
    assert_eq!(found.expect("the last one").handle(), released);
    // As if the clock of the replica that opened the other one had been behind.
    let mut journal = connect(&server.journal).await;
    drop(server);
    let naming = format!(
        "update scheduler set name = 'night' where handle = '{open}';
         insert into scheduler_label (shard, namespace, label, handle)
         select shard, namespace, label, '{open}' from scheduler_label where handle = '{released}'"
    );
    let naming = sqlx::raw_sql(AssertSqlSafe(naming)).execute(&mut journal);
    naming.await.expect("named");
    let server = Server::with(setup()).await;
    let found = server.client.find("night").await.expect("found");
    assert_eq!(found.expect("the open one").handle(), open);
}
