//! What the client makes of a replica that keeps its stream of claims open and grants nothing.

use super::refusals::{refusal, serving};
use crate::harness::{conversation::WAIT_TIMEOUT, server::Server};
use rallypoint_client::{
    Client,
    api::{
        CallError, CreateResourceRequest, ManageClaimsRequest, ManageClaimsResponse,
        ResourceSettings, manage_claims_response::Kind as Answer,
    },
};
use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::time::timeout;
use tokio_stream::{Stream, StreamExt};
use tonic::{
    Code, Status, Streaming,
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    server::{Grpc, NamedService, StreamingService},
};
use tonic_prost::ProstCodec;

/// A replica that does not reach the owner: it leaves the first call of each stream of claims
/// unanswered, and refuses the others.
#[derive(Clone)]
struct Ownerless;

impl NamedService for Ownerless {
    const NAME: &'static str = "rallypoint.v1.ResourceService";
}

impl Service<Request<Body>> for Ownerless {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let codec = ProstCodec::<ManageClaimsResponse, ManageClaimsRequest>::default();
        Box::pin(async move { Ok(Grpc::new(codec).streaming(Refusing, request).await) })
    }
}

/// Its stream of claims.
struct Refusing;

type Answered = Result<ManageClaimsResponse, Status>;

impl StreamingService<ManageClaimsRequest> for Refusing {
    type Response = ManageClaimsResponse;
    type ResponseStream = Pin<Box<dyn Stream<Item = Answered> + Send>>;
    type Future = Ready<Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, calls: tonic::Request<Streaming<ManageClaimsRequest>>) -> Self::Future {
        let others = calls.into_inner().skip(1);
        let answers = others.map(|call| call.map(|call| refused(call.call)));
        let answers: Self::ResponseStream = Box::pin(answers);
        ready(Ok(tonic::Response::new(answers)))
    }
}

fn refused(call: u64) -> ManageClaimsResponse {
    let status = refusal(Code::Unavailable, "NOT_OWNER", "none");
    let error = CallError {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: status.details().to_vec().into(),
    };
    ManageClaimsResponse {
        call,
        kind: Some(Answer::Error(error)),
    }
}

#[tokio::test]
async fn a_replica_that_refuses_what_is_claimed_is_left_with_all_that_is_awaited_there() {
    let server = Server::start().await;
    let settings = ResourceSettings {
        capacity: 1,
        ..ResourceSettings::default()
    };
    let request = CreateResourceRequest {
        name: "lot/*".into(),
        settings: Some(settings),
    };
    let created = server.client.create_resource(request).await;
    created.expect("created");
    let addresses = format!("{},{}", serving(Ownerless).await, server.url);
    let client = Client::connect(&addresses).await.expect("connected");
    let both = async { tokio::join!(client.acquire("lot/1"), client.acquire("lot/2")) };
    let (unanswered, refused) = timeout(WAIT_TIMEOUT, both).await.expect("in time");
    for hold in [unanswered, refused] {
        let hold = hold.expect("the other replica grants it");
        hold.release().await.expect("it was held");
    }
}
