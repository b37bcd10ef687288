//! What the client makes of streams that open and break at once, again and again.

use super::refusals::serving;
use crate::harness::conversation::WAIT_TIMEOUT;
use rallypoint_client::Client;
use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::timeout;
use tokio_stream::{Once, once};
use tonic::{
    Code, Status,
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    server::{Grpc, NamedService, ServerStreamingService},
};
use tonic_prost::ProstCodec;
use uuid::Uuid;

/// A service, of schedulers or of resources, that takes each call and breaks it off.
#[derive(Clone)]
struct Breaking<const OF_RESOURCES: bool>;

impl NamedService for Breaking<false> {
    const NAME: &'static str = "rallypoint.v1.SchedulerService";
}

impl NamedService for Breaking<true> {
    const NAME: &'static str = "rallypoint.v1.ResourceService";
}

impl<const OF_RESOURCES: bool> Service<Request<Body>> for Breaking<OF_RESOURCES> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let codec = ProstCodec::<(), ()>::default();
        Box::pin(async move { Ok(Grpc::new(codec).server_streaming(BrokenOff, request).await) })
    }
}

/// Its answer to each call.
struct BrokenOff;

impl ServerStreamingService<()> for BrokenOff {
    type Response = ();
    type ResponseStream = Once<Result<(), Status>>;
    type Future = Ready<Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, _: tonic::Request<()>) -> Self::Future {
        let broken = once(Err(Status::unavailable("it breaks")));
        ready(Ok(tonic::Response::new(broken)))
    }
}

async fn client_of(url: &str) -> Client {
    let client = Client::connect(url).await.expect("connected");
    client.with_retry_timeout(Duration::from_millis(200))
}

#[tokio::test]
async fn a_stream_of_events_that_breaks_whenever_it_has_opened_fails_in_the_end() {
    let client = client_of(&serving(Breaking::<false>).await).await;
    let scheduler = client.scheduler(Uuid::now_v7().to_string());
    let mut stream = scheduler.synchronize(0, None).await.expect("it opens");
    let failed = timeout(WAIT_TIMEOUT, stream.next()).await.expect("in time");
    assert_eq!(failed.expect_err("it breaks").code, Code::Unavailable);
}

#[tokio::test]
async fn a_resource_whose_stream_breaks_whenever_it_has_opened_is_no_longer_followed() {
    let client = client_of(&serving(Breaking::<true>).await).await;
    let mut stream = client.watch_resource("orders").await.expect("it opens");
    let failed = timeout(WAIT_TIMEOUT, stream.next()).await.expect("in time");
    assert_eq!(failed.expect_err("it breaks").code, Code::Unavailable);
}
