//! The stream on which a client makes its calls about claims: one for all of them, since a stream for
//! each claim, and a call for each release, would cost several times what they do.
//!
//! It is opened by the first call, and closed when nothing was said on it for a while. When it
//! breaks, every call on it fails; who made a call makes it again.

use crate::{
    Client, api,
    api::{
        manage_claims_request::Kind as Call, manage_claims_response::Kind as Answer,
        resource_service_client::ResourceServiceClient,
    },
    servers::Pick,
};
use bytes::Bytes;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};
use tonic::{
    Code, Status, Streaming, codegen::tokio_stream::wrappers::UnboundedReceiverStream,
    transport::Channel,
};

/// The stream is closed when nothing was said on it for so long, and nothing is awaited.
const IDLE: Duration = Duration::from_secs(10);

/// What a call is told, until its claim has ended or the stream has broken.
pub(crate) type Answers = UnboundedReceiver<Result<Box<Answer>, Box<Status>>>;

/// The stream of a client and its clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimCalls(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// How many streams there have been.
    streams: u64,
    open: Option<Open>,
}

/// A stream that is open, or about to be.
#[derive(Debug)]
struct Open {
    /// Which of them it is.
    stream: u64,
    pick: Pick,
    calls: UnboundedSender<api::ManageClaimsRequest>,
    /// Number of the last call.
    last: u64,
    /// Who awaits the answers to each call.
    awaited: HashMap<u64, Listener>,
    /// The calls that have made the claims that are told, by the numbers of these.
    told: HashMap<i64, u64>,
}

type Listener = UnboundedSender<Result<Box<Answer>, Box<Status>>>;

impl ClaimCalls {
    /// Whether there is a stream: then calls are made on it.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().open.is_some()
    }

    /// Makes a call, on the stream that is open or another one.
    pub(crate) fn make(&self, client: &Client, call: Call) -> (Pick, Answers) {
        let (listener, answers) = unbounded_channel();
        let mut state = self.lock();
        let State { streams, open } = &mut *state;
        let open = open.get_or_insert_with(|| {
            *streams += 1;
            self.open(client, *streams)
        });
        open.last += 1;
        let request = api::ManageClaimsRequest {
            call: open.last,
            kind: Some(call),
        };
        open.awaited.insert(open.last, listener);
        // If the stream has just ended, all that is awaited fails.
        let _ = open.calls.send(request);
        (open.pick, answers)
    }

    /// Opens a stream in the background.
    fn open(&self, client: &Client, stream: u64) -> Open {
        let (pick, channel) = client.servers.pick();
        let (calls, made) = unbounded_channel();
        let ending = Ending {
            calls: self.clone(),
            stream,
        };
        let client = client.clone();
        tokio::spawn(async move { ending.follow(client, channel, made).await });
        Open {
            stream,
            pick,
            calls,
            last: 0,
            awaited: HashMap::new(),
            told: HashMap::new(),
        }
    }

    async fn pass_on(&self, mut told: Streaming<api::ManageClaimsResponse>) -> Status {
        loop {
            let message = match timeout(IDLE, told.message()).await {
                Ok(message) => message,
                Err(_) => match self.close_if_idle() {
                    true => return Status::ok("idle"),
                    false => continue,
                },
            };
            match message {
                Ok(Some(message)) => self.tell(message),
                Ok(None) => return Status::unavailable("the stream ended without a reason"),
                Err(status) => return status,
            }
        }
    }

    /// Nothing is awaited: who calls next opens another one.
    fn close_if_idle(&self) -> bool {
        let mut state = self.lock();
        let open = state.open.as_ref();
        let is_idle = open.is_some_and(|open| open.awaited.is_empty());
        if is_idle {
            state.open = None;
        }
        is_idle
    }

    fn tell(&self, message: api::ManageClaimsResponse) {
        let mut state = self.lock();
        let (Some(open), Some(answer)) = (state.open.as_mut(), message.kind) else {
            return;
        };
        let is_last = open.note(message.call, &answer);
        let answer = match answer {
            Answer::Error(error) => Err(Box::new(status_of(error))),
            answer => Ok(Box::new(answer)),
        };
        // Nobody listens who has dropped the call.
        if let Some(listener) = open.awaited.get(&message.call) {
            let _ = listener.send(answer);
        }
        if is_last {
            open.awaited.remove(&message.call);
        }
    }

    /// The stream has ended: who awaits an answer is to call again.
    fn fail(&self, stream: u64, status: &Status) {
        let mut state = self.lock();
        let Some(open) = state.open.take_if(|open| open.stream == stream) else {
            return;
        };
        for listener in open.awaited.into_values() {
            let _ = listener.send(Err(Box::new(status.clone())));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Whether it is the last answer to a call.
    fn note(&mut self, call: u64, answer: &Answer) -> bool {
        match answer {
            Answer::Acquire(told) => {
                let claim = told.claim.as_ref();
                let has_ended = claim.is_none_or(|one| one.state() == api::ClaimState::Ended);
                let number = claim.map_or(0, |claim| claim.claim);
                match has_ended {
                    true => drop(self.told.remove(&number)),
                    false => drop(self.told.insert(number, call)),
                }
                has_ended
            }
            Answer::Release(released) => {
                self.forget(released);
                true
            }
            _ => true,
        }
    }

    /// The claim is told no more: this is how it has ended.
    fn forget(&mut self, released: &api::ReleaseResponse) {
        let number = released.claim.as_ref().map_or(0, |claim| claim.claim);
        let told = self.told.remove(&number);
        let Some(listener) = told.and_then(|call| self.awaited.remove(&call)) else {
            return;
        };
        if !listener.is_closed() {
            let claim = released.claim.clone();
            let _ = listener.send(Ok(Box::new(Answer::Acquire(api::AcquireResponse {
                claim,
            }))));
        }
    }
}

/// Fails what is awaited of a stream when that has ended, also with its runtime.
struct Ending {
    calls: ClaimCalls,
    stream: u64,
}

impl Ending {
    /// Passes answers on until the stream has ended.
    async fn follow(
        self,
        client: Client,
        channel: Channel,
        made: UnboundedReceiver<api::ManageClaimsRequest>,
    ) {
        let made = client.request(UnboundedReceiverStream::new(made));
        let opened = ResourceServiceClient::new(channel)
            .manage_claims(made)
            .await;
        let status = match opened {
            Ok(opened) => self.calls.pass_on(opened.into_inner()).await,
            Err(status) => status,
        };
        self.calls.fail(self.stream, &status);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let dropped = Status::unavailable("the stream was dropped");
        self.calls.fail(self.stream, &dropped);
    }
}

fn status_of(error: api::CallError) -> Status {
    Status::with_details(
        Code::from_i32(error.code),
        error.message,
        Bytes::from(error.details),
    )
}
