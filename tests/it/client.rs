//! What the Rust client promises when connections break: every call has its effect once, every
//! event comes once.

use crate::bad_input::live;
use rallypoint_client::{
    Client,
    api::{self, end::Reason},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::sleep,
};

/// Connections to the server that can be cut.
struct Network {
    url: String,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Network {
    async fn start() -> Network {
        live::channel().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let accepted = connections.clone();
        tokio::spawn(async move {
            let mut relays = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let relay = relays.spawn(async move {
                    let mut far = TcpStream::connect(live::address())
                        .await
                        .expect("the server listens");
                    copy_bidirectional(&mut near, &mut far).await.ok();
                });
                accepted.lock().expect("no panic").push(relay);
            }
        });
        Network { url, connections }
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
