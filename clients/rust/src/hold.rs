//! A hold that keeps itself: it is renewed in the background until it is released, dropped or lost.
//!
//! It counts as lost, too, when no renewal was answered for nearly a lease, and when it was held
//! for nearly as long as its resources allow: by the clock of this process, from when the last
//! answered renewal was sent. So it is known to be lost here before others get it, unless this
//! process is suspended, or an operator ends the hold or shortens `max_hold`: against that, show
//! the token to what is protected.

use crate::{
    Client, api,
    claim::ClaimStream,
    error::{Effect, Error, Result},
    lease::{Keeping, Lease, PAUSE, Renewal, lease},
};
use std::time::Duration;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tonic::Status;

/// How long a hold may take to tell how it has ended before it is told that it has.
const END_TIMEOUT: Duration = Duration::from_millis(500);
/// How a hold ends that its resources limit.
const HELD_TOO_LONG: &str = "it was held for as long as the resource allows";

/// Resources that this process holds. Dropped within a tokio runtime it is released in the
/// background; [`Hold::release`] tells whether that has come about.
#[derive(Debug)]
#[must_use = "dropped, it is given back"]
pub struct Hold {
    client: Client,
    claim: api::Claim,
    lease: Lease,
    keeper: JoinHandle<()>,
    is_released: bool,
}

impl Hold {
    /// Keeps a claim that was granted. One is renewed first that its resources limit, or whose last
    /// renewal is long ago or may be that of another program, by a `request_id` of the caller.
    ///
    /// Fails with `CLAIM_ENDED` when it has ended instead, or when nobody confirms it in time; and
    /// as [`Client::renew`] does.
    pub async fn of(mut stream: ClaimStream) -> Result<Hold> {
        if !stream.is_granted() {
            return Err(not_granted(stream.claim()));
        }
        // How long the grant was on its way is not known, and others may have been granted the same
        // meanwhile: the answer to a call says how much is left from when the call was sent.
        let left = left(stream.claim());
        let is_old = stream.kept_since().elapsed() >= stream.lease() / 3;
        if left.is_some() || is_old || !stream.is_new() {
            // After that the answer would come too late in any case.
            let limit = left.unwrap_or(Duration::MAX).min(stream.lease());
            match timeout(limit, stream.confirm()).await {
                Ok(Err(error)) if !is_final(&error) => {
                    return Err(stream.given_back(error.of_unknown_effect()));
                }
                Ok(confirmed) => confirmed?,
                Err(_) => return Err(noticed_late(stream.claim())),
            }
            if !stream.is_granted() {
                return Err(not_granted(stream.claim()));
            }
        }
        let (until, why) = renewal(&stream).until(HELD_TOO_LONG);
        if until <= Instant::now() {
            return Err(noticed_late(stream.claim()));
        }
        stream.hand_over();
        let (client, claim) = (stream.client.clone(), stream.claim().clone());
        let (keeping, lease) = lease(until, why);
        let keeper = Keeper {
            client: client.clone(),
            claim: claim.claim,
            token: claim.token,
            lease: stream.lease(),
            keeping,
        };
        let keeper = tokio::spawn(keeper.keep(stream));
        Ok(Hold {
            client,
            claim,
            lease,
            keeper,
            is_released: false,
        })
    }

    /// The fencing token: higher than that of every earlier hold.
    pub fn token(&self) -> i64 {
        self.claim.token
    }

    /// The claim, as it was when it was known to be granted.
    pub fn claim(&self) -> &api::Claim {
        &self.claim
    }

    /// Why the hold was lost; `None`: as far as is known, it is held.
    pub fn is_lost(&self) -> Option<String> {
        self.lease.is_lost()
    }

    /// Resolves when the hold is lost, to why. What it protects may be used by others.
    pub async fn lost(&self) -> String {
        self.lease.lost().await
    }

    /// Renews the hold and returns why it is lost, if it is: after this process may have stood
    /// still, with a clock that did so, too. Asks until it is answered, or the hold is lost.
    pub async fn confirm(&self) -> Option<String> {
        let renew = async || self.client.renew(self.claim.claim, self.claim.token).await;
        self.lease.confirmed(renew, is_final).await
    }

    /// Gives it back. Fails when it was lost before: then others may have had it meanwhile.
    pub async fn release(mut self) -> Result<()> {
        let (claim, token) = (self.claim.claim, self.claim.token);
        let released = self.client.release_claim(claim, token).await?;
        self.is_released = true;
        let claim = released.claim.unwrap_or_default();
        match claim.end() {
            api::ClaimEnd::Released => Ok(()),
            _ => Err(not_granted(&claim)),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.keeper.abort();
        if self.is_released {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (client, claim) = (self.client.clone(), self.claim.clone());
            runtime.spawn(async move {
                // Whatever becomes of it: the lease ends the hold, too. The service may still keep
                // one that counts as lost here.
                let _ = client.release_claim(claim.claim, claim.token).await;
            });
        }
    }
}

/// Renews a hold.
struct Keeper {
    client: Client,
    claim: i64,
    token: i64,
    lease: Duration,
    keeping: Keeping,
}

impl Keeper {
    /// How the claim has ended of which this error tells.
    async fn how(&self, error: Error) -> String {
        match timeout(END_TIMEOUT, self.client.get_claim(self.claim)).await {
            Ok(Ok(claim)) if claim.state() == api::ClaimState::Ended => how(&claim),
            _ => error.message,
        }
    }

