//! What of resources must survive a crash: see the digest of the shard.

use super::Resources;
use crate::core::{ClaimNo, ClaimSpec, ClaimState, ResourceImage, ResourceKey, Time, Token};
use std::{collections::BTreeMap, sync::Arc};

/// Everything about resources that a crash must not change. Out, because a recovery may change it:
/// leases, which begin anew; ended claims that are only remembered; how long holds last.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourcesDigest {
    /// All definitions.
    pub definitions: Vec<ResourceImage>,
    /// Claims that are open or keep others out.
    pub claims: BTreeMap<ClaimNo, (Arc<ClaimSpec>, Time, ClaimState)>,
    /// Where permits come back by time: what was missing of them after the last grant, and when
    /// that was.
    pub missing: BTreeMap<ResourceKey, (u64, Time)>,
    /// The last claim on record.
    pub last: ClaimNo,
    /// The highest token.
    pub token: Token,
}

impl Resources {
    pub(crate) fn digest(&self, now: Time) -> ResourcesDigest {
        let definitions = self.definitions.all().map(|one| one.image.clone());
        let claims = self.claims.iter().filter(|(_, claim)| {
            claim.is_open() || claim.free_at().is_some_and(|free_at| free_at > now)
        });
        let claims = claims.map(|(no, claim)| {
            let known = (claim.spec.clone(), claim.requested_at, claim.state.clone());
            (*no, known)
        });
        ResourcesDigest {
            definitions: definitions.collect(),
            claims: claims.collect(),
            missing: self.missing(now),
            last: self.recorded,
            token: self.token,
        }
    }
}
