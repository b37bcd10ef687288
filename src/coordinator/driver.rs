//! Feeds the machine from tokio's channels and carries out what it says. It decides nothing.

use super::{
    bodies::Bodies,
    feed::Feeds,
    health::Health,
    machine::{Effect, Envelope, Event, Machine, Release},
    owner,
};
use crate::{
    clock::Clock,
    core::{Action, Assignment, BatchNo, Command, Reply, Ticket, Time, Work},
    executor::{self, Body, Executor},
    journal::{Batch, Fate, Journal, Replica, Writer},
};
use rustc_hash::FxHashMap;
use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// Commands taken from the queue at once.
const TAKEN: usize = 1_024;
/// Commands the machine may hold undecided before no more are taken from the queue.
const UNDECIDED: usize = 4_096;
/// Rows of the journal read at once for bodies.
const BODY_ROWS: u32 = 8;
/// The longest sleep: a bound on what a missed timer could cost.
const NAP: Duration = Duration::from_secs(1);

/// A command on its way to the loop.
#[derive(Debug)]
pub(super) struct Asked {
    pub command: Command,
    pub reply: Option<oneshot::Sender<Reply>>,
    /// Its share of the queue's bytes.
    pub _room: Option<OwnedSemaphorePermit>,
}

/// Everything the loop needs.
pub(super) struct Driver {
    pub machine: Machine,
    pub journal: Journal,
    pub replica: Replica,
    pub clock: Clock,
    pub health: Health,
    pub feeds: Feeds,
    pub executor: Executor,
    pub bodies: Bodies,
    pub asked: mpsc::Receiver<Asked>,
    pub closed_streams: mpsc::Receiver<Command>,
    pub executor_events: mpsc::Receiver<Vec<executor::Event>>,
}

/// What the loop owns besides.
struct Loop {
    driver: Driver,
    writer: mpsc::Sender<(Arc<Batch>, Duration)>,
    results: mpsc::Sender<Event>,
    waiting: FxHashMap<Ticket, oneshot::Sender<Reply>>,
    next_ticket: u64,
}

impl Driver {
    /// Runs until the queue of commands is closed.
    pub async fn run(self, first: Effect) {
        let (results, mut arriving) = mpsc::channel(16);
        let (writer, batches) = mpsc::channel(2);
        tokio::spawn(write(self.journal.writer(), batches, results.clone(), self.health.clone()));
        let mut this = Loop { driver: self, writer, results, waiting: FxHashMap::default(), next_ticket: 0 };
        this.carry_out(vec![first]).await;
        let mut events = Vec::new();
        let mut commands = Vec::new();
        let mut reports = Vec::new();
        let mut closed = Vec::new();
        loop {
            let nap = this.nap();
            let accepting = this.driver.machine.backlog() < UNDECIDED;
            tokio::select! {
                Some(event) = arriving.recv() => events.push(event),
                n = this.driver.executor_events.recv_many(&mut reports, TAKEN), if !this.driver.executor_events.is_closed() || !this.driver.executor_events.is_empty() => { let _ = n; }
                n = this.driver.closed_streams.recv_many(&mut closed, TAKEN) => { let _ = n; }
                n = this.driver.asked.recv_many(&mut commands, TAKEN), if accepting => if n == 0 { return },
                () = tokio::time::sleep(nap) => {}
            }
            while let Ok(event) = arriving.try_recv() {
                events.push(event);
            }
            while reports.len() < TAKEN
                && let Ok(report) = this.driver.executor_events.try_recv()
            {
                reports.push(report);
            }
            while accepting
                && commands.len() < TAKEN
                && let Ok(command) = this.driver.asked.try_recv()
            {
                commands.push(command);
            }
            events.extend(reports.drain(..).flatten().map(reported));
            events.extend(closed.drain(..).map(|command| Event::Command(Envelope { ticket: None, command })));
            events.extend(commands.drain(..).filter_map(|asked| this.admit(asked)));
            let effects = this.driver.machine.step(this.driver.clock.now(), events.drain(..));
            this.carry_out(effects).await;
        }
    }
}

impl Loop {
    fn nap(&self) -> Duration {
        match self.driver.machine.next_due() {
            Time::NEVER => NAP,
            due => due.since(self.driver.clock.now()).min(NAP),
        }
    }

