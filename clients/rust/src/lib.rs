//! The Rust client of Rallypoint, which coordinates parallel work on Postgres.
//!
//! Open a [`Scheduler`], submit tasks in orders, and read an event as each one is done. Every call
//! is repeated under its request id until its outcome is known, and a [`DoneStream`] resumes by
//! itself when its connection breaks, so each task is submitted once and each event is seen once.
//!
//! ```no_run
//! use rallypoint_client::{Client, Result, api};
//!
//! # async fn example() -> Result<()> {
//! let client = Client::connect("http://127.0.0.1:50051").await?;
//! let scheduler = client.open(api::SchedulerSettings::default()).await?;
//! let sql = api::SqlTask {
//!     statement: "select 1".into(),
//!     ..Default::default()
//! };
//! let task = api::Task {
//!     kind: Some(api::task::Kind::Sql(sql)),
//!     order: Some(100),
//!     ..Default::default()
//! };
//! scheduler.exec(vec![task]).await?;
//! let mut events = scheduler.synchronize(0, None).await?;
//! while let Some(done) = events.next().await? {
//!     for event in done {
//!         println!("task {} ended {:?}", event.seq, event.outcome());
//!     }
//! }
//! scheduler.release(api::ReleaseMode::Finish, true).await?;
//! # Ok(())
//! # }
//! ```
//!
//! `examples/orders.rs` is a whole program. The messages in [`api`] are generated from the proto
//! files, whose comments are the reference of the API. This crate knows the API only, and nothing
//! of the server's implementation.

pub mod api;
mod backoff;
mod calls;
mod claim;
mod claim_calls;
mod claimed_run;
mod codec;
mod error;
mod hold;
mod identity;
mod jobs;
mod lease;
mod open;
mod operator;
mod outage;
mod resources;
mod scheduler;
mod servers;
mod stream;
#[cfg(feature = "server")]
pub mod strict_codec;
mod tls;
mod token;
mod watch;

pub use claim::ClaimStream;
pub use claimed_run::ClaimedRun;
pub use error::{Effect, Error, Result};
pub use hold::Hold;
pub use identity::Identity;
pub use outage::Outage;
pub use scheduler::Scheduler;
pub use secrecy::SecretString;
pub use stream::DoneStream;
pub use tls::Tls;
pub use watch::ResourceStream;

