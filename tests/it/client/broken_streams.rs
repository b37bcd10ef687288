//! What the client makes of streams that open and break at once, again and again.

use crate::harness::{conversation::WAIT_TIMEOUT, fake_server::serve};
use rallypoint_client::Client;
use std::{future::ready, time::Duration};
use tokio::time::timeout;
use tokio_stream::once;
use tonic::{Code, Request, Response, Status, server::Grpc};
use tonic_prost::ProstCodec;
use tower::service_fn;
use uuid::Uuid;

/// A client of a server that takes each call and breaks it off.
async fn client() -> Client {
    let url = serve(|request| async move {
        let broken_off = service_fn(|_: Request<()>| {
            let broken = once(Err::<(), _>(Status::unavailable("it breaks")));
            ready(Ok::<_, Status>(Response::new(broken)))
        });
        let codec = ProstCodec::<(), ()>::default();
        Grpc::new(codec).server_streaming(broken_off, request).await
    });
    let client = Client::connect(&url.await).await.expect("connected");
    client.with_retry_timeout(Duration::from_millis(200))
}

#[tokio::test]
async fn a_stream_of_events_that_breaks_whenever_it_has_opened_fails_in_the_end() {
    let client = client().await;
    let scheduler = client.scheduler(Uuid::now_v7().to_string());
    let mut stream = scheduler.synchronize(0, None).await.expect("it opens");
    let failed = timeout(WAIT_TIMEOUT, stream.next()).await.expect("in time");
    assert_eq!(failed.expect_err("it breaks").code, Code::Unavailable);
}

#[tokio::test]
async fn a_resource_whose_stream_breaks_whenever_it_has_opened_is_no_longer_followed() {
    let client = client().await;
    let mut stream = client.watch_resource("orders").await.expect("it opens");
    let failed = timeout(WAIT_TIMEOUT, stream.next()).await.expect("in time");
    assert_eq!(failed.expect_err("it breaks").code, Code::Unavailable);
}
