//! The owner's side of a session: it admits an executor, passes on what it tells, and tells it what the pool says.

use super::{
    BEAT, MESSAGE_BYTES, SILENCE,
    wire::{attempt_of, completed_of, missing, sent, slots_of, to_executor},
};
use crate::{
    assignment::{Event, ExecutorId, ExecutorReport, Snapshot},
    coordinator::{Registered, Registration},
    core::Epoch,
    hub::pool::{Host, Instruction},
};
use futures_util::{Stream, stream};
use rallypoint_client::api::peer::{
    Beat, FromExecutor, Hello, ToExecutor,
    executor_service_server::{ExecutorService, ExecutorServiceServer},
    from_executor::Message,
    to_executor,
};
use std::{collections::VecDeque, pin::Pin};
use tokio::{
    sync::mpsc,
    time::{Interval, interval, timeout},
};
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

/// What may wait for an executor besides a few messages for each of its slots.
const SPARE: usize = 64;
/// Messages for each slot: an assignment, a stop, acknowledgements.
const EACH: usize = 4;
/// Slots that count for that, at most.
const SLOTS: usize = 4_096;

/// The service.
#[derive(Clone)]
pub(crate) struct Sessions {
    entrance: Registration,
}

type Answers = Pin<Box<dyn Stream<Item = Result<ToExecutor, Status>> + Send>>;

impl Sessions {
    /// Sessions that come in by this door.
    pub(crate) fn service(entrance: Registration) -> ExecutorServiceServer<Sessions> {
        ExecutorServiceServer::new(Sessions { entrance })
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES)
    }

    /// Passes on what an executor tells, until it says nothing more.
    async fn listen(self, member: ExecutorId, mut requests: Streaming<FromExecutor>) {
        loop {
            let event = match timeout(SILENCE, requests.message()).await {
                Ok(Ok(Some(FromExecutor {
                    message: Some(message),
                }))) => heard(message),
                Ok(Ok(Some(FromExecutor { message: None }))) => Err(missing("content")),
                Ok(Ok(None)) => break,
                Ok(Err(status)) => Err(status),
                Err(_) => Err(Status::deadline_exceeded("it says nothing")),
            };
            match event {
                Ok(None) => {}
                Ok(Some(event)) => {
                    if !self
                        .entrance
                        .told(ExecutorReport {
                            member,
                            events: vec![event],
                        })
                        .await
                    {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the session of an executor has broken");
                    break;
                }
            }
        }
        self.entrance.leave(member).await;
    }
}

#[tonic::async_trait]
impl ExecutorService for Sessions {
    type SessionStream = Answers;

    async fn session(
        &self,
        request: Request<Streaming<FromExecutor>>,
    ) -> Result<Response<Answers>, Status> {
        let mut requests = request.into_inner();
        let first = timeout(SILENCE, requests.message())
            .await
            .map_err(|_| missing("hello"))??;
        let Some(FromExecutor {
            message: Some(Message::Hello(hello)),
        }) = first
        else {
            return Err(missing("hello"));
        };
        let present = self.entrance.epoch();
        if present == Epoch(0) || Epoch(hello.epoch) > present {
            return Err(elsewhere());
        }
        let (host, name, by) = (
            host(&hello)?,
            hello.name.clone(),
            (Epoch(hello.epoch), hello.session),
        );
        let snapshot = snapshot(hello)?;
        let slots = snapshot
            .slots
            .iter()
            .map(|(_, total)| *total as usize)
            .sum::<usize>()
            .min(SLOTS);
        let (out, messages) = mpsc::channel(SPARE + EACH * slots);
        // A task of its own: when the call is dropped half-way, whoever was admitted leaves again.
        let (this, admitted) = (self.clone(), tokio::sync::oneshot::channel());
        tokio::spawn(async move {
            let admission = this
                .entrance
                .admit(host, by, name.into(), snapshot, out)
                .await;
            let member = if let Ok(Registered::Admitted(member)) = &admission {
                Some(*member)
            } else {
                None
            };
            let heard = admitted.0.send(admission).is_ok();
            match member {
                Some(member) if heard => this.listen(member, requests).await,
                Some(member) => this.entrance.leave(member).await,
                None => {}
            }
        });
        let admission = admitted.1.await.map_err(|_| elsewhere())?;
        match admission.map_err(|error| Status::unavailable(error.to_string()))? {
            Registered::Admitted(_) => Ok(Response::new(Box::pin(answers(messages)))),
            Registered::Fenced => {
                let fenced = Ok(to_executor(to_executor::Message::Fenced(Beat {})));
                Ok(Response::new(Box::pin(stream::iter([fenced]))))
            }
            Registered::NotNow => Err(elsewhere()),
        }
    }
}

/// What an executor is told: that it is welcome, what the pool sends, and a beat every second.
fn answers(
    messages: mpsc::Receiver<Instruction>,
) -> impl Stream<Item = Result<ToExecutor, Status>> + Send {
    struct Telling(mpsc::Receiver<Instruction>, VecDeque<ToExecutor>, Interval);
    let welcome = VecDeque::from([to_executor(to_executor::Message::Welcome(Beat {}))]);
    stream::unfold(
        Telling(messages, welcome, interval(BEAT)),
        |mut telling| async move {
            let Telling(messages, ready, beats) = &mut telling;
            while ready.is_empty() {
                tokio::select! {
                    biased;
                    message = messages.recv() => ready.extend(sent(message?)),
                    _ = beats.tick() => ready.push_back(to_executor(to_executor::Message::Beat(Beat {}))),
                }
            }
            let next = ready.pop_front()?;
            Some((Ok(next), telling))
        },
    )
}

fn heard(message: Message) -> Result<Option<Event>, Status> {
    match message {
        Message::Hello(_) => Err(Status::invalid_argument("a second hello")),
        Message::Slots(slots) => {
            slots_of(slots).map(|(work, total)| Some(Event::Slots { work, total }))
        }
        Message::Completion(completion) => completed_of(completion).map(Some),
        Message::Beat(_) => Ok(None),
    }
}

fn host(hello: &Hello) -> Result<Host, Status> {
    let replica = Uuid::try_parse(&hello.replica)
        .map_err(|_| Status::invalid_argument("not the name of a run"))?;
    Ok(Host {
        replica,
        incarnation: hello.incarnation,
    })
}

fn snapshot(hello: Hello) -> Result<Snapshot, Status> {
    Ok(Snapshot {
        slots: hello
            .slots
            .into_iter()
            .map(slots_of)
            .collect::<Result<_, _>>()?,
        attempts: hello
            .attempts
            .into_iter()
            .map(attempt_of)
            .collect::<Result<_, _>>()?,
        completions: Vec::new(),
    })
}

fn elsewhere() -> Status {
    Status::unavailable("the shard is not owned here, or not yet")
}
