//! Who stops a backend, or asks about it, on a server that may have no place for that: then others
//! give theirs.

use crate::executor::pg_client::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Stops(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    under_way: u32,
    /// What one of them lacks.
    lacking: Option<Place>,
}

/// A connection that the server has no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Of any login.
    Any,
    /// Of this login, whatever others have.
    OfLogin,
}

/// Somebody asks about a backend, for as long as this lives.
pub(crate) struct Stopping<'a> {
    stops: &'a Stops,
    counts: bool,
}

impl Stops {
    pub(crate) fn begin(&self) -> Stopping<'_> {
        let mut stopping = Stopping {
            stops: self,
            counts: false,
        };
        stopping.set(true);
        stopping
    }

    pub(crate) fn are_under_way(&self) -> bool {
        self.state().under_way > 0
    }

    /// The connection with which they ask could not be used. Said while nobody else uses it, so
    /// that a place found later is not taken for one found before.
    pub(crate) fn failed(&self, error: &Error) {
        let place = match error.is_about_room_of_login() {
            true => Place::OfLogin,
            false => Place::Any,
        };
        let mut state = self.state();
        let lacks = state.under_way > 0 && error.is_about_room();
        state.lacking = lacks.then_some(place);
    }

    /// They have a connection. Returns whether they lacked one.
    pub(crate) fn have_place(&self) -> bool {
        self.state().lacking.take().is_some()
    }

    pub(crate) fn lack_place(&self) -> Option<Place> {
        self.state().lacking
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stopping<'_> {
    /// Whether a connection is what it waits for.
    pub(crate) fn set(&mut self, counts: bool) {
        let mut state = self.stops.state();
        match (self.counts, counts) {
            (false, true) => state.under_way += 1,
            (true, false) => state.under_way -= 1,
            _ => {}
        }
        self.counts = counts;
        if state.under_way == 0 {
            state.lacking = None;
        }
    }
}

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}
