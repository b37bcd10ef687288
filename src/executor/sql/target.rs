//! One target: its slots, whether it can be reached, and the end of sessions of lost executors.
//!
//! Slots are announced only while sessions can be opened. Failing to open one is no attempt: the
//! target is then unavailable until a probe has opened a session.

use super::{
    RECONNECT_BACKOFF,
    backend_control::Admin,
    error::sqlstate,
    register::{Register, Session},
    session::{self, Live},
};
use crate::{
    clock::Clock,
    core::{Assignment, Report, Time, Work},
    executor::{
        config::TargetConfig,
        outbox::shared::SharedOutbox,
        status::{ExecutionRow, TargetStatus},
    },
};
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};

pub(crate) struct Target {
    name: Arc<str>,
    slots: u32,
    options: PgConnectOptions,
    /// The server does not support `client_connection_check_interval`.
    no_connection_check: AtomicBool,
    register: Register,
    pub(crate) clock: Clock,
    pub(crate) admin: Admin,
    cancel_grace: Duration,
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
        let options = session::task_login(&config.options);
        Arc::new(Target {
            name: config.name,
            slots: config.slots,
            admin: Admin::new(options.clone(), register.clone()),
            options,
            no_connection_check: AtomicBool::new(false),
            register,
            clock,
            cancel_grace,
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
            self.wake.notified().await;
            self.probe().await;
        }
    }

    /// `None` when no slot is free or the target is unavailable.
    pub(crate) fn take_slot(&self) -> Option<Slot> {
        if lock(&self.unavailable).is_some() {
            None
        } else {
            lock(&self.free).pop()
        }
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

    pub(crate) fn begin(&self, slot: u32, assignment: &Assignment, started: Time) {
        lock(&self.activity[slot as usize - 1]).running = Some((assignment.clone(), started));
    }

    /// Replaces a slot whose task panicked, and ends what its backend may still run.
    pub(crate) async fn replace_slot(&self, slot: u32, report: Report) -> (Slot, Report, i32) {
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
            report,
            pid,
        )
    }

    /// The slot's session, labelled for the task; a new one when it has none or the old one has
    /// died while idle.
    pub(crate) async fn session<'a>(
        &self,
        slot: &'a mut Slot,
        task: &str,
    ) -> Result<&'a mut Live, sqlx::Error> {
        if let Some(mut live) = slot.live.take() {
            match live.label(task).await {
                Ok(()) => return Ok(slot.live.insert(live)),
                Err(_) => self.forget(live.session),
            }
        }
        let mut live = self
            .open(slot.number)
            .await
            .inspect_err(|error| self.set_unavailable(error))?;
        if let Err(error) = live.label(task).await {
            self.set_unavailable(&error);
            self.forget(live.session);
            return Err(error);
        }
        self.failures.store(0, Ordering::Relaxed);
        lock(&self.activity[slot.number as usize - 1]).session = Some(live.session.clone());
        Ok(slot.live.insert(live))
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

    async fn open(&self, slot: u32) -> Result<Live, sqlx::Error> {
        let register = &self.register;
        if !self.no_connection_check.load(Ordering::Relaxed) {
            match Live::open(
                &session::with_connection_check(&self.options),
                &self.name,
                slot,
                register,
            )
            .await
            {
                // Unknown to the server (42704), or not supported by its system (22023).
                Err(error) if matches!(sqlstate(&error), Some("42704" | "22023")) => {
                    self.no_connection_check.store(true, Ordering::Relaxed)
                }
                other => return other,
            }
        }
        Live::open(&self.options, &self.name, slot, register).await
    }

    /// No session can be opened: no slots until a probe has opened one.
    fn set_unavailable(&self, error: &sqlx::Error) {
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
            let probed =
                async { PgConnection::close(session::connect(&self.options).await?).await };
            match probed.await {
                Ok(()) => break tracing::info!(target = %self.name, "the target is available"),
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
