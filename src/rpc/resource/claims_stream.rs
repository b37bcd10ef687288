//! ManageClaims: many calls about claims on one stream, each answered when it is through. What a
//! call does is what the call of its own name does, also on a replica that does not own the shard:
//! so a caller who reads no answers stops nobody but itself.

use super::{Messages, Resources, errors, validate};
use crate::{
    core::Caller,
    rpc::{errors::transport::message_error, observed},
};
use bytes::Bytes;
use futures_util::{
    Stream, StreamExt,
    future::{BoxFuture, FutureExt, ready},
    stream::FuturesUnordered,
};
use prost::Message;
use rallypoint_client::api::{
    self, manage_claims_request::Kind as Call, manage_claims_response::Kind as Answer,
};
use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::{Status, Streaming};

/// Calls of a stream that are under way at most, and their bytes: the next ones are read later.
const MOST_UNDER_WAY: usize = 128;
const MOST_BYTES: usize = 128 << 10;
/// Bytes of a call. A valid one has a fraction of that.
const LARGEST_CALL: usize = 64 << 10;
/// A claim that is held for less is not watched: most of those that many take come back before.
const UNWATCHED: Duration = Duration::from_millis(50);

/// What tells of a claim.
type Claims = Messages<api::AcquireResponse>;

/// The calls of one caller.
struct ManagedClaims {
    resources: Arc<Resources>,
    caller: Caller,
    /// `None`: the caller has closed its side.
    calls: Option<Streaming<api::ManageClaimsRequest>>,
    /// Calls that are not answered yet, and their bytes.
    unanswered: (usize, usize),
    /// Those, claims that are watched, and the end of the server. As the latter is always among
    /// them, a poll never comes to all of them, after which the set would yield: it would wake
    /// this very task, and the runtime another thread for it, once a call.
    steps: FuturesUnordered<BoxFuture<'static, Step>>,
    /// Claims that calls under way give back: their answers tell how these end.
    given_back: Vec<i64>,
    /// Claims that were given back, by what their calls of Acquire would say of that: it is said if
    /// the answer to the release cannot.
    unsaid: HashMap<i64, (Claims, Result<api::AcquireResponse, Status>)>,
    /// The call under which the caller hears of each claim.
    followed: HashMap<i64, u64>,
    /// Claims that were granted just now.
    granted: HashMap<i64, Claims>,
    /// When each of them is to be watched.
    due: VecDeque<(Instant, i64)>,
    timer: Pin<Box<Sleep>>,
    has_failed: bool,
}

/// A call that is under way.
#[derive(Clone, Copy)]
struct UnderWay {
    number: u64,
    bytes: usize,
    /// The claim that it gives back.
    gives_back: Option<i64>,
}

/// What has come about.
enum Step {
    /// A call is through.
    Answered(UnderWay, Result<Answer, Status>),
    /// A claim was made.
    Claimed(UnderWay, Claims, Result<api::AcquireResponse, Status>),
    /// It has changed; `None`: it has ended before.
    Changed(i64, Claims, Option<Result<api::AcquireResponse, Status>>),
    /// The server stops.
    Stopping,
}

impl Resources {
    /// Makes the calls of a stream.
    pub(super) fn manage(
        &self,
        caller: Caller,
        calls: Streaming<api::ManageClaimsRequest>,
    ) -> Messages<api::ManageClaimsResponse> {
        Box::pin(ManagedClaims::new(self.clone(), caller, calls))
    }
}

impl ManagedClaims {
    fn new(
        resources: Resources,
        caller: Caller,
        calls: Streaming<api::ManageClaimsRequest>,
    ) -> ManagedClaims {
        let stopping = resources.stopping.clone();
        let steps = FuturesUnordered::new();
        steps.push(stopping.cancelled_owned().map(|()| Step::Stopping).boxed());
        ManagedClaims {
            resources: Arc::new(resources),
            caller,
            calls: Some(calls),
            unanswered: (0, 0),
            steps,
            given_back: Vec::new(),
            unsaid: HashMap::new(),
            followed: HashMap::new(),
            granted: HashMap::new(),
            due: VecDeque::new(),
            timer: Box::pin(sleep_until(Instant::now())),
            has_failed: false,
        }
    }

