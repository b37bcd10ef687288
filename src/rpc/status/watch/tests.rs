//! Streams of what runs, over slots that tests change.

use super::*;
use crate::rpc::status::executions::StatusSource;
use rallypoint_client::api::peer::ExplainAttemptResponse;
use std::{
    iter,
    pin::pin,
    sync,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    task::{Context, Poll, Waker},
};
use tokio::{runtime::Builder, task::yield_now, time::timeout};
use tonic::Code;
use tonic_types::StatusExt;

const EVERY: Duration = Duration::from_millis(100);

/// Slots and targets that tests change, and how often they were read.
#[derive(Clone, Default)]
struct Slots {
    rows: Arc<sync::Mutex<Vec<api::Execution>>>,
    targets: Arc<sync::Mutex<Vec<api::TargetStatus>>>,
    readings: Arc<AtomicUsize>,
}

impl Slots {
    fn set(&self, rows: &[api::Execution]) {
        *self.rows.lock().expect("rows") = rows.to_vec();
    }

    fn watchers(&self) -> Watchers {
        let (slots, targets) = (self.clone(), self.targets.clone());
        let source = StatusSource {
            executions: Arc::new(move || {
                slots.readings.fetch_add(1, Relaxed);
                slots.rows.lock().expect("rows").clone()
            }),
            targets: Arc::new(move || targets.lock().expect("targets").clone()),
            attempt: Arc::new(|_, _| Box::pin(async { ExplainAttemptResponse::default() })),
        };
        Watchers::new(Executions::new(source, None), None, Targets::default())
    }
}

fn name(name: &str) -> Namespace {
    Namespace(name.into())
}

fn open(watchers: &Watchers, namespace: &str) -> Result<Watch, Status> {
    let namespace = name(namespace);
    let own = Some(namespace.clone());
    watchers.open(&namespace, own, EVERY, CancellationToken::new())
}

fn row(namespace: &str, seq: i64) -> api::Execution {
    api::Execution {
        handle: "h".into(),
        namespace: namespace.into(),
        seq,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_namespace_leaves_places_to_others_and_has_its_own_again() {
    let watchers = Slots::default().watchers();
    let mut flood: Vec<Watch> = iter::from_fn(|| open(&watchers, "flood").ok()).collect();
    assert_eq!(flood.len(), MAX_STREAMS / 2);
    let refused = open(&watchers, "flood").err().expect("no place is left");
    assert_eq!(refused.code(), Code::Unavailable);
    let details = refused.get_error_details();
    let info = details.error_info().expect("a reason");
    assert_eq!(info.reason, "OVERLOADED");
    assert_eq!(info.metadata["limit"], "watchers");
    assert!(open(&watchers, "other").is_ok());
    flood.pop();
    assert!(open(&watchers, "flood").is_ok(), "one has ended");
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_shares_what_was_read_and_sees_what_is_its_own() {
    let slots = Slots::default();
    slots.set(&[row("mine", 1), row("theirs", 2)]);
    let watchers = slots.watchers();
    let (mine, theirs) = (name("mine"), name("theirs"));
    let one = watchers.look(Some(&mine)).await;
    let other = watchers.look(Some(&mine)).await;
    assert!(Arc::ptr_eq(&one, &other));
    let (theirs, all) = (
        watchers.look(Some(&theirs)).await,
        watchers.look(None).await,
    );
    for (view, expected) in [(&one, [1, 0]), (&theirs, [0, 2]), (&all, [1, 2])] {
        let rows = &view.message.executions;
        assert_eq!([rows[0].seq, rows[1].seq], expected);
    }
    assert_eq!(slots.readings.load(Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_when_anything_but_the_elapsed_time_has_changed() {
    let slots = Slots::default();
    slots.set(&[row("mine", 1)]);
    let watchers = slots.watchers();
    let watch = watchers.open(&name("mine"), None, EVERY, CancellationToken::new());
    let mut watch = watch.expect("a place");
    let first = watch.next().await.expect("a message").expect("no error");
    assert_eq!(first.executions, [row("mine", 1)]);
    let later = api::Execution {
        elapsed: Some(prost_types::Duration::default()),
        ..row("mine", 1)
    };
    slots.set(&[later]);
    assert!(timeout(10 * EVERY, watch.next()).await.is_err());
    slots.set(&[row("mine", 2)]);
    let next = watch.next().await.expect("a message").expect("no error");
    assert_eq!(next.executions, [row("mine", 2)]);
    let away = api::TargetStatus {
        name: "app".into(),
        ..Default::default()
    };
    *slots.targets.lock().expect("targets") = vec![away.clone()];
    let next = watch.next().await.expect("a message").expect("no error");
    assert_eq!(next.targets, [away]);
    watch.stopping.cancel();
    assert!(watch.next().await.is_some_and(|last| last.is_err()));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_stream_that_is_not_polled_any_more_holds_nobody_up() {
    let slots = Slots::default();
    slots.set(&[row("mine", 1)]);
    let watchers = slots.watchers();
    let mut left = open(&watchers, "mine").expect("a place");
    let mut left_behind = pin!(left.next());
    // It waits for what is being read.
    while slots.readings.load(Relaxed) == 0 {
        let polled = left_behind
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        yield_now().await;
    }
    let mut watch = open(&watchers, "mine").expect("a place");
    assert!(watch.next().await.is_some_and(|first| first.is_ok()));
}

#[test]
fn a_look_that_fails_ends_the_stream_with_an_error() {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let watchers = Slots::default().watchers();
    // Whoever looks waits for what is being read.
    let read = watchers.latest.clone().try_lock_owned();
    let _reading = read.expect("nobody reads");
    let watch = runtime.block_on(async { open(&watchers, "mine") });
    let mut watch = watch.expect("a place");
    let mut next = Box::pin(async move { [watch.next().await, watch.next().await] });
    let waits = runtime.block_on(async { timeout(EVERY, &mut next).await });
    assert!(waits.is_err(), "it looks");
    // What looks for it is dropped, as if it had failed.
    drop(runtime);
    let polled = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready([Some(Err(last)), None]) = &polled else {
        panic!("{polled:?}");
    };
    assert_eq!(last.code(), Code::Internal);
}
