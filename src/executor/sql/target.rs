//! One target: its slots, whether it can be reached, and the end of sessions of lost executors.
//!
//! Slots are announced only while sessions can be opened. Failing to open one is no attempt: the
//! target is then unavailable until a probe has opened a session.

use super::{
    RECONNECT_BACKOFF,
    backend_control::Admin,
    error::Failure,
    register::{Register, Session},
    statement::Conditions,
    target_session::{self, Live, OpenError},
};
use crate::{
    clock::Clock,
    core::{Assignment, SessionOptions, SessionReset, TaskId, Time, Work},
    executor::{
        config::TargetConfig,
        outbox::shared::SharedOutbox,
        pg_client::{Connection, Login},
        status::{ExecutionRow, TargetStatus},
    },
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

/// Interval between looks for sessions that have been idle for too long, at most.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct Target {
    name: Arc<str>,
    slots: u32,
    login: Login,
    /// Roles that tasks may name.
    roles: BTreeSet<String>,
    /// Options of tasks that bring none.
    defaults: SessionOptions,
    /// The server does not support `client_connection_check_interval`.
    no_connection_check: AtomicBool,
    register: Register,
    pub(crate) clock: Clock,
    pub(crate) admin: Admin,
    cancel_grace: Duration,
    /// How long a session may be idle.
    session_idle: Duration,
    session_reset: SessionReset,
    outbox: Arc<SharedOutbox>,
    free: Mutex<Vec<Slot>>,
    activity: Vec<Mutex<Activity>>,
    /// Why the target is unavailable.
    unavailable: Mutex<Option<String>>,
    /// Failures since a slot last got a session.
    failures: AtomicU32,
    wake: Notify,
}

/// Runs one task at a time; keeps its session between tasks.
pub(crate) struct Slot {
    /// From 1.
    pub(crate) number: u32,
    pub(crate) live: Option<Live>,
}

/// What a slot is doing.
#[derive(Default)]
struct Activity {
    session: Option<Session>,
    running: Option<(Assignment, Time)>,
}

