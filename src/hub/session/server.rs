//! The owner's side of a session: it passes on to the hub what it hears, and tells the executor
//! what the hub says. It decides nothing, and never makes the hub wait.

use super::{
    arrivals::Arrivals,
    message::{HEARTBEAT_INTERVAL, MESSAGE_BYTES, SILENCE_TIMEOUT, ToExecutor as Message, ToOwner},
    wire::{from_executor_of, missing, to_executor, with_time},
};
use crate::{
    clock::Clock,
    executor_protocol::{
        Admission, BEGUN_PER_SLOT, Event, ExecutorId, ExecutorReport, Hello, Instruction,
    },
    hub::Hub,
};
use futures_util::{Stream, stream};
use rallypoint_client::api::peer::{
    FromExecutor, ToExecutor,
    executor_service_server::{ExecutorService, ExecutorServiceServer},
};
use std::{collections::VecDeque, pin::Pin};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Interval, interval},
};
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codegen::http,
    service::{LayerExt, Layered},
};
use tower::util::{MapRequest, MapRequestLayer};

/// Instructions that may wait for an executor: for each of its slots an assignment, a stop and
/// acknowledgements. As for so many slots, since those it has when it comes may be few: of a target
/// that is away it has none, and more after a reload.
const MAX_INSTRUCTIONS: usize = 4_096 * (2 + BEGUN_PER_SLOT as usize);

/// The service.
#[derive(Clone)]
pub(crate) struct Sessions {
    hub: Hub,
    /// The executors go by it.
    clock: Clock,
}

/// The service, and ahead of it what notes the parts of messages that arrive.
type Service = Layered<
    MapRequest<ExecutorServiceServer<Sessions>, fn(HttpRequest) -> HttpRequest>,
    ExecutorServiceServer<Sessions>,
>;

type HttpRequest = http::Request<Body>;

/// What an executor says.
struct Requests {
    messages: Streaming<FromExecutor>,
    arrivals: Arrivals,
}

type Answers = Pin<Box<dyn Stream<Item = Result<ToExecutor, Status>> + Send>>;

impl Sessions {
    /// The service through which executors of other replicas reach this hub.
    pub(crate) fn service(hub: Hub, clock: Clock) -> Service {
        let service = ExecutorServiceServer::new(Sessions { hub, clock })
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES);
        let noting: fn(HttpRequest) -> HttpRequest = noting;
        MapRequestLayer::new(noting).named_layer(service)
    }

    /// Passes on what an executor reports, until it says nothing more.
    async fn listen(self, member: ExecutorId, mut requests: Requests) {
        loop {
            match requests.next().await {
                Ok(None) => break,
                Ok(Some(ToOwner::Heartbeat)) => {}
                Ok(Some(ToOwner::Event(event))) => {
                    if !self.report(member, event).await {
                        break;
                    }
                }
                Ok(Some(ToOwner::Hello(_))) => {
                    tracing::warn!("the session of an executor has broken: a second hello");
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "the session of an executor has broken");
                    break;
                }
            }
        }
        self.hub.report(ExecutorReport::end_of(member)).await;
    }

    async fn report(&self, member: ExecutorId, event: Event) -> bool {
        let report = ExecutorReport::of(member, vec![event]);
        self.hub.report(report).await
    }

    /// A task of its own: when the call is dropped half-way, an executor that was admitted leaves
    /// again.
    async fn admit(
        self,
        hello: Hello,
        requests: Requests,
        out: mpsc::Sender<Instruction>,
        answer: oneshot::Sender<Admission>,
    ) {
        let admission = self.hub.admit(hello, out).await;
        let heard = answer.send(admission).is_ok();
        match admission {
            Admission::Admitted(member) if heard => self.listen(member, requests).await,
            Admission::Admitted(member) => {
                self.hub.report(ExecutorReport::end_of(member)).await;
            }
            Admission::Fenced | Admission::NotNow => {}
        }
    }
}

#[tonic::async_trait]
impl ExecutorService for Sessions {
    type SessionStream = Answers;

    async fn session(
        &self,
        request: Request<Streaming<FromExecutor>>,
    ) -> Result<Response<Answers>, Status> {
        let arrivals = request.extensions().get::<Arrivals>().cloned();
        let mut requests = Requests {
            arrivals: arrivals.unwrap_or_else(Arrivals::new),
            messages: request.into_inner(),
        };
        let Some(ToOwner::Hello(hello)) = requests.next().await? else {
            return Err(missing("hello"));
        };
        let (out, instructions) = mpsc::channel(MAX_INSTRUCTIONS);
        let (answer, admission) = oneshot::channel();
        tokio::spawn(self.clone().admit(hello, requests, out, answer));
        match admission.await.unwrap_or(Admission::NotNow) {
            Admission::Admitted(_) => {
                let answers = answers(instructions, self.clock.clone());
                Ok(Response::new(Box::pin(answers)))
            }
            Admission::Fenced => {
                let fenced = to_executor(Message::Fenced).into_iter().map(Ok);
                Ok(Response::new(Box::pin(stream::iter(fenced))))
            }
            Admission::NotNow => Err(Status::unavailable(
                "the shard is not owned here, or not yet",
            )),
        }
    }
}

impl Requests {
    /// The next message of an executor; `None`: it has hung up.
    async fn next(&mut self) -> Result<Option<ToOwner>, Status> {
        let message = self.messages.message();
        let message = self.arrivals.wait_for(message, SILENCE_TIMEOUT).await;
        let silent = || Status::deadline_exceeded("it says nothing");
        let message = message.ok_or_else(silent)??;
        message.map(from_executor_of).transpose()
    }
}

/// The same request, whose handler learns what has arrived of it.
fn noting(mut request: HttpRequest) -> HttpRequest {
    let arrivals = Arrivals::new();
    request.extensions_mut().insert(arrivals.clone());
    request.map(|body| arrivals.noted(body))
}

/// What an executor is told: that it is welcome, its instructions, and each second what time it is.
fn answers(
    instructions: mpsc::Receiver<Instruction>,
    clock: Clock,
) -> impl Stream<Item = Result<ToExecutor, Status>> + Send {
    struct Telling(mpsc::Receiver<Instruction>, VecDeque<ToExecutor>, Interval);
    let welcome = to_executor(Message::Welcome).into();
    let telling = Telling(instructions, welcome, interval(HEARTBEAT_INTERVAL));
    stream::unfold((telling, clock), |(mut telling, clock)| async move {
        let Telling(instructions, ready, heartbeats) = &mut telling;
        while ready.is_empty() {
            let message = tokio::select! {
                biased;
                instruction = instructions.recv() => Message::Instruction(instruction?),
                _ = heartbeats.tick() => Message::Heartbeat,
            };
            ready.extend(to_executor(message));
        }
        let next = with_time(ready.pop_front()?, clock.now());
        Some((Ok(next), (telling, clock)))
    })
}
