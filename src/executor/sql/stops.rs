//! Who stops a backend, or asks about it, on a server that may have no place for that: then others
//! give theirs.

use crate::executor::pg_client::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Stops(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    under_way: u32,
    /// Why the last one of them could not ask.
    failed: Option<Lack>,
}

/// What somebody lacks who could not ask.
#[derive(Clone, Copy, Debug)]
enum Lack {
    Place(Place),
    /// Whatever else the target has said, if it has said anything.
    Answer,
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

    /// One of them could not ask.
    pub(crate) fn failed(&self, error: &Error) {
        self.state().failed = Some(match error.is_about_room() {
            true if error.is_about_room_of_login() => Lack::Place(Place::OfLogin),
            true => Lack::Place(Place::Any),
            false => Lack::Answer,
        });
    }

    /// The target can be asked. Returns whether one of them could not before.
    pub(crate) fn can_ask(&self) -> bool {
        self.state().failed.take().is_some()
    }

    pub(crate) fn lack_place(&self) -> Option<Place> {
        match self.state().failed {
            Some(Lack::Place(place)) => Some(place),
            _ => None,
        }
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
            state.failed = None;
        }
    }
}

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}
