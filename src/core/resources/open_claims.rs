//! How many claims of a namespace are open, and how much they say: both are limited.

use crate::core::{
    ClaimSpec, Reject,
    model::limits::{LIMIT_WAIT, Limit, Limits},
};

/// The open claims of one namespace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenClaims {
    claims: usize,
    bytes: usize,
}

impl OpenClaims {
    pub(super) fn add(&mut self, spec: &ClaimSpec) {
        self.claims += 1;
        self.bytes += spec.bytes();
    }

    pub(super) fn remove(&mut self, spec: &ClaimSpec) {
        self.claims -= 1;
        self.bytes -= spec.bytes();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.claims == 0
    }

    /// Refused when this claim is too much beside them.
    pub(super) fn check_room(&self, spec: &ClaimSpec, limits: &Limits) -> Result<(), Reject> {
        let (limit, value) = if self.claims >= limits.open_claims {
            (Limit::OpenClaims, limits.open_claims)
        } else if self.bytes + spec.bytes() > limits.claim_bytes {
            (Limit::ClaimBytes, limits.claim_bytes)
        } else {
            return Ok(());
        };
        Err(Reject::LimitReached {
            limit,
            namespace: spec.namespace.clone(),
            value: value as i64,
            wait: Some(LIMIT_WAIT),
        })
    }
}
