//! A target whose server has no place for one more session.
//!
//! Who runs a task comes before the connection that stops texts, as long as none is to be stopped,
//! and that comes before who runs nothing: a text that cannot be stopped outlives its limit.

use super::{RETRY_PAUSE, Target};
use crate::executor::{
    pg_client::{self, Login},
    sql::{
        target_session::{Live, OpenError},
        target_slots::Slot,
    },
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::sleep;

/// A session that has run nothing for so long gives its place; others have a task soon.
const IDLE_BEFORE: Duration = Duration::from_secs(2);

impl Target {
    /// Opens a session, if need be in the place of the connection that stops texts.
    pub(super) async fn open_in_any_place(
        &self,
        slot: u32,
        login: &Arc<Login>,
    ) -> Result<Box<Live>, OpenError> {
        let opened = self.open(slot, login).await;
        let Err(OpenError::Target(cause)) = &opened else {
            return opened;
        };
        if !self.admin.may_be_in_the_way(cause, login) || !self.admin.release().await {
            return opened;
        }
        let opened = self.open(slot, login).await;
        if opened.is_err() {
            // In vain.
            self.prepare_to_stop(false).await;
        }
        opened
    }

    /// Whether that is no outage: its sessions have places, if not as many as there are slots, and
    /// go on with what there is to do; or the connection that stops a text has the only one.
    pub(super) fn goes_on_while_full(&self, cause: &pg_client::Error) -> bool {
        let is_used = || {
            self.slots.are_used() || Arc::strong_count(&self.ending) > 1 || self.admin.is_stopping()
        };
        cause.is_about_room() && is_used()
    }

    /// Its server has no place for one more session.
    pub(super) async fn found_full(
        &self,
        cause: pg_client::Error,
        login: &Arc<Login>,
    ) -> OpenError {
        if !self.is_full.swap(true, Ordering::Relaxed) {
            let what = "no place for one more session: lower `slots`, or raise the limit of \
                        connections above it";
            tracing::warn!(target = %self.name, error = %cause, "{what}");
        }
        // Those of another login that run nothing may have the places, unless this one has as many
        // sessions as it may.
        let of_others = |live: &Live| live.login() != login;
        if !cause.is_about_room_of_login() {
            self.close(|| self.slots.take_sessions(false, of_others));
        }
        sleep(RETRY_PAUSE).await;
        cause.into()
    }

    /// Gives the place of a session that has nothing to do to the connection that stops texts, if
    /// one is to be stopped: one session alone, and before another task of ours opens one.
    pub(crate) fn make_place(self: &Arc<Self>, slot: &mut Slot) {
        let gives = |live: &mut Box<Live>| {
            self.admin.needs_place_of(live.login())
                && !self.gives_place.swap(true, Ordering::Relaxed)
        };
        let Some(live) = slot.live.take_if(gives) else {
            return;
        };
        let ending = Arc::clone(&self.ending);
        self.slots
            .note(slot.number, |activity| activity.session = None);
        let target = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = target.give_place(*live, ending).await {
                tracing::debug!(target = %target.name, %error, "a place was given in vain");
            }
        });
    }

    /// Opens the connection that stops texts in the place of this session, which no slot has any
    /// more. `gives_place` is set, and it counts as `ending`.
    async fn give_place(&self, live: Live, ending: Arc<()>) -> Result<(), pg_client::Error> {
        self.forget(live.session.clone());
        live.close().await;
        let connected = self.admin.connect().await;
        drop(ending);
        self.gives_place.store(false, Ordering::Relaxed);
        connected
    }

    /// Whether the next place is for the connection that stops texts.
    pub(super) fn keeps_place_from(&self, login: &Login) -> bool {
        let is_given = self.gives_place.load(Ordering::Relaxed);
        self.admin.needs_place_of(login) && (is_given || self.slots.are_used())
    }

    /// Opens the connection that stops texts, when there are sessions and a place for it: a server
    /// that is full could not be asked to. `makes_place`: a session that has run nothing for a
    /// while gives its own; the last one, which the next task would use, only to stop something
    /// now.
    pub(super) async fn prepare_to_stop(&self, makes_place: bool) {
        if !self.slots.have_sessions() {
            return;
        }
        let mut connected = self.admin.connect().await;
        let ending = Arc::clone(&self.ending);
        if let Err(error) = &connected
            && makes_place
            && error.is_about_room()
            && let Some(idle) = self.slots.take_one(|live, count| {
                (count > 1 || self.admin.needs_place_of(live.login()))
                    && live.idle_for() >= IDLE_BEFORE
                    && (!error.is_about_room_of_login() || self.admin.is_of(live.login()))
                    && !self.gives_place.swap(true, Ordering::Relaxed)
            })
        {
            connected = self.give_place(idle, ending).await;
        }
        let failed = connected.is_err();
        if let Err(error) = connected
            && !self.cannot_stop.load(Ordering::Relaxed)
        {
            let what = "no connection to stop texts with: raise the limit of connections above \
                        `slots`";
            tracing::warn!(target = %self.name, %error, "{what}");
        }
        self.cannot_stop.store(failed, Ordering::Relaxed);
    }
}
