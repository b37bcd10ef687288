//! A server that answers each call of a client as a test says.

use futures_util::{FutureExt, future::BoxFuture};
use rallypoint_client::api::{ManageClaimsRequest, ManageClaimsResponse};
use std::{
    convert::Infallible,
    future::ready,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::net::TcpListener;
use tokio_stream::Stream;
use tonic::{
    Status, Streaming,
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    server::{Grpc, NamedService},
    transport::{Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;
use tower::service_fn;

type Answer = dyn Fn(Request<Body>) -> BoxFuture<'static, Response<Body>> + Send + Sync;

/// A service, of schedulers or of resources.
#[derive(Clone)]
struct Fake<const OF_RESOURCES: bool>(Arc<Answer>);

impl NamedService for Fake<false> {
    const NAME: &'static str = "rallypoint.v1.SchedulerService";
}

impl NamedService for Fake<true> {
    const NAME: &'static str = "rallypoint.v1.ResourceService";
}

impl<const OF_RESOURCES: bool> Service<Request<Body>> for Fake<OF_RESOURCES> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        (self.0)(request).map(Ok).boxed()
    }
}

/// Answers calls so, at an address of its own.
pub(crate) async fn serve<F>(answer: impl Fn(Request<Body>) -> F + Send + Sync + 'static) -> String
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let answer: Arc<Answer> = Arc::new(move |request| answer(request).boxed());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = Server::builder()
        .add_service(Fake::<false>(answer.clone()))
        .add_service(Fake::<true>(answer));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    url
}

/// Answers the calls on each stream of claims so, at an address of its own.
pub(crate) async fn serve_claims<S>(answers: fn(Streaming<ManageClaimsRequest>) -> S) -> String
where
    S: Stream<Item = Result<ManageClaimsResponse, Status>> + Send + 'static,
{
    serve(move |request| async move {
        let opened = service_fn(
            move |calls: tonic::Request<Streaming<ManageClaimsRequest>>| {
                let answers = answers(calls.into_inner());
                ready(Ok::<_, Status>(tonic::Response::new(answers)))
            },
        );
        let codec = ProstCodec::<ManageClaimsResponse, ManageClaimsRequest>::default();
        Grpc::new(codec).streaming(opened, request).await
    })
    .await
}