    /// A command whose caller has gone is dropped before it is decided.
    fn admit(&mut self, asked: Asked) -> Option<Event> {
        let Some(reply) = asked.reply else {
            return Some(Event::Command(Envelope { ticket: None, command: asked.command }));
        };
        if reply.is_closed() {
            return None;
        }
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.waiting.insert(ticket, reply);
        Some(Event::Command(Envelope { ticket: Some(ticket), command: asked.command }))
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append(batch, pause) => {
                    // Room is certain: one batch is in flight at a time.
                    let _ = self.writer.send((batch, pause)).await;
                }
                Effect::Release(release) => self.release(release),
                Effect::Recover => self.recover(),
            }
        }
        self.driver.health.waiting(self.driver.machine.waits_for_journal());
    }

    fn recover(&mut self) {
        // Whoever still waits gets "unknown": dropping the sender says so. Commands that are still to be decided keep theirs.
        let undecided = self.driver.machine.undecided_tickets();
        self.waiting.retain(|ticket, _| undecided.contains(ticket));
        self.driver.bodies.clear();
        let Driver { journal, replica, clock, health, .. } = &self.driver;
        let recover = owner::recover(journal.clone(), replica.clone(), clock.clone(), health.clone(), self.results.clone());
        tokio::spawn(recover);
    }

    fn release(&mut self, release: Release) {
        if let Some(batch) = &release.batch {
            self.driver.health.durable(batch.no);
            batch.records.submissions.iter().for_each(|record| self.driver.bodies.hold(record));
        }
        self.driver.feeds.publish(&release);
        let mut work = Vec::new();
        for action in release.actions {
            match action {
                Action::Reply(ticket, reply) => {
                    if let Some(waiting) = self.waiting.remove(&ticket) {
                        // A caller that has gone misses only the answer.
                        let _ = waiting.send(reply);
                    }
                }
                Action::Dispatch(assignment) => work.extend(self.with_body(assignment)),
                Action::Stop { handle, first, attempt } => self.driver.executor.stop(handle, first, attempt),
            }
        }
        if !work.is_empty() {
            self.driver.executor.dispatch(work);
        }
        for (handle, progress) in &release.progress {
            if progress.pending == 0 {
                self.driver.bodies.forget(*handle);
            }
        }
    }

    /// The assignment with its body; `None`: the body is being read, and the assignment is handed on when it is there.
    fn with_body(&mut self, assignment: Assignment) -> Option<(Assignment, Option<Body>)> {
        if assignment.spec.work == Work::Noop {
            return Some((assignment, None));
        }
        if let Some(body) = self.driver.bodies.take(assignment.handle, assignment.first) {
            return Some((assignment, Some(body)));
        }
        tokio::spawn(read_body(self.driver.journal.clone(), assignment, self.driver.executor.clone()));
        None
    }
}

async fn read_body(journal: Journal, assignment: Assignment, executor: Executor) {
    let mut pause = Duration::from_millis(50);
    let first = assignment.first;
    loop {
        match journal.reader().bodies(assignment.handle, first, first, BODY_ROWS).await {
            Ok(bodies) => match bodies.into_iter().find(|body| body.seq == first) {
                Some(body) => {
                    let body = Body { payload: body.body, params: body.params };
                    return executor.dispatch(vec![(assignment, Some(body))]);
                }
                None => tracing::error!(task = %first.0, handle = %assignment.handle, "the journal has no body of the task"),
            },
            Err(error) => tracing::warn!(%error, "cannot read a body"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

fn reported(event: executor::Event) -> Event {
    let command = match event {
        executor::Event::Slots { work, total } => Command::Slots { work, total },
        executor::Event::Completed(completion) => Command::Completed(vec![completion]),
    };
    Event::Command(Envelope { ticket: None, command })
}

/// Owns the writing connection: appends one batch after the other and tells its fate.
async fn write(
    mut writer: Writer,
    mut batches: mpsc::Receiver<(Arc<Batch>, Duration)>,
    fates: mpsc::Sender<Event>,
    health: Health,
) {
    while let Some((batch, pause)) = batches.recv().await {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let fate = writer.append(&batch).await;
        complain(batch.no, &fate, &health);
        if fates.send(Event::Fate(batch.no, fate)).await.is_err() {
            return;
        }
    }
}

fn complain(no: BatchNo, fate: &Fate, health: &Health) {
    match fate {
        Fate::Durable => {}
        Fate::NotOwner => tracing::warn!(batch = no.0, "the shard is owned elsewhere, or the database has lost commits"),
        Fate::Refused { sqlstate, message } => tracing::error!(batch = no.0, %sqlstate, %message, "the database refused a batch"),
        Fate::Unknown { message } => {
            tracing::warn!(batch = no.0, %message, "the fate of a batch is unknown; it is sent again");
            health.trouble(message.clone());
        }
    }
}
