//! EventBuffers the machine from tokio's channels and carries out what it says. It decides nothing.

mod executors;

use super::{
    body_cache::prefetch::Prefetch,
    commands::QueuedCommand,
    machine::{Effect, Envelope, Event, Machine, Release},
    ownership::{OwnershipRequest, replica_state::ReplicaState},
    streams::event_buffer::EventBuffers,
};
use crate::hub::Hub;
use crate::{
    assignment::ExecutorReport,
    clock::Clock,
    core::{Action, BatchNo, Command, Reply, Ticket, Time, Work},
    journal::{Batch, Commit, Journal, Writer},
};
use futures_util::FutureExt;
use rustc_hash::FxHashMap;
use std::{pin::Pin, sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// Batches of reports, and ended streams, taken at once.
const TAKEN: usize = 1_024;
/// Commands the machine may hold undecided before no more are taken from the queue.
const UNDECIDED: usize = 4_096;
/// The longest sleep: a bound on what a missed timer could cost.
const NAP: Duration = Duration::from_secs(1);

/// Everything the loop needs.
pub(super) struct Driver {
    pub machine: Machine,
    pub journal: Journal,
    pub clock: Clock,
    pub health: ReplicaState,
    pub buffers: EventBuffers,
    pub hub: Hub,
    pub library: Prefetch,
    pub asked: mpsc::Receiver<QueuedCommand>,
    pub closed_streams: mpsc::Receiver<Command>,
    /// What executors report.
    pub reports: mpsc::Receiver<ExecutorReport>,
    /// From whoever keeps the ownership, and to it.
    pub ownership: mpsc::Receiver<Event>,
    pub wishes: mpsc::Sender<OwnershipRequest>,
    /// What must be left of the lease for what rests on it alone.
    pub margin: Duration,
}

/// What the loop owns besides.
struct Loop {
    driver: Driver,
    /// The batch in flight: gives the writer back with its fate.
    flight: Option<Flight>,
    writer: Option<Writer>,
    waiting: FxHashMap<Ticket, oneshot::Sender<Reply>>,
    /// Durable, and still to be told.
    released: Vec<Release>,
    answers: Vec<(Ticket, Reply)>,
    /// Ends of streams that were opened for callers who have gone.
    orphans: Vec<Event>,
    next_ticket: u64,
}

/// A server whose loop has panicked serves nobody, but would look alive: it ends, and a new one recovers from the journal.
struct EndWithTheLoop;

impl Drop for EndWithTheLoop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the coordinator has failed; the process ends");
            std::process::abort();
        }
    }
}

type Flight = Pin<Box<dyn Future<Output = (Writer, BatchNo, Commit)> + Send>>;

impl Driver {
    /// Runs on a thread of its own until the queue of commands is closed: the answer of the database is then taken up at
    /// once, however busy the threads of the connections are. What the loop spawns runs on `others`.
    pub(super) fn start(self, first: Effect) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("coordinator".into())
            .spawn(move || {
                let _guard = EndWithTheLoop;
                runtime.block_on(self.run(first));
            })?;
        Ok(())
    }

    async fn run(mut self, first: Effect) {
        let (_, none) = mpsc::channel(1);
        let mut arriving = std::mem::replace(&mut self.ownership, none);
        let writer = Some(self.journal.writer());
        let mut this = Loop {
            driver: self,
            flight: None,
            writer,
            waiting: FxHashMap::default(),
            released: Vec::new(),
            answers: Vec::new(),
            orphans: Vec::new(),
            next_ticket: 0,
        };
        this.carry_out(vec![first]);
        while let Some(events) = this.gather(&mut arriving).await {
            this.step(events);
            // Work without a session is done by now: its outcome goes on its way before anybody is told of the last batch,
            // because waking others takes longer than that.
            let done = this.take_arrived(&mut arriving);
            if !done.is_empty() {
                this.step(done);
            }
            this.tell();
            if this.driver.health.is_stalled() {
                this.refuse_all();
            }
        }
    }
}

