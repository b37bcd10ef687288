//! The stream on which a client makes its calls about claims: one for all of them, since a stream
//! for each claim, and a call for each release, would cost several times what they do.
//!
//! It is opened by the first call, and closed when nothing was said on it for a while. When it
//! breaks, or is left for another server, every call on it fails; who made a call makes it again.

use crate::{
    api::{
        self, manage_claims_request::Kind as Call, manage_claims_response::Kind as Answer,
        resource_service_client::ResourceServiceClient,
    },
    servers::Pick,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::timeout,
};
use tonic::{
    Code, Request, Status, Streaming,
    codegen::tokio_stream::{StreamExt, wrappers::ReceiverStream},
    transport::Channel,
};

/// Calls that are unanswered at most, as the service asks of each connection: the next ones wait,
/// and are sent together. They are those of a client and of all that were made of it, whoever
/// calls, at all its addresses together. A call that the service does not read yet may be a short
/// frame of its own, and for too many of those HTTP/2 ends the connection, with all that is on it.
const MOST_UNANSWERED: usize = 1_000;
/// The stream is closed when nothing was said on it for so long, and nothing is awaited.
const IDLE: Duration = Duration::from_secs(10);

/// What a call is told, until its claim has ended: always the newest, since only that counts.
#[derive(Debug)]
pub(crate) struct Answers {
    /// On which of the streams the call was made.
    stream: u64,
    newest: watch::Receiver<Option<Reply>>,
}

/// One of the things it is told.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Answer(Box<Answer>),
    /// The service has refused it.
    Refused(Box<Status>),
    /// The stream has ended. `was_open`: the call may have had its effect, whatever the status
    /// says.
    Ended {
        status: Box<Status>,
        was_open: bool,
    },
}

type Listener = watch::Sender<Option<Reply>>;

impl Answers {
    /// The next one; `None`: that was the last.
    pub(crate) async fn next(&mut self) -> Option<Reply> {
        self.newest.changed().await.ok()?;
        self.newest.borrow_and_update().clone()
    }
}

/// The stream of a client and its clones.
#[derive(Clone, Debug)]
pub(crate) struct ClaimCalls {
    state: Arc<Mutex<State>>,
    /// One for each call that may be unanswered: of all callers of the client together.
    places: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    /// How many streams and calls there have been.
    streams: u64,
    calls: u64,
    open: Option<Open>,
}

/// How a stream is opened.
#[derive(Debug)]
pub(crate) struct Opening {
    pub pick: Pick,
    pub channel: Channel,
    /// Has the metadata of the client.
    pub request: Request<()>,
}

/// A stream that is open, or about to be.
#[derive(Debug)]
struct Open {
    /// Which of them it is.
    stream: u64,
    pick: Pick,
    calls: mpsc::Sender<api::ManageClaimsRequest>,
    /// Who awaits the answers to each call.
    awaited: HashMap<u64, Awaited>,
    /// The calls that have made the claims that are told, by the numbers of these: several under
    /// one request id.
    claims: HashMap<i64, Vec<u64>>,
}

/// A call whose answers are awaited.
#[derive(Debug)]
struct Awaited {
    listener: Listener,
    /// Taken until its first answer, also when nobody listens any more.
    place: Option<OwnedSemaphorePermit>,
}

impl Default for ClaimCalls {
    fn default() -> Self {
        ClaimCalls {
            state: Arc::default(),
            places: Arc::new(Semaphore::new(MOST_UNANSWERED)),
        }
    }
}

impl ClaimCalls {
    /// The stream of another caller of the same client.
    pub(crate) fn of_another_caller(&self) -> ClaimCalls {
        let (state, places) = (Arc::default(), self.places.clone());
        ClaimCalls { state, places }
    }