    fn begin(&mut self, request: api::ManageClaimsRequest) {
        let call = UnderWay {
            number: request.call,
            bytes: request.encoded_len(),
            gives_back: match &request.kind {
                Some(Call::Release(request)) => Some(request.claim),
                _ => None,
            },
        };
        self.given_back.extend(call.gives_back);
        self.unanswered.0 += 1;
        self.unanswered.1 += call.bytes;
        let (resources, caller) = (self.resources.clone(), self.caller.clone());
        let refused = |status| ready(Step::Answered(call, Err(status))).boxed();
        self.steps.push(match request.kind {
            _ if call.bytes > LARGEST_CALL => {
                refused(errors::resource::call_too_large(LARGEST_CALL))
            }
            None => refused(validate::no_call().into()),
            Some(Call::Acquire(request)) => claimed(call, resources, caller, request).boxed(),
            Some(other) => {
                async move { Step::Answered(call, answer_to(&resources, caller, other).await) }
                    .boxed()
            }
        });
    }

    /// What is said of a step, and under which number; `None`: nothing.
    fn take(&mut self, step: Step) -> Option<(u64, Result<Answer, Status>)> {
        match step {
            Step::Answered(call, answer) => {
                self.note_answer(call);
                if let Some(claim) = call.gives_back {
                    self.note_release(claim, answer.is_ok());
                }
                Some((call.number, answer))
            }
            Step::Claimed(call, claims, message) => {
                self.note_answer(call);
                if let Ok(first) = &message {
                    let (claim, state) = claim_of(first);
                    let is_open = state != api::ClaimState::Ended;
                    // Of calls for the same claim the newest one is told, by one watcher.
                    if is_open && self.followed.insert(claim, call.number).is_none() {
                        self.follow(claim, state, claims);
                    }
                }
                Some((call.number, message.map(Answer::Acquire)))
            }
            Step::Changed(claim, claims, message) => {
                let number = *self.followed.get(&claim)?;
                let message = message?;
                if self.given_back.contains(&claim) && is_released(&message) {
                    self.unsaid.insert(claim, (claims, message));
                    return None;
                }
                match message.as_ref().map(claim_of) {
                    Ok((_, state)) if state != api::ClaimState::Ended => {
                        self.follow(claim, state, claims);
                    }
                    _ => drop(self.followed.remove(&claim)),
                }
                Some((number, message.map(Answer::Acquire)))
            }
            Step::Stopping => None, // is said by the end of the stream
        }
    }

    /// A release is answered; if it has failed, an end that was not told is told after all.
    fn note_release(&mut self, claim: i64, is_done: bool) {
        let unsaid = self.unsaid.remove(&claim);
        if is_done {
            self.followed.remove(&claim);
            self.granted.remove(&claim);
        } else if let Some((claims, message)) = unsaid {
            let step = Step::Changed(claim, claims, Some(message));
            self.steps.push(ready(step).boxed());
        }
    }

    fn note_answer(&mut self, call: UnderWay) {
        self.unanswered.0 -= 1;
        self.unanswered.1 -= call.bytes;
        let its = |claim: &i64| Some(*claim) == call.gives_back;
        if let Some(place) = self.given_back.iter().position(its) {
            self.given_back.swap_remove(place);
        }
    }

    /// Has a claim told again when it has changed.
    fn follow(&mut self, claim: i64, state: api::ClaimState, claims: Claims) {
        if state == api::ClaimState::Held {
            self.granted.insert(claim, claims);
            self.due.push_back((Instant::now() + UNWATCHED, claim));
        } else {
            self.steps.push(changed(claim, claims).boxed());
        }
    }

