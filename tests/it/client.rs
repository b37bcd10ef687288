//! What the Rust client promises when connections break: every call has its effect once, every
//! event comes once.

mod broken_streams;
mod claims;
mod refusals;

use crate::{bad_input::live, harness::conversation::WAIT_TIMEOUT};
use rallypoint_client::{
    Client, Scheduler,
    api::{self, end::Reason},
};
use std::{
    collections::HashMap,
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use uuid::Uuid;

/// Connections to the server that can be cut.
struct Network {
    url: String,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    /// Connections are closed as soon as they are accepted.
    is_down: Arc<AtomicBool>,
}

impl Network {
    async fn start() -> Network {
        live::channel().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let accepted = connections.clone();
        let is_down = Arc::new(AtomicBool::new(false));
        let refused = is_down.clone();
        tokio::spawn(async move {
            let mut relays = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                if refused.load(Ordering::Acquire) {
                    continue;
                }
                let relay = relays.spawn(async move {
                    let mut far = TcpStream::connect(live::address())
                        .await
                        .expect("the server listens");
                    copy_bidirectional(&mut near, &mut far).await.ok();
                });
                accepted.lock().expect("no panic").push(relay);
            }
        });
        Network {
            url,
            connections,
            is_down,
        }
    }

    /// Cuts all connections, and lets none through before this time is over.
    async fn outage(&self, lasting: Duration) {
        self.is_down.store(true, Ordering::Release);
        self.cut();
        sleep(lasting).await;
        self.is_down.store(false, Ordering::Release);
    }

    fn cut(&self) {
        self.connections
            .lock()
            .expect("no panic")
            .drain(..)
            .for_each(|connection| connection.abort());
    }
}

#[tokio::test]
async fn a_stream_goes_on_where_its_connection_broke() {
    let network = Network::start().await;
    let client = Client::connect(&network.url).await.expect("connected");
    let scheduler = client
        .open(api::SchedulerSettings::default())
        .await
        .expect("opened");
    let tasks = (1..=10)
        .map(|order| live::sql("select pg_sleep(0.05)", Some(order)))
        .collect();
    scheduler.exec(tasks).await.expect("taken");
    let mut stream = scheduler.synchronize(0, None).await.expect("a stream");
    let mut numbers = Vec::new();
    while let Some(done) = stream.next().await.expect("it goes on") {
        numbers.extend(done.iter().map(|done| done.done_no));
        network.cut();
    }
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
    assert_eq!(stream.end().map(|end| end.reason()), Some(Reason::Goal));
}

#[tokio::test]
async fn a_call_whose_answer_was_lost_has_its_effect_once() {
    let network = Network::start().await;
    let client = Client::connect(&network.url).await.expect("connected");
    let scheduler = client
        .open(api::SchedulerSettings::default())
        .await
        .expect("opened");
    for round in 0..20 {
        let cut = async {
            sleep(Duration::from_micros(round * 250)).await;
            network.cut();
        };
        let (taken, ()) = tokio::join!(scheduler.exec(vec![live::noop(None)]), cut);
        assert_eq!(taken.expect("taken").first_seq, round as i64 + 1);
    }
    assert_eq!(
        scheduler.describe().await.expect("it is there").submitted,
        20
    );
}

#[tokio::test]
async fn an_error_of_the_service_is_final_and_readable() {
    let client = Client::connect(&Network::start().await.url)
        .await
        .expect("connected");
    let settings = api::SchedulerSettings {
        max_parallelism: Some(0),
        ..Default::default()
    };
    let error = client.open(settings).await.expect_err("refused");
    assert!(error.is("LIMIT_ZERO"));
    assert_eq!(error.violations[0].0, "settings.max_parallelism");
    let nobody = Client::connect("127.0.0.1:1")
        .await
        .expect_err("nobody listens");
    assert!(
        nobody.transport && nobody.to_string().contains("Is the server running"),
        "{nobody}"
    );
}

