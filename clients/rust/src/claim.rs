//! A claim on resources and how it fares. It survives lost connections, server restarts and
//! takeovers: the same call under its request id continues it.

use crate::{
    Client, api,
    backoff::Backoff,
    error::{Error, Result},
    servers::Pick,
};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tonic::{Status, Streaming};

/// A claim as the service tells it, until it has ended.
///
/// The claim is renewed while [`ClaimStream::next`] is awaited. Dropped, it ends with its lease.
#[derive(Debug)]
pub struct ClaimStream {
    pub(crate) client: Client,
    request: api::AcquireRequest,
    claim: api::Claim,
    stream: Option<(Pick, Streaming<api::AcquireResponse>)>,
    /// When to renew it next.
    renewal: Instant,
}

/// Lease of a claim that does not say its own.
const DEFAULT_LEASE: Duration = Duration::from_secs(15);

impl ClaimStream {
    pub(crate) async fn open(client: Client, request: api::AcquireRequest) -> Result<Self> {
        let mut stream = ClaimStream {
            client,
            request,
            claim: api::Claim::default(),
            stream: None,
            renewal: Instant::now() + DEFAULT_LEASE / 3,
        };
        stream.connect(None).await?;
        stream.next().await?;
        Ok(stream)
    }

    /// The claim, as it was told last.
    pub fn claim(&self) -> &api::Claim {
        &self.claim
    }

    /// Whether it was granted, and has not ended.
    pub fn is_granted(&self) -> bool {
        self.claim.state() == api::ClaimState::Held
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.claim.state() == api::ClaimState::Ended
    }

    /// The claim when it has changed: it is granted, has ended, or has another place in line.
    /// `None`: it had ended before. An error is final: it is returned only when connecting again
    /// has failed or cannot help.
    pub async fn next(&mut self) -> Result<Option<&api::Claim>> {
        if self.has_ended() {
            return Ok(None);
        }
        loop {
            let renewal = self.renewal;
            let message = tokio::select! {
                message = self.message() => message,
                () = sleep_until(renewal) => {
                    self.renew().await;
                    continue;
                }
            };
            match message {
                Ok(message) => {
                    self.claim = message.claim.unwrap_or_default();
                    return Ok(Some(&self.claim));
                }
                Err(error) => self.connect(Some(error)).await?,
            }
        }
    }

    /// How long the claim outlives its last renewal.
    pub(crate) fn lease(&self) -> Duration {
        let lease = self.claim.lease;
        let lease = lease.and_then(|lease| Duration::try_from(lease).ok());
        let lease = lease.filter(|lease| !lease.is_zero());
        lease.unwrap_or(DEFAULT_LEASE)
    }

    /// Renews the claim. What keeps that from coming about the stream will tell.
    async fn renew(&mut self) {
        let interval = self.lease() / 3;
        self.renewal = Instant::now() + interval;
        if self.claim.claim != 0 {
            let client = self.client.clone().with_time_limit(Some(interval));
            let _ = client.renew(self.claim.claim, self.claim.token).await;
        }
    }

    async fn message(&mut self) -> Result<api::AcquireResponse> {
        let Some((pick, stream)) = &mut self.stream else {
            return Err(Status::unavailable("not connected").into());
        };
        let message = match stream.message().await {
            Ok(Some(message)) => return Ok(message),
            Ok(None) => Status::unavailable("the stream ended without a reason"),
            Err(status) => status,
        };
        Err(self.client.failed(*pick, message))
    }

    /// Opens the stream, or opens it again after the error `broken`, until the retry timeout.
    async fn connect(&mut self, broken: Option<Error>) -> Result<()> {
        self.stream = None;
        let mut backoff = Backoff::new(self.client.retry_timeout());
        let mut failed = broken;
        loop {
            if let Some(error) = failed.take() {
                backoff.wait(error).await?;
            }
            match self.client.open_claim(self.request.clone()).await {
                Ok(stream) => {
                    self.stream = Some(stream);
                    return Ok(());
                }
                Err(error) => failed = Some(error),
            }
        }
    }
}
