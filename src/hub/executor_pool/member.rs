//! One executor in the pool: its slots, how many of them are busy, and how much of what it was
//! given is not durably over. Busy slots are those of what has not ended.

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
    /// How many tasks may stand in line for each of them.
    pub line_per_slot: u32,
    pub busy: BTreeMap<Work, u32>,
    /// What it was given and keeps, because the end of it is not durable.
    pub held: BTreeMap<Work, u32>,
}

impl Member {
    pub(crate) fn new(host: Host, local: bool, snapshot: &Snapshot) -> Self {
        Member {
            host,
            local,
            reachable: true,
            slots: snapshot.slots.iter().cloned().collect(),
            begun_per_slot: snapshot.begun_per_slot.max(1),
            line_per_slot: snapshot.line_per_slot,
            busy: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// Its free slots, and those with its free places in line; `None`: there is no room, or it has
    /// begun as much as its slots count for in the register. An executor that is lost leaves no
    /// more in doubt than its row says, whatever the others have room for.
    pub(crate) fn room(&self, work: &Work) -> Option<(u32, u32)> {
        let total = self.total(work);
        let (busy, held) = (count(&self.busy, work), count(&self.held, work));
        let places = total.saturating_add(total.saturating_mul(self.line_per_slot));
        let room = places.saturating_sub(busy);
        let has_room = room > 0 && held < total.saturating_mul(self.begun_per_slot);
        (has_room && self.reachable).then(|| (total.saturating_sub(busy), room))
    }

    /// What its slots count for in the register beyond what runs on them and stands in line for
    /// them.
    pub(crate) fn spare(&self, work: &Work) -> u32 {
        let in_hand = self.line_per_slot.saturating_add(1);
        let spare = self.begun_per_slot.saturating_sub(in_hand);
        self.total(work).saturating_mul(spare)
    }

    /// All its slots.
    pub(crate) fn total(&self, work: &Work) -> u32 {
        count(&self.slots, work)
    }

    /// It is given a task, or said to have one. `runs`: its end is not known yet.
    pub(crate) fn hold(&mut self, work: &Work, runs: bool) {
        add(&mut self.held, work);
        if runs {
            add(&mut self.busy, work);
        }
    }

    /// A task has ended on it.
    pub(crate) fn vacate(&mut self, work: &Work) {
        remove(&mut self.busy, work);
    }

    /// The end of a task is durable, or the task is somebody else's.
    pub(crate) fn release(&mut self, work: &Work) {
        remove(&mut self.held, work);
    }
}

fn count(of: &BTreeMap<Work, u32>, work: &Work) -> u32 {
    of.get(work).copied().unwrap_or(0)
}

fn add(to: &mut BTreeMap<Work, u32>, work: &Work) {
    match to.get_mut(work) {
        Some(count) => *count += 1,
        None => drop(to.insert(work.clone(), 1)),
    }
}

fn remove(from: &mut BTreeMap<Work, u32>, work: &Work) {
    if let Some(count) = from.get_mut(work) {
        *count = count.saturating_sub(1);
    }
}
