//! A claim through the Rust client, which finds a server, repeats calls and renews the claim by
//! itself. It says whether it is lost, and none of its calls may fail for a fault.

use super::{
    Load, RETRY_TIMEOUT, answered,
    claimants::{MARK_INTERVAL, Witness, hold_length},
    resources,
};
use crate::{
    claims::{Call, ClaimEntry, Phase, Use},
    history::{Answer, Entry, now},
    rng::Rng,
};
use rallypoint_client::{self, Client, api};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

/// That of the client, in microseconds.
const LEASE_US: i64 = 15_000_000;

pub(super) struct ClientClaim {
    load: Arc<Load>,
    witness: Arc<Witness>,
    id: u64,
    uses: Vec<Use>,
    request: api::AcquireRequest,
    length: Duration,
    /// It is dropped instead of released.
    is_dropped: bool,
}

impl ClientClaim {
    pub(super) fn new(load: Arc<Load>, witness: Arc<Witness>, rng: &mut Rng) -> ClientClaim {
        let (id, uses) = (load.new_claim(), resources::of_caller(rng));
        let request = api::AcquireRequest {
            resources: uses.iter().map(resources::message).collect(),
            owner: format!("client {id}"),
            ..Default::default()
        };
        let asked = ClaimEntry::Asked {
            at: now(),
            uses: uses.clone(),
            lease: LEASE_US,
            renewed_by_caller: true,
        };
        load.note(id, asked);
        ClientClaim {
            load,
            witness,
            id,
            uses,
            request,
            length: hold_length(rng),
            is_dropped: rng.percent(10),
        }
    }

    pub(super) async fn live(self) {
        if self.hold().await.is_none() {
            let left = ClaimEntry::Left { at: now() };
            self.load.note(self.id, left);
        }
    }

    /// `None`: it is not known whether it has ended.
    async fn hold(&self) -> Option<()> {
        let client = Client::connect_lazy(&self.load.addresses.join(","));
        let client = client.expect("addresses").with_retry_timeout(RETRY_TIMEOUT);
        let begun = now();
        let acquired = client.acquire_as(self.request.clone());
        let hold = self.record("Acquire", acquired).await?;
        let claim = hold.claim().claim;
        self.note(claim, begun, Phase::Held(hold.token()));
        let until = now() + self.length.as_micros() as i64;
        // The service counts it from before its answer, by a clock that may run at double speed.
        let longest = resources::max_hold(&self.uses);
        let limit = longest.map(|longest| now() + longest / 3);
        while hold.is_lost().is_none() {
            let mark = self.witness.mark(claim).await;
            let at = now();
            if hold.is_lost().is_none() && limit.is_none_or(|until| at < until) {
                self.load.note(self.id, ClaimEntry::Held { at, mark });
            }
            if at >= until {
                break;
            }
            sleep(MARK_INTERVAL).await;
        }
        if self.is_dropped {
            return None;
        }
        let begun = now();
        self.record("Release", hold.release()).await?;
        self.note(claim, begun, Phase::Ended(api::ClaimEnd::Released.into()));
        Some(())
    }

    fn note(&self, claim: i64, begun: i64, phase: Phase) {
        let shown = ClaimEntry::Shown {
            call: Call::Client,
            begun,
            at: now(),
            claim,
            phase,
        };
        self.load.note(self.id, shown);
    }

    /// Waits for the outcome of a call. One that is refused by the rules has not failed.
    async fn record<T>(
        &self,
        call: &str,
        outcome: impl Future<Output = rallypoint_client::Result<T>>,
    ) -> Option<T> {
        let begun = now();
        // As long as others hold what it waits for, and callers cannot be reached.
        let outcome = match timeout(3 * RETRY_TIMEOUT, outcome).await {
            Ok(outcome) => outcome.map_err(answered::<()>),
            Err(_) => Err(Answer::Unknown("it does not come back".into())),
        };
        let answer = match &outcome {
            Ok(_) | Err(Answer::Refused(_)) => Answer::Ok(()),
            Err(failed) => failed.clone(),
        };
        self.load.history.write(&Entry::Caller {
            call: call.to_owned(),
            begun,
            ended: now(),
            answer,
        });
        outcome.ok()
    }
}
