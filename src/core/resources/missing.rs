//! What a grant has left missing of a resource whose permits come back by time.

use crate::core::{ClaimNo, Refill, Time, Token};
use std::time::Duration;

/// Millionths of permits, in which is counted what is missing.
pub(super) const PARTS: u64 = 1_000_000;

/// What was missing after the last grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    /// Millionths of permits.
    pub parts: u64,
    /// When the grant was made.
    pub at: Time,
    /// The grant.
    pub by: (Token, ClaimNo),
}

impl Missing {
    /// Millionths of permits that are missing now: never less than the rate allows.
    pub(crate) fn now(&self, now: Time, refill: Refill) -> u64 {
        let elapsed = now.since(self.at).as_micros();
        let per_permit = refill.period.as_micros().max(1);
        let back = elapsed * u128::from(refill.permits) * u128::from(PARTS) / per_permit;
        self.parts
            .saturating_sub(back.try_into().unwrap_or(u64::MAX))
    }

    /// When so little will be missing.
    pub(crate) fn less_at(&self, parts: u64, refill: Refill) -> Time {
        let back = u128::from(self.parts.saturating_sub(parts));
        let rate = u128::from(refill.permits.max(1)) * u128::from(PARTS);
        let micros = (back * refill.period.as_micros()).div_ceil(rate);
        self.at + Duration::from_micros(micros.try_into().unwrap_or(u64::MAX))
    }
}
