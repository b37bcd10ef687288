//! How an assignment of a scheduler starts to run and how it leaves: the only ways in and out. They
//! count its tasks, take and give back its slots, and charge slot time to the fair share.

use super::{Scheduler, in_flight::InFlight};
use crate::core::{Seq, Time, fairness::fair_share::Fair};
use std::time::Duration;

/// What an assignment has used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Used {
    /// Each of its tasks had a slot for so long.
    Slot(Duration),
    /// It stood in line for so long, and has not begun.
    Nothing { waited: Duration },
}

impl Scheduler {
    /// Lets an assignment run. Slot time before `now` was charged by an earlier core.
    pub(crate) fn begin(&mut self, now: Time, fair: &mut Fair, mut flight: InFlight) {
        let count = flight.span.count;
        self.running.tasks += count;
        if flight.in_doubt {
            self.running.in_doubt += count;
        } else {
            flight.charged_earlier = now.0 - flight.since.0;
            fair.occupy(&mut self.share, flight.hold());
        }
        self.running.by_first.insert(flight.span.first, flight);
    }

    /// Takes an assignment out; what it says it has `used` it has, unless it is in doubt.
    pub(crate) fn leave(&mut self, fair: &mut Fair, first: Seq, used: Used) -> Option<InFlight> {
        let flight = self.running.by_first.remove(&first)?;
        let count = flight.span.count;
        self.running.tasks -= count;
        if flight.in_doubt {
            self.running.in_doubt -= count;
        } else {
            let (share, hold) = (&mut self.share, flight.hold());
            match used {
                Used::Slot(time) => fair.vacate(share, hold, (time.as_micros() as i64).max(1)),
                Used::Nothing { waited } => fair.withdraw(share, hold, waited.as_micros() as i64),
            }
        }
        Some(flight)
    }
}
