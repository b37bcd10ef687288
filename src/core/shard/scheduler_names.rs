//! Names of open schedulers. In a namespace a name belongs to one open scheduler at a time: from
//! the call that opens it to its release, whoever releases it and whatever is left to run.
//!
//! Nothing of this has a record of its own: a name is in the row of its scheduler and counts while
//! that is open. Callers choose names, so they are hashed with a key that nobody knows.

use crate::core::{
    Handle, Naming, Reject, Reply, SchedulerImage, SchedulerState, Shard, Turn,
    fairness::slot_kinds::NamespaceId,
};
use std::{collections::HashMap, sync::Arc};

/// Which open scheduler has a name.
#[derive(Debug, Default)]
pub(crate) struct SchedulerNames(HashMap<(NamespaceId, Arc<str>), Handle>);

impl SchedulerNames {
    /// The open scheduler of this name.
    pub(crate) fn holder(&self, namespace: NamespaceId, name: &Arc<str>) -> Option<Handle> {
        self.0.get(&(namespace, name.clone())).copied()
    }

    /// A scheduler is open: from now on it has its name, if it was given one.
    pub(crate) fn hold(&mut self, namespace: NamespaceId, image: &SchedulerImage) {
        if let Some(name) = &image.name
            && image.state == SchedulerState::Open
        {
            self.0.insert((namespace, name.clone()), image.handle);
        }
    }

    /// A scheduler is open no more: another one may have its name.
    pub(crate) fn free(&mut self, namespace: NamespaceId, image: &SchedulerImage) {
        if let Some(name) = &image.name {
            self.0.remove(&(namespace, name.clone()));
        }
    }

    /// All of them, in no particular sequence.
    pub(crate) fn all(&self) -> impl Iterator<Item = (NamespaceId, &Arc<str>, Handle)> {
        let each = self.0.iter();
        each.map(|((namespace, name), handle)| (*namespace, name, *handle))
    }
}

impl Shard {
    /// The reply to a call that opens a scheduler under a name which an open one has. Finding that
    /// one uses it, like any call.
    pub(crate) fn find_by_name(
        &mut self,
        turn: &mut Turn,
        namespace: NamespaceId,
        naming: &Naming,
    ) -> Option<Reply> {
        let holder = self.names.holder(namespace, &naming.name)?;
        if !naming.reuse {
            return Some(Reply::Rejected(Reject::NameTaken { holder }));
        }
        self.note_call();
        let scheduler = self.schedulers.expect_mut(holder);
        scheduler.last_activity = turn.now;
        Some(Reply::Found(Box::new(scheduler.view())))
    }
}