impl Loop {
    /// Waits for something to happen, and takes everything that has; `None`: nobody can ask any more.
    ///
    /// While a batch is in flight only its fate is waited for: no other batch could be sealed, so what arrives meanwhile
    /// stays in its queue and is taken in one go, at the price of one wake-up instead of one each.
    async fn gather(&mut self, arriving: &mut mpsc::Receiver<Event>) -> Option<Vec<Event>> {
        let nap = self.nap();
        let driver = &mut self.driver;
        let free = !driver.machine.waits_for_journal();
        let (mut events, mut commands) = (Vec::new(), Vec::new());
        let mut landed = None;
        let ready = !self.orphans.is_empty() || free && driver.hub.has_commands();
        tokio::select! {
            landing = land(&mut self.flight) => landed = Some(landing),
            Some(event) = arriving.recv() => events.push(event),
            () = std::future::ready(()), if ready => {}
            Some(report) = driver.reports.recv(), if free => driver.hub.take_in(report),
            () = driver.hub.ready(), if free => {}
            Some(command) = driver.closed_streams.recv(), if free => events.push(unasked(command)),
            asked = driver.asked.recv(), if free => commands.push(asked?),
            () = tokio::time::sleep(nap) => {}
        }
        if let Some((writer, no, fate)) = landed {
            (self.flight, self.writer) = (None, Some(writer));
            complain(no, &fate, &driver.health);
            events.push(Event::Commit(no, fate));
        }
        events.extend(commands.into_iter().filter_map(|asked| self.admit(asked)));
        events.extend(self.take_arrived(arriving));
        Some(events)
    }

    /// Everything that has arrived, without waiting.
    fn take_arrived(&mut self, arriving: &mut mpsc::Receiver<Event>) -> Vec<Event> {
        let driver = &mut self.driver;
        let (mut events, mut commands) = (std::mem::take(&mut self.orphans), Vec::new());
        while let Ok(event) = arriving.try_recv() {
            events.push(event);
        }
        for _ in 0..TAKEN {
            let Ok(report) = driver.reports.try_recv() else {
                break;
            };
            driver.hub.take_in(report);
        }
        events.extend(self.take_hub_commands());
        let driver = &mut self.driver;
        for _ in 0..TAKEN {
            let Ok(command) = driver.closed_streams.try_recv() else {
                break;
            };
            events.push(unasked(command));
        }
        let room = UNDECIDED.saturating_sub(driver.machine.backlog());
        for _ in 0..room {
            let Ok(asked) = driver.asked.try_recv() else {
                break;
            };
            commands.push(asked);
        }
        events.extend(commands.into_iter().filter_map(|asked| self.admit(asked)));
        events
    }

    fn step(&mut self, mut events: Vec<Event>) {
        // What follows the end of an ownership belongs to another one.
        if let Some(end) = events
            .iter()
            .position(|event| matches!(event, Event::Deposed))
            .filter(|end| end + 1 < events.len())
        {
            let later = events.split_off(end + 1);
            self.step(events);
            return self.step(later);
        }
        let driver = &mut self.driver;
        driver
            .machine
            .set_lease(driver.health.lease_holds(driver.margin));
        let mut begun = None;
        for event in &events {
            if let Event::Recovered {
                schedulers,
                epoch,
                window,
                ..
            } = event
            {
                self.driver.library.lock().recovered(schedulers);
                begun = Some((
                    *epoch,
                    window
                        .as_ref()
                        .map(|window| window.keys().cloned().collect()),
                ));
            }
        }
        let more = begun.map(|(epoch, inherited)| self.begin(epoch, inherited));
        let events = events.into_iter().chain(more.into_iter().flatten());
        let effects = self.driver.machine.step(self.driver.clock.now(), events);
        self.carry_out(effects);
        if let Some(core) = self.driver.machine.core() {
            self.driver.library.look_ahead(core);
        }
    }

    /// Nothing has become durable for too long: whoever waits is told "unknown", and what is still in the queue is dropped
    /// before it is decided.
    fn refuse_all(&mut self) {
        self.waiting.clear();
        while self.driver.asked.try_recv().is_ok() {}
    }

    fn nap(&self) -> Duration {
        match self.driver.machine.next_due() {
            Time::NEVER => NAP,
            due => due.since(self.driver.clock.now()).min(NAP),
        }
    }

