//! Runs the executor's side of a session in the server: connects, passes messages on, and carries
//! out what `machine` wants. It decides nothing, and never keeps instructions waiting because
//! reports have no room.

#[cfg(test)]
mod tests;

use super::{
    arrivals::Arrivals,
    machine::{Effect, Event, Owner, QUEUED_MESSAGES, SessionMachine},
    message::{MESSAGE_BYTES, ToOwner},
    wire,
};
use crate::{
    clock::{Clock, Delay},
    core::Epoch,
    executor::Executor,
    executor_protocol::{ExecutorId, ExecutorReport, Hello, Host, Instruction, Link},
    journal::{Membership, Sessions},
    peer::{self, Peers},
};
use rallypoint_client::api::peer::{
    FromExecutor, ToExecutor, executor_service_client::ExecutorServiceClient,
};
use std::{
    collections::VecDeque,
    error::Error,
    future::pending,
    mem,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{
        mpsc::{self, OwnedPermit},
        watch,
    },
    time::{self, sleep},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, body::Body, codegen::http, transport::Channel};
use tower::util::MapResponse;
use uuid::Uuid;

/// Longest sleep, when no timer is set.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The executor of this replica, when another one owns the shard.
pub(crate) struct Remote {
    /// Who runs the tasks.
    pub executor: Executor,
    /// Of this replica; goes by the owner's.
    pub clock: Clock,
    /// The register of executors and sessions.
    pub sessions: Sessions,
    /// Who owns the shard.
    pub membership: watch::Receiver<Membership>,
    /// Where to say that nobody answers at the address of the owner any more.
    pub gone_owners: mpsc::Sender<Owner>,
    /// This run.
    pub me: Uuid,
    /// Of this replica.
    pub name: Arc<str>,
    /// The way to the others.
    pub peers: Peers,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Streaming<ToExecutor>, Status>> + Send>>;

/// One connection to an owner.
struct Connection {
    requests: mpsc::Sender<FromExecutor>,
    connecting: Option<Connecting>,
    answers: Option<Streaming<ToExecutor>>,
    /// The owner has answered the hello by a refusal.
    is_refused: bool,
    /// What has arrived of the answers, and up to when the machine knows of it.
    arrivals: Arrivals,
    known: time::Instant,
    /// Of what the owner says of the time.
    delay: Delay,
}

/// The client while it runs.
struct Client {
    remote: Remote,
    machine: SessionMachine,
    started: Instant,
    /// What the outbox reports to the present owner.
    reports: Option<mpsc::Receiver<ExecutorReport>>,
    connection: Option<Connection>,
    /// Of the session, by its address. Who is refused, as while the owner reads the journal, asks
    /// on it again.
    channel: Option<(Arc<str>, Channel)>,
    /// Room for one message, which the next step fills.
    room: Option<OwnedPermit<FromExecutor>>,
}

impl Remote {
    /// Works for whoever owns the shard, as long as the replica runs.
    pub(crate) async fn keep(self) {
        let mut client = Client {
            machine: SessionMachine::new(self.name.clone()),
            remote: self,
            started: Instant::now(),
            reports: None,
            connection: None,
            channel: None,
            room: None,
        };
        let mut next = Some(Event::Owner(client.owner()));
        while let Some(event) = next {
            client.step(event).await;
            next = client.next_event().await;
        }
    }
}

impl Client {
    /// The owner, when it is another replica that can be reached. That it has been looked at is not
    /// noted: only who feeds the machine may take a change as seen.
    fn owner(&self) -> Option<Owner> {
        let membership = self.remote.membership.borrow();
        let owner = membership
            .owning()
            .filter(|owner| owner.id != self.remote.me)?;
        owner.address.as_ref()?;
        Some(Owner {
            replica: owner.id,
            epoch: membership.epoch,
        })
    }