/// A scheduler with a task that runs until it is cancelled.
async fn endless(client: &Client) -> Scheduler {
    let settings = api::SchedulerSettings::default();
    let scheduler = client.open(settings).await.expect("opened");
    let task = live::sql("select pg_sleep(600)", None);
    scheduler.exec(vec![task]).await.expect("taken");
    scheduler
}

#[tokio::test]
async fn a_stream_outlasts_an_outage_that_is_longer_than_a_call_may_take() {
    let network = Network::start().await;
    let client = Client::connect(&network.url).await.expect("connected");
    let scheduler = endless(&client).await;
    let limit = Duration::from_secs(5);
    let limited = scheduler.clone().with_time_limit(Some(limit));
    let mut stream = limited.synchronize(0, None).await.expect("a stream");
    let outage = async {
        network.outage(limit + Duration::from_secs(1)).await;
        scheduler.cancel(1).await.expect("cancelled");
    };
    let (events, ()) = tokio::join!(stream.next(), outage);
    assert_eq!(events.expect("it goes on").map(|done| done.len()), Some(1));
}

#[tokio::test]
async fn a_wait_outlasts_as_many_restarts_as_there_are() {
    let network = Network::start().await;
    // Of two servers, one that does not answer is given up sooner.
    let both = format!("{0},{0}", network.url);
    let client = Client::connect(&both).await.expect("connected");
    let client = client.with_retry_timeout(Duration::from_secs(4));
    let scheduler = endless(&client).await;
    let restarts = async {
        for up in [1, 15, 1] {
            sleep(Duration::from_secs(up)).await;
            network.cut();
        }
        scheduler.cancel(1).await.expect("cancelled");
    };
    let release = scheduler.release(api::ReleaseMode::Finish, true);
    let (released, ()) = tokio::join!(release, restarts);
    assert_eq!(released.expect("it goes on").pending, 0);
}

#[tokio::test]
async fn a_call_under_the_same_request_id_has_its_effect_once() {
    let client = Client::connect(&Network::start().await.url).await;
    let client = client.expect("connected");
    let id = Uuid::now_v7().to_string();
    let opened = async || {
        let opening = client.clone().with_request_id(&id);
        let opened = opening.open(api::SchedulerSettings::default()).await;
        opened.expect("opened")
    };
    let (scheduler, again) = (opened().await, opened().await);
    assert_eq!(scheduler.handle(), again.handle());
    let row = Uuid::now_v7().to_string();
    for scheduler in [&scheduler, &again] {
        let outbox = scheduler.clone().with_request_id(&row);
        let taken = outbox.exec(vec![live::noop(None)]).await.expect("taken");
        assert_eq!(taken.first_seq, 1);
    }
    let other = scheduler.clone().with_request_id(&row);
    let refused = other.exec(vec![live::noop(Some(7))]).await;
    let refused = refused.expect_err("other tasks");
    assert!(refused.is("REQUEST_ID_REUSED"), "{refused}");
    assert_eq!(refused.request_id, Some(row));
}

#[tokio::test]
async fn a_scheduler_whose_opening_is_given_up_is_released() {
    let client = Client::connect(&Network::start().await.url).await;
    let client = client.expect("connected");
    let labels = HashMap::from([("test".to_owned(), Uuid::now_v7().to_string())]);
    let settings = api::SchedulerSettings {
        labels: labels.clone(),
        ..Default::default()
    };
    let name = format!("given-up-{}", Uuid::now_v7());
    tokio::select! {
        biased;
        _ = client.open(settings.clone()) => panic!("no answer comes at once"),
        _ = client.open_named(&name, settings) => panic!("nor to this one"),
        () = ready(()) => {}
    }
    let filter = api::SchedulerFilter {
        labels,
        ..Default::default()
    };
    let request = api::ListSchedulersRequest {
        filter: Some(filter),
        ..Default::default()
    };
    let released = async {
        loop {
            let page = client.schedulers(request.clone()).await.expect("a page");
            let states: Vec<_> = page.schedulers.iter().map(|one| one.state()).collect();
            if states == [api::SchedulerState::Released; 2] {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, released).await.expect("in time");
}
