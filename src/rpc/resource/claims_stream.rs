//! ManageClaims: many calls about claims on one stream, each answered when it is through. What a call
//! does is what the call of its own name does.

use super::{
    Messages, Resources, claim_stream::OwnClaim, errors, owner_stream::OwnStream, validate,
};
use crate::{
    core::Caller,
    rpc::forwarding::route::{self, Destination, OWNER_WAITS},
};
use bytes::Bytes;
use futures_util::{
    Stream, StreamExt,
    future::{BoxFuture, FutureExt, ready},
    stream::FuturesUnordered,
};
use rallypoint_client::api::{
    self, manage_claims_request::Kind as Call, manage_claims_response::Kind as Answer,
    resource_service_client::ResourceServiceClient,
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
use uuid::Uuid;

/// Calls of a stream that are under way at most: the next ones are not read before.
const MOST_UNDER_WAY: usize = 1_000;
/// A claim that is held for less is not watched: most of those that many take come back before.
const UNWATCHED: Duration = Duration::from_millis(50);

/// The calls of one caller, on the owner.
struct ManagedClaims {
    resources: Arc<Resources>,
    caller: Caller,
    /// `None`: the caller has closed its side.
    calls: Option<Streaming<api::ManageClaimsRequest>>,
    /// Calls that are not answered yet.
    unanswered: usize,
    /// Those, and claims that are watched.
    steps: FuturesUnordered<BoxFuture<'static, Step>>,
    /// The calls that have made the claims that are told, by the numbers of these.
    told: HashMap<i64, u64>,
    /// Claims that were granted just now.
    granted: HashMap<i64, Box<OwnClaim>>,
    /// When each of them is to be watched.
    due: VecDeque<(Instant, i64)>,
    timer: Pin<Box<Sleep>>,
    stopping: BoxFuture<'static, ()>,
    has_failed: bool,
}

/// What has come of a call.
enum Step {
    /// It is through.
    Answered(u64, Result<Answer, Status>),
    /// The claim of an Acquire, as it is now; `None`: it has ended before.
    Told(
        u64,
        Box<OwnClaim>,
        Option<Result<api::AcquireResponse, Status>>,
        IsFirst,
    ),
}

/// Whether a claim is told for the first time, which answers its call.
#[derive(Clone, Copy, PartialEq, Eq)]
struct IsFirst(bool);

impl Resources {
    /// Makes calls about claims, wherever the owner is; waits a moment while there is none.
    pub(super) async fn manage(
        &self,
        caller: Caller,
        calls: Streaming<api::ManageClaimsRequest>,
    ) -> Result<Messages<api::ManageClaimsResponse>, Status> {
        let mut waits = OWNER_WAITS.into_iter();
        loop {
            match self
                .route
                .as_ref()
                .map(|route| (route, route.destination()))
            {
                None | Some((_, Destination::Local)) => {
                    let here = ManagedClaims::new(Arc::new(self.clone()), caller, calls);
                    return Ok(Box::pin(here));
                }
                Some((_, Destination::Remote(owner))) => {
                    let mut client = ResourceServiceClient::new(owner.channel.clone());
                    // A caller that breaks off has closed its side.
                    let calls = calls.scan((), |(), call| ready(call.ok()));
                    let request = route::with_caller(calls, &caller)?;
                    let told = client.manage_claims(request).await;
                    let told = told.map_err(route::stream_error)?.into_inner();
                    return Ok(self.passed_on(told, owner));
                }
                Some((route, Destination::Unknown)) => match waits.next() {
                    Some(longest) => route.wait_for_owner(longest).await,
                    None => return Err(errors::not_owner()),
                },
            }
        }
    }

    /// A call that is answered once.
    async fn answer_to(&self, caller: Caller, call: Call) -> Result<Answer, Status> {
        Ok(match call {
            Call::TryAcquire(mut request) => {
                named(&mut request.request_id);
                Answer::TryAcquire(self.try_acquire(caller, &request).await?)
            }
            Call::Renew(request) => Answer::Renew(self.renew(caller, &request).await?),
            Call::Release(request) => Answer::Release(self.release(caller, &request).await?),
            Call::Acquire(_) => return Err(Status::internal("an Acquire is answered often")),
        })
    }
}

/// A call without a request id is made once.
fn named(request_id: &mut String) {
    if request_id.is_empty() {
        *request_id = Uuid::now_v7().to_string();
    }
}

impl ManagedClaims {
    fn new(
        resources: Arc<Resources>,
        caller: Caller,
        calls: Streaming<api::ManageClaimsRequest>,
    ) -> ManagedClaims {
        let stopping = resources.stopping.clone();
        ManagedClaims {
            resources,
            caller,
            calls: Some(calls),
            unanswered: 0,
            steps: FuturesUnordered::new(),
            told: HashMap::new(),
            granted: HashMap::new(),
            due: VecDeque::new(),
            timer: Box::pin(sleep_until(Instant::now())),
            stopping: async move { stopping.cancelled().await }.boxed(),
            has_failed: false,
        }
    }

    fn begin(&mut self, request: api::ManageClaimsRequest) {
        let number = request.call;
        let (resources, caller) = (self.resources.clone(), self.caller.clone());
        self.unanswered += 1;
        self.steps.push(match request.kind {
            Some(Call::Acquire(mut request)) => async move {
                named(&mut request.request_id);
                match OwnClaim::open(resources, &caller, &request).await {
                    Ok(claim) => told(number, Box::new(claim), IsFirst(true)).await,
                    Err(status) => Step::Answered(number, Err(status)),
                }
            }
            .boxed(),
            Some(call) => {
                async move { Step::Answered(number, resources.answer_to(caller, call).await) }
                    .boxed()
            }
            None => {
                let refused = validate::no_call();
                ready(Step::Answered(number, Err(refused.into()))).boxed()
            }
        });
    }

    /// What is said of a step; `None`: nothing.
    fn take(&mut self, step: Step) -> Option<Result<api::ManageClaimsResponse, Status>> {
        let (number, answer) = match step {
            Step::Answered(number, answer) => {
                self.unanswered -= 1;
                if let Ok(Answer::Release(released)) = &answer {
                    let claim = released.claim.as_ref().map_or(0, |claim| claim.claim);
                    self.told.remove(&claim);
                    self.granted.remove(&claim);
                }
                (number, answer)
            }
            Step::Told(number, claim, message, IsFirst(is_first)) => {
                self.unanswered -= usize::from(is_first);
                let no = claim.number();
                let is_told = is_first || self.told.contains_key(&no);
                let message = message.filter(|_| is_told)?;
                if message.is_ok() {
                    self.follow(number, claim);
                }
                (number, message.map(Answer::Acquire))
            }
        };
        let kind = match answer {
            Ok(answer) => answer,
            // Every call would end like this: the caller is to make them again, elsewhere.
            Err(status) if is_over(&status) => return Some(Err(status_of_end(status))),
            Err(status) => Answer::Error(api::CallError {
                code: status.code().into(),
                message: status.message().to_owned(),
                details: Bytes::copy_from_slice(status.details()),
            }),
        };
        Some(Ok(api::ManageClaimsResponse {
            call: number,
            kind: Some(kind),
        }))
    }

    /// Has a claim told again when it has changed.
    fn follow(&mut self, number: u64, claim: Box<OwnClaim>) {
        let no = claim.number();
        match claim.is_held() {
            None => drop(self.told.remove(&no)),
            Some(true) => {
                self.told.insert(no, number);
                if self.granted.insert(no, claim).is_none() {
                    self.due.push_back((Instant::now() + UNWATCHED, no));
                }
            }
            Some(false) => {
                self.told.insert(no, number);
                self.steps.push(told(number, claim, IsFirst(false)).boxed());
            }
        }
    }

    /// Watches the claims that were not given back at once.
    fn watch(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        while let Some((at, no)) = self.due.front().copied() {
            let is_held = self.granted.contains_key(&no);
            if is_held && at > Instant::now() {
                if self.timer.deadline() != at {
                    self.timer.as_mut().reset(at);
                }
                if self.timer.as_mut().poll(context).is_pending() {
                    break;
                }
            }
            self.due.pop_front();
            if let (Some(claim), Some(number)) = (self.granted.remove(&no), self.told.get(&no)) {
                self.steps
                    .push(told(*number, claim, IsFirst(false)).boxed());
                any = true;
            }
        }
        any
    }

    /// Reads calls, up to as many as may be under way. Returns whether there was one.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool, Status> {
        let mut any = false;
        while self.unanswered < MOST_UNDER_WAY {
            let Some(calls) = &mut self.calls else { break };
            match calls.poll_next_unpin(context) {
                Poll::Ready(Some(call)) => self.begin(call?),
                Poll::Ready(None) => self.calls = None,
                Poll::Pending => break,
            }
            any = true;
        }
        Ok(any)
    }
}