impl Target {
    pub(crate) fn new(
        config: TargetConfig,
        register: Register,
        clock: Clock,
        cancel_grace: Duration,
        outbox: Arc<SharedOutbox>,
    ) -> Arc<Self> {
        let login = target_session::task_login(config.login);
        Arc::new(Target {
            name: config.name,
            slots: config.slots,
            admin: Admin::new(login.clone(), register.clone()),
            login,
            roles: config.roles,
            defaults: config.defaults,
            no_connection_check: AtomicBool::new(false),
            register,
            clock,
            cancel_grace,
            session_idle: config.session_idle,
            session_reset: config.session_reset,
            outbox,
            // The last one is taken first: the lowest number, and later the one whose session is
            // warm.
            free: Mutex::new(
                (1..=config.slots)
                    .rev()
                    .map(|number| Slot { number, live: None })
                    .collect(),
            ),
            activity: (0..config.slots).map(|_| Mutex::default()).collect(),
            unavailable: Mutex::new(None),
            failures: AtomicU32::new(0),
            wake: Notify::new(),
        })
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn cancel_grace(&self) -> Duration {
        self.cancel_grace
    }

    /// Announces the slots, and again after every outage. Never returns.
    pub(crate) async fn supervise(self: Arc<Self>) {
        loop {
            *lock(&self.unavailable) = None;
            self.announce(self.slots);
            let interval = (self.session_idle / 4).min(IDLE_POLL_INTERVAL);
            while timeout(interval, self.wake.notified()).await.is_err() {
                self.close_idle();
            }
            self.probe().await;
        }
    }

    /// `None` when no slot is free or the target is unavailable. A scheduler that need not find a
    /// clean session gets the slot back that it has used, when that is free.
    pub(crate) fn take_slot(&self, assignment: &Assignment) -> Option<Slot> {
        if lock(&self.unavailable).is_some() {
            return None;
        }
        let mut free = lock(&self.free);
        if self.reset(assignment) == SessionReset::Scheduler {
            let used_by = |slot: &Slot| slot.live.as_ref().and_then(Live::used_by);
            let its_own = |slot: &Slot| used_by(slot) == Some(assignment.handle);
            if let Some(at) = free.iter().rposition(its_own) {
                return Some(free.remove(at));
            }
        }
        free.pop()
    }

    pub(crate) fn put_slot(&self, slot: Slot) {
        let session = slot.live.as_ref().map(|live| live.session.clone());
        *lock(&self.activity[slot.number as usize - 1]) = Activity {
            session,
            running: None,
        };
        lock(&self.free).push(slot);
    }

    /// Ends the sessions of its free slots. The register keeps them: what they ran may not be
    /// durable yet.
    pub(crate) fn close_sessions(&self) {
        for slot in lock(&self.free).iter_mut() {
            slot.live = None;
            lock(&self.activity[slot.number as usize - 1]).session = None;
        }
    }

    /// How a task is run here: as it says, and where it says nothing, as the target does.
    pub(crate) fn conditions(&self, assignment: &Assignment) -> Result<Conditions, Failure> {
        let options = &assignment.spec.options;
        let session = options.session.or(&self.defaults);
        if let Some(role) = session
            .role
            .as_ref()
            .filter(|role| !self.roles.contains(*role))
        {
            let message = format!(
                "the role {role} is not among the `roles` that the configuration of this replica \
                 allows on the target {}",
                self.name
            );
            return Err(Failure::refused("ROLE_NOT_ALLOWED", message));
        }
        Ok(Conditions {
            task: TaskId {
                handle: assignment.handle,
                seq: assignment.first,
            },
            max_rows: options.result_rows.unwrap_or(0),
            reset: self.reset(assignment),
            session,
        })
    }

    /// After what the session of a task is cleaned: what cleans more often counts.
    fn reset(&self, assignment: &Assignment) -> SessionReset {
        match self.session_reset {
            SessionReset::Task => SessionReset::Task,
            SessionReset::Scheduler => assignment.session_reset,
        }
    }

    pub(crate) fn begin(&self, slot: u32, assignment: &Assignment, started: Time) {
        lock(&self.activity[slot as usize - 1]).running = Some((assignment.clone(), started));
    }

    /// Replaces a slot whose task panicked, and ends what its backend may still run.
    pub(crate) async fn replace_slot(&self, slot: u32) -> (Slot, i32) {
        let session = lock(&self.activity[slot as usize - 1]).session.take();
        let pid = session.as_ref().map_or(0, |session| session.pid);
        if let Some(session) = session {
            self.admin.end(&session).await;
            self.forget(session);
        }
        (
            Slot {
                number: slot,
                live: None,
            },
            pid,
        )
    }

    /// Sees to it that the slot has a session as the task must find it: its own, or a new one when
    /// it has none or that one has died while idle.
    pub(crate) async fn open_session(
        &self,
        slot: &mut Slot,
        conditions: &Conditions,
    ) -> Result<(), OpenError> {
        if let Some(mut live) = slot.live.take() {
            if live.is_ready_for(conditions).await {
                slot.live = Some(live);
                return Ok(());
            }
            self.forget(live.session);
        }
        let live = self
            .open(slot.number)
            .await
            .inspect_err(|error| self.set_unavailable(error))?;
        self.failures.store(0, Ordering::Relaxed);
        lock(&self.activity[slot.number as usize - 1]).session = Some(live.session.clone());
        slot.live = Some(live);
        Ok(())
    }

    /// Ends sessions that have been idle for too long. One stays for the next task, that of the
    /// slot that is taken first, unless it still holds what tasks have left in it.
    fn close_idle(&self) {
        let mut free = lock(&self.free);
        let is_clean = |live: &Live| live.used_by().is_none();
        let warm = free
            .iter()
            .rposition(|slot| slot.live.as_ref().is_some_and(is_clean));
        for (index, slot) in free.iter_mut().enumerate() {
            let idle = |live: &mut Live| live.idle_for() >= self.session_idle;
            if Some(index) == warm {
                continue;
            }
            if let Some(live) = slot.live.take_if(idle) {
                lock(&self.activity[slot.number as usize - 1]).session = None;
                self.forget(live.session.clone());
                tokio::spawn(live.close());
            }
        }
    }

    /// The register need not keep it.
    pub(crate) fn forget(&self, session: Session) {
        self.register.forget(session);
    }

    pub(crate) fn executions(&self) -> Vec<ExecutionRow> {
        let row = |(activity, slot): (&Mutex<Activity>, u32)| {
            let activity = lock(activity);
            let backend_pid = activity.session.as_ref().map_or(0, |session| session.pid);
            ExecutionRow {
                work: self.work(),
                slot,
                backend_pid,
                running: activity.running.clone(),
            }
        };
        self.activity.iter().zip(1..).map(row).collect()
    }

    pub(crate) fn status(&self) -> TargetStatus {
        TargetStatus {
            name: Arc::clone(&self.name),
            slots: self.slots,
            unavailable: lock(&self.unavailable).clone(),
        }
    }

    pub(crate) fn work(&self) -> Work {
        Work::Sql {
            target: Arc::clone(&self.name),
        }
    }

    fn announce(&self, total: u32) {
        self.outbox.set_slots(self.work(), total);
    }

    async fn open(&self, slot: u32) -> Result<Live, OpenError> {
        let register = &self.register;
        if !self.no_connection_check.load(Ordering::Relaxed) {
            let login = target_session::with_connection_check(&self.login);
            match Live::open(&login, &self.name, slot, register).await {
                // Unknown to the server (42704), or not supported by its system (22023).
                Err(OpenError::Target(error))
                    if matches!(error.sqlstate(), Some("42704" | "22023")) =>
                {
                    self.no_connection_check.store(true, Ordering::Relaxed)
                }
                other => return other,
            }
        }
        Live::open(&self.login, &self.name, slot, register).await
    }

    /// No session can be opened: no slots until a probe has opened one.
    fn set_unavailable(&self, error: &OpenError) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let before = lock(&self.unavailable).replace(error.to_string());
        if before.is_none() {
            tracing::warn!(target = %self.name, %error, "the target is unavailable");
            self.announce(0);
            self.wake.notify_one();
        }
    }

    async fn probe(&self) {
        loop {
            sleep(RECONNECT_BACKOFF.delay(self.failures.load(Ordering::Relaxed))).await;
            match Connection::open(&self.login).await {
                Ok(connection) => {
                    connection.close().await;
                    break tracing::info!(target = %self.name, "the target is available");
                }
                Err(error) => {
                    self.failures.fetch_add(1, Ordering::Relaxed);
                    *lock(&self.unavailable) = Some(error.to_string());
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