    /// A command whose caller has gone, or that belongs to another replica, is dropped before it is decided.
    fn admit(&mut self, asked: QueuedCommand) -> Option<Event> {
        if asked.reply.is_closed() || self.driver.machine.stands_by() {
            return None;
        }
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.waiting.insert(ticket, asked.reply);
        Some(Event::Command(Envelope {
            ticket: Some(ticket),
            command: asked.command,
        }))
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append(batch, pause) => self.append(batch, pause),
                Effect::Release(release) => self.release(release),
                Effect::Recover => self.recover(),
                Effect::StandBy => self.stand_by(),
            }
        }
        let machine = &self.driver.machine;
        self.driver
            .health
            .set_waiting(machine.waits_for_journal() || machine.waits_for_lease());
    }

    /// Sends a batch on its way, before anything else is done.
    fn append(&mut self, batch: Arc<Batch>, pause: Duration) {
        let writer = self
            .writer
            .take()
            .expect("one batch is in flight at a time");
        let mut flight: Flight = Box::pin(append(writer, batch, pause));
        // The first poll encodes and sends; the answer cannot be there yet, or is taken up by the next one.
        match (&mut flight).now_or_never() {
            Some(landing) => self.flight = Some(Box::pin(std::future::ready(landing))),
            None => self.flight = Some(flight),
        }
    }

    fn recover(&mut self) {
        // What was decided for good before is still told.
        self.tell();
        // Whoever still waits gets "unknown": dropping the sender says so. Commands that are still to be decided keep theirs.
        let undecided = self.driver.machine.undecided_tickets();
        self.waiting.retain(|ticket, _| undecided.contains(ticket));
        // Full: it has been asked for already.
        let _ = self
            .driver
            .wishes
            .try_send(OwnershipRequest::Rebuild(self.driver.machine.epoch()));
    }

    /// Everything goes to the new owner: who waits is told "unknown", streams go on there, executors report there, and a batch
    /// still under way is left to the gate.
    fn stand_by(&mut self) {
        self.tell();
        self.orphans.clear();
        self.flight = None;
        self.writer = Some(self.driver.journal.writer());
        self.waiting.clear();
        self.driver.library.lock().recovered(&[]);
        self.driver.library.lock().drop_waiting();
        self.driver.buffers.move_away();
        self.driver.hub.disband();
    }

    /// Hands out the work of a durable batch; who waits for its answers is told a moment later.
    fn release(&mut self, mut release: Release) {
        let Driver {
            library,
            hub,
            health,
            ..
        } = &self.driver;
        hub.over(std::mem::take(&mut release.over));
        let mut bodies = library.lock();
        if let Some(batch) = &release.batch {
            health.batch_durable(batch.no);
            bodies.durable(&batch.records);
        }
        let mut work = Vec::new();
        for action in std::mem::take(&mut release.actions) {
            match action {
                Action::Reply(ticket, reply) => self.answers.push((ticket, reply)),
                Action::Dispatch(assignment) if assignment.spec.work == Work::Noop => {
                    work.push((assignment, None))
                }
                Action::Dispatch(assignment) => work.extend(bodies.take(assignment)),
                Action::Stop {
                    handle,
                    first,
                    attempt,
                } => match bodies.stop(handle, first, attempt) {
                    Some(assignment) => hub.decline(assignment),
                    None => hub.stop(handle, first, attempt),
                },
            }
        }
        if !work.is_empty() {
            hub.dispatch(work);
        }
        for (handle, _) in release
            .progress
            .iter()
            .filter(|(_, progress)| progress.pending == 0)
        {
            bodies.forget(*handle);
        }
        drop(bodies);
        self.released.push(release);
    }

    /// Tells streams and callers what has become durable.
    fn tell(&mut self) {
        for release in self.released.drain(..) {
            self.driver.buffers.publish(&release);
        }
        for (ticket, reply) in self.answers.drain(..) {
            let stream = if let Reply::Watching { handle, .. } = reply {
                Some(handle)
            } else {
                None
            };
            let told = self
                .waiting
                .remove(&ticket)
                .is_some_and(|waiting| waiting.send(reply).is_ok());
            // A caller that has gone misses only the answer; a stream it was given would count for ever.
            if let Some(handle) = stream.filter(|_| !told) {
                self.orphans.push(unasked(Command::StreamClosed(handle)));
            }
        }
    }
}

/// A command that nobody waits for.
fn unasked(command: Command) -> Event {
    Event::Command(Envelope {
        ticket: None,
        command,
    })
}

/// Appends a batch and gives the writer back. Never cancelled: the loop keeps it until it has landed.
async fn append(
    mut writer: Writer,
    batch: Arc<Batch>,
    pause: Duration,
) -> (Writer, BatchNo, Commit) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    let fate = writer.append(&batch).await;
    (writer, batch.no, fate)
}

/// The end of the batch in flight; never, when there is none.
async fn land(flight: &mut Option<Flight>) -> (Writer, BatchNo, Commit) {
    match flight {
        Some(flight) => flight.await,
        None => std::future::pending().await,
    }
}

fn complain(no: BatchNo, fate: &Commit, health: &ReplicaState) {
    match fate {
        Commit::Durable => {}
        Commit::Fenced => tracing::warn!(
            batch = no.0,
            "the shard is owned elsewhere, or the database has lost commits"
        ),
        Commit::Rejected { sqlstate, message } => {
            tracing::error!(batch = no.0, %sqlstate, %message, "the database refused a batch")
        }
        Commit::Unknown { message } => {
            tracing::warn!(batch = no.0, %message, "the fate of a batch is unknown; it is sent again");
            health.set_error(message.clone());
        }
    }
}
