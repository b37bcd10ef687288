//! Lists of schedulers: by every condition, page by page.

use crate::harness::{conversation::Conversation, server::Server};
use rallypoint_client::api::{
    ListSchedulersRequest, SchedulerFilter, SchedulerSettings, SchedulerState,
};
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn schedulers_are_listed_by_state_label_name_and_time() {
    let server = Server::start().await;
    let one = server.open(settings("nightly", "a")).await;
    let two = server.open(settings("nightly", "b")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let half = SystemTime::now();
    let three = server.open(settings("hourly", "a")).await;
    let four = server.open(SchedulerSettings::default()).await;
    two.cancel_everything().await;
    let is = async |filter: SchedulerFilter| schedulers(&server, filter).await;
    let of = |schedulers: &[&Conversation]| -> Vec<String> {
        schedulers
            .iter()
            .map(|one| one.handle().to_owned())
            .collect()
    };
    let any = SchedulerFilter::default;
    let state = |state: SchedulerState| SchedulerFilter {
        states: vec![state.into()],
        ..any()
    };
    assert_eq!(is(any()).await, of(&[&four, &three, &two, &one]));
    assert_eq!(is(team("a")).await, of(&[&three, &one]));
    assert_eq!(is(team("c")).await, of(&[]));
    let named = SchedulerFilter {
        display_name: "nightly".into(),
        ..any()
    };
    assert_eq!(is(named.clone()).await, of(&[&two, &one]));
    let open_ones = SchedulerFilter {
        states: state(SchedulerState::Open).states,
        ..named
    };
    assert_eq!(is(open_ones).await, of(&[&one]));
    assert_eq!(is(state(SchedulerState::Released)).await, of(&[&two]));
    let late = SchedulerFilter {
        opened_from: Some(half.into()),
        ..any()
    };
    assert_eq!(is(late).await, of(&[&four, &three]));
    let early = SchedulerFilter {
        opened_before: Some(half.into()),
        ..team("a")
    };
    assert_eq!(is(early).await, of(&[&one]));
}

#[tokio::test]
async fn a_scheduler_is_listed_by_the_labels_that_it_has_now() {
    let server = Server::start().await;
    let one = server.open(settings("one", "a")).await;
    let handle = vec![one.handle().to_owned()];
    assert_eq!(schedulers(&server, team("a")).await, handle);
    let moved = settings("one", "b");
    one.scheduler
        .update(moved, &["labels"])
        .await
        .expect("updated");
    assert_eq!(schedulers(&server, team("a")).await, [""; 0]);
    assert_eq!(schedulers(&server, team("b")).await, handle);
}

fn settings(name: &str, label: &str) -> SchedulerSettings {
    SchedulerSettings {
        display_name: name.into(),
        labels: [("team".to_owned(), label.to_owned())].into(),
        ..Default::default()
    }
}

fn team(label: &str) -> SchedulerFilter {
    SchedulerFilter {
        labels: [("team".to_owned(), label.to_owned())].into(),
        ..Default::default()
    }
}

/// The handles of a list, read in pages of one.
async fn schedulers(server: &Server, filter: SchedulerFilter) -> Vec<String> {
    let mut handles = Vec::new();
    let mut request = ListSchedulersRequest {
        page_size: 1,
        filter: Some(filter),
        ..Default::default()
    };
    loop {
        let page = server.client.schedulers(request.clone()).await;
        let page = page.expect("a page");
        handles.extend(page.schedulers.into_iter().map(|one| one.handle));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return handles;
        }
    }
}
