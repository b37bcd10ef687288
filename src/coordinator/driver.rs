//! Runs the machine on tokio: feeds it from the channels and carries out its effects. It decides
//! nothing.
//!
//! Everything happens in one task, which never waits while the machine has something to do; only
//! the append of the batch in flight runs beside it. A shard is taken in and dropped on threads for
//! long work.

mod counting;
mod effects;
mod hub_commands;
mod intake;

use super::{
    body_cache::prefetch::Prefetch,
    commands::QueuedCommand,
    machine::{Effect, Event, Machine, Release},
    ownership::{OwnershipRequest, logged_error::LoggedError, replica_state::ReplicaState},
    streams::event_buffer::EventBuffers,
};
use crate::{
    clock::Clock,
    core::{BatchNo, Command, RecoveredScheduler, Reply, Ticket, Work},
    executor_protocol::ExecutorReport,
    hub::Hub,
    journal::{Commit, Journal, Replica, Writer},
    metrics::Metrics,
    traces::Traces,
};
use counting::Counting;
use rustc_hash::FxHashMap;
use std::{collections::HashSet, mem, panic::resume_unwind, pin::Pin, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    task::yield_now,
    time::Sleep,
};

/// The loop runs each second at least. After so long without it the process was suspended, or
/// starved: renewals of claims wait in the sockets.
const PAUSED: Duration = Duration::from_secs(2);

/// Everything the loop needs.
pub(super) struct Driver {
    pub machine: Machine,
    pub journal: Journal,
    /// This run of the server.
    pub replica: Replica,
    pub clock: Clock,
    pub state: ReplicaState,
    pub buffers: EventBuffers,
    pub hub: Hub,
    pub bodies: Prefetch,
    pub commands: mpsc::Receiver<QueuedCommand>,
    pub closed_streams: mpsc::Receiver<Command>,
    /// What executors report.
    pub reports: mpsc::Receiver<ExecutorReport>,
    pub ownership_events: mpsc::Receiver<Event>,
    pub ownership_requests: mpsc::Sender<OwnershipRequest>,
    /// What must be left of the lease for replies that rest on it alone.
    pub lease_margin: Duration,
    pub metrics: Metrics,
    pub traces: Traces,
}

/// The running loop.
struct Loop {
    driver: Driver,
    /// The batch in flight: returns the writer with its outcome.
    in_flight: Option<InFlight>,
    /// `None` while a batch is in flight.
    writer: Option<Box<Writer>>,
    waiting: FxHashMap<Ticket, oneshot::Sender<Reply>>,
    /// Durable, and not published to streams yet.
    released: Vec<Release>,
    /// Durable, and not sent to callers yet.
    replies: Vec<(Ticket, Reply)>,
    /// Ends of streams that were opened for callers who have gone.
    abandoned_streams: Vec<Event>,
    /// Texts have been handed out that the executor is about to send.
    has_begun: bool,
    next_ticket: u64,
    /// Wakes the loop for what time brings.
    alarm: Pin<Box<Sleep>>,
    counting: Counting,
    /// What the log says of batches that are sent again.
    logged: LoggedError,
    /// When the loop ran last, in microseconds since its clock was made.
    last_step: i64,
}

type InFlight = Pin<Box<dyn Future<Output = (Box<Writer>, BatchNo, Commit)> + Send>>;

/// Ends the process when the loop panics. Such a server would serve nobody, but look alive; a new
/// one recovers from the journal.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the coordinator has failed; the process ends");
            std::process::abort();
        }
    }
}

impl Driver {
    /// Runs until the queue of commands is closed, on the threads of the connections: who hands it
    /// a command, and whom it answers, is most often on the same one, so that nothing waits for
    /// another thread to wake.
    pub(super) fn start(self, first: Effect) {
        tokio::spawn(async move {
            let _guard = AbortOnPanic;
            self.run(first).await;
        });
    }

    async fn run(self, first: Effect) {
        let writer = Some(Box::new(self.journal.writer(&self.replica)));
        let mut this = Box::new(Loop {
            counting: Counting::new(self.metrics.clone()),
            logged: LoggedError::default(),
            driver: self,
            in_flight: None,
            writer,
            waiting: FxHashMap::default(),
            released: Vec::new(),
            replies: Vec::new(),
            abandoned_streams: Vec::new(),
            has_begun: false,
            next_ticket: 0,
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
            last_step: i64::MAX,
        });
        this.carry_out(vec![first]);
        while let Some(events) = this.gather().await {
            this = this.step(events).await;
            // Work without a session is done by now. Its outcome is sent before the last batch is
            // published, because waking others takes longer.
            let done = this.take_arrived(this.in_flight.is_none());
            if !done.is_empty() {
                this = this.step(done).await;
            }
            // Texts that were handed out are sent first: whom this wakes next would run before.
            // While several attempts run, their answers are taken up first, too (decision 0229).
            let has_begun = mem::take(&mut this.has_begun);
            if has_begun && this.runs_several() {
                yield_now().await;
            } else if has_begun && !this.replies.is_empty() {
                this.driver.hub.texts_sent().await;
            }
            this.publish();
            if this.driver.state.is_stalled() {
                this.refuse_all();
            }
        }
    }
}

