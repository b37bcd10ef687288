//! One target: whether it can be reached, the sessions of its slots, and the end of sessions of
//! lost executors.
//!
//! Slots are announced only while sessions can be opened. Failing to open one is no attempt: the
//! target is then unavailable until a probe has opened a session. A login that is a namespace's own
//! and is refused is an error of its tasks, and keeps nobody else from theirs.

mod full;
mod line;
mod overview;
mod presence;

use super::{
    backend_control::Admin,
    error::{Failure, error},
    register::{Register, Session},
    statement::Conditions,
    target_session::{Live, OpenError},
    target_settings::Settings,
    target_slots::{Given, Slot, Slots},
};
use crate::{
    clock::Clock,
    core::{Assignment, Time, Work},
    executor::{
        config::TargetConfig,
        outbox::shared::SharedOutbox,
        pg_client::{self, Login},
        status::Outage,
    },
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

/// Interval between looks for sessions that have been idle for too long, at most.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// How long a slot pauses when it can have a session later, and others can have theirs now: the
/// next try is a hand-out away.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Target {
    name: Arc<str>,
    settings: Mutex<Arc<Settings>>,
    /// The server does not support `client_connection_check_interval`.
    no_connection_check: AtomicBool,
    register: Register,
    pub(crate) clock: Clock,
    pub(crate) admin: Admin,
    cancel_grace: Duration,
    outbox: Arc<SharedOutbox>,
    slots: Slots,
    /// Why the target is unavailable.
    unavailable: Mutex<Option<Outage>>,
    /// It takes nothing more.
    closing: AtomicBool,
    /// Failures since a slot last got a session.
    failures: AtomicU32,
    /// Its server has had no place for a session since one was opened last.
    is_full: AtomicBool,
    /// Its server has had no place for the connection that stops texts.
    cannot_stop: AtomicBool,
    /// Somebody gives the place of its session to the connection that stops texts.
    gives_place: AtomicBool,
    /// Sessions that have not ended yet, and belong to no slot any more.
    ending: Arc<AtomicU32>,
    /// Whether sessions can be opened is to be found out.
    wake: Notify,
    session_opened: Notify,
    /// Somebody stands in line.
    lined_up: Notify,
    /// There may be free slots for who stands in line.
    slots_added: Notify,
}