impl Stream for ManagedClaims {
    type Item = Result<api::ManageClaimsResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.has_failed {
            return Poll::Ready(None);
        }
        if this.stopping.poll_unpin(context).is_ready() {
            this.has_failed = true;
            return Poll::Ready(Some(Err(errors::stopping())));
        }
        loop {
            let read = match this.read(context) {
                Ok(read) => read,
                Err(status) => {
                    this.has_failed = true;
                    return Poll::Ready(Some(Err(status)));
                }
            };
            let has_due = this.watch(context);
            let stepped = match this.steps.poll_next_unpin(context) {
                Poll::Ready(Some(step)) => {
                    if let Some(said) = this.take(step) {
                        this.has_failed = said.is_err();
                        return Poll::Ready(Some(said));
                    }
                    true
                }
                Poll::Ready(None) | Poll::Pending => false,
            };
            if this.calls.is_none() && this.unanswered == 0 {
                return Poll::Ready(None);
            }
            if !(read || has_due || stepped) {
                return Poll::Pending;
            }
        }
    }
}

async fn told(number: u64, mut claim: Box<OwnClaim>, is_first: IsFirst) -> Step {
    let message = claim.next().await;
    Step::Told(number, claim, message, is_first)
}

/// This replica does not own the shard, or no more.
fn is_over(status: &Status) -> bool {
    route::is_not_owner(status) || route::is_unknown(status) || errors::is_stopping(status)
}

/// The end of the stream: other calls on it may have had an effect.
fn status_of_end(status: Status) -> Status {
    match errors::is_stopping(&status) {
        true => status,
        false => errors::owner_changed(),
    }
}
