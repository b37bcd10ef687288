//! One target: whether it can be reached, the sessions of its slots, and the end of sessions of
//! lost executors.
//!
//! Slots are announced only while sessions can be opened and registered. Failing to open one is no
//! attempt: the target is then unavailable until a probe has opened a session, and registered it if
//! the register has refused one. A login that is a namespace's own and is refused is an error of
//! its tasks, and keeps nobody else from theirs. Where the one of the target is refused, or has as
//! many sessions as it may, those of namespaces are used all the same.

mod full;
mod line;
mod opening;
mod overview;
mod presence;
mod refusal;

use super::{
    backend_control::Admin,
    error::Failure,
    register::{Register, Session},
    statement::Conditions,
    target_session::{Live, OpenError},
    target_settings::Settings,
    target_slots::{Given, Slot, Slots},
};
use crate::{
    clock::Clock,
    core::{Assignment, Time, Work},
    executor::{config::TargetConfig, outbox::shared::SharedOutbox, status::Outage},
};
use refusal::Refused;
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
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
    /// Outages since a slot last got a session.
    outages: AtomicU32,
    /// Its server has had no place for a session since one was opened last.
    is_full: AtomicBool,
    /// There have been no slots because the register took no session, and it has taken none since.
    is_unregistered: AtomicBool,
    /// Its server has refused the login of the target, and not those of namespaces, since it was
    /// changed or has got in.
    refused: Refused,
    /// Its server has had no place for the connection that stops texts.
    cannot_stop: AtomicBool,
    /// Somebody gives the place of its session to the connection that stops texts.
    gives_place: AtomicBool,
    /// Cloned for each session that belongs to no slot any more, for as long as it has not ended or
    /// gives its place away.
    ending: Arc<()>,
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
            outages: AtomicU32::new(0),
            is_full: AtomicBool::new(false),
            is_unregistered: AtomicBool::new(false),
            refused: Refused::default(),
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
        self.refused.forget();
        self.close(|| self.slots.resize(settings.slots));
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
        let outdated = outdated.into_iter().map(|live| *live);
        self.close(|| outdated.chain(self.slots.put(slot)));
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

    /// [`Target::open_session`] was given up for this slot, which has lost its idle session if that
    /// was being cleaned, or asked whether it is there.
    pub(crate) fn forget_lost_session(&self, slot: &Slot) {
        if slot.live.is_none()
            && let Some(session) = self.take_session(slot.number)
        {
            self.forget(session);
        }
    }

    /// Replaces a slot whose task panicked, and ends what its backend may still run.
    pub(crate) async fn replace_slot(&self, slot: u32) -> (Slot, i32) {
        let session = self.take_session(slot);
        let pid = session.as_ref().map_or(0, |session| session.pid);
        if let Some(session) = session {
            self.admin.end(&session).await;
            self.forget(session);
        }
        (Slot::new(slot), pid)
    }

    /// The session that this slot is known to have, which it has no more.
    fn take_session(&self, slot: u32) -> Option<Session> {
        let mut session = None;
        self.slots
            .note(slot, |activity| session = activity.session.take());
        session
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
        self.close(|| self.slots.take_sessions(false, outdated));
    }

    /// Ends sessions that run nothing; returns whether there are any. They are ending before they
    /// leave their slots.
    fn close<I: IntoIterator<Item = Live>>(&self, take: impl FnOnce() -> I) -> bool {
        let ending = Arc::clone(&self.ending);
        let mut any = false;
        for live in take() {
            any = true;
            self.forget(live.session.clone());
            let ending = Arc::clone(&ending);
            tokio::spawn(async move {
                live.close().await;
                drop(ending);
            });
        }
        any
    }

    fn close_idle(&self) {
        let idle = self.settings().session_idle;
        let is_idle = |live: &Live| live.idle_for() >= idle;
        self.close(|| self.slots.take_sessions(true, is_idle));
    }

    fn set_available(&self) {
        *lock(&self.unavailable) = None;
        self.slots_added.notify_one();
        self.admin.target_is_back();
        self.announce();
    }

    /// No session can be opened: no slots until a probe has opened one.
    fn set_unavailable(&self, error: &OpenError) {
        if let OpenError::Register(_) = error {
            self.is_unregistered.store(true, Ordering::Relaxed);
        }
        let mut unavailable = lock(&self.unavailable);
        let known = unavailable.as_ref().map(|outage| outage.since);
        *unavailable = Some(Outage {
            why: error.to_string(),
            since: known.unwrap_or_else(|| self.clock.now()),
        });
        drop(unavailable);
        if known.is_none() {
            // One, however many slots meet it.
            self.outages.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(target = %self.name, %error, "the target is unavailable");
            self.announce();
            self.wake.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
