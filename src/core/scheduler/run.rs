//! How an assignment of a scheduler starts to run and how it leaves: the only ways in and out. They
//! count its tasks, take and give back its slots, and charge slot time to the fair share.

use super::{Scheduler, in_flight::InFlight};
use crate::core::{Seq, Time, fairness::fair_share::Fair};

impl Scheduler {
    /// Lets an assignment run. Of the slot time charged in advance, the part before `now` was
    /// charged to an earlier core already.
    pub(crate) fn begin(&mut self, now: Time, fair: &mut Fair, flight: InFlight) {
        let count = flight.span.count;
        self.running.tasks += count;
        if flight.in_doubt {
            self.running.in_doubt += count;
        } else {
            let ahead = flight.since.0 + flight.charged - now.0;
            fair.occupy(&mut self.share, flight.hold(), ahead);
        }
        self.running.by_first.insert(flight.span.first, flight);
    }

    /// Takes an assignment out; each of its tasks used a slot for `used` microseconds.
    pub(crate) fn leave(&mut self, fair: &mut Fair, first: Seq, used: i64) -> Option<InFlight> {
        let flight = self.running.by_first.remove(&first)?;
        let count = flight.span.count;
        self.running.tasks -= count;
        if flight.in_doubt {
            self.running.in_doubt -= count;
        } else {
            fair.vacate(&mut self.share, flight.hold(), used);
        }
        Some(flight)
    }
}