    /// Keeps the hold until it is lost.
    async fn keep(self, stream: ClaimStream) {
        let why = self.renew(stream).await;
        self.keeping.lose(why);
    }

    /// Renews the hold; returns why it was lost.
    async fn renew(&self, stream: ClaimStream) -> String {
        let mut kept = renewal(&stream);
        let mut next = kept.next();
        let mut stream = Some(stream);
        loop {
            let (until, why) = kept.until(HELD_TOO_LONG);
            tokio::select! {
                biased;
                () = sleep_until(until) => return why.to_owned(),
                end = end_of(&mut stream) => if let Some(why) = end {
                    return why;
                },
                () = sleep_until(next) => {
                    let sent = Instant::now();
                    // No renewal takes longer than until the next one is due.
                    let client = self.client.clone().with_time_limit(Some(kept.interval()));
                    let renewed = client.renew(self.claim, self.token);
                    match timeout_at(until, renewed).await {
                        Ok(Ok(claim)) => {
                            let (lease, left) = (self.lease, left(&claim));
                            kept = Renewal { sent, lease, left };
                            let (until, why) = kept.until(HELD_TOO_LONG);
                            if !self.keeping.until(until, why) {
                                return why.to_owned();
                            }
                            next = kept.next();
                        }
                        Ok(Err(error)) if is_final(&error) => return self.how(error).await,
                        Ok(Err(_)) => next = Instant::now() + PAUSE,
                        Err(_) => return why.to_owned(),
                    }
                }
            }
        }
    }
}

/// Resolves when the service says that the claim has ended, to how; `None`: the stream is of no use
/// any more, and the renewals alone will tell.
async fn end_of(stream: &mut Option<ClaimStream>) -> Option<String> {
    let Some(open) = stream else {
        return std::future::pending().await;
    };
    match open.next().await {
        Ok(Some(claim)) if claim.state() == api::ClaimState::Ended => Some(how(claim)),
        Ok(Some(_)) => None,
        Ok(None) | Err(_) => {
            *stream = None;
            None
        }
    }
}

/// The call that kept a claim last.
fn renewal(stream: &ClaimStream) -> Renewal {
    Renewal {
        sent: stream.kept_since(),
        lease: stream.lease(),
        left: left(stream.claim()),
    }
}

/// How much longer it may be held, says the service.
fn left(claim: &api::Claim) -> Option<Duration> {
    Duration::try_from(claim.hold_left?).ok()
}

fn is_final(error: &Error) -> bool {
    ["CLAIM_ENDED", "CLAIM_NOT_FOUND", "TOKEN_MISMATCH"]
        .iter()
        .any(|reason| error.is(reason))
}

/// How a claim has ended, for people.
fn how(claim: &api::Claim) -> String {
    match claim.end() {
        api::ClaimEnd::Released => "it was released".to_owned(),
        api::ClaimEnd::Withdrawn => "it was withdrawn".to_owned(),
        api::ClaimEnd::TimedOut => "it waited for as long as it was to wait".to_owned(),
        api::ClaimEnd::Abandoned => "it was not renewed while it waited".to_owned(),
        api::ClaimEnd::Expired => "it was not renewed within its lease".to_owned(),
        api::ClaimEnd::HeldTooLong => HELD_TOO_LONG.to_owned(),
        api::ClaimEnd::Forced => {
            format!("{} has ended it: {}", claim.ended_by, claim.end_reason)
        }
        api::ClaimEnd::Unspecified => "it is over".to_owned(),
    }
}

/// It was granted, and may be over by the clock of this process.
fn noticed_late(claim: &api::Claim) -> Error {
    let message = format!(
        "the grant of claim {} was noticed too late: others may have had it since",
        claim.claim
    );
    Error {
        reason: Some("CLAIM_ENDED".to_owned()),
        // Its service may still have it as granted, until its lease is over.
        effect: Some(Effect::Unknown),
        ..Error::from(Status::failed_precondition(message))
    }
}

/// The error of a claim that ended.
fn not_granted(claim: &api::Claim) -> Error {
    let message = format!("the claim has ended: {}", how(claim));
    Error {
        reason: Some("CLAIM_ENDED".to_owned()),
        effect: Some(Effect::None),
        ..Error::from(Status::failed_precondition(message))
    }
}
