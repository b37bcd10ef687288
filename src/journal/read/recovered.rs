//! What a recovery has read, scheduler by scheduler. One of which a row makes no sense to this
//! version is set aside, so that it keeps nobody else from being recovered.

use crate::core::{
    Handle, Namespace, RecoveredJobs, RecoveredResources, RecoveredScheduler, SchedulerImage,
    SchedulerState, TargetPause, Time,
};
use crate::journal::JournalError;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use uuid::Uuid;

/// What a new owner starts from.
#[derive(Debug, Default)]
pub struct Recovered {
    /// All schedulers that are not both released and finished, by handle.
    pub schedulers: Vec<RecoveredScheduler>,
    /// Those that were set aside.
    pub unreadable: Vec<Unreadable>,
    /// Those among them whose rows do not say so yet, since somebody has them locked.
    pub unnoted: Vec<Handle>,
    /// Pauses of targets that are in force.
    pub pauses: Vec<TargetPause>,
    /// Resources, and claims that are open or remembered.
    pub resources: RecoveredResources,
    /// Jobs, and runs that are not over.
    pub jobs: RecoveredJobs,
}

/// A scheduler that cannot be recovered by this version. Its rows stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub handle: Handle,
    /// Whose it is.
    pub namespace: Namespace,
    /// The id of the call that opened it, and when.
    pub opened: Option<(Uuid, Time)>,
    /// Its name, unless it is released.
    pub name: Option<Arc<str>>,
    pub why: String,
}

impl Unreadable {
    fn of(image: &SchedulerImage) -> Unreadable {
        let name = image.name.clone();
        Unreadable {
            handle: image.handle,
            namespace: image.namespace.clone(),
            opened: image.request.map(|request| (request.id, image.opened_at)),
            name: name.filter(|_| image.state == SchedulerState::Open),
            why: String::new(),
        }
    }
}

/// The schedulers read so far.
#[derive(Default)]
pub(super) struct Schedulers {
    schedulers: Vec<RecoveredScheduler>,
    indexes: HashMap<Uuid, usize>,
    unreadable: BTreeMap<Uuid, Unreadable>,
}

impl Schedulers {
    /// Takes a scheduler in, or sets it aside.
    pub(super) fn insert(
        &mut self,
        aside: Unreadable,
        was_set_aside: bool,
        image: Result<SchedulerImage, JournalError>,
    ) -> Result<(), JournalError> {
        let image = match image {
            Err(JournalError::Corrupt(why)) => {
                self.put_aside(aside, why);
                return Ok(());
            }
            image => image?,
        };
        let handle = image.handle.uuid();
        self.indexes.insert(handle, self.schedulers.len());
        self.schedulers.push(RecoveredScheduler {
            image,
            was_set_aside,
            runs: Vec::new(),
            outcomes: Vec::new(),
            copies: Vec::new(),
            attempts: Vec::new(),
            requests: Vec::new(),
        });
        Ok(())
    }

    /// Adds what a row says to its scheduler. Rows of others are passed over.
    pub(super) fn add(
        &mut self,
        handle: Uuid,
        add: impl FnOnce(&mut RecoveredScheduler) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let Some(index) = self.indexes.get(&handle) else {
            return Ok(());
        };
        let scheduler = &mut self.schedulers[*index];
        match add(scheduler) {
            Err(JournalError::Corrupt(why)) => {
                let aside = Unreadable::of(&scheduler.image);
                self.put_aside(aside, why);
                Ok(())
            }
            added => added,
        }
    }

    /// Those that are set aside.
    pub(super) fn set_aside(&self) -> Vec<Uuid> {
        self.unreadable.keys().copied().collect()
    }

    pub(super) fn finish(mut self) -> Recovered {
        let is_whole =
            |one: &RecoveredScheduler| !self.unreadable.contains_key(&one.image.handle.uuid());
        self.schedulers.retain(is_whole);
        Recovered {
            schedulers: self.schedulers,
            unreadable: self.unreadable.into_values().collect(),
            ..Recovered::default()
        }
    }

    fn put_aside(&mut self, aside: Unreadable, why: String) {
        let unreadable = Unreadable { why, ..aside };
        let handle = unreadable.handle.uuid();
        self.unreadable.entry(handle).or_insert(unreadable);
    }
}