    /// Watches the claims that were not given back at once. Returns whether there was one.
    fn watch(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        while let Some((at, claim)) = self.due.front().copied() {
            if self.granted.contains_key(&claim) && at > Instant::now() {
                if self.timer.deadline() != at {
                    self.timer.as_mut().reset(at);
                }
                if self.timer.as_mut().poll(context).is_pending() {
                    break;
                }
            }
            self.due.pop_front();
            if let Some(claims) = self.granted.remove(&claim) {
                self.steps.push(changed(claim, claims).boxed());
                any = true;
            }
        }
        any
    }

    /// Reads calls, up to as many as may be under way. Returns whether there was one.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool, Status> {
        let mut any = false;
        while self.unanswered.0 < MOST_UNDER_WAY && self.unanswered.1 < MOST_BYTES {
            let Some(calls) = &mut self.calls else { break };
            match calls.poll_next_unpin(context) {
                Poll::Ready(Some(call)) => self.begin(call.map_err(message_error)?),
                Poll::Ready(None) => self.calls = None,
                Poll::Pending => break,
            }
            any = true;
        }
        Ok(any)
    }

    fn failed(&mut self, status: Status) -> Poll<Option<<Self as Stream>::Item>> {
        self.has_failed = true;
        Poll::Ready(Some(Err(status)))
    }
}

impl Stream for ManagedClaims {
    type Item = Result<api::ManageClaimsResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.has_failed {
            return Poll::Ready(None);
        }
        loop {
            let read = match this.read(context) {
                Ok(read) => read,
                Err(status) => return this.failed(status),
            };
            let has_due = this.watch(context);
            let stepped = match this.steps.poll_next_unpin(context) {
                Poll::Ready(Some(Step::Stopping)) => return this.failed(errors::stopping()),
                Poll::Ready(Some(step)) => {
                    if let Some((call, answer)) = this.take(step) {
                        let kind = answer.unwrap_or_else(|status| {
                            observed::note(&this.resources.metrics, &status);
                            Answer::Error(error_of(&status))
                        });
                        let kind = Some(kind);
                        return Poll::Ready(Some(Ok(api::ManageClaimsResponse { call, kind })));
                    }
                    true
                }
                Poll::Ready(None) | Poll::Pending => false,
            };
            if this.calls.is_none() && this.unanswered.0 == 0 {
                return Poll::Ready(None);
            }
            if !(read || has_due || stepped) {
                return Poll::Pending;
            }
        }
    }
}

/// Makes a claim, and tells of it for the first time.
async fn claimed(
    call: UnderWay,
    resources: Arc<Resources>,
    caller: Caller,
    request: api::AcquireRequest,
) -> Step {
    let mut claims = match resources.stream_claim(caller, request).await {
        Ok(claims) => claims,
        Err(status) => return Step::Answered(call, Err(status)),
    };
    match claims.next().await {
        Some(message) => Step::Claimed(call, claims, message),
        None => Step::Answered(call, Err(errors::owner_changed())),
    }
}

async fn changed(claim: i64, mut claims: Claims) -> Step {
    let message = claims.next().await;
    Step::Changed(claim, claims, message)
}

/// A call that is answered once.
async fn answer_to(resources: &Resources, caller: Caller, call: Call) -> Result<Answer, Status> {
    Ok(match call {
        Call::TryAcquire(call) => Answer::TryAcquire(resources.answer_to(caller, call).await?),
        Call::Renew(call) => Answer::Renew(resources.answer_to(caller, call).await?),
        Call::Release(call) => Answer::Release(resources.answer_to(caller, call).await?),
        Call::Acquire(_) => unreachable!("an Acquire is answered by its stream"),
    })
}

fn claim_of(message: &api::AcquireResponse) -> (i64, api::ClaimState) {
    let claim = message.claim.as_ref();
    let ended = (0, api::ClaimState::Ended);
    claim.map_or(ended, |claim| (claim.claim, claim.state()))
}

fn is_released(message: &Result<api::AcquireResponse, Status>) -> bool {
    let claim = message.as_ref().ok().and_then(|it| it.claim.as_ref());
    claim.is_some_and(|claim| claim.end() == api::ClaimEnd::Released)
}

fn error_of(status: &Status) -> api::CallError {
    api::CallError {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: Bytes::copy_from_slice(status.details()),
    }
}
