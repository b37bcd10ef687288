//! Runs tasks inside a replica: `noop` at once, SQL on named targets, one session per slot.
//!
//! Every assignment dispatched is answered by exactly one completion, whatever happens to its session, and never before its
//! backend is known not to run it any more. The executor decides nothing: what follows from a completion is the core's
//! business. Text and results of tasks are never logged.

mod admin;
mod attempt;
mod failure;
mod outbox;
mod rows;
mod session;
mod statement;
mod target;

use crate::{
    clock::Clock,
    core::{Assignment, Attempt, Completion, Handle, Report, Seq, TaskError, Time, Work},
};
use bytes::Bytes;
use outbox::Outbox;
pub use session::{Session, SessionNote};
use sqlx::postgres::PgConnectOptions;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use target::{Slot, Target};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long after a cancel a backend is terminated.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// How long a shutdown waits, beyond the grace, for what it has stopped.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Between looks at what has been told to stop.
const STOP_LOOK: Duration = Duration::from_millis(10);

/// What an executor needs to know.
pub struct ExecutorConfig {
    /// Where SQL tasks run.
    pub targets: Vec<TargetConfig>,
    /// Tasks without a session at any time.
    pub noop_slots: u32,
    /// Database time.
    pub clock: Clock,
    /// Who keeps the register of sessions; `None`: nobody does.
    pub sessions: Option<mpsc::Sender<SessionNote>>,
    /// How long after a cancel a backend is terminated: [`CANCEL_GRACE`].
    pub cancel_grace: Duration,
}

/// A database on which SQL tasks run. Its login needs one connection more than there are slots, and no pooler between.
pub struct TargetConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Its login.
    pub options: PgConnectOptions,
    /// Tasks at any time.
    pub slots: u32,
}

/// What a task brings besides its assignment.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The statement.
    pub payload: Bytes,
    /// JSON array of text or null, one per parameter.
    pub params: Option<Bytes>,
}

/// What the executor tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It has so many slots (0: the target is away).
    Slots {
        /// For what.
        work: Work,
        /// How many, busy ones included.
        total: u32,
    },
    /// An assignment has ended.
    Completed(Completion),
}

/// What a slot does.
#[derive(Clone, Debug)]
pub struct ExecutionRow {
    /// The slot's kind.
    pub work: Work,
    /// Its number among them, from 1.
    pub slot: u32,
    /// Backend of its session; 0: none.
    pub backend_pid: i32,
    /// What it runs, and since when; `None`: idle.
    pub running: Option<(Assignment, Time)>,
}

/// How a target is.
#[derive(Clone, Debug)]
pub struct TargetStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its slots.
    pub slots: u32,
    /// Why it takes no tasks; `None`: it does.
    pub unavailable: Option<String>,
}

/// A handle of the executor.
#[derive(Clone)]
pub struct Executor(Arc<Inner>);

struct Inner {
    targets: HashMap<Arc<str>, Arc<Target>>,
    outbox: Arc<Outbox>,
    clock: Clock,
    running: Mutex<HashMap<(Handle, Seq), (Attempt, CancellationToken)>>,
    closing: AtomicBool,
    /// Rises when what runs is given up: its completions are nobody's any more.
    era: AtomicU64,
    attempts: TaskTracker,
    runtime: tokio::runtime::Handle,
    end: CancellationToken,
}

impl Executor {
    /// Starts it inside a tokio runtime. `out` gets its slots, as soon as they are usable, and its completions; what does not
    /// fit waits, bounded by the slots. Targets take nothing before [`Executor::fence`].
    pub fn start(config: ExecutorConfig, out: mpsc::Sender<Vec<Event>>) -> Self {
        let outbox = Outbox::start(out);
        let end = CancellationToken::new();
        let mut targets = HashMap::new();
        for target in config.targets {
            let name = Arc::clone(&target.name);
            let target =
                Target::new(target, config.sessions.clone(), config.clock.clone(), config.cancel_grace, Arc::clone(&outbox));
            tokio::spawn(end.clone().run_until_cancelled_owned(Arc::clone(&target).supervise()));
            targets.insert(name, target);
        }
        if config.noop_slots > 0 {
            outbox.push(vec![Event::Slots { work: Work::Noop, total: config.noop_slots }]);
        }
        Executor(Arc::new(Inner {
            targets,
            outbox,
            clock: config.clock,
            running: Mutex::default(),
            closing: AtomicBool::new(false),
            era: AtomicU64::new(0),
            attempts: TaskTracker::new(),
            runtime: tokio::runtime::Handle::current(),
            end,
        }))
    }

    /// Runs these. Never blocks; work without a session is done when this returns.
    pub fn dispatch(&self, work: Vec<(Assignment, Option<Body>)>) {
        let mut done = Vec::new();
        for (assignment, body) in work {
            match &assignment.spec.work {
                _ if self.0.closing.load(Ordering::Acquire) => done.push(self.refused(&assignment)),
                Work::Noop => done.push(self.completed(&assignment, Report::Succeeded(None), self.0.clock.now(), 0, 0)),
                Work::Sql { target } => match self.0.targets.get(target).and_then(|t| Some((t, t.take_slot()?))) {
                    Some((target, slot)) => self.run(Arc::clone(target), slot, assignment, body.unwrap_or_default()),
                    None => done.push(self.refused(&assignment)),
                },
            }
        }
        self.0.outbox.push(done);
    }

