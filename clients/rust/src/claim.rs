//! A claim on resources and how it fares. It survives lost connections, server restarts and
//! takeovers: the same call under its request id continues it.

use crate::{
    Client, api,
    backoff::{Backoff, StreamBackoff},
    claim_calls::Answers,
    error::{Effect, Error, Result},
    servers::Pick,
};
use std::time::Duration;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep_until},
};
use tonic::Status;

/// A claim as the service tells it, until it has ended.
///
/// The claim is renewed while [`ClaimStream::next`] is awaited. Dropped within a tokio runtime it
/// is withdrawn in the background, or given back; [`ClaimStream::withdraw`] tells whether that has
/// come about.
#[derive(Debug)]
#[must_use = "dropped, the claim is withdrawn"]
pub struct ClaimStream {
    pub(crate) client: Client,
    request: api::AcquireRequest,
    claim: api::Claim,
    stream: Option<(Pick, Answers)>,
    /// What was told first since the stream was opened.
    first: Option<api::AcquireResponse>,
    /// When to renew it next; `None`: somebody else does.
    renewal: Option<Instant>,
    /// It is kept for a lease from then on at least, if `is_new`, or once it was renewed.
    kept_since: Instant,
    /// It ends with this stream.
    is_own: bool,
    /// It was asked for, and may be there though nothing was told yet.
    is_unknown: bool,
    is_new: bool,
    /// An attempt to make it may have had its effect.
    was_unknown: bool,
    backoff: StreamBackoff,
}

/// Lease of a claim that does not say its own.
const DEFAULT_LEASE: Duration = Duration::from_secs(15);

impl ClaimStream {
    /// `is_new`: nobody else has used its request id.
    pub(crate) async fn open(
        client: Client,
        request: api::AcquireRequest,
        is_new: bool,
    ) -> Result<Self> {
        let kept_since = Instant::now();
        let lease = lease_of(request.lease.as_ref());
        let mut stream = ClaimStream {
            backoff: StreamBackoff::new(client.retry_timeout()),
            client,
            request,
            claim: api::Claim::default(),
            stream: None,
            first: None,
            renewal: Some(kept_since + lease / 3),
            kept_since,
            is_own: true,
            is_unknown: false,
            is_new,
            was_unknown: false,
        };
        let opened = async {
            stream.connect(None).await?;
            stream.next().await.map(|_| ())
        };
        if let Err(error) = opened.await {
            // The error says so, and under which request id it may be asked for again.
            stream.is_unknown = false;
            return Err(error);
        }
        Ok(stream)
    }

    /// The claim, as it was told last.
    pub fn claim(&self) -> &api::Claim {
        &self.claim
    }

