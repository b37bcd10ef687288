//! What the client makes of streams that open and break at once, again and again.

use crate::harness::{conversation::WAIT_TIMEOUT, fake_server::serve};
use prost::Message;
use rallypoint_client::{
    Client,
    api::{Resource, SynchronizationResponse, WatchResourceResponse},
};
use std::{future::ready, time::Duration};
use tokio::time::timeout;
use tokio_stream::iter;
use tonic::{Code, Request, Response, Status, server::Grpc};
use tonic_prost::ProstCodec;
use tower::service_fn;
use uuid::Uuid;

/// A client of a server that takes each call, tells this, and breaks it off.
async fn client<T: Message + Clone + 'static>(first: Option<T>) -> Client {
    let url = serve(move |request| {
        let first = first.clone();
        async move {
            let broken_off = service_fn(move |_: Request<()>| {
                let broken = Err(Status::unavailable("it breaks"));
                let messages = first.clone().map(Ok).into_iter().chain([broken]);
                ready(Ok::<_, Status>(Response::new(iter(messages))))
            });
            let codec = ProstCodec::<T, ()>::default();
            Grpc::new(codec).server_streaming(broken_off, request).await
        }
    });
    let client = Client::connect(&url.await).await.expect("connected");
    client.with_retry_timeout(Duration::from_millis(200))
}

/// How a stream of events ends.
async fn events_end(client: Client) -> Code {
    let scheduler = client.scheduler(Uuid::now_v7().to_string());
    let mut stream = scheduler.synchronize(0, None).await.expect("it opens");
    let failed = timeout(WAIT_TIMEOUT, stream.next()).await.expect("in time");
    failed.expect_err("it breaks").code
}

/// How a resource is no longer followed.
async fn resource_ends(client: Client) -> Code {
    let mut stream = client.watch_resource("orders").await.expect("it opens");
    let followed = async {
        loop {
            if let Err(failed) = stream.next().await {
                return failed.code;
            }
        }
    };
    timeout(WAIT_TIMEOUT, followed).await.expect("in time")
}

#[tokio::test]
async fn a_stream_of_events_that_breaks_whenever_it_has_opened_fails_in_the_end() {
    assert_eq!(
        events_end(client(None::<()>).await).await,
        Code::Unavailable
    );
}

#[tokio::test]
async fn a_stream_of_events_that_tells_none_before_it_breaks_fails_in_the_end() {
    let nothing = SynchronizationResponse {
        pending: 1,
        ..SynchronizationResponse::default()
    };
    assert_eq!(
        events_end(client(Some(nothing)).await).await,
        Code::Unavailable
    );
}

#[tokio::test]
async fn a_resource_whose_stream_breaks_whenever_it_has_opened_is_no_longer_followed() {
    assert_eq!(
        resource_ends(client(None::<()>).await).await,
        Code::Unavailable
    );
}

#[tokio::test]
async fn a_resource_whose_stream_breaks_whenever_it_has_told_how_it_is_is_no_longer_followed() {
    let as_it_is = WatchResourceResponse {
        resource: Some(Resource::default()),
        ..WatchResourceResponse::default()
    };
    assert_eq!(
        resource_ends(client(Some(as_it_is)).await).await,
        Code::Unavailable
    );
}
