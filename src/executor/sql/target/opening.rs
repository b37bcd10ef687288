//! How a slot comes to the session on which its task runs. No task gets one that it must not meet:
//! it is of its login, and clean or of its scheduler.

use super::{RETRY_PAUSE, Settings, Target};
use crate::{
    core::Assignment,
    executor::{
        pg_client::{self, Login},
        sql::{
            error::{Failure, error},
            statement::Conditions,
            target_session::{Live, OpenError},
            target_slots::Slot,
        },
    },
};
use std::sync::{Arc, atomic::Ordering};
use tokio::time::sleep;

impl Target {
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
        let same = |live: &Live| live.login() == login;
        let mut idle = slot.live.take();
        if let Some(live) = idle.as_mut().filter(|live| same(live))
            && live.is_ready_for(conditions).await
        {
            slot.live = idle;
            return Ok(());
        }
        if *login == settings.login
            && idle.as_ref().is_none_or(|live| !same(live))
            && let Some(why) = self.refused.for_now()
        {
            // It is of a namespace, which may need it next.
            slot.live = idle;
            sleep(RETRY_PAUSE).await;
            return Err(OpenError::Refused(why));
        }
        Box::pin(self.open_another(slot, idle, login, &settings)).await
    }

    /// Gives the slot a session of this login in place of the one it had.
    async fn open_another(
        &self,
        slot: &mut Slot,
        former: Option<Box<Live>>,
        login: &Arc<Login>,
        settings: &Settings,
    ) -> Result<(), OpenError> {
        if let Some(live) = former {
            self.forget(live.session.clone());
            let _ending = Arc::clone(&self.ending);
            self.slots
                .note(slot.number, |activity| activity.session = None);
            if live.login() != login {
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
            // It is the coordination database that fails, and sessions that it knows go on.
            Err(error @ OpenError::Register(_)) if self.slots.have_sessions() => {
                sleep(RETRY_PAUSE).await;
                return Err(error);
            }
            Err(OpenError::Target(cause)) if *login != settings.login => {
                return Err(self.own_login_failed(cause, login).await);
            }
            Err(OpenError::Target(cause)) if self.goes_on_while_full(&cause) => {
                return Err(self.found_full(cause, login).await);
            }
            Err(error) => return Err(self.found_no_session(error).await),
        };
        self.outages.store(0, Ordering::Relaxed);
        self.is_full.store(false, Ordering::Relaxed);
        self.is_unregistered.store(false, Ordering::Relaxed);
        self.admin.note_got_in(login);
        if *login == settings.login {
            self.refused.forget();
        }
        let session = Some(live.session.clone());
        self.slots
            .note(slot.number, |activity| activity.session = session);
        slot.live = Some(live);
        self.session_opened.notify_one();
        Ok(())
    }

    /// Opens a session that notices by itself that we are gone, where its server can do that.
    pub(super) async fn open(&self, slot: u32, login: &Arc<Login>) -> Result<Box<Live>, OpenError> {
        let register = &self.register;
        if self.no_connection_check.load(Ordering::Relaxed) {
            return Live::open(login, false, &self.name, slot, register).await;
        }
        match Live::open(login, true, &self.name, slot, register).await {
            // Unknown to the server (42704), or not supported by its system (22023), unless it is
            // another setting of the login that the server does not take.
            Err(OpenError::Target(error))
                if matches!(error.sqlstate(), Some("42704" | "22023")) =>
            {
                let opened = Live::open(login, false, &self.name, slot, register).await;
                if opened.is_ok() {
                    self.no_connection_check.store(true, Ordering::Relaxed);
                }
                opened
            }
            other => other,
        }
    }

    /// The login of the target has opened no session, or the register takes none and there are no
    /// others. A server that refuses the login, or has no place for it alone, is there for the
    /// tasks of namespaces whose own gets in; others wait.
    async fn found_no_session(&self, error: OpenError) -> OpenError {
        if let OpenError::Target(cause) = &error
            && cause.is_of_one_login()
            && self.another_login(cause).await.is_some()
        {
            sleep(RETRY_PAUSE).await;
            return error;
        }
        self.set_unavailable(&error);
        error
    }

    /// A namespace's own login has opened no session. What is not about that login is about the
    /// target only if no other can be used either: a namespace can harm its own alone.
    async fn own_login_failed(&self, cause: pg_client::Error, login: &Arc<Login>) -> OpenError {
        if cause.is_about_room_of_login() {
            // It has as many sessions as it may, which says nothing about the target.
            sleep(RETRY_PAUSE).await;
            return cause.into();
        }
        if !cause.is_about_the_login() {
            if let Err(error) = self.try_logins().await {
                if !self.goes_on_while_full(&error) {
                    let error = error.into();
                    self.set_unavailable(&error);
                    return error;
                }
                // Nor does the limit of the target's login say anything about this one.
                if !error.is_about_room_of_login() {
                    // Whether others are in the way of this login, its own refusal says.
                    let about_room = if cause.is_about_room() { cause } else { error };
                    return self.found_full(about_room, login).await;
                }
            }
            if cause.is_about_room() {
                // The login of the target may have a place that is reserved, and this one needs one
                // that idle sessions of others have.
                return self.found_full(cause, login).await;
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
}