    /// Whether it was granted, and has not ended, as it was told last. It may have ended since:
    /// [`Hold::of`](crate::Hold::of) looks.
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
                () = due(renewal) => {
                    self.renew().await;
                    continue;
                }
            };
            match message {
                Ok(message) => {
                    let claim = message.claim.unwrap_or_default();
                    if self.claim.claim != 0 && claim.claim != self.claim.claim {
                        return Err(self.forgotten(claim));
                    }
                    self.backoff.received(has_come_on(&self.claim, &claim));
                    self.claim = claim;
                    return Ok(Some(&self.claim));
                }
                Err(error) => {
                    if let Err(error) = self.connect(Some(error)).await {
                        return Err(self.given_back(error));
                    }
                }
            }
        }
    }

    /// An error after which this is dropped, and with it the claim given back that it has made.
    pub(crate) fn given_back(&self, error: Error) -> Error {
        let error = error.under(self.request.request_id.clone());
        match self.claim.claim {
            0 => error,
            _ => error.of_claim_given_back(),
        }
    }

    /// How long the claim outlives its last renewal.
    pub(crate) fn lease(&self) -> Duration {
        let known = self.claim.lease.as_ref();
        lease_of(known.or(self.request.lease.as_ref()))
    }

    /// Withdraws a claim that waits, or gives it back if it was granted meanwhile.
    pub async fn withdraw(mut self) -> Result<()> {
        let (client, claim) = (self.client.clone(), self.claim.clone());
        withdraw(&client, &claim).await?;
        self.is_own = false;
        Ok(())
    }

    /// Since when it is kept for a lease, as far as this process knows.
    pub(crate) fn kept_since(&self) -> Instant {
        self.kept_since
    }

    /// Renews a claim that was granted, which says how it fares now.
    pub(crate) async fn confirm(&mut self) -> Result<()> {
        let sent = Instant::now();
        self.claim = (self.client)
            .renew(self.claim.claim, self.claim.token)
            .await?;
        self.kept_since = sent;
        Ok(())
    }

    /// Whether this stream has made the claim. Another one, of the same request id, may have
    /// renewed it last long ago.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Has somebody else renew the claim and end it.
    pub(crate) fn hand_over(&mut self) {
        self.renewal = None;
        self.is_own = false;
    }

    /// The claim has ended so long ago that the service has made another one of the call.
    fn forgotten(&mut self, other: api::Claim) -> Error {
        let client = self.client.clone();
        tokio::spawn(async move { withdraw(&client, &other).await });
        self.is_own = false;
        let message = format!("claim {} has ended, long ago", self.claim.claim);
        Error {
            reason: Some("CLAIM_ENDED".to_owned()),
            effect: Some(Effect::None),
            ..Error::from(Status::failed_precondition(message))
        }
    }

    /// Renews the claim. What keeps that from coming about the stream will tell.
    async fn renew(&mut self) {
        let (sent, interval) = (Instant::now(), self.lease() / 3);
        self.renewal = Some(sent + interval);
        if self.claim.claim != 0 {
            let client = self.client.clone().with_time_limit(Some(interval));
            let renewed = client.renew(self.claim.claim, self.claim.token).await;
            if renewed.is_ok() {
                self.kept_since = sent;
            }
        }
    }

    async fn message(&mut self) -> Result<api::AcquireResponse> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let Some((pick, answers)) = &mut self.stream else {
            return Err(Status::unavailable("not connected").into());
        };
        self.client.claim_update(*pick, answers).await
    }

    /// Opens the stream, or opens it again after the error `broken`, until the retry timeout, which
    /// begins anew when the claim has come on.
    async fn connect(&mut self, broken: Option<Error>) -> Result<()> {
        self.stream = None;
        if broken.is_some() {
            self.backoff.broke();
        }
        let mut failed = broken;
        loop {
            if let Some(error) = failed.take() {
                // An answer that is final is not asked for again, whatever became of the claim.
                let is_final = !error.is_retryable();
                let error = error.after(self.claim.claim != 0 || self.was_unknown, false);
                if is_final {
                    return Err(error);
                }
                self.was_unknown = error.is_unknown();
                self.backoff.wait(error).await?;
            }
            // An id that the caller has chosen may be used again by the caller.
            self.is_unknown = self.is_new;
            match self.client.open_claim(self.request.clone()).await {
                Ok((pick, answers, first)) => {
                    self.stream = Some((pick, answers));
                    self.first = Some(first);
                    self.backoff.opened();
                    return Ok(());
                }
                Err(error) => failed = Some(error),
            }
        }
    }
}

impl Drop for ClaimStream {
    fn drop(&mut self) {
        let is_known = self.claim.claim != 0;
        if !self.is_own || self.has_ended() || !is_known && !self.is_unknown {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let (client, claim) = (self.client.clone(), self.claim.clone());
            let request = (!is_known).then(|| self.request.clone());
            // Whatever becomes of it: the lease ends the claim, too.
            runtime.spawn(async move {
                let claim = match request {
                    Some(request) => asked_for(&client, request).await?,
                    None => claim,
                };
                withdraw(&client, &claim).await
            });
        }
    }
}

/// The claim of a request that nobody has been answered: the same call tells it, or makes it.
async fn asked_for(client: &Client, request: api::AcquireRequest) -> Result<api::Claim> {
    let mut backoff = Backoff::new(client.retry_timeout());
    loop {
        match client.open_claim(request.clone()).await {
            Ok((_, _, first)) => return Ok(first.claim.unwrap_or_default()),
            Err(error) => backoff.wait(error).await?,
        }
    }
}

/// Ends a claim, granted or not by now.
async fn withdraw(client: &Client, claim: &api::Claim) -> Result<()> {
    match client.release_claim(claim.claim, claim.token).await {
        Err(error) if error.is("TOKEN_MISMATCH") && claim.token == 0 => {
            let granted = client.get_claim(claim.claim).await?;
            client.release_claim(granted.claim, granted.token).await?;
            Ok(())
        }
        released => released.map(|_| ()),
    }
}

/// Whether a claim is another one than before in what matters to whoever waits for it.
fn has_come_on(before: &api::Claim, now: &api::Claim) -> bool {
    let known = |claim: &api::Claim| (claim.claim, claim.state, claim.position);
    known(before) != known(now)
}

fn lease_of(lease: Option<&prost_types::Duration>) -> Duration {
    let lease = lease.and_then(|lease| Duration::try_from(*lease).ok());
    let lease = lease.filter(|lease| !lease.is_zero());
    lease.unwrap_or(DEFAULT_LEASE)
}

async fn due(renewal: Option<Instant>) {
    match renewal {
        Some(renewal) => sleep_until(renewal).await,
        None => std::future::pending().await,
    }
}