use claim_calls::ClaimCalls;
use prost::Message;
use servers::{Pick, Servers};
use std::{path::Path, time::Duration};
use token::Token;
use tonic::{
    Status, Streaming,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use uuid::Uuid;

/// How long a call is repeated, unless the caller says otherwise.
const DEFAULT_RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to the service. Clones share it and are cheap.
#[derive(Clone, Debug)]
pub struct Client {
    servers: Servers,
    retry_timeout: Duration,
    time_limit: Option<Duration>,
    caller: Option<MetadataValue<Ascii>>,
    namespace: Option<MetadataValue<Ascii>>,
    token: Option<Token>,
    plain_text_tokens: bool,
    request_id: Option<String>,
    outage: Outage,
    claims: ClaimCalls,
}

impl Client {
    /// Connects to `address`: a URL, or `host:port`, or several separated by commas. Of several the
    /// first that answers is used, and the next one once it cannot be reached any more. With
    /// `https://` it connects by TLS and trusts the public authorities; see [`Client::connect_by`].
    ///
    /// Fails when an address is malformed or none answers. It does not wait for a server to start.
    pub async fn connect(address: &str) -> Result<Client> {
        Client::connect_within(address, servers::CONNECT_TIMEOUT).await
    }

    /// As [`Client::connect`], and each server has this time to accept the connection.
    pub async fn connect_within(address: &str, timeout: Duration) -> Result<Client> {
        Client::connect_by(&Tls::new(), address, timeout).await
    }

    /// As [`Client::connect_within`], and `tls` says whom to trust at `https://` addresses, and
    /// with which certificate to come. Fails also when its files cannot be used.
    pub async fn connect_by(tls: &Tls, address: &str, timeout: Duration) -> Result<Client> {
        Ok(Client::of(Servers::connect(address, timeout, tls).await?))
    }

    /// As [`Client::connect`], but connects at the first call. Fails only on a malformed address.
    pub fn connect_lazy(address: &str) -> Result<Client> {
        Client::connect_lazy_by(&Tls::new(), address)
    }

    /// As [`Client::connect_by`], but connects at the first call.
    pub fn connect_lazy_by(tls: &Tls, address: &str) -> Result<Client> {
        Ok(Client::of(Servers::connect_lazy(address, tls)?))
    }

    fn of(servers: Servers) -> Client {
        Client {
            servers,
            retry_timeout: DEFAULT_RETRY_TIMEOUT,
            time_limit: None,
            caller: None,
            namespace: None,
            token: None,
            plain_text_tokens: false,
            request_id: None,
            outage: Outage::default(),
            claims: ClaimCalls::default(),
        }
    }

    /// Whether calls find no server at present, or none that takes them, and are repeated. Those
    /// about a scheduler, and streams, say it themselves.
    pub fn outage(&self) -> Outage {
        self.outage.clone()
    }

    /// Sets for how long a call is repeated while its outcome is unknown or the service asks to
    /// retry later. Default 30 s; zero: never.
    pub fn with_retry_timeout(self, retry_timeout: Duration) -> Client {
        Client {
            retry_timeout,
            ..self
        }
    }

    /// Sets how long a call may take in all, its repetitions included, and opening a stream; not
    /// opening it again when it has broken, which `with_retry_timeout` limits. Default: as long as
    /// the server is there and does not answer.
    pub fn with_time_limit(self, time_limit: Option<Duration>) -> Client {
        Client { time_limit, ..self }
    }

    /// Sets the name of the caller, which the log shows. Fails unless it is printable ASCII.
    pub fn with_caller(self, name: &str) -> Result<Client> {
        Ok(Client {
            caller: Some(metadata(name)?),
            claims: self.claims.of_another_caller(),
            ..self
        })
    }

    /// Lets a token, which is given after this, be sent in plain text to other machines. Safe only
    /// where the network itself encrypts, as a service mesh does.
    pub fn with_plain_text_tokens(self) -> Client {
        Client {
            plain_text_tokens: true,
            ..self
        }
    }

    fn check_token_unreadable(&self) -> Result<()> {
        match self.plain_text_tokens {
            true => Ok(()),
            false => self.servers.check_unreadable(),
        }
    }

    /// Calls with a token, by which the server knows the caller. Fails unless it is printable ASCII
    /// without spaces, and where an address is neither `https://` nor on this machine; see
    /// [`Client::with_plain_text_tokens`].
    pub fn with_token(self, token: &SecretString) -> Result<Client> {
        self.check_token_unreadable()?;
        Ok(Client {
            token: Some(Token::new(token)?),
            claims: self.claims.of_another_caller(),
            ..self
        })
    }

    /// As [`Client::with_token`], with the first line of a file, which is read again every 10 s,
    /// and when the server does not take it: a call is made again if there is another one.
    pub fn with_token_file(self, path: impl AsRef<Path>) -> Result<Client> {
        self.check_token_unreadable()?;
        Ok(Client {
            token: Some(Token::read(path.as_ref())?),
            claims: self.claims.of_another_caller(),
            ..self
        })
    }

    /// Calls on behalf of `namespace`. Refused by a server where the caller has no role in it, and
    /// by one that neither knows callers nor trusts metadata. Fails unless it is printable ASCII.
    pub fn with_namespace(self, namespace: &str) -> Result<Client> {
        Ok(Client {
            namespace: Some(metadata(namespace)?),
            claims: self.claims.of_another_caller(),
            ..self
        })
    }

    /// Sets the request id, a UUID, of one call of this value that opens a scheduler: made again
    /// under the same one, by this program or another, it answers with the same scheduler, within
    /// 15 minutes and while fewer than a million other calls have come since. Not of calls of that
    /// scheduler, which has a `with_request_id` of its own.
    ///
    /// Without it each call has a new one, which an [`Error`] names.
    pub fn with_request_id(self, request_id: impl Into<String>) -> Client {
        Client {
            request_id: Some(request_id.into()),
            ..self
        }
    }

    /// The scheduler with a handle that is already known. Makes no call.
    pub fn scheduler(&self, handle: impl Into<String>) -> Scheduler {
        let client = Client {
            request_id: None,
            outage: Outage::default(),
            ..self.clone()
        };
        Scheduler::new(client, handle.into())
    }

    /// One page of the schedulers of the caller's namespace, newest first.
    pub async fn schedulers(
        &self,
        request: api::ListSchedulersRequest,
    ) -> Result<api::ListSchedulersResponse> {
        self.scheduler_call("ListSchedulers", request).await
    }

    /// The connection to the server in use, for services that this crate does not know, such as
    /// `grpc.health.v1`. Calls on it are not repeated.
    pub fn channel(&self) -> Channel {
        self.servers.pick().1
    }

    /// Calls SchedulerService, repeatedly while the outcome is unknown.
    pub(crate) async fn scheduler_call<T, R>(&self, rpc: &'static str, request: T) -> Result<R>
    where
        T: Message + 'static,
        R: Message + Default + 'static,
    {
        self.call(format!("/rallypoint.v1.SchedulerService/{rpc}"), request)
            .await
    }

    /// The request id for a call that begins something.
    pub(crate) fn request_id(&self) -> String {
        let new = || Uuid::now_v7().to_string();
        self.request_id.clone().unwrap_or_else(new)
    }

    pub(crate) async fn open_stream(
        &self,
        request: api::SynchronizationRequest,
    ) -> Result<(Pick, Streaming<api::SynchronizationResponse>)> {
        let (pick, channel) = self.servers.pick();
        let mut client = api::scheduler_service_client::SchedulerServiceClient::new(channel);
        let opened = async {
            let opened = client.synchronization(self.request(request)).await;
            opened.map_err(|status| self.failed(pick, status))
        };
        Ok((pick, self.in_time(opened).await?.into_inner()))
    }
}

fn metadata(text: &str) -> Result<MetadataValue<Ascii>> {
    text.parse()
        .map_err(|_| Status::invalid_argument(format!("not printable ASCII: {text:?}")).into())
}