    /// Ends these sessions of executors that are no more, and then takes tasks: at the beginning of every ownership. What
    /// runs here goes on.
    pub fn fence(&self, predecessors: Vec<Session>) {
        for target in self.0.targets.values() {
            target.fence_and_open(predecessors.iter().filter(|session| session.target == *target.name()).cloned().collect());
        }
    }

    /// Takes nothing more, and gives up what runs: its completions are dropped, and the next owner ends its sessions.
    /// Returns when it has been stopped, or cannot be.
    pub async fn stand_down(&self) {
        self.0.targets.values().for_each(|target| target.close());
        self.0.era.fetch_add(1, Ordering::AcqRel);
        self.running().values().for_each(|(_, token)| token.cancel());
        let patience = self.patience();
        if timeout(patience, async {
            while !self.running().is_empty() {
                sleep(STOP_LOOK).await
            }
        })
        .await
        .is_err()
        {
            tracing::warn!("some attempts of a lost ownership could not be stopped; their sessions stay registered");
        }
    }

    /// Tells of an assignment that will not be handed out after all: it never began.
    pub fn decline(&self, assignment: &Assignment) {
        self.0.outbox.push(vec![self.refused(assignment)]);
    }

    /// Stops an assignment if it runs; its completion tells what came first.
    pub fn stop(&self, handle: Handle, first: Seq, attempt: Attempt) {
        if let Some((running, token)) = self.running().get(&(handle, first))
            && *running == attempt
        {
            token.cancel();
        }
    }

    /// One row per slot with a session of its own, idle ones included.
    pub fn executions(&self) -> Vec<ExecutionRow> {
        let mut targets: Vec<_> = self.0.targets.values().collect();
        targets.sort_by_key(|target| Arc::clone(target.name()));
        targets.into_iter().flat_map(|target| target.executions()).collect()
    }

    /// How its targets are.
    pub fn targets(&self) -> Vec<TargetStatus> {
        self.0.targets.values().map(|target| target.status()).collect()
    }

    /// Takes nothing more, lets what runs finish for `grace`, then stops it, and delivers the last completions.
    pub async fn shutdown(&self, grace: Duration) {
        self.0.closing.store(true, Ordering::Release);
        self.0.attempts.close();
        // Whoever hands out work learns it first, or would hand out again and again what is refused.
        let targets = self.0.targets.values().map(|target| target.work());
        let closed = targets.chain([Work::Noop]).map(|work| Event::Slots { work, total: 0 });
        self.0.outbox.push(closed.collect());
        if timeout(grace, self.0.attempts.wait()).await.is_err() {
            self.running().values().for_each(|(_, token)| token.cancel());
            if timeout(self.patience(), self.0.attempts.wait()).await.is_err() {
                tracing::warn!(attempts = self.0.attempts.len(), "these could not be stopped; their sessions stay registered");
            }
        }
        self.0.end.cancel();
        self.0.outbox.drain().await;
    }

    /// How long what has been told to stop may take.
    fn patience(&self) -> Duration {
        self.0.targets.values().map(|target| target.cancel_grace()).max().unwrap_or_default() + STOP_PATIENCE
    }

    /// A task of its own, and one that survives it: a panic must not swallow the completion.
    fn run(&self, target: Arc<Target>, slot: Slot, assignment: Assignment, body: Body) {
        let stop = CancellationToken::new();
        self.running().insert((assignment.handle, assignment.first), (assignment.attempt, stop.clone()));
        let (this, era) = (self.clone(), self.0.era.load(Ordering::Acquire));
        let running = async move {
            let (number, started) = (slot.number, this.0.clock.now());
            target.begin(number, &assignment, started);
            let attempt = attempt::run(Arc::clone(&target), slot, assignment.clone(), body, stop);
            let (slot, report, pid) = match tokio::spawn(attempt).await {
                Ok(ended) => ended,
                Err(_) => target.salvage(number, panicked()).await,
            };
            target.put_slot(slot);
            this.running().remove(&(assignment.handle, assignment.first));
            if era == this.0.era.load(Ordering::Acquire) {
                this.0.outbox.push(vec![this.completed(&assignment, report, started, number, pid)]);
            }
        };
        // Not on the thread of the caller, which has better things to do.
        self.0.attempts.spawn_on(running, &self.0.runtime);
    }

    fn refused(&self, assignment: &Assignment) -> Event {
        self.completed(assignment, Report::NotStarted, self.0.clock.now(), 0, 0)
    }

    fn completed(&self, assignment: &Assignment, report: Report, started: Time, slot: u32, backend_pid: i32) -> Event {
        let Assignment { handle, first, attempt, .. } = *assignment;
        let ended = self.0.clock.now();
        Event::Completed(Completion { handle, first, attempt, report, started, ended, slot, backend_pid })
    }

    fn running(&self) -> MutexGuard<'_, HashMap<(Handle, Seq), (Attempt, CancellationToken)>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end.cancel();
        self.outbox.finish();
    }
}

fn panicked() -> Report {
    let error = TaskError { code: "INTERNAL".into(), message: "the executor failed while it ran this task".into() };
    Report::Failed { error: Arc::new(error), transient: true }
}
