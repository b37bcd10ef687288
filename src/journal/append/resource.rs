//! Rows of `resource`, `claim` and `claim_checkpoint`: images of definitions, a row for each record
//! of a claim, and what a recovery needs.

use super::{
    columns::{OrNull, columns},
    multirange::Multiranges,
};
use crate::core::{ClaimEvent, ClaimRecord, ClaimsCheckpoint, ResourceImage, ResourceKey};
use crate::journal::{
    encoding::{Blobs, Stamp},
    rows::settings,
};
use bytes::Bytes;
use serde::Serialize;
use sqlx::error::BoxDynError;
use std::collections::BTreeMap;

/// What the insert does with a resource that has a row.
pub(super) const ON_RESOURCE_CONFLICT: &str = "
on conflict on constraint resource_pkey do update
set settings = excluded.settings,
    created_at = excluded.created_at,
    changed_at = excluded.changed_at,
    changed_by = excluded.changed_by,
    deleted = excluded.deleted";

/// What it does with the last checkpoint.
pub(super) const ON_CHECKPOINT_CONFLICT: &str = "
on conflict on constraint claim_checkpoint_pkey do update
set last_claim = excluded.last_claim,
    token = excluded.token,
    needed = excluded.needed";

columns! {
    /// Definitions.
    pub(super) struct Definitions of "resource" {
        namespace: Blobs,
        name: Blobs,
        settings: Blobs,
        created_at: Vec<Stamp>,
        changed_at: Vec<Stamp>,
        changed_by: Blobs,
        deleted: Vec<bool>,
    }
}

columns! {
    /// What happened to claims.
    pub(super) struct Claims of "claim" {
        claim_no: Vec<i64>,
        kind: Vec<i16>,
        at: Vec<Stamp>,
        spec: Blobs,
        token: OrNull,
        taken: Blobs,
        ended: Vec<Option<i16>>,
        free_at: Vec<Option<Stamp>>,
        ended_by: Blobs,
        reason: Blobs,
    }
}

columns! {
    /// The checkpoint.
    pub(super) struct Checkpoints of "claim_checkpoint" {
        last_claim: Vec<i64>,
        token: Vec<i64>,
        needed: Multiranges,
    }
}

impl Definitions {
    /// Adds a row for each image.
    pub(super) fn fill(
        &mut self,
        images: &BTreeMap<ResourceKey, ResourceImage>,
    ) -> Result<(), BoxDynError> {
        for (key, image) in images {
            self.namespace.row(Some(text(&key.namespace.0)));
            self.name.row(Some(text(&key.name)));
            let settings = settings::with_unknown(&image.settings, image.unknown.as_deref())?;
            self.settings.row(Some(settings.into()));
            self.created_at.push(Stamp(image.created_at));
            self.changed_at.push(Stamp(image.changed_at));
            self.changed_by.row(Some(text(&image.changed_by)));
            self.deleted.push(image.deleted);
        }
        Ok(())
    }
}

impl Claims {
    /// Adds a row for each record.
    pub(super) fn fill(&mut self, records: &[ClaimRecord]) -> Result<(), BoxDynError> {
        for ClaimRecord { no, at, what } in records {
            let (spec, grant, ending) = match what {
                ClaimEvent::Requested(spec) => (Some(spec), None, None),
                ClaimEvent::Granted { token, spec, taken } => {
                    (spec.as_ref(), Some((token.0, taken)), None)
                }
                ClaimEvent::Ended(ending) => (None, None, Some(ending)),
            };
            self.claim_no.push(no.0);
            self.kind.push(what.number());
            self.at.push(Stamp(*at));
            self.spec.row(spec.map(json).transpose()?);
            self.token.0.push(grant.map_or(-1, |(token, _)| token));
            let taken = grant.map(|(_, taken)| taken);
            let taken = taken.filter(|taken| !taken.is_empty());
            self.taken.row(taken.map(json).transpose()?);
            self.ended.push(ending.map(|ending| ending.how.number()));
            self.free_at
                .push(ending.map(|ending| Stamp(ending.free_at)));
            let operator = ending.filter(|ending| !ending.by.is_empty());
            self.ended_by.row(operator.map(|ending| text(&ending.by)));
            self.reason.row(operator.map(|ending| text(&ending.reason)));
        }
        Ok(())
    }
}

impl Checkpoints {
    /// Adds the row.
    pub(super) fn fill(&mut self, checkpoint: &ClaimsCheckpoint) {
        self.last_claim.push(checkpoint.last.0);
        self.token.push(checkpoint.token.0);
        let needed = checkpoint.needed.iter();
        self.needed
            .push(needed.map(|(first, last)| (first.0, last.0)));
    }
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn json(value: &impl Serialize) -> Result<Bytes, BoxDynError> {
    Ok(serde_json::to_vec(value)?.into())
}
