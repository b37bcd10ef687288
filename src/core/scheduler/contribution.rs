//! What the shard's totals hold of a scheduler, so that they can be corrected by the difference.

use super::startable::Startable;
use crate::core::{Counts, Time, Waiting, fairness::slot_kinds::KindId};

/// What of a scheduler is in the totals.
#[derive(Debug)]
pub(crate) struct Contribution {
    pub counts: Counts,
    pub waits: Waiting,
    /// Tasks that would start if there were slots, by kind of slot.
    pub startable: Vec<(KindId, Startable)>,
    pub lives: bool,
    /// Its time in `oldest`; `Time::NEVER`: it is not there.
    pub oldest: Time,
}

impl Default for Contribution {
    fn default() -> Self {
        Contribution {
            counts: Counts::default(),
            waits: Waiting::default(),
            startable: Vec::new(),
            lives: false,
            oldest: Time::NEVER,
        }
    }
}
