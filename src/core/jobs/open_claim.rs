//! A claim in memory.

use crate::core::{RunClaim, Time};

/// A claim that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct OpenClaim {
    pub image: RunClaim,
    /// When it was given or renewed last.
    pub renewed_at: Time,
}

impl OpenClaim {
    /// Until when it is kept. `since`: leases count from then at the earliest.
    pub(super) fn lease_until(&self, since: Time) -> Time {
        self.renewed_at.max(since) + self.image.lease
    }
}
