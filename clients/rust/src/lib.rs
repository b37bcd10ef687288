//! The Rust client: one connection at a time, typed calls, and calls that are repeated under their
//! request id until it is known what became of them. It knows the API and nothing of the server's
//! inside.

pub mod api;
mod backoff;
mod codec;
mod error;
mod scheduler;
mod servers;
mod stream;

pub use error::{Error, Result};
pub use scheduler::Scheduler;
pub use stream::DoneStream;

use backoff::Backoff;
use codec::SharedCodec;
use prost::Message;
use servers::{Pick, Servers};
use std::{sync::Arc, time::Duration};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{Ascii, MetadataValue},
};
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to the service. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    servers: Servers,
    patience: Duration,
    caller: Option<MetadataValue<Ascii>>,
    namespace: Option<MetadataValue<Ascii>>,
}

impl Client {
    /// Connects to `address`: a URL, or `host:port`, or several with commas between them. Of
    /// several the first one that answers is used, and the next one when it cannot be reached any
    /// more.
    pub async fn connect(address: &str) -> Result<Client> {
        Ok(Client::of(Servers::connect(address).await?))
    }

    /// As [`Client::connect`], but connects at the first call.
    pub fn connect_lazy(address: &str) -> Result<Client> {
        Ok(Client::of(Servers::connect_lazy(address)?))
    }

    fn of(servers: Servers) -> Client {
        Client {
            servers,
            patience: PATIENCE,
            caller: None,
            namespace: None,
        }
    }

    /// Repeats calls of unknown fate, and those the service says when to repeat, for so long
    /// (default 30 s; zero: never).
    pub fn with_patience(self, patience: Duration) -> Client {
        Client { patience, ..self }
    }

    /// Names the caller, for the log.
    pub fn with_caller(self, name: &str) -> Result<Client> {
        Ok(Client {
            caller: Some(metadata(name)?),
            ..self
        })
    }

    /// Calls on behalf of a namespace, where the server takes that from metadata.
    pub fn with_namespace(self, namespace: &str) -> Result<Client> {
        Ok(Client {
            namespace: Some(metadata(namespace)?),
            ..self
        })
    }

    /// Opens a scheduler.
    pub async fn open(&self, settings: api::SchedulerSettings) -> Result<Scheduler> {
        let request = api::GetSchedulerRequest {
            settings: Some(settings),
            request_id: request_id(),
        };
        let response: api::GetSchedulerResponse =
            self.scheduler_call("GetScheduler", request).await?;
        Ok(self.scheduler(response.scheduler.unwrap_or_default().handle))
    }

    /// The scheduler of a handle from earlier. Asks nobody.
    pub fn scheduler(&self, handle: impl Into<String>) -> Scheduler {
        Scheduler::new(self.clone(), handle.into())
    }

    /// A page of the caller's schedulers, newest first.
    pub async fn schedulers(
        &self,
        request: api::ListSchedulersRequest,
    ) -> Result<api::ListSchedulersResponse> {
        self.scheduler_call("ListSchedulers", request).await
    }

    /// What the service is doing.
    pub async fn status(&self) -> Result<api::GetStatusResponse> {
        self.call(
            "/rallypoint.v1.StatusService/GetStatus".into(),
            api::GetStatusRequest {},
        )
        .await
    }

    /// What runs where.
    pub async fn executions(&self) -> Result<Vec<api::Execution>> {
        let path = "/rallypoint.v1.StatusService/ListExecutions".to_owned();
        let response: api::ListExecutionsResponse =
            self.call(path, api::ListExecutionsRequest {}).await?;
        Ok(response.executions)
    }

    /// What runs where, again at every change, at most once an interval. Not resumed when it
    /// breaks.
    pub async fn watch_executions(
        &self,
        interval: Duration,
    ) -> Result<Streaming<api::ListExecutionsResponse>> {
        let interval_ms = i32::try_from(interval.as_millis()).unwrap_or(i32::MAX);
        let request = self.request(api::WatchExecutionsRequest { interval_ms });
        let mut client =
            api::status_service_client::StatusServiceClient::new(self.servers.pick().1);
        Ok(client.watch_executions(request).await?.into_inner())
    }

    /// A call of SchedulerService, repeated while its fate is unknown.
    pub(crate) async fn scheduler_call<T, R>(&self, rpc: &'static str, request: T) -> Result<R>
    where
        T: Message + 'static,
        R: Message + Default + 'static,
    {
        self.call(format!("/rallypoint.v1.SchedulerService/{rpc}"), request)
            .await
    }

    pub(crate) async fn open_stream(
        &self,
        request: api::SynchronizationRequest,
    ) -> Result<(Pick, Streaming<api::SynchronizationResponse>)> {
        let (pick, channel) = self.servers.pick();
        let mut client = api::scheduler_service_client::SchedulerServiceClient::new(channel);
        let opened = client.synchronization(self.request(request)).await;
        Ok((
            pick,
            opened
                .map_err(|status| self.failed(pick, status))?
                .into_inner(),
        ))
    }

    /// What a server said when a call failed. Another one may know better when this one cannot
    /// tell, and need not be waited for.
    pub(crate) fn failed(&self, pick: Pick, status: Status) -> Error {
        let mut error = Error::from(status);
        if error.is_unknown() && self.servers.leave(pick) {
            error.retry_after = None;
        }
        error
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    async fn call<T, R>(&self, path: String, request: T) -> Result<R>
    where
        T: Message + 'static,
        R: Message + Default + 'static,
    {
        let path = PathAndQuery::try_from(path)
            .map_err(|error| Error::from(Status::internal(error.to_string())))?;
        let request = Arc::new(request);
        let mut backoff: Option<Backoff> = None;
        loop {
            match self.attempt(path.clone(), request.clone()).await {
                Ok(response) => return Ok(response),
                Err(error) => {
                    let backoff = backoff.get_or_insert_with(|| Backoff::new(self.patience));
                    backoff.wait(error).await?;
                }
            }
        }
    }

    async fn attempt<T, R>(&self, path: PathAndQuery, request: Arc<T>) -> Result<R>
    where
        T: Message + 'static,
        R: Message + Default + 'static,
    {
        let (pick, channel) = self.servers.pick();
        let mut grpc = Grpc::new(channel);
        let called = async {
            grpc.ready()
                .await
                .map_err(|error| Status::from_error(Box::new(error)))?;
            grpc.unary(self.request(request), path, SharedCodec::<T, R>::new())
                .await
        };
        Ok(called
            .await
            .map_err(|status| self.failed(pick, status))?
            .into_inner())
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        for (key, value) in [
            ("rallypoint-caller", &self.caller),
            ("rallypoint-namespace", &self.namespace),
        ] {
            if let Some(value) = value {
                request.metadata_mut().insert(key, value.clone());
            }
        }
        request
    }
}

fn metadata(text: &str) -> Result<MetadataValue<Ascii>> {
    text.parse()
        .map_err(|_| Status::invalid_argument(format!("not printable ASCII: {text:?}")).into())
}

/// Makes a call repeatable.
fn request_id() -> String {
    Uuid::now_v7().to_string()
}
