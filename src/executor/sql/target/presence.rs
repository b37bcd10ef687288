//! Whether a target is there, found out before a task needs it.

use super::{super::RECONNECT_BACKOFF, Target, lock};
use crate::executor::pg_client::{self, Connection, Login};
use std::sync::{Arc, atomic::Ordering};
use tokio::time::timeout;

impl Target {
    /// Drops idle sessions that have died, and finds out whether the target has gone with them.
    pub(super) async fn look_after_sessions(&self) {
        if self.close(|| self.slots.take_dead_sessions()) {
            self.try_early().await;
        }
        self.prepare_to_stop(true).await;
    }

    /// Tries the login before a task needs it, so that an operator learns at the start that nothing
    /// can run there. A login that is refused is said and no more: slots may get in nevertheless,
    /// by those of namespaces or later.
    pub(super) async fn try_early(&self) {
        let settings = self.settings();
        match self.try_login().await {
            Ok(()) => {}
            // It is another one by now.
            Err(_) if !Arc::ptr_eq(&settings, &self.settings()) => {}
            // Its own slots may have all the places that there are.
            Err(error) if error.is_about_room() => {}
            Err(error) if error.is_about_the_login() => tracing::warn!(
                target = %self.name,
                %error,
                "the login of the target does not get in: its tasks will wait"
            ),
            Err(error) => self.set_unavailable(&error.into()),
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
            let mut tried = self.try_logins().await;
            let is_full = tried.as_ref().is_err_and(pg_client::Error::is_about_room);
            if is_full && self.admin.release().await {
                tried = self.try_logins().await;
            }
            match tried {
                Err(error) if !self.goes_on_while_full(&error) => {
                    self.set_unavailable(&error.into());
                }
                _ => break,
            }
        }
        if lock(&self.unavailable).is_some() {
            tracing::info!(target = %self.name, "the target is available");
        }
    }

    /// Whether tasks could have a session, if only those of namespaces with a login of their own.
    pub(super) async fn try_logins(&self) -> Result<(), pg_client::Error> {
        match self.try_login().await {
            Err(refused) if refused.is_about_the_login() => {
                match self.others_get_in(&refused).await {
                    true => Ok(()),
                    false => Err(refused),
                }
            }
            tried => tried,
        }
    }

    /// Whether a namespace has a login of its own that can be used, as the server has refused the
    /// one of the target.
    pub(super) async fn others_get_in(&self, refused: &pg_client::Error) -> bool {
        let settings = self.settings();
        for login in settings.own_logins() {
            match try_as(login).await {
                Err(error) if !self.goes_on_while_full(&error) => {}
                _ => {
                    self.refused.note(&self.name, refused);
                    return true;
                }
            }
        }
        false
    }

    /// Whether tasks of namespaces without a login of their own could have a session.
    async fn try_login(&self) -> Result<(), pg_client::Error> {
        try_as(&self.settings().login).await
    }
}

async fn try_as(login: &Login) -> Result<(), pg_client::Error> {
    let connection = Connection::open(login).await?;
    connection.close().await;
    Ok(())
}
