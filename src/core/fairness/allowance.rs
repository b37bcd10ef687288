//! Whether the limits of a namespace admit what is about to start.
//!
//! A run of a job is decided first, and its scheduler is opened later in the same batch. What was
//! promised to it is held until then, so that the last room is promised once.

use super::{
    fair_share::Fair,
    quota::{Over, Promise, Quotas, Usage},
};
use crate::core::{Namespace, Time, model::limits::Limits};

/// The limits, and what namespaces hold of what is limited.
pub(crate) struct Allowance<'a> {
    pub limits: &'a Limits,
    pub quotas: &'a mut Quotas,
    pub fair: &'a mut Fair,
}

impl Allowance<'_> {
    /// Holds room for one more scheduler with these tasks, if the limits admit that now.
    pub(crate) fn promise(
        &mut self,
        now: Time,
        namespace: &Namespace,
        load: Usage,
    ) -> Result<Promise, Over> {
        let namespace = self.fair.namespace(namespace);
        self.quotas.may_open(namespace, self.limits)?;
        self.quotas.may_submit(now, namespace, load, self.limits)?;
        let promise = Promise { namespace, load };
        self.quotas.promise(promise);
        Ok(promise)
    }
}
