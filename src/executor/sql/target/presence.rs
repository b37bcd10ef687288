//! Whether a target is there, found out before a task needs it.

use super::{super::RECONNECT_BACKOFF, Target, lock};
use crate::executor::{
    pg_client::{self, Connection, Login},
    sql::target_session::{Identity, OpenError},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::timeout;

/// In the register a session has a slot, also the one of a probe, which runs nothing.
const PROBE_SLOT: u32 = 1;

/// How long the logins of namespaces may take to get in where that of the target does not.
const OTHERS_TIMEOUT: Duration = Duration::from_secs(5);

impl Target {
    /// Drops idle sessions that have died, and finds out whether the target has gone with them; and
    /// whether a login that was refused gets in by now, as no task may need it for long.
    pub(super) async fn look_after_sessions(&self) {
        if self.close(|| self.slots.take_dead_sessions()) || self.refused.is_due() {
            self.try_early().await;
        }
        self.prepare_to_stop(true).await;
    }

    /// Tries the login before a task needs it, so that an operator learns at the start that nothing
    /// can run there. A login that is refused is said and no more: slots may get in nevertheless,
    /// by those of namespaces or later.
    pub(super) async fn try_early(&self) {
        let settings = self.settings();
        match self.try_as(&settings.login).await {
            Ok(()) => {}
            // It is another one by now.
            Err(_) if !Arc::ptr_eq(&settings, &self.settings()) => {}
            // Namespaces have logins that get in. Why this one does not may have changed.
            Err(error) if error.is_of_one_login() && self.refused.why().is_some() => {
                self.refused.note(&self.name, &error);
            }
            // Its own slots may have all the places that there are.
            Err(error) if error.is_about_room() => {}
            Err(error) if error.is_about_the_login() => tracing::warn!(
                target = %self.name,
                %error,
                "the login of the target does not get in: its tasks will wait"
            ),
            Err(error) => {
                // As long as a login of a namespace gets in, the target is there.
                let other = async {
                    self.refused.why()?;
                    self.another_login(&error).await
                };
                if !matches!(timeout(OTHERS_TIMEOUT, other).await, Ok(Some(_))) {
                    self.set_unavailable(&error.into());
                }
            }
        }
    }

    /// Returns when a session could be opened.
    pub(super) async fn probe(&self) {
        for tries in 0.. {
            let outages = self.outages.load(Ordering::Relaxed);
            let delay = RECONNECT_BACKOFF.delay(outages.saturating_add(tries));
            // Or somebody has changed the login meanwhile.
            let _ = timeout(delay, self.wake.notified()).await;
            // They may have all the places that there are.
            self.close_idle();
            match self.try_session().await {
                Ok(()) => break,
                Err(error) => self.set_unavailable(&error),
            }
        }
        if lock(&self.unavailable).is_some() {
            tracing::info!(target = %self.name, "the target is available");
        }
    }

    /// Whether a slot could have a session. Where the server is full and the sessions that it has
    /// go on, none is needed.
    async fn try_session(&self) -> Result<(), OpenError> {
        let mut tried = self.try_logins().await;
        let is_full = tried.as_ref().is_err_and(pg_client::Error::is_about_room);
        if is_full && self.admin.release().await {
            tried = self.try_logins().await;
        }
        match tried {
            Ok(login) if self.is_unregistered.load(Ordering::Relaxed) => {
                self.try_register(&login).await
            }
            Err(error) if !self.goes_on_while_full(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Whether the register takes a session of this login. It is asked only after it has refused
    /// one: the last session of a target stays in it, and whoever fences this executor has to show
    /// its end.
    async fn try_register(&self, login: &Arc<Login>) -> Result<(), OpenError> {
        match self.open(PROBE_SLOT, login).await {
            Ok(live) => {
                self.is_unregistered.store(false, Ordering::Relaxed);
                self.forget(live.session.clone());
                live.close().await;
                Ok(())
            }
            Err(OpenError::Target(error)) if self.goes_on_while_full(&error) => Ok(()),
            Err(OpenError::Register(_)) if self.slots.have_sessions() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A login with which tasks could have a session, if only those of a namespace whose own it is.
    pub(super) async fn try_logins(&self) -> Result<Arc<Login>, pg_client::Error> {
        let login = Arc::clone(&self.settings().login);
        let mut tried = self.try_as(&login).await;
        if let Err(refused) = &tried
            && refused.is_about_room_of_login()
            && !self.goes_on_while_full(refused)
            && self.admin.may_be_in_the_way(refused, &login)
            && self.admin.release().await
        {
            // In the place of the connection that stops texts, of which there are none.
            tried = self.try_as(&login).await;
        }
        match tried {
            Ok(()) => Ok(login),
            // Where our sessions have its places, they go on, and it is not refused.
            Err(refused) if refused.is_of_one_login() && !self.goes_on_while_full(&refused) => {
                match self.another_login(&refused).await {
                    Some(login) => Ok(login),
                    None => Err(refused),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// A namespace's own login that can be used, as the server has refused the one of the target.
    pub(super) async fn another_login(&self, refused: &pg_client::Error) -> Option<Arc<Login>> {
        let settings = self.settings();
        for login in settings.own_logins() {
            match self.try_as(login).await {
                Err(error) if !self.goes_on_while_full(&error) => {}
                _ => {
                    self.refused.note(&self.name, refused);
                    return Some(Arc::clone(login));
                }
            }
        }
        None
    }

    /// Whether the server takes this login, and answers it what each slot asks.
    async fn try_as(&self, login: &Login) -> Result<(), pg_client::Error> {
        let mut connection = Connection::open(login).await?;
        self.admin.note_got_in(login);
        let known = Identity::of(&mut connection).await;
        connection.close().await;
        if known.is_ok() && *login == *self.settings().login {
            self.refused.forget();
        }
        known.map(drop)
    }
}
