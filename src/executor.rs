//! Runs tasks inside a replica: SQL on named targets, one session per slot, for whichever replica
//! owns the shard.
//!
//! Every assignment taken is answered by exactly one completion, whatever happens to its session,
//! and never before its backend is known not to run it any more, unless the executor was fenced; it
//! is kept until it is acknowledged as durable. The executor decides nothing: what follows from a
//! completion is the core's business. Text and results of tasks are never logged.

mod completion_builder;
mod config;
mod line;
mod outbox;
mod overview;
mod pg_client;
mod run;
pub(crate) mod sql;
mod status;
mod unsent;

pub use config::{ExecutorConfig, SESSION_IDLE, TARGET_SLOTS, TargetConfig};
pub use line::Line;
pub use outbox::Outbox;
pub use pg_client::Login;
pub(crate) use pg_client::{Connection, Error as TargetError};
pub use sql::{
    markers::SETUP as MARKERS_SETUP,
    register::{Session, SessionNote},
    statement::request,
};
pub use status::{
    AttemptStatus, BlockingSession, ExecutionRow, Outage, SessionWait, TargetStatus, WaitedLock,
};

use crate::{
    clock::Clock,
    core::{Completion, Epoch, Running, Time, Unresolved, Work},
    executor_protocol::{Dispatch, HeldAssignment, Link, Snapshot, Token},
};
use completion_builder::Completions;
use outbox::shared::SharedOutbox;
use sql::{
    markers::{self, Found},
    register::Register,
    target::Target,
    target_slots::Given,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use unsent::Unsent;

/// How long after a cancel a backend is terminated.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// How long a shutdown, or a fence, waits beyond the grace for what it has stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a shutdown waits for the last acknowledgement.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Between questions whether a session was declared dead.
const DECLARATION_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Between looks at what has been told to stop.
const STOPPED_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A handle of the executor.
#[derive(Clone)]
pub struct Executor(Arc<Inner>);

struct Inner {
    targets: HashMap<Arc<str>, Arc<Target>>,
    register: Register,
    outbox: Arc<SharedOutbox>,
    clock: Clock,
    completions: Completions,
    running: Mutex<HashMap<Token, CancellationToken>>,
    /// Changes when what runs is left to whoever has fenced this executor.
    abandoned: watch::Sender<()>,
    closing: AtomicBool,
    attempts: TaskTracker,
    unsent: Arc<Unsent>,
    runtime: tokio::runtime::Handle,
    end: CancellationToken,
}

impl Executor {
    /// Starts it inside a tokio runtime. It works for nobody before [`Executor::attach`].
    pub fn start(config: ExecutorConfig) -> Self {
        let outbox = SharedOutbox::start();
        let end = CancellationToken::new();
        let register = Register::new(config.sessions);
        let mut targets = HashMap::new();
        for target in config.targets {
            let name = Arc::clone(&target.name);
            let target = Target::new(
                target,
                register.clone(),
                config.clock.clone(),
                config.cancel_grace,
                Arc::clone(&outbox),
            );
            tokio::spawn(
                end.clone()
                    .run_until_cancelled_owned(Arc::clone(&target).supervise()),
            );
            targets.insert(name, target);
        }
        let executor = Executor(Arc::new(Inner {
            targets,
            register,
            outbox,
            completions: Completions::new(config.clock.clone(), &config.replica),
            clock: config.clock,
            running: Mutex::default(),
            abandoned: watch::Sender::new(()),
            closing: AtomicBool::new(false),
            attempts: TaskTracker::new(),
            unsent: Arc::default(),
            runtime: tokio::runtime::Handle::current(),
            end,
        }));
        executor.watch_lines();
        executor
    }

    /// Works for this owner from now on: it gets the snapshot first, and then everything
    /// that follows through the link. `None`: there is a younger one. `enrolled_under`: the
    /// ownership when this executor was last entered in the register.
    pub fn attach(&self, link: Link, enrolled_under: Epoch) -> Option<Snapshot> {
        self.0.outbox.attach(link, enrolled_under)
    }

    /// These completions are durable, or nobody's: they need not be kept.
    pub fn acknowledge(&self, tokens: &[Token]) {
        self.0.outbox.acknowledge(tokens);
    }

    /// Runs these. Never blocks. What an earlier owner hands out is not taken.
    pub fn dispatch(&self, orders: Vec<Dispatch>) {
        for Dispatch {
            token,
            assignment,
            leaves_free,
            body,
        } in orders
        {
            let since = self.0.clock.now();
            let held = HeldAssignment {
                token,
                running: Running {
                    handle: assignment.handle,
                    first: assignment.first,
                    count: assignment.count,
                    attempt: assignment.attempt,
                    since,
                },
                work: assignment.spec.work.clone(),
            };
            // Before it counts as taken: who is fenced waits until none of this is left.
            let stop = CancellationToken::new();
            self.running().insert(token, stop.clone());
            if !self.0.outbox.take(held, assignment.is_numbered()) {
                self.running().remove(&token);
                continue;
            }
            let given = Given {
                token,
                assignment,
                body,
                stop,
            };
            if let Err(given) = self.place(given, leaves_free) {
                self.give_back(*given);
            }
        }
    }

    /// Returns when each attempt that begins here has sent its text, if it can; false: none does.
    /// One at a time may wait for it.
    pub(crate) async fn texts_sent(&self) -> bool {
        self.0.unsent.sent().await
    }

    /// Stops an assignment if it runs; its completion tells what came first. One that stands in
    /// line is given back.
    pub fn stop(&self, token: Token) {
        let mut targets = self.0.targets.values();
        if let Some(given) = targets.find_map(|target| target.take_out(token)) {
            self.give_back(given);
        } else if let Some(stop) = self.running().get(&token) {
            stop.cancel();
        }
    }

    /// Gives up everything it was given, and returns when it does nothing for any of it any more:
    /// it has been fenced, and nobody wants its completions. What cannot be stopped in time, as its
    /// target does not answer, is left to whoever has fenced it.
    pub async fn give_up(&self) {
        self.0.outbox.give_up();
        self.clear_lines();
        let until = Instant::now() + self.stop_limit();
        while !self.running().is_empty() {
            self.running().values().for_each(CancellationToken::cancel);
            if Instant::now() >= until {
                self.0.abandoned.send_replace(());
            }
            sleep(STOPPED_POLL_INTERVAL).await;
        }
        // They are registered under the name that was fenced: whoever fenced it ends them, and must
        // not end what comes next.
        let targets = self.0.targets.values();
        targets.for_each(|target| target.close_sessions());
    }

    /// How long it waits for what it has stopped.
    fn stop_limit(&self) -> Duration {
        let graces = self.0.targets.values().map(|target| target.cancel_grace());
        graces.max().unwrap_or_default() + STOP_TIMEOUT
    }

    /// Nothing has been given to it that is not acknowledged.
    pub fn is_idle(&self) -> bool {
        self.0.outbox.is_empty()
    }

    /// The kinds of work it has slots for, and how many when their targets are there.
    pub fn capacity(&self) -> Vec<(Work, u32)> {
        self.0
            .targets
            .values()
            .map(|target| (target.work(), target.status().slots))
            .collect()
    }

    /// Ends the session of somebody who is gone. Returns when it is known to have ended: a target
    /// that cannot be reached, has changed or was removed keeps its own tasks waiting until it is
    /// back, or an operator declares the session dead.
    pub async fn end_session(&self, session: &Session) {
        if let Some(target) = self.0.targets.get(&session.target) {
            return target.admin.end(session).await;
        }
        let why = format!(
            "this replica has no target `{}`: give it back with --target, \
             or declare its sessions dead once they have ended",
            session.target
        );
        tracing::error!(target = %session.target, "{why}");
        let register = &self.0.register;
        while !register.is_declared_dead(session, why.clone()).await {
            sleep(DECLARATION_POLL_INTERVAL).await;
        }
        tracing::warn!(target = %session.target, pid = session.pid, "an operator has declared this session dead");
    }

    /// How an EXACTLY_ONCE task ended that was lost and runs nowhere any more: what its marker
    /// says, or [`Report::Lost`]. Returns when its target has said.
    pub async fn resolve(&self, unresolved: &Unresolved) -> Completion {
        let found = match &unresolved.work {
            Work::Noop => Found::Nothing,
            Work::Sql { target } => match self.0.targets.get(target) {
                Some(target) => target.admin.find_marker(markers::task(unresolved)).await,
                None => {
                    tracing::error!(
                        %target,
                        "a lost EXACTLY_ONCE task is open until its target has said whether it \
                         has committed, and this replica does not have that target: give it back; \
                         if its database is gone, put an empty one in its place that \
                         `rallypoint prepare-target` has prepared"
                    );
                    std::future::pending().await
                }
            },
        };
        self.0.completions.resolved(unresolved, found)
    }

    /// Deletes the markers of tasks that ended before this time, on all targets that have any.
    pub async fn prune_markers(&self, before: Time) {
        for target in self.0.targets.values() {
            match target.admin.prune_markers(before).await {
                Ok(0) => {}
                Ok(count) => {
                    tracing::info!(target = %target.name(), count, "old markers were deleted");
                }
                // Most targets have no markers, and one that is away is tried again.
                Err(error) => {
                    tracing::debug!(target = %target.name(), %error, "no markers were deleted");
                }
            }
        }
    }

    /// Takes what an operator has changed on these targets; others stay as they are.
    pub fn reconfigure(&self, targets: &[TargetConfig]) {
        for config in targets {
            if let Some(target) = self.0.targets.get(&config.name) {
                target.reconfigure(config.clone());
            }
        }
    }

    /// Takes nothing more, lets what runs finish for `grace`, then stops it, which gives it back;
    /// and waits for the last acknowledgements. Once: what could not be stopped has had its time.
    pub async fn shutdown(&self, grace: Duration) {
        if self.0.closing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.0.attempts.close();
        // Whoever hands out work learns it first, or would hand out again and again what is
        // refused.
        self.0
            .targets
            .values()
            .for_each(|target| target.take_no_more());
        self.clear_lines();
        let attempts = self.0.attempts.len();
        if attempts > 0 {
            tracing::info!(attempts, ?grace, "what runs may go on for the grace");
        }
        if timeout(grace, self.0.attempts.wait()).await.is_err() {
            tracing::warn!(
                attempts = self.0.attempts.len(),
                "the grace is over: these are stopped, and run again unless they may not \
                 (--shutdown-grace)"
            );
            self.running().values().for_each(CancellationToken::cancel);
            if timeout(self.stop_limit(), self.0.attempts.wait())
                .await
                .is_err()
            {
                tracing::warn!(
                    attempts = self.0.attempts.len(),
                    "these could not be stopped; their sessions stay registered"
                );
            }
        }
        self.0.end.cancel();
        self.0.outbox.drain(DRAIN_TIMEOUT).await;
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Token, CancellationToken>> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end.cancel();
        self.outbox.finish();
    }
}
