//! One claim of a caller who talks to servers directly: it is renewed by calls, or by its stream.
//! Calls of unknown outcome are repeated, and a stream that breaks is opened again.
//!
//! The caller takes a claim that it renews for kept until a little less than a lease has passed
//! since the last answered renewal was sent, and one that its stream renews for as long as the
//! stream is open.

mod ending;

use super::{
    Load, RETRY_TIMEOUT,
    claimants::{MARK_INTERVAL, Witness, hold_length},
    resources,
};
use crate::{
    claims::{Call, ClaimEntry, Phase},
    history::{Answer, now},
    rng::Rng,
};
use rallypoint_client::api;
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};
use tonic::Streaming;
use uuid::Uuid;

const SECOND_US: i64 = 1_000_000;
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How long a stream may take to open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// What its caller means to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    Release,
    /// It is gone while it waits, or holds.
    Vanish,
    /// It waits no longer than this.
    Withdraw,
    /// An operator ends its hold, and it goes on renewing that.
    Lose,
}

pub(super) struct Claim {
    load: Arc<Load>,
    witness: Arc<Witness>,
    id: u64,
    server: usize,
    request: api::AcquireRequest,
    /// In microseconds.
    lease: i64,
    plan: Plan,
    length: Duration,
    /// It is to be had at once or not at all.
    if_free: bool,
    stream: Option<(i64, Streaming<api::AcquireResponse>)>,
    claim: i64,
    phase: Option<Phase>,
    /// When its last answered renewal was sent, or its request.
    kept_since: i64,
    /// The longest hold, and when it was granted at the earliest.
    max_hold: Option<i64>,
    granted_after: i64,
    next_renewal: i64,
    held_until: Option<i64>,
}

impl Claim {
    pub(super) fn new(
        load: Arc<Load>,
        witness: Arc<Witness>,
        by_stream: bool,
        rng: &mut Rng,
    ) -> Claim {
        let (id, at) = (load.new_claim(), now());
        let seconds = match by_stream {
            // A stream may be silent for a while before anybody notices.
            true => 6,
            false => 2 + rng.below(3) as i64,
        };
        let uses = resources::of_caller(rng);
        let asked = ClaimEntry::Asked {
            at,
            uses: uses.clone(),
            lease: seconds * SECOND_US,
            renewed_by_caller: !by_stream,
        };
        load.note(id, asked);
        let plan = match rng.below(10) {
            0 | 1 => Plan::Vanish,
            2 => Plan::Withdraw,
            3 => Plan::Lose,
            _ => Plan::Release,
        };
        let request = api::AcquireRequest {
            resources: uses.iter().map(resources::message).collect(),
            request_id: Uuid::now_v7().to_string(),
            owner: format!("caller {id}"),
            lease: Some(duration(seconds)),
            wait: rng.percent(10).then(|| duration(2)),
            renewed_by_caller: !by_stream,
            ..Default::default()
        };
        Claim {
            load,
            witness,
            id,
            server: rng.place(60),
            request,
            lease: seconds * SECOND_US,
            plan,
            length: hold_length(rng),
            if_free: !by_stream && rng.percent(15),
            stream: None,
            claim: 0,
            phase: None,
            kept_since: at,
            max_hold: resources::max_hold(&uses),
            granted_after: at,
            next_renewal: at + seconds * SECOND_US / 3,
            held_until: None,
        }
    }

    /// From its request to its end, or until its caller leaves it.
    pub(super) async fn live(mut self) {
        let until = now() + RETRY_TIMEOUT.as_micros() as i64;
        let leaves_at = now() + self.length.as_micros() as i64;
        let mut is_open = match self.if_free {
            true => self.try_acquire(until).await,
            false => true,
        };
        while is_open && !matches!(self.phase, Some(Phase::Ended(_))) {
            let at = now();
            let is_over = match self.phase {
                Some(Phase::Held(_)) => self.held_until.is_some_and(|until| until <= at),
                _ => matches!(self.plan, Plan::Vanish | Plan::Withdraw) && leaves_at <= at,
            };
            if is_over && self.plan == Plan::Vanish || at > until {
                is_open = false;
            } else if is_over && self.plan == Plan::Lose && self.token() != 0 {
                is_open = self.lose(until).await;
            } else if is_over && self.claim != 0 {
                is_open = self.release(until).await;
            } else {
                is_open = self.listen_and_renew().await;
            }
        }
        if !is_open {
            self.load.note(self.id, ClaimEntry::Left { at: now() });
        }
    }

    /// Until the next message, renewal or mark. Says whether the claim goes on.
    async fn listen_and_renew(&mut self) -> bool {
        if self.stream.is_none() && !self.if_free && !self.open().await {
            return false;
        }
        if self.request.renewed_by_caller && self.next_renewal <= now() && self.claim != 0 {
            self.renew().await;
        }
        if let Some(Phase::Held(_)) = self.phase {
            self.mark().await;
        }
        if let Ok(message) = timeout(MARK_INTERVAL, self.message()).await {
            match message {
                Some((begun, Some(claim))) => self.note_shown(Call::Acquire, begun, &claim),
                _ => {
                    self.stream = None;
                    self.server += 1;
                }
            }
        }
        true
    }

    async fn message(&mut self) -> Option<(i64, Option<api::Claim>)> {
        match &mut self.stream {
            Some((begun, stream)) => {
                let message = stream.message().await.ok()??;
                Some((*begun, message.claim))
            }
            None => std::future::pending().await,
        }
    }

