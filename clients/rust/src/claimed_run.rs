//! A run of a job that this program does: its claim is renewed in the background until the run is
//! finished, dropped or lost.
//!
//! It counts as lost, too, when no renewal was answered for nearly a lease, by the clock of this
//! process, so that it is known to be lost here before others get it; unless this process is
//! suspended. Against that, work in one transaction of the target that the job names, with
//! `rallypoint.finish_run` in it.

use crate::{
    Client, api,
    error::{Error, Result},
};
use prost_types::Timestamp;
use std::time::Duration;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout_at},
};

/// How much earlier than the service this process takes a claim for lost, at least.
const MARGIN: Duration = Duration::from_millis(200);
const NOT_RENEWED: &str = "it could not be renewed within its lease";
/// Pause before a call is made again.
const PAUSE: Duration = Duration::from_millis(100);

/// A run that this program has claimed. Dropped, it is lost with its lease.
#[derive(Debug)]
pub struct ClaimedRun {
    client: Client,
    run: api::JobRun,
    token: i64,
    namespace: String,
    /// Why it was lost.
    lost: watch::Receiver<Option<String>>,
    keeper: JoinHandle<()>,
}

impl ClaimedRun {
    /// Keeps the claim of an answer; `None`: it has none. `asked`: when the call was made.
    pub fn of(client: &Client, answer: api::ClaimRunResponse, asked: Instant) -> Option<Self> {
        let namespace = answer.namespace;
        let (claim, run) = answer.claim.zip(answer.run)?;
        let lease = claim.lease.and_then(|lease| lease.try_into().ok());
        let lease: Duration = lease.unwrap_or_default();
        let is_over = asked + kept(lease) <= Instant::now();
        let (tell, lost) = watch::channel(is_over.then(|| NOT_RENEWED.to_owned()));
        let request = api::RenewRunRequest {
            name: run.job.clone(),
            due: run.due,
            token: claim.token,
        };
        let keeping = keep(client.clone(), request, lease, asked);
        let keeper = tokio::spawn(async move {
            // Nobody listens once the run is dropped.
            let _ = tell.send(Some(keeping.await));
        });
        Some(ClaimedRun {
            client: client.clone(),
            run,
            token: claim.token,
            namespace,
            lost,
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
        self.token
    }

    /// The namespace of the job, which `rallypoint.finish_run` takes behind the token.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Why the claim was lost; `None`: as far as is known, it is kept.
    pub fn is_lost(&self) -> Option<String> {
        self.lost.borrow().clone()
    }

    /// Resolves when the claim is lost, to why. Somebody else may have the run.
    pub async fn lost(&self) -> String {
        let mut lost = self.lost.clone();
        let known = lost.wait_for(Option::is_some).await;
        let why = known.ok().and_then(|why| why.clone());
        why.unwrap_or_else(|| "its keeper has ended".to_owned())
    }

    /// Says how the work went; `failed`: why it is not done. Asks until it is answered, for as long
    /// as that takes. The answer says whether the claim was lost before (`late`).
    pub async fn finish(&self, failed: Option<&str>) -> Result<api::FinishRunResponse> {
        let request = api::FinishRunRequest {
            name: self.run.job.clone(),
            due: self.run.due,
            token: self.token,
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

/// Renews a claim; returns why it was lost.
async fn keep(
    client: Client,
    request: api::RenewRunRequest,
    lease: Duration,
    asked: Instant,
) -> String {
    let kept = kept(lease);
    let mut kept_until = asked + kept;
    let mut next = asked + lease / 3;
    // No renewal takes longer than until the next one is due.
    let client = client.with_time_limit(Some(lease / 3));
    loop {
        sleep_until(next.min(kept_until)).await;
        let sent = Instant::now();
        let renewed = client.renew_run(request.clone());
        match timeout_at(kept_until, renewed).await {
            Ok(Ok(_)) => {
                kept_until = sent + kept;
                next = sent + lease / 3;
            }
            Ok(Err(error)) if is_final(&error) => return error.message,
            Ok(Err(_)) => next = Instant::now() + PAUSE,
            Err(_) => return NOT_RENEWED.to_owned(),
        }
    }
}

/// How long a claim is kept by a renewal.
fn kept(lease: Duration) -> Duration {
    lease.saturating_sub((lease / 10).max(MARGIN))
}

fn is_final(error: &Error) -> bool {
    ["RUN_CLAIM_ENDED", "JOB_NOT_FOUND"]
        .iter()
        .any(|reason| error.is(reason))
}