    /// Whether there is a stream: then calls are made on it.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().open.is_some()
    }

    /// Makes a call, on the stream that is open or another one, once there is a place for it.
    pub(crate) async fn make(
        &self,
        opening: impl FnOnce() -> Opening,
        call: Call,
    ) -> (Pick, Answers) {
        let (listener, newest) = watch::channel(None);
        let place = self.places.clone().acquire_owned().await.ok();
        let awaited = Awaited { listener, place };
        let (stream, number, pick, calls) = self.await_answers(opening, awaited);
        let request = api::ManageClaimsRequest {
            call: number,
            kind: Some(call),
        };
        // There is room: what waits there has places. Nothing is awaited here, since a call that is
        // dropped when it has its place must have been sent, or the place would stay taken. If the
        // stream has just ended, all that is awaited is told so.
        let _ = calls.try_send(request);
        (pick, Answers { stream, newest })
    }

    /// Leaves the stream of these answers, if it is open: what else is awaited on it is to be
    /// called again, and may have had its effect.
    pub(crate) fn leave(&self, answers: &Answers, status: &Status) {
        self.fail(answers.stream, status, true);
    }

    /// The stream and the number of a call that is `awaited`, and where it is to be sent.
    fn await_answers(
        &self,
        opening: impl FnOnce() -> Opening,
        awaited: Awaited,
    ) -> (u64, u64, Pick, mpsc::Sender<api::ManageClaimsRequest>) {
        let mut state = self.lock();
        let State {
            streams,
            calls: number,
            open,
        } = &mut *state;
        let mut begun = None;
        let open = open.get_or_insert_with(|| {
            *streams += 1;
            let opening = opening();
            let pick = opening.pick;
            let (calls, made) = mpsc::channel(MOST_UNANSWERED);
            begun = Some((*streams, opening, made));
            Open::new(*streams, pick, calls)
        });
        *number += 1;
        open.awaited.insert(*number, awaited);
        let call = (open.stream, *number, open.pick, open.calls.clone());
        drop(state);
        // Where the runtime shuts down this ends the stream at once, which locks the state.
        if let Some((stream, opening, made)) = begun {
            let ending = Ending {
                calls: self.clone(),
                stream,
                was_open: false,
            };
            tokio::spawn(ending.follow(opening, made));
        }
        call
    }

    /// Whether a call is still to be made: nobody would know of the claim of one that was given up
    /// before it could be sent.
    fn is_awaited(&self, call: u64) -> bool {
        let mut state = self.lock();
        let Some(open) = &mut state.open else {
            return false;
        };
        let is_awaited = open
            .awaited
            .get(&call)
            .is_some_and(|one| !one.listener.is_closed());
        if !is_awaited {
            open.awaited.remove(&call);
        }
        is_awaited
    }

    /// Passes answers on until the stream has ended, is of no use, or was left.
    async fn pass_on(
        &self,
        stream: u64,
        mut answers: Streaming<api::ManageClaimsResponse>,
    ) -> Status {
        loop {
            let message = match timeout(IDLE, answers.message()).await {
                Ok(message) => message,
                Err(_) => match self.close_if_idle(stream) {
                    true => return Status::ok("idle"),
                    false => continue,
                },
            };
            match message {
                Ok(Some(message)) => match self.tell(stream, message) {
                    true => {}
                    false => return Status::ok("left"),
                },
                Ok(None) => return Status::unavailable("the stream ended without a reason"),
                Err(status) => return status,
            }
        }
    }

    /// Whether nothing is awaited of a stream: who calls next opens another one.
    fn close_if_idle(&self, stream: u64) -> bool {
        let mut state = self.lock();
        let Some(open) = state.open.as_mut().filter(|open| open.stream == stream) else {
            return true;
        };
        let is_over = |one: &Awaited| one.listener.is_closed();
        open.awaited
            .retain(|_, one| one.place.is_some() || !is_over(one));
        let is_idle = open.awaited.values().all(is_over);
        if is_idle {
            state.open = None;
        }
        is_idle
    }

    /// Passes an answer on, unless its stream was left: then false.
    fn tell(&self, stream: u64, message: api::ManageClaimsResponse) -> bool {
        let mut state = self.lock();
        let Some(open) = state.open.as_mut().filter(|open| open.stream == stream) else {
            return false;
        };
        // What is told of its claim later needs no place.
        if let Some(awaited) = open.awaited.get_mut(&message.call) {
            awaited.place = None;
        }
        if let Some(answer) = message.kind {
            open.tell(message.call, answer);
        }
        true
    }

    /// The stream has ended, or is left: who awaits an answer is to call again.
    fn fail(&self, stream: u64, status: &Status, was_open: bool) {
        let mut state = self.lock();
        let Some(open) = state.open.take_if(|open| open.stream == stream) else {
            return;
        };
        for one in open.awaited.into_values() {
            let status = Box::new(status.clone());
            let _ = one.listener.send(Some(Reply::Ended { status, was_open }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn new(stream: u64, pick: Pick, calls: mpsc::Sender<api::ManageClaimsRequest>) -> Self {
        Open {
            stream,
            pick,
            calls,
            awaited: HashMap::new(),
            claims: HashMap::new(),
        }
    }

    fn tell(&mut self, call: u64, answer: Answer) {
        match answer {
            Answer::Acquire(update) => self.tell_of_claim(call, update),
            Answer::Error(error) => {
                let refused = Reply::Refused(Box::new(status_of(error)));
                let of_claim = self.claims.iter().find(|(_, calls)| calls.contains(&call));
                let claim = of_claim.map(|(claim, _)| *claim);
                let calls = claim.and_then(|claim| self.claims.remove(&claim));
                for call in calls.unwrap_or_else(|| vec![call]) {
                    self.tell_last(call, refused.clone());
                }
            }
            answer => {
                // The claim is told no more: this is how it has ended.
                if let Answer::Release(released) = &answer
                    && let Some(claim) = &released.claim
                    && self.claims.contains_key(&claim.claim)
                {
                    let claim = Some(claim.clone());
                    self.tell_of_claim(0, api::AcquireResponse { claim });
                }
                self.tell_last(call, Reply::Answer(Box::new(answer)));
            }
        }
    }

    /// The service tells it to one of the calls that have made the claim; they all know it then.
    fn tell_of_claim(&mut self, call: u64, update: api::AcquireResponse) {
        let claim = update.claim.as_ref();
        let has_ended = claim.is_none_or(|one| one.state() == api::ClaimState::Ended);
        let number = claim.map_or(0, |claim| claim.claim);
        let mut calls = self.claims.remove(&number).unwrap_or_default();
        if call != 0 && !calls.contains(&call) {
            calls.push(call);
        }
        let answer = Reply::Answer(Box::new(Answer::Acquire(update)));
        calls.retain(|call| {
            let one = self.awaited.get(call);
            let is_sent = one.is_some_and(|one| one.listener.send(Some(answer.clone())).is_ok());
            if has_ended || !is_sent {
                self.awaited.remove(call);
            }
            is_sent
        });
        if !has_ended && !calls.is_empty() {
            self.claims.insert(number, calls);
        }
    }

    fn tell_last(&mut self, call: u64, reply: Reply) {
        // Nobody listens who has dropped the call.
        if let Some(one) = self.awaited.remove(&call) {
            let _ = one.listener.send(Some(reply));
        }
    }
}

/// Tells who awaits something of a stream when that has ended, also with its runtime.
struct Ending {
    calls: ClaimCalls,
    stream: u64,
    was_open: bool,
}

impl Ending {
    /// Passes answers on until the stream has ended.
    async fn follow(mut self, opening: Opening, made: mpsc::Receiver<api::ManageClaimsRequest>) {
        let calls = self.calls.clone();
        let made = ReceiverStream::new(made);
        let made = made.filter(move |request| calls.is_awaited(request.call));
        let (metadata, extensions, ()) = opening.request.into_parts();
        let made = Request::from_parts(metadata, extensions, made);
        let mut service = ResourceServiceClient::new(opening.channel);
        let opened = service.manage_claims(made).await;
        let status = match opened {
            Ok(opened) => {
                self.was_open = true;
                self.calls.pass_on(self.stream, opened.into_inner()).await
            }
            Err(status) => status,
        };
        self.calls.fail(self.stream, &status, self.was_open);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let dropped = Status::unavailable("the stream was dropped");
        self.calls.fail(self.stream, &dropped, self.was_open);
    }
}

fn status_of(error: api::CallError) -> Status {
    Status::with_details(Code::from_i32(error.code), error.message, error.details)
}

#[cfg(test)]
mod tests;
