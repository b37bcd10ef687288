//! What the client makes of a series of refusals, as replicas give them one after the other.

use rallypoint_client::{Client, Error, api};
use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{Ready, ready},
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};
use tokio::net::TcpListener;
use tonic::{
    Code, Status,
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    server::NamedService,
    transport::{Server, server::TcpIncoming},
};
use tonic_types::{ErrorDetails, StatusExt};

/// Refuses each call with the next of these, the last one again and again.
#[derive(Clone)]
struct Refusals(Arc<Mutex<VecDeque<Status>>>);

impl NamedService for Refusals {
    const NAME: &'static str = "rallypoint.v1.SchedulerService";
}

impl Service<Request<Body>> for Refusals {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let mut refusals = self.0.lock().expect("no panic");
        let next = match refusals.len() {
            1 => refusals[0].clone(),
            _ => refusals.pop_front().expect("one at least"),
        };
        ready(Ok(next.into_http()))
    }
}

pub(super) fn refusal(code: Code, reason: &str, effect: &str) -> Status {
    let metadata = [("effect".to_owned(), effect.to_owned())];
    let details = ErrorDetails::with_error_info(reason, "rallypoint", metadata);
    Status::with_error_details(code, reason, details)
}

/// Serves this at an address of its own.
pub(super) async fn serving<S>(service: S) -> String
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    url
}

/// A client of a server that refuses calls so.
async fn client_of(refusals: impl IntoIterator<Item = Status>) -> Client {
    let refusals = Refusals(Arc::new(Mutex::new(refusals.into_iter().collect())));
    let url = serving(refusals).await;
    let client = Client::connect(&url).await.expect("connected");
    client.with_retry_timeout(Duration::from_millis(200))
}

/// What a submit fails with that is refused so.
async fn refused(refusals: impl IntoIterator<Item = Status>) -> Error {
    let client = client_of(refusals).await;
    let scheduler = client.scheduler(uuid::Uuid::now_v7().to_string());
    let refused = scheduler.exec(vec![api::Task::default()]).await;
    refused.expect_err("it is refused")
}

#[tokio::test]
async fn a_refusal_takes_back_no_attempt_that_may_have_had_its_effect() {
    let changed = || refusal(Code::Unavailable, "OWNER_CHANGED", "unknown");
    let not_owner = || refusal(Code::Unavailable, "NOT_OWNER", "none");
    let no_such_role = || refusal(Code::InvalidArgument, "ROLE_NOT_ALLOWED", "none");
    assert!(!refused([not_owner()]).await.is_unknown());
    assert!(!refused([no_such_role()]).await.is_unknown());
    for later in [not_owner(), no_such_role()] {
        let error = refused([changed(), not_owner(), later]).await;
        assert!(error.is_unknown(), "{error}");
        assert!(error.to_string().contains("same request id"), "{error}");
        assert!(error.request_id.is_some());
    }
}

#[tokio::test]
async fn the_answer_of_the_owner_settles_what_attempts_before_have_done() {
    let changed = refusal(Code::Unavailable, "OWNER_CHANGED", "unknown");
    let released = refusal(Code::FailedPrecondition, "HANDLE_RELEASED", "none");
    let error = refused([changed, released]).await;
    assert!(
        error.is("HANDLE_RELEASED") && !error.is_unknown(),
        "{error}"
    );
}