    /// Waits for something to happen; `None`: the replica stops.
    async fn next_event(&mut self) -> Option<Event> {
        let (due, now) = (self.machine.next_due(), self.started.elapsed());
        if due.is_some_and(|due| due <= now) {
            // Something else may be there at every turn.
            return Some(self.time_passed());
        }
        let sleeping = due.map_or(MAX_SLEEP, |due| due.saturating_sub(now));
        let (has_message, takes_reports) =
            (self.machine.has_message(), self.machine.takes_reports());
        let requests = self.connection.as_ref().map(|one| one.requests.clone());
        let room = async {
            match requests.filter(|_| has_message) {
                Some(requests) => requests.reserve_owned().await.ok(),
                None => pending().await,
            }
        };
        let report = async {
            match self.reports.as_mut().filter(|_| takes_reports) {
                Some(reports) => reports.recv().await,
                None => pending().await,
            }
        };
        let heard = async {
            match &mut self.connection {
                Some(connection) => connection.next_event(&self.remote.clock).await,
                None => pending().await,
            }
        };
        tokio::select! {
            changed = self.remote.membership.changed() => {
                changed.ok()?;
                let owner = self.owner();
                if owner.is_none() {
                    self.channel = None;
                }
                Some(Event::Owner(owner))
            }
            permit = room => {
                self.room = permit;
                Some(if self.room.is_some() { Event::Room } else { Event::Closed })
            }
            report = report => {
                let reported = |report: ExecutorReport| Event::Reported(report.events);
                Some(report.map_or(Event::Closed, reported))
            }
            event = heard => {
                if let Event::Closed = event {
                    self.look_for_life().await;
                }
                Some(event)
            }
            () = sleep(sleeping) => Some(self.time_passed()),
        }
    }

    /// A timer is due; before it, what has arrived counts.
    fn time_passed(&mut self) -> Event {
        let arrived = self.connection.as_mut().and_then(Connection::arrived);
        arrived.map_or(Event::TimePassed, Event::Arriving)
    }

    /// The session with the owner has ended: if nobody answers at its address any more, the shard
    /// need not wait for the end of the lease.
    async fn look_for_life(&mut self) {
        let Some(owner) = self.owner() else { return };
        let address = {
            let membership = self.remote.membership.borrow();
            membership.owning().and_then(|one| one.address.clone())
        };
        let Some(address) = address else { return };
        if peer::refuses(&address).await {
            // One that waits to be heard says as much.
            let _ = self.remote.gone_owners.try_send(owner);
        }
    }

    async fn step(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.machine.step(self.started.elapsed(), event) {
                events.extend(self.carry_out(effect).await);
            }
        }
    }