    /// Opens the stream, or tries to. Says whether there is reason to go on.
    async fn open(&mut self) -> bool {
        let (begun, request) = (now(), self.request.clone());
        let mut client = self.load.resources(self.server);
        let limit = match self.request.renewed_by_caller && self.claim != 0 {
            true => self.renewal_timeout(),
            false => OPEN_TIMEOUT,
        };
        let call = self.load.once(client.acquire(request));
        let answer = timeout(limit, call).await;
        match answer.unwrap_or(Answer::Unknown("no stream in time".into())) {
            Answer::Ok(stream) => self.stream = Some((begun, stream)),
            Answer::Refused(why) => {
                self.note_failed(Call::Acquire, begun, true, why);
                return false;
            }
            Answer::Unknown(why) => {
                self.note_failed(Call::Acquire, begun, false, why);
                self.server += 1;
                sleep(RETRY_INTERVAL).await;
            }
        }
        true
    }

    /// Says whether there is a claim.
    async fn try_acquire(&mut self, until: i64) -> bool {
        let request = api::TryAcquireRequest {
            resources: self.request.resources.clone(),
            request_id: self.request.request_id.clone(),
            owner: self.request.owner.clone(),
            lease: self.request.lease,
            ..Default::default()
        };
        while now() < until {
            let begun = now();
            let mut client = self.load.resources(self.server);
            match self.load.once(client.try_acquire(request.clone())).await {
                Answer::Ok(answer) => match answer.claim {
                    Some(claim) => {
                        self.note_shown(Call::TryAcquire, begun, &claim);
                        return true;
                    }
                    None => {
                        self.note_failed(Call::TryAcquire, begun, true, "NOT_FREE".into());
                        return false;
                    }
                },
                Answer::Refused(why) => {
                    self.note_failed(Call::TryAcquire, begun, true, why);
                    return false;
                }
                Answer::Unknown(why) => {
                    self.note_failed(Call::TryAcquire, begun, false, why);
                    self.server += 1;
                    sleep(RETRY_INTERVAL).await;
                }
            }
        }
        false
    }

    async fn renew(&mut self) {
        let begun = now();
        self.next_renewal = begun + self.lease / 3;
        let (claim, token) = (self.claim, self.token());
        let mut client = self.load.resources(self.server);
        let call = client.renew(api::RenewRequest { claim, token });
        let answer = timeout(self.renewal_timeout(), self.load.once(call)).await;
        match answer.unwrap_or(Answer::Unknown("no answer in time".into())) {
            Answer::Ok(answer) => {
                self.kept_since = begun;
                let claim = answer.claim.unwrap_or_default();
                self.note_shown(Call::Renew, begun, &claim);
            }
            Answer::Refused(why) => {
                self.note_failed(Call::Renew, begun, true, why);
                // It was granted meanwhile, or has ended.
                self.look().await;
            }
            Answer::Unknown(why) => {
                self.note_failed(Call::Renew, begun, false, why);
                self.server += 1;
                self.next_renewal = now() + RETRY_INTERVAL.as_micros() as i64;
            }
        }
    }

    /// Asks how it fares. Says whether it is known.
    async fn look(&mut self) -> bool {
        let (begun, claim) = (now(), self.claim);
        let mut client = self.load.resources(self.server);
        let call = client.get_claim(api::GetClaimRequest { claim });
        match self.load.once(call).await {
            Answer::Ok(answer) => {
                self.note_shown(Call::Look, begun, &answer.claim.unwrap_or_default());
                true
            }
            Answer::Refused(why) => {
                self.note_failed(Call::Look, begun, true, why);
                false
            }
            Answer::Unknown(why) => {
                self.note_failed(Call::Look, begun, false, why);
                self.server += 1;
                true
            }
        }
    }

    /// Notes that it is held, if its caller may be sure of that.
    async fn mark(&mut self) {
        let is_first = self.held_until.is_none();
        let mark = self.witness.mark(self.claim).await;
        let at = now();
        let is_kept = match self.request.renewed_by_caller {
            true => at < self.kept_since + self.lease - self.lease / 10,
            false => self.stream.is_some(),
        };
        // The service counts it by a clock that may run at double speed.
        let longest = self
            .max_hold
            .map(|longest| self.granted_after + longest / 2);
        if is_kept && longest.is_none_or(|until| at < until) {
            self.load.note(self.id, ClaimEntry::Held { at, mark });
        }
        if is_first {
            self.held_until = Some(at + self.length.as_micros() as i64);
        }
    }

    fn token(&self) -> i64 {
        match self.phase {
            Some(Phase::Held(token)) => token,
            _ => 0,
        }
    }

    fn renewal_timeout(&self) -> Duration {
        Duration::from_micros(self.lease as u64 / 3)
    }

    fn note_shown(&mut self, call: Call, begun: i64, claim: &api::Claim) {
        let phase = match claim.state() {
            api::ClaimState::Held => Phase::Held(claim.token),
            api::ClaimState::Ended => Phase::Ended(claim.end),
            _ => Phase::Waiting,
        };
        self.claim = claim.claim;
        if phase == Phase::Waiting {
            self.granted_after = self.granted_after.max(begun);
        }
        // A message of the stream may be older than the answer to a call.
        let is_older = matches!((self.phase, phase), (Some(Phase::Held(_)), Phase::Waiting));
        if !is_older {
            self.phase = Some(phase);
        }
        let shown = ClaimEntry::Shown {
            call,
            begun,
            at: now(),
            claim: claim.claim,
            phase,
        };
        self.load.note(self.id, shown);
    }

    fn note_failed(&self, call: Call, begun: i64, refused: bool, why: String) {
        let failed = ClaimEntry::Failed {
            call,
            begun,
            at: now(),
            refused,
            why,
        };
        self.load.note(self.id, failed);
    }
}

fn duration(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}
