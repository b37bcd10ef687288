//! A claim in memory.

use crate::core::{
    RunClaim, Time,
    model::steady::{Pace, Steady},
};

/// A claim that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct OpenClaim {
    pub image: RunClaim,
    /// When it was given or renewed last.
    pub renewed_at: Steady,
}

impl OpenClaim {
    /// Until when it is kept, if the time of the service runs as fast as time passes. `since`:
    /// leases count from then at the earliest.
    pub(super) fn lease_until(&self, pace: &Pace, since: Steady) -> Time {
        pace.time(self.renewed_at.max(since) + self.image.lease)
    }
}
