//! What answers of the server change.

use super::{
    super::{act::Done, seen::Seen, text::Tone},
    Fault, IDENTIFY_AGAIN, INTERVAL, INTERVAL_AWAY, Link, Model,
};
use rallypoint_client::Identity;
use std::sync::Arc;

impl Model {
    pub(super) fn answered(&mut self, turn: u64, result: Result<Seen, Fault>) {
        if turn != self.turn || self.asked.is_none() {
            return;
        }
        self.asked = None;
        self.read_at = self.elapsed + INTERVAL;
        match result {
            Ok(seen) => {
                self.is_back();
                let seen = Arc::new(seen);
                if let Seen::Overview(_) = &*seen {
                    self.overview = Some(Arc::clone(&seen));
                }
                let visit = self.visit_mut();
                visit.seen = Some(seen);
                visit.is_awaited = false;
                visit.fault = None;
            }
            // What was read before is still worth a look.
            Err(fault) if fault.is_away => {
                self.read_at = self.elapsed + INTERVAL_AWAY;
                self.link = Link::Away(fault.text);
            }
            Err(fault) => {
                self.is_back();
                self.read_at = self.elapsed + INTERVAL_AWAY;
                self.visit_mut().fault = Some(fault.text);
            }
        }
    }

    /// The server answers.
    fn is_back(&mut self) {
        if matches!(self.link, Link::Away(_)) {
            self.say("the server is back", Tone::Good);
            self.identify_at = self.elapsed;
        }
        self.link = Link::Live;
    }

    pub(super) fn acted(&mut self, result: Result<Done, String>) {
        let begun = self.acting.take().map(|acting| acting.place);
        let is_there = self.is_browsing() && begun.as_ref() == Some(&self.visit().place);
        match result {
            Ok(done) => {
                self.say(done.text, Tone::Good);
                match done.place {
                    // One goes where it leads, unless one has gone elsewhere meanwhile.
                    Some(place) if is_there => self.go(place),
                    _ => self.read_now(),
                }
            }
            Err(text) => {
                self.say(text, Tone::Bad);
                self.read_now();
            }
        }
    }

    pub(super) fn identified(&mut self, result: Result<Option<Identity>, Fault>) {
        match result {
            Ok(identity) => self.identity = Some(identity),
            Err(_) => self.identify_at = self.elapsed + IDENTIFY_AGAIN,
        }
    }
}