impl Target {
    pub(crate) fn new(
        config: TargetConfig,
        register: Register,
        clock: Clock,
        cancel_grace: Duration,
        outbox: Arc<SharedOutbox>,
    ) -> Arc<Self> {
        let name = Arc::clone(&config.name);
        let settings = Settings::new(config);
        Arc::new(Target {
            name,
            no_connection_check: AtomicBool::new(false),
            admin: Admin::new(settings.watchdog.clone(), register.clone()),
            register,
            clock,
            cancel_grace,
            outbox,
            slots: Slots::new(settings.slots),
            settings: Mutex::new(Arc::new(settings)),
            unavailable: Mutex::new(None),
            closing: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            is_full: AtomicBool::new(false),
            cannot_stop: AtomicBool::new(false),
            gives_place: AtomicBool::new(false),
            ending: Arc::default(),
            wake: Notify::new(),
            session_opened: Notify::new(),
            lined_up: Notify::new(),
            slots_added: Notify::new(),
        })
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn cancel_grace(&self) -> Duration {
        self.cancel_grace
    }

    /// How a task is run here.
    pub(crate) fn conditions(&self, assignment: &Assignment) -> Result<Conditions, Failure> {
        self.settings().conditions(assignment)
    }

    /// Announces the slots, and again after every outage. Never returns.
    pub(crate) async fn supervise(self: Arc<Self>) {
        self.set_available();
        // It ends with the supervision, and so with the target.
        let _early = AbortOnDropHandle::new(tokio::spawn({
            let target = Arc::clone(&self);
            async move { target.try_early().await }
        }));
        loop {
            let interval = || (self.settings().session_idle / 4).min(IDLE_POLL_INTERVAL);
            let mut next_look = Instant::now() + interval();
            loop {
                tokio::select! {
                    () = self.wake.notified() => break,
                    () = self.session_opened.notified() => self.prepare_to_stop(false).await,
                    () = sleep_until(next_look) => {
                        self.close_idle();
                        self.look_after_sessions().await;
                        next_look = Instant::now() + interval();
                    }
                }
            }
            self.probe().await;
            self.set_available();
        }
    }

    /// Takes what an operator has changed. What runs goes on; its session ends with it if tasks do
    /// not log in like that any more, and so does its slot if it is one too many.
    pub(crate) fn reconfigure(&self, config: TargetConfig) {
        let settings = Arc::new(Settings::new(config));
        self.admin.log_in_as(settings.watchdog.clone());
        *lock(&self.settings) = Arc::clone(&settings);
        self.close(self.slots.resize(settings.slots));
        self.slots_added.notify_one();
        self.close_outdated(&settings);
        self.announce();
        self.wake.notify_one();
    }

    /// Announces no slots any more, whatever becomes of the target.
    pub(crate) fn take_no_more(&self) {
        self.closing.store(true, Ordering::Release);
        self.announce();
    }

    /// Takes a slot back. Returns who begins now.
    pub(crate) fn put_slot(&self, mut slot: Slot) -> Vec<(Slot, Given)> {
        let settings = self.settings();
        let outdated = slot.live.take_if(|live| !settings.has(live.login()));
        self.close(outdated.into_iter().chain(self.slots.put(slot)));
        // They may have been changed meanwhile.
        let now = self.settings();
        if !Arc::ptr_eq(&settings, &now) {
            self.close_outdated(&now);
        }
        self.next_in_line()
    }

    /// Ends the sessions of its free slots. The register keeps them: what they ran may not be
    /// durable yet.
    pub(crate) fn close_sessions(&self) {
        self.slots.take_sessions(false, |_| true);
    }

    pub(crate) fn begin(&self, slot: u32, assignment: &Assignment, started: Time) {
        let running = Some((assignment.clone(), started));
        self.slots.note(slot, |activity| activity.running = running);
    }

    /// Replaces a slot whose task panicked, and ends what its backend may still run.
    pub(crate) async fn replace_slot(&self, slot: u32) -> (Slot, i32) {
        let mut session = None;
        self.slots
            .note(slot, |activity| session = activity.session.take());
        let pid = session.as_ref().map_or(0, |session| session.pid);
        if let Some(session) = session {
            self.admin.end(&session).await;
            self.forget(session);
        }
        (Slot::new(slot), pid)
    }

    /// Sees to it that the slot has a session as the task must find it: its own, or a new one when
    /// it has none, one of another login, or one that has died while idle.
    pub(crate) async fn open_session(
        &self,
        slot: &mut Slot,
        assignment: &Assignment,
        conditions: &Conditions,
    ) -> Result<(), OpenError> {
        let settings = self.settings();
        let login = settings.login_of(assignment);
        if let Some(mut live) = slot.live.take() {
            let same = live.login() == login;
            if same && live.is_ready_for(conditions).await {
                slot.live = Some(live);
                return Ok(());
            }
            self.forget(live.session.clone());
            self.slots
                .note(slot.number, |activity| activity.session = None);
            if !same {
                // A login may be allowed no more sessions than there are slots.
                live.close().await;
            }
        }
        if self.keeps_place_from(login) {
            sleep(RETRY_PAUSE).await;
            return Err(OpenError::NoPlace);
        }
        self.slots
            .note(slot.number, |activity| activity.opens = true);
        let opened = self.open_in_any_place(slot.number, login).await;
        self.slots
            .note(slot.number, |activity| activity.opens = false);
        let live = match opened {
            Ok(live) => live,
            // It is the coordination database that fails, and nothing is known against the target.
            Err(error @ OpenError::Register(_)) => {
                sleep(RETRY_PAUSE).await;
                return Err(error);
            }
            Err(OpenError::Target(cause)) if *login != settings.login => {
                return Err(self.own_login_failed(cause, login).await);
            }
            Err(OpenError::Target(cause)) if self.goes_on_while_full(&cause) => {
                return Err(self.found_full(cause, login).await);
            }
            Err(error) => {
                self.set_unavailable(&error);
                return Err(error);
            }
        };
        self.failures.store(0, Ordering::Relaxed);
        self.is_full.store(false, Ordering::Relaxed);
        let session = Some(live.session.clone());
        self.slots
            .note(slot.number, |activity| activity.session = session);
        slot.live = Some(live);
        self.session_opened.notify_one();
        Ok(())
    }

    /// The register need not keep it.
    pub(crate) fn forget(&self, session: Session) {
        self.register.forget(session);
    }

    pub(crate) fn work(&self) -> Work {
        Work::Sql {
            target: Arc::clone(&self.name),
        }
    }

    fn settings(&self) -> Arc<Settings> {
        Arc::clone(&lock(&self.settings))
    }

    /// Says how many slots there are now. Under the lock, so that the last word is true.
    fn announce(&self) {
        let unavailable = lock(&self.unavailable);
        let slots = match &*unavailable {
            None if !self.closing.load(Ordering::Acquire) => self.settings().slots,
            _ => 0,
        };
        self.outbox.set_slots(self.work(), slots);
    }

    /// Ends sessions of free slots that nobody logs in to any more.
    fn close_outdated(&self, settings: &Settings) {
        let outdated = |live: &Live| !settings.has(live.login());
        self.close(self.slots.take_sessions(false, outdated));
    }

    /// Ends sessions that run nothing.
    fn close(&self, sessions: impl IntoIterator<Item = Live>) {
        for live in sessions {
            self.forget(live.session.clone());
            self.ending.fetch_add(1, Ordering::Relaxed);
            let ending = Arc::clone(&self.ending);
            tokio::spawn(async move {
                live.close().await;
                ending.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }

    async fn open(&self, slot: u32, login: &Arc<Login>) -> Result<Live, OpenError> {
        let register = &self.register;
        if !self.no_connection_check.load(Ordering::Relaxed) {
            match Live::open(login, true, &self.name, slot, register).await {
                // Unknown to the server (42704), or not supported by its system (22023).
                Err(OpenError::Target(error))
                    if matches!(error.sqlstate(), Some("42704" | "22023")) =>
                {
                    self.no_connection_check.store(true, Ordering::Relaxed)
                }
                other => return other,
            }
        }
        Live::open(login, false, &self.name, slot, register).await
    }

    /// A namespace's own login has opened no session. What is not about that login is about the
    /// target only if its first login cannot be used either: a namespace can harm its own alone.
    async fn own_login_failed(&self, cause: pg_client::Error, login: &Arc<Login>) -> OpenError {
        if !cause.is_about_the_login() {
            if let Err(error) = self.try_login().await {
                if self.goes_on_while_full(&error) {
                    return self.found_full(error, login).await;
                }
                let error = error.into();
                self.set_unavailable(&error);
                return error;
            }
            if cause.may_pass() {
                sleep(RETRY_PAUSE).await;
                return cause.into();
            }
        }
        let what = "the login of the namespace cannot be used on this target";
        tracing::warn!(target = %self.name, error = %cause, "{what}");
        OpenError::OwnLogin(match cause {
            pg_client::Error::Reported(report) => {
                Failure::Reported(error(&report.code, format!("{what}: {}", report.message)))
            }
            cause => Failure::refused("LOGIN_REFUSED", format!("{what}: {cause}")),
        })
    }

    fn close_idle(&self) {
        let idle = self.settings().session_idle;
        let is_idle = |live: &Live| live.idle_for() >= idle;
        self.close(self.slots.take_sessions(true, is_idle));
    }

    fn set_available(&self) {
        *lock(&self.unavailable) = None;
        self.slots_added.notify_one();
        self.announce();
    }

    /// No session can be opened: no slots until a probe has opened one.
    fn set_unavailable(&self, error: &OpenError) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut unavailable = lock(&self.unavailable);
        let known = unavailable.as_ref().map(|outage| outage.since);
        *unavailable = Some(Outage {
            why: error.to_string(),
            since: known.unwrap_or_else(|| self.clock.now()),
        });
        drop(unavailable);
        if known.is_none() {
            tracing::warn!(target = %self.name, %error, "the target is unavailable");
            self.announce();
            self.wake.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