    /// Says what follows at once.
    async fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Attach(epoch) => return Some(self.attach(epoch)),
            Effect::Connect(owner, hello) => self.connect(owner, hello),
            Effect::Send(message) => {
                if let Some(room) = self.room.take() {
                    room.send(wire::from_executor(message));
                }
            }
            Effect::Obey(Instruction::Run(dispatch)) => {
                self.remote.executor.dispatch(vec![*dispatch]);
            }
            Effect::Obey(Instruction::Stop(token)) => self.remote.executor.stop(token),
            Effect::Obey(Instruction::Acknowledge(tokens)) => {
                self.remote.executor.acknowledge(&tokens);
            }
            Effect::HangUp => {
                let refused = self.connection.take().map(|one| one.is_refused);
                if refused != Some(true) {
                    self.channel = None;
                }
                (self.reports, self.room) = (None, None);
            }
            Effect::BeginAfresh => return Some(Event::Afresh(self.begin_afresh().await)),
        }
        None
    }

    fn attach(&mut self, epoch: Epoch) -> Event {
        // Read first: what an earlier incarnation had must not be reported as a later one's.
        let host = Host {
            replica: self.remote.me,
            incarnation: self.remote.sessions.incarnation(),
        };
        let (out, reports) = mpsc::channel(QUEUED_MESSAGES);
        let link = Link {
            epoch,
            member: ExecutorId::default(),
            out,
        };
        let enrolled_under = self.remote.sessions.enrolled_under();
        let snapshot = self.remote.executor.attach(link, enrolled_under);
        self.reports = snapshot.is_some().then_some(reports);
        Event::Attached(snapshot.map(|snapshot| (host, snapshot)))
    }

    fn connect(&mut self, owner: Uuid, hello: Hello) {
        let (requests, outgoing) = mpsc::channel(QUEUED_MESSAGES);
        let _ = requests.try_send(wire::from_executor(ToOwner::Hello(hello)));
        let address = {
            let membership = self.remote.membership.borrow();
            let owner = membership.owning().filter(|one| one.id == owner);
            owner.and_then(|one| one.address.clone())
        };
        let channel = address.and_then(|address| self.channel_to(address));
        let arrivals = Arrivals::new();
        let noting = arrivals.clone();
        let noted = move |answer: http::Response<Body>| answer.map(|body| noting.noted(body));
        let connecting: Connecting = Box::pin(async move {
            let channel = channel.ok_or_else(|| Status::unavailable("the owner has moved"))?;
            let channel = MapResponse::new(channel, noted);
            let mut client = ExecutorServiceClient::new(channel)
                .max_decoding_message_size(MESSAGE_BYTES)
                .max_encoding_message_size(MESSAGE_BYTES);
            let answers = client.session(ReceiverStream::new(outgoing)).await?;
            Ok(answers.into_inner())
        });
        self.connection = Some(Connection {
            requests,
            connecting: Some(connecting),
            answers: None,
            is_refused: false,
            known: arrivals.last(),
            arrivals,
            delay: Delay::new(&self.remote.clock),
        });
    }

    /// The channel of the session that was refused, or one for another session.
    fn channel_to(&mut self, address: Arc<str>) -> Option<Channel> {
        let kept = self.channel.take().filter(|(to, _)| *to == address);
        let (to, channel) = match kept {
            Some(kept) => kept,
            None => {
                let channel = self.remote.peers.session(&address).ok()?;
                (address, channel)
            }
        };
        self.channel = Some((to, channel.clone()));
        Some(channel)
    }

    /// Nothing of what was given before the fence runs any more, and then it may work again.
    async fn begin_afresh(&mut self) -> bool {
        tracing::warn!("this executor was fenced: what it ran goes to others");
        let Remote {
            sessions, executor, ..
        } = &self.remote;
        let readmitted = sessions
            .return_from_fence(|| executor.capacity(), || executor.give_up())
            .await;
        if let Err(error) = &readmitted {
            tracing::warn!(%error, "this executor is not readmitted yet");
        }
        readmitted.is_ok()
    }
}

impl Connection {
    /// How long ago more has arrived, if it has since it was asked last.
    fn arrived(&mut self) -> Option<Duration> {
        let before = mem::replace(&mut self.known, self.arrivals.last());
        (self.known > before).then(|| self.known.elapsed())
    }

    async fn next_event(&mut self, clock: &Clock) -> Event {
        if let Some(connecting) = &mut self.connecting {
            let connected = connecting.await;
            self.connecting = None;
            match connected {
                Ok(answers) => self.answers = Some(answers),
                Err(error) => {
                    // What fails on the way has a source.
                    self.is_refused = error.source().is_none();
                    return broken(error);
                }
            }
            return Event::Connected;
        }
        let Some(answers) = &mut self.answers else {
            return Event::Closed;
        };
        match answers.message().await {
            Ok(Some(message)) => {
                self.known = self.arrivals.last();
                if let Some(now) = wire::time_of(&message) {
                    clock.follow(now, &mut self.delay);
                }
                wire::to_executor_of(message).map_or_else(broken, Event::Heard)
            }
            Ok(None) => Event::Closed,
            Err(error) => broken(error),
        }
    }
}

fn broken(error: Status) -> Event {
    tracing::debug!(%error, "no session with the owner of the shard");
    Event::Closed
}
