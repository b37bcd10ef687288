//! A request for runs of due times in the past.

use super::name;
use crate::{
    core::Time,
    rpc::{
        errors::{
            reason::Reason,
            violations::{Path, Violations},
        },
        validate::scalar,
    },
};
use rallypoint_client::api;
use std::sync::Arc;

/// A validated BackfillJobRequest.
pub(crate) struct BackfillRange {
    pub name: Arc<str>,
    pub from: Time,
    /// Due times before; `None`: before now.
    pub until: Option<Time>,
}

/// The job, and between which times.
pub(crate) fn backfill(request: &api::BackfillJobRequest) -> Result<BackfillRange, Violations> {
    let mut v = Violations::default();
    let name = name(&mut v, &request.name);
    let path = Path::Root.field("from");
    let from = match &request.from {
        Some(from) => scalar::time(&mut v, path, from),
        None => {
            v.add(path, Reason::JobInvalid, "missing: say from when on");
            None
        }
    };
    let path = Path::Root.field("until");
    let until = request.until.as_ref();
    let until = until.and_then(|until| scalar::time(&mut v, path, until));
    if from.zip(until).is_some_and(|(from, until)| from >= until) {
        v.add(path, Reason::JobInvalid, "must be later than `from`");
    }
    v.into_result(BackfillRange {
        name,
        from: from.unwrap_or_default(),
        until,
    })
}
