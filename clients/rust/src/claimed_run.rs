//! A run of a job that this program does: its claim is renewed in the background until the run is
//! finished, dropped or lost.
//!
//! It counts as lost, too, when no renewal was answered for nearly a lease, and when it has taken
//! nearly as long as its job lets it (`max_runtime`): by the clock of this process, so that it is
//! known to be lost here before others get it; unless this process is suspended, or somebody
//! shortens `max_runtime`. Against that, work in one transaction of the target that the job names,
//! with `rallypoint.finish_run` in it.

use crate::{
    Client, api,
    error::{Error, Result},
    lease::{Keeping, Lease, PAUSE, Renewal, lease},
};
use prost_types::Timestamp;
use std::time::Duration;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout_at},
};

/// How a claim ends that takes too long.
const TOOK_TOO_LONG: &str = "it took for as long as the job lets it (max_runtime)";

/// A run that this program has claimed. Dropped, it is lost with its lease.
#[derive(Debug)]
#[must_use = "dropped, it is lost with its lease"]
pub struct ClaimedRun {
    client: Client,
    run: api::JobRun,
    request: api::RenewRunRequest,
    namespace: String,
    lease: Lease,
    keeper: JoinHandle<()>,
}

impl ClaimedRun {
    /// Keeps the claim of an answer; `None`: it has none. `asked`: before the call was sent. If the
    /// answer was slow the claim is renewed first, and may be lost already: see
    /// [`ClaimedRun::is_lost`].
    pub async fn of(
        client: &Client,
        answer: api::ClaimRunResponse,
        asked: Instant,
    ) -> Option<Self> {
        let namespace = answer.namespace;
        let (claim, run) = answer.claim.zip(answer.run)?;
        let request = api::RenewRunRequest {
            name: run.job.clone(),
            due: run.due,
            token: claim.token,
        };
        let mut begun = Renewal {
            sent: asked,
            lease: length(claim.lease).unwrap_or_default(),
            left: length(answer.runtime_left),
        };
        let mut ended = None;
        if begun.next() <= Instant::now() {
            // How long the answer was on its way is not known: it may be kept for longer.
            match renewed(client, &request, begun.lease, begun.interval()).await {
                Ok(renewal) => begun = renewal,
                Err(error) => ended = Some(error).filter(is_final).map(|error| error.message),
            }
        }
        let (until, why) = begun.until(TOOK_TOO_LONG);
        let (keeping, lease) = lease(until, why);
        if let Some(why) = ended {
            keeping.lose(why);
        }
        let keeper = tokio::spawn(keep(client.clone(), request.clone(), begun, keeping));
        Some(ClaimedRun {
            client: client.clone(),
            run,
            request,
            namespace,
            lease,
            keeper,
        })
    }

    /// The run, as it was claimed.
    pub fn run(&self) -> &api::JobRun {
        &self.run
    }

    /// The due time, which names the run.
    pub fn due(&self) -> Timestamp {
        self.run.due.unwrap_or_default()
    }

    /// The token of the claim: above that of every earlier one.
    pub fn token(&self) -> i64 {
        self.request.token
    }

    /// The namespace of the job, which `rallypoint.finish_run` takes behind the token.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Why the claim was lost; `None`: as far as is known, it is kept.
    pub fn is_lost(&self) -> Option<String> {
        self.lease.is_lost()
    }

    /// Resolves when the claim is lost, to why. Somebody else may have the run.
    pub async fn lost(&self) -> String {
        self.lease.lost().await
    }

    /// Renews the claim and returns why it is lost, if it is: after this process may have stood
    /// still, with a clock that did so, too. Asks until it is answered, or the claim is lost.
    pub async fn confirm(&self) -> Option<String> {
        let renew = async || self.client.renew_run(self.request.clone()).await;
        self.lease.confirmed(renew, is_final).await
    }

    /// Says how the work went; `failed`: why it is not done. Asks until it is answered, for as long
    /// as that takes. The answer says whether the claim was lost before (`late`).
    pub async fn finish(&self, failed: Option<&str>) -> Result<api::FinishRunResponse> {
        let request = api::FinishRunRequest {
            name: self.run.job.clone(),
            due: self.run.due,
            token: self.token(),
            failed: failed.is_some(),
            detail: failed.unwrap_or_default().to_owned(),
        };
        loop {
            match self.client.finish_run(request.clone()).await {
                Err(error) if error.is_retryable() => sleep(PAUSE).await,
                answered => return answered,
            }
        }
    }
}

impl Drop for ClaimedRun {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

fn length(duration: Option<prost_types::Duration>) -> Option<Duration> {
    duration?.try_into().ok()
}

/// Keeps a claim until it is lost.
async fn keep(client: Client, request: api::RenewRunRequest, begun: Renewal, keeping: Keeping) {
    let (mut kept, mut next) = (begun, begun.next());
    let why = loop {
        let (until, why) = kept.until(TOOK_TOO_LONG);
        sleep_until(next.min(until)).await;
        let now = Instant::now();
        if now >= until {
            break why.to_owned();
        }
        let renewed = renewed(&client, &request, kept.lease, kept.interval());
        match timeout_at(until, renewed).await {
            Ok(Ok(renewal)) => {
                let (until, why) = renewal.until(TOOK_TOO_LONG);
                if !keeping.until(until, why) {
                    return;
                }
                (kept, next) = (renewal, renewal.next());
            }
            Ok(Err(error)) if is_final(&error) => break error.message,
            Ok(Err(_)) => next = Instant::now() + PAUSE,
            Err(_) => break why.to_owned(),
        }
    };
    keeping.lose(why);
}

/// Renews a claim, in so much time at most.
async fn renewed(
    client: &Client,
    request: &api::RenewRunRequest,
    lease: Duration,
    limit: Duration,
) -> Result<Renewal> {
    let client = client.clone().with_time_limit(Some(limit));
    let sent = Instant::now();
    let kept = client.renew_run(request.clone()).await?;
    let left = length(kept.runtime_left);
    Ok(Renewal { sent, lease, left })
}

fn is_final(error: &Error) -> bool {
    ["RUN_CLAIM_ENDED", "JOB_NOT_FOUND", "RUN_NOT_FOUND"]
        .iter()
        .any(|reason| error.is(reason))
}
