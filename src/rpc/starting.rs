//! Answers callers while the server waits for its coordination database: its health is
//! NOT_SERVING, and every call may be repeated later. It knows nothing of the coordinator, which
//! does not exist yet.

use super::{
    connections, errors,
    gateway::{Gateway, Hosts, Settings},
    message_budget::MessageRoom,
    room::{Rooms, SMALL_BYTES},
    server,
    status::readiness,
};
use crate::peer::{self, Accept};
use futures_util::future::{Either, Ready, ready};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::{
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    service::Routes,
};
use tonic_health::pb::health_server::SERVICE_NAME as HEALTH;
use tower::{ServiceBuilder, layer::layer_fn};

/// How long answers under way may take once the database is there.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers until `over`.
pub(crate) async fn serve_unready(
    listener: TcpListener,
    (accept, hosts): (Accept, Hosts),
    over: CancellationToken,
) {
    let (reporter, health) = tonic_health::server::health_reporter();
    let health = health.max_decoding_message_size(SMALL_BYTES);
    readiness::set_not_serving(&reporter).await;
    let permits = Arc::new(Semaphore::new(server::MAX_CONNECTIONS));
    let rooms = Rooms::default();
    let gateway = Arc::new(Settings {
        hosts,
        rooms: rooms.clone(),
        largest: server::MAX_REQUEST_BYTES,
        is_starting: true,
        authenticator: None,
        by_tls: false,
    });
    let service = ServiceBuilder::new()
        .layer(layer_fn(move |inner| Gateway::new(inner, gateway.clone())))
        .layer(layer_fn(Refuse))
        .layer(layer_fn(move |inner| {
            MessageRoom::new(inner, rooms.clone(), server::MAX_REQUEST_BYTES)
        }))
        .service(Routes::new(health).prepare());
    let accepted = peer::connections(listener, permits, accept, None, None);
    let served = connections::serve(service, accepted, None, &over);
    let drained = async {
        over.cancelled().await;
        tokio::time::sleep(DRAIN_TIMEOUT).await;
    };
    tokio::select! {
        () = served => {}
        () = drained => {}
    }
}

/// Lets calls of the health service through and no others.
#[derive(Clone)]
struct Refuse<S>(S);

impl<S, B> Service<Request<B>> for Refuse<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if is_health(request.uri().path()) {
            Either::Left(self.0.call(request))
        } else {
            Either::Right(ready(Ok(errors::starting().into_http())))
        }
    }
}

fn is_health(path: &str) -> bool {
    let path = path.strip_prefix('/').unwrap_or(path);
    let service = path.split_once('/').map(|(service, _)| service);
    service == Some(HEALTH)
}