impl Loop {
    /// Lets the machine decide, and carries out what it wants done.
    async fn step(mut self: Box<Self>, events: Vec<Event>) -> Box<Self> {
        for mut events in by_ownership(events) {
            if events.iter().any(Event::is_recovery) {
                let taken_in = mem::take(&mut events);
                self = self.take_in(taken_in).await;
            }
            let effects = self.decide(events);
            self.carry_out(effects);
            if let Some(core) = self.driver.machine.core() {
                self.driver.bodies.look_ahead(core);
            }
        }
        self
    }

    /// Takes in a shard, which may be of millions of tasks, on a thread for long work: sockets,
    /// timers and the heartbeat of the lease are served meanwhile. What waits for an answer that
    /// rests on the lease is left to the next step, by the lease as it is then.
    async fn take_in(mut self: Box<Self>, events: Vec<Event>) -> Box<Self> {
        self.publish();
        let decided = tokio::task::spawn_blocking(move || {
            let effects = self.decide(events);
            (self, effects)
        });
        match decided.await {
            Ok((mut this, effects)) => {
                this.carry_out(effects);
                this
            }
            Err(failed) if failed.is_panic() => resume_unwind(failed.into_panic()),
            // The runtime shuts down: what called this is dropped with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether several attempts are under way that have a session.
    fn runs_several(&self) -> bool {
        let core = self.driver.machine.core();
        core.is_some_and(|core| core.attempts_with_session() > 1)
    }

    fn decide(&mut self, events: Vec<Event>) -> Vec<Effect> {
        let driver = &mut self.driver;
        let recovers = events.iter().any(Event::is_recovery);
        let holds = !recovers && {
            let epoch = driver.machine.epoch();
            driver.state.lease_holds(epoch, driver.lease_margin)
        };
        driver.machine.set_lease(holds);
        // Another replica owns the shard, and no recovery of ours would count them.
        if driver.machine.stands_by() {
            self.notice_lost_batches();
        }
        let mut begun = None;
        for event in &events {
            if let Event::Recovered {
                schedulers,
                epoch,
                window,
                ..
            } = event
            {
                self.notice_lost_batches();
                self.counting.recovered();
                self.driver.bodies.lock().recovered(schedulers);
                let inherited = window.as_ref().map(|window| {
                    let kinds = window.keys().cloned();
                    kinds.chain(begun_kinds(schedulers)).collect()
                });
                begun = Some((*epoch, inherited));
            }
        }
        let more = begun.map(|(epoch, inherited)| self.begin(epoch, inherited));
        let events = events.into_iter().chain(more.into_iter().flatten());
        let (now, lead) = self.driver.clock.now_and_lead();
        self.driver.machine.set_lead(lead);
        // By the clock that counts leases: unlike `Instant` it goes on while the machine sleeps.
        let elapsed = now.0 - lead;
        if elapsed.saturating_sub(self.last_step) >= PAUSED.as_micros() as i64 {
            self.driver.machine.was_paused(now);
        }
        self.last_step = elapsed;
        self.driver.machine.step(now, events)
    }
}

/// What schedulers run of which attempts have begun: these are in doubt whoever has slots for their
/// kinds by now.
fn begun_kinds(schedulers: &[RecoveredScheduler]) -> HashSet<Work> {
    let begun = schedulers.iter().filter(|one| !one.attempts.is_empty());
    let works = begun.flat_map(|one| &one.runs).map(|run| &run.spec.work);
    works.filter(|work| work.has_session()).cloned().collect()
}

/// Events after the end of an ownership belong to the next one. No events are one step as well:
/// time has passed.
fn by_ownership(events: Vec<Event>) -> impl Iterator<Item = Vec<Event>> {
    let mut left = Some(events);
    std::iter::from_fn(move || {
        let mut events = left.take()?;
        left = events
            .iter()
            .position(|event| matches!(event, Event::Deposed))
            .filter(|end| end + 1 < events.len())
            .map(|end| events.split_off(end + 1));
        Some(events)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many events each step takes in.
    fn steps(events: Vec<Event>) -> Vec<usize> {
        by_ownership(events).map(|events| events.len()).collect()
    }

    #[test]
    fn a_step_ends_with_the_ownership() {
        let (end, other) = (|| Event::Deposed, || Event::internal(Command::Status));
        assert_eq!(steps(vec![]), [0]);
        assert_eq!(steps(vec![end()]), [1]);
        assert_eq!(steps(vec![other(), end()]), [2]);
        assert_eq!(steps(vec![end(), other()]), [1, 1]);
        assert_eq!(
            steps(vec![other(), end(), other(), end(), other()]),
            [2, 2, 1]
        );
    }
}
