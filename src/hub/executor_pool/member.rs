//! One executor in the pool: its slots, and how many of them are busy. Busy slots are those of what
//! it was given and is not over.

use crate::{
    core::Work,
    executor_protocol::{Host, Snapshot},
};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Member {
    pub host: Host,
    /// It runs in this process.
    pub local: bool,
    /// It takes what it is sent.
    pub reachable: bool,
    pub slots: BTreeMap<Work, u32>,
    /// How many tasks each of them counts for in the register.
    pub begun_per_slot: u32,
    pub busy: BTreeMap<Work, u32>,
}

impl Member {
    pub(crate) fn new(host: Host, local: bool, snapshot: &Snapshot) -> Self {
        Member {
            host,
            local,
            reachable: true,
            slots: snapshot.slots.iter().cloned().collect(),
            begun_per_slot: snapshot.begun_per_slot.max(1),
            busy: BTreeMap::new(),
        }
    }

    /// Its free slots; `None`: there are none.
    pub(crate) fn free(&self, work: &Work) -> Option<u32> {
        if !self.reachable {
            return None;
        }
        let busy = self.busy.get(work).copied().unwrap_or(0);
        self.slots
            .get(work)
            .and_then(|total| total.checked_sub(busy))
            .filter(|free| *free > 0)
    }

    pub(crate) fn occupy(&mut self, work: &Work) {
        match self.busy.get_mut(work) {
            Some(busy) => *busy += 1,
            None => drop(self.busy.insert(work.clone(), 1)),
        }
    }

    pub(crate) fn vacate(&mut self, work: &Work) {
        if let Some(busy) = self.busy.get_mut(work) {
            *busy = busy.saturating_sub(1);
        }
    }
}
