//! Decodes rows of `resource` and `claim`.

use crate::core::{
    ClaimEnd, ClaimEnding, ClaimNo, ClaimSpec, Namespace, RecoveredClaim, ResourceImage,
    ResourceKey, Taken, Token,
};
use crate::journal::{
    JournalError,
    encoding::Stamp,
    rows::{cautious_claim, from_row, settings},
};
use std::sync::Arc;

/// A definition.
#[derive(Debug)]
pub(crate) struct ResourceRow {
    namespace: Vec<u8>,
    name: Vec<u8>,
    settings: Vec<u8>,
    created_at: Stamp,
    changed_at: Stamp,
    changed_by: Vec<u8>,
    deleted: bool,
}

from_row!(ResourceRow {
    namespace,
    name,
    settings,
    created_at,
    changed_at,
    changed_by,
    deleted
});

/// One record of a claim.
#[derive(Debug)]
pub(crate) struct ClaimRow {
    pub claim_no: i64,
    at: Stamp,
    spec: Option<Vec<u8>>,
    pub token: Option<i64>,
    taken: Option<Vec<u8>>,
    ended: Option<i16>,
    free_at: Option<Stamp>,
    ended_by: Option<Vec<u8>>,
    reason: Option<Vec<u8>>,
}

from_row!(ClaimRow {
    claim_no,
    at,
    spec,
    token,
    taken,
    ended,
    free_at,
    ended_by,
    reason
});

impl ResourceRow {
    /// The definition. One that makes no sense is closed: nothing is granted.
    pub(crate) fn image(&self) -> ResourceImage {
        let settings = settings::known_and_unknown(&self.settings);
        let (settings, unknown) = settings.unwrap_or_else(|error| {
            tracing::error!(
                resource = %text(&self.name),
                %error,
                "the settings of this resource make no sense to this version: nothing of it is \
                 granted until it is updated"
            );
            (cautious_claim::closed(), None)
        });
        let key = ResourceKey {
            namespace: Namespace(text(&self.namespace)),
            name: text(&self.name),
        };
        ResourceImage {
            key,
            settings,
            unknown,
            created_at: self.created_at.0,
            changed_at: self.changed_at.0,
            changed_by: text(&self.changed_by),
            deleted: self.deleted,
        }
    }
}

impl ClaimRow {
    /// Adds what the row says to the claim that its earlier rows have made; `None`: it is the
    /// first.
    pub(crate) fn add_to(
        &self,
        claim: Option<RecoveredClaim>,
    ) -> Result<RecoveredClaim, JournalError> {
        let no = self.claim_no;
        let mut claim = match (claim, &self.spec) {
            (Some(claim), _) => claim,
            (None, Some(spec)) => RecoveredClaim::first(ClaimNo(no), self.spec(spec)?, self.at.0),
            (None, None) => {
                let what = format!("claim {no} does not say what it asks for");
                return Err(JournalError::corrupt(what));
            }
        };
        if let Some(token) = self.token {
            claim.granted = Some((Token(token), self.at.0));
            claim.taken = self.taken()?;
        }
        if let Some(number) = self.ended {
            let known = ClaimEnd::ALL.into_iter().find(|how| how.number() == number);
            // However a newer version has ended it: it is over.
            let how = known.unwrap_or(ClaimEnd::Released);
            let of = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(text).unwrap_or_default();
            let ending = ClaimEnding {
                how,
                free_at: self.free_at.map_or(self.at.0, |at| at.0),
                by: of(&self.ended_by),
                reason: of(&self.reason),
            };
            claim.ended = Some((self.at.0, Arc::new(ending)));
        }
        Ok(claim)
    }

    /// The same for a new owner, who gives nobody else what a row may be about that makes no sense
    /// to this version. `None`: nobody can say what that is.
    pub(crate) fn add_cautiously(&self, claim: Option<RecoveredClaim>) -> Option<RecoveredClaim> {
        let earlier = claim.clone();
        let error = match self.add_to(claim) {
            Ok(claim) => return Some(claim),
            Err(error) => error,
        };
        let no = self.claim_no;
        let spec = self.spec.as_deref().and_then(cautious_claim::claim);
        let named = spec.map(|spec| RecoveredClaim::first(ClaimNo(no), Arc::new(spec), self.at.0));
        let Some(mut claim) = earlier.or(named) else {
            tracing::error!(
                claim = no, %error,
                "this claim makes no sense to this version, and does not say what it is about: \
                 what it held is free"
            );
            return None;
        };
        tracing::error!(
            claim = no, %error,
            "this claim makes no sense to this version: nobody else gets what it names while it \
             is renewed; `rallypoint resource release --force` ends it"
        );
        if let Some(token) = self.token {
            claim.granted = Some((Token(token), self.at.0));
        }
        Some(claim)
    }

    fn taken(&self) -> Result<Vec<Taken>, JournalError> {
        let taken = self.taken.as_deref().map(serde_json::from_slice);
        let no = self.claim_no;
        (taken.transpose())
            .map(Option::unwrap_or_default)
            .map_err(|error| JournalError::corrupt(format!("claim {no}: {error}")))
    }

    fn spec(&self, spec: &[u8]) -> Result<Arc<ClaimSpec>, JournalError> {
        let no = self.claim_no;
        let spec = serde_json::from_slice(spec);
        spec.map(Arc::new)
            .map_err(|error| JournalError::corrupt(format!("claim {no}: {error}")))
    }
}

fn text(bytes: &[u8]) -> Arc<str> {
    Arc::from(String::from_utf8_lossy(bytes))
}
