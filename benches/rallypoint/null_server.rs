//! The baseline of unary calls: the same ExecAsync message over the same transport, answered at
//! once by a process that does nothing with it.

use crate::load;
use anyhow::Result;
use rallypoint_client::api::{
    ExecAsyncRequest, ExecAsyncResponse, scheduler_service_client::SchedulerServiceClient,
};
use std::{
    convert::Infallible,
    future::{Ready, ready},
    net::Ipv4Addr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Instant,
};
use tokio::{net::TcpListener, task::JoinSet};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{Service, http},
    server::{Grpc, NamedService, UnaryService},
    transport::{self, Channel, Endpoint, server::TcpIncoming},
};
use tonic_prost::ProstCodec;
use uuid::Uuid;

/// Answers every call at once.
#[derive(Clone)]
struct NullService;

impl NamedService for NullService {
    const NAME: &'static str = "rallypoint.v1.SchedulerService";
}

impl UnaryService<ExecAsyncRequest> for NullService {
    type Response = ExecAsyncResponse;
    type Future = Ready<Result<Response<ExecAsyncResponse>, Status>>;

    fn call(&mut self, request: Request<ExecAsyncRequest>) -> Self::Future {
        let count = request.get_ref().tasks.len() as i32;
        ready(Ok(Response::new(ExecAsyncResponse {
            first_seq: 1,
            count,
            done_no: 0,
        })))
    }
}

impl Service<http::Request<Body>> for NullService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            Ok(Grpc::new(ProstCodec::default())
                .unary(NullService, request)
                .await)
        })
    }
}

/// Serves until the process is ended.
pub(crate) async fn serve() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    let connections = TcpIncoming::from(listener).with_nodelay(Some(true));
    Ok(transport::Server::builder()
        .add_service(NullService)
        .serve_with_incoming(connections)
        .await?)
}

/// `total` calls of one task each.
pub(crate) fn requests(handle: &str, total: u64) -> Vec<ExecAsyncRequest> {
    (0..total).map(|number| request(handle, number)).collect()
}

/// Makes the calls from `callers` callers, one at a time each.
pub(crate) async fn call_all(
    channel: Channel,
    requests: Vec<ExecAsyncRequest>,
    callers: u64,
) -> Result<()> {
    let requests = Arc::new(Mutex::new(requests.into_iter()));
    let mut calling = JoinSet::new();
    for _ in 0..callers {
        let (mut client, requests) = (
            SchedulerServiceClient::new(channel.clone()),
            requests.clone(),
        );
        calling.spawn(async move {
            loop {
                let next = requests
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .next();
                let Some(request) = next else {
                    return Ok::<_, Status>(());
                };
                client.exec_async(request).await?;
            }
        });
    }
    while let Some(ended) = calling.join_next().await {
        ended??;
    }
    Ok(())
}

/// Makes calls one at a time.
pub(crate) struct Caller {
    client: SchedulerServiceClient<Channel>,
    handle: String,
}

impl Caller {
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        Ok(Caller {
            client: SchedulerServiceClient::new(channel(address).await?),
            handle: Uuid::now_v7().to_string(),
        })
    }

    /// Microseconds of each of `count` calls.
    pub(crate) async fn make(&mut self, count: u64) -> Result<Vec<f64>> {
        let mut latencies = Vec::with_capacity(count as usize);
        for number in 0..count {
            let request = request(&self.handle, number);
            let start = Instant::now();
            self.client.exec_async(request).await?;
            latencies.push(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok(latencies)
    }
}

fn request(handle: &str, number: u64) -> ExecAsyncRequest {
    let request_id = Uuid::now_v7().to_string();
    ExecAsyncRequest {
        handle: handle.to_owned(),
        request_id,
        tasks: vec![load::task(number)],
    }
}

/// Connects to a server.
pub(crate) async fn channel(address: &str) -> Result<Channel> {
    Ok(Endpoint::from_shared(address.to_owned())?
        .tcp_nodelay(true)
        .connect()
        .await?)
}
