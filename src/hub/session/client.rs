//! The executor's side of a session: whoever owns the shard is told what runs here, and then what ends.

use super::{
    BEAT, MESSAGE_BYTES, SILENCE,
    wire::{attempt, from_executor, handed_of, slots, token_of, told},
};
use crate::{
    assignment::{Event, ExecutorId, Link, Snapshot},
    executor::Executor,
    journal::{Membership, Sessions},
    peer::Peers,
};
use rallypoint_client::api::peer::{
    Beat, FromExecutor, Hello, executor_service_client::ExecutorServiceClient, from_executor,
    to_executor::Message,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, interval, sleep, sleep_until, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, transport::Channel};
use uuid::Uuid;

/// Before a session is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// What may wait on its way to the owner; what does not fit waits at the executor's desk.
const ON_THE_WAY: usize = 64;

/// The executor of this replica, when another one owns the shard.
pub(crate) struct Remote {
    /// Who runs the tasks.
    pub executor: Executor,
    /// The register: who was fenced begins afresh there.
    pub sessions: Sessions,
    /// Who owns the shard.
    pub membership: watch::Receiver<Membership>,
    /// This run.
    pub me: Uuid,
    /// Of this replica.
    pub name: Arc<str>,
    /// The way to the others.
    pub peers: Peers,
}

/// Why a session ended.
enum End {
    /// The owner is another one, or this replica itself.
    Moved,
    /// The way to the owner is broken, or it does not take anybody yet.
    Broken(Status),
    /// This executor was fenced.
    Fenced,
}

impl Remote {
    /// Works for whoever owns the shard, as long as the replica runs.
    pub(crate) async fn keep(mut self) {
        let mut sessions = 0;
        loop {
            let Some((membership, channel)) = self.owner() else {
                match self.membership.changed().await {
                    Ok(()) => continue,
                    Err(_) => return,
                }
            };
            sessions += 1;
            match self.session(&membership, channel, sessions).await {
                End::Moved => {
                    // The owner may be the same for a while: nobody else has told yet.
                    let _ = timeout(PAUSE, self.membership.changed()).await;
                }
                End::Broken(error) => {
                    tracing::debug!(%error, "no session with the owner of the shard");
                    let _ = timeout(PAUSE, self.membership.changed()).await;
                }
                End::Fenced => self.begin_afresh().await,
            }
        }
    }

    /// The owner, when it is another replica that can be reached.
    fn owner(&mut self) -> Option<(Membership, Channel)> {
        let membership = self.membership.borrow_and_update().clone();
        let owner = membership.owning().filter(|owner| owner.id != self.me)?;
        let channel = self.peers.channel(owner.address.as_deref()?).ok()?;
        Some((membership, channel))
    }

    /// Nothing of what was given before the fence runs any more, and then it may work again.
    async fn begin_afresh(&self) {
        tracing::warn!("this executor was fenced: what it ran goes to others");
        if let Err(error) = self.sessions.begin_afresh(|| self.executor.give_up()).await {
            tracing::warn!(%error, "this executor is not readmitted yet");
            sleep(PAUSE).await;
        }
    }

    async fn session(&mut self, owned: &Membership, channel: Channel, number: u64) -> End {
        let (out, mut events) = mpsc::channel(ON_THE_WAY);
        let link = Link {
            epoch: owned.epoch,
            member: ExecutorId::default(),
            out,
        };
        let Some(snapshot) = self.executor.attach(link) else {
            return End::Moved;
        };
        let (requests, outgoing) = mpsc::channel(ON_THE_WAY);
        let completions = snapshot.completions.clone();
        let _ = requests.try_send(self.hello(owned, number, snapshot));
        let mut client = ExecutorServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES);
        let mut answers =
            match timeout(SILENCE * 2, client.session(ReceiverStream::new(outgoing))).await {
                Ok(Ok(answers)) => answers.into_inner(),
                Ok(Err(status)) => return End::Broken(status),
                Err(_) => return End::Broken(Status::deadline_exceeded("no answer to the hello")),
            };
        let first = completions
            .into_iter()
            .map(|(token, completion)| told(Event::Completed(token, completion)));
        let mut waiting: std::collections::VecDeque<FromExecutor> = first.collect();
        let (mut beats, mut heard) = (interval(BEAT), Instant::now());
        loop {
            // Hearing goes on while there is no room for telling.
            let telling = async {
                match waiting.is_empty() {
                    true => std::future::pending().await,
                    false => requests.reserve().await,
                }
            };
            tokio::select! {
                permit = telling => match (permit, waiting.pop_front()) {
                    (Ok(permit), Some(message)) => permit.send(message),
                    _ => return End::Broken(Status::unavailable("the owner has hung up")),
                },
                news = events.recv(), if waiting.len() < ON_THE_WAY => match news {
                    Some(news) => waiting.extend(news.events.into_iter().map(told)),
                    None => return End::Moved,
                },
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => match self.obey(answer.message) {
                        Ok(true) => heard = Instant::now(),
                        Ok(false) => return End::Fenced,
                        Err(status) => return End::Broken(status),
                    },
                    Ok(None) => return End::Moved,
                    Err(status) => return End::Broken(status),
                },
                () = sleep_until(heard + SILENCE) => return End::Broken(Status::deadline_exceeded("the owner says nothing")),
                _ = beats.tick() => waiting.push_back(from_executor(from_executor::Message::Beat(Beat {}))),
                changed = self.membership.changed() => {
                    if changed.is_err() || self.membership.borrow().owner != owned.owner {
                        return End::Moved;
                    }
                }
            }
        }
    }

    /// Does what the owner says; false: this executor was fenced.
    fn obey(&self, message: Option<Message>) -> Result<bool, Status> {
        match message {
            Some(Message::Welcome(_) | Message::Beat(_)) | None => {}
            Some(Message::Fenced(_)) => return Ok(false),
            Some(Message::Run(assignment)) => self.executor.dispatch(vec![handed_of(assignment)?]),
            Some(Message::Stop(token)) => self.executor.stop(token_of(Some(token))?),
            Some(Message::Acknowledge(token)) => {
                self.executor.acknowledge(&[token_of(Some(token))?])
            }
        }
        Ok(true)
    }

    fn hello(&self, owned: &Membership, session: u64, snapshot: Snapshot) -> FromExecutor {
        from_executor(from_executor::Message::Hello(Hello {
            replica: self.me.to_string(),
            incarnation: self.sessions.incarnation(),
            name: self.name.to_string(),
            epoch: owned.epoch.0,
            session,
            slots: snapshot
                .slots
                .iter()
                .map(|(work, total)| slots(work, *total))
                .collect(),
            attempts: snapshot.attempts.iter().map(attempt).collect(),
        }))
    }
}
