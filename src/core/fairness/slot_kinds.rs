//! The kinds of slots: how many there are of each, how many are busy, and who could use one.
//!
//! Kinds may be named by callers, so one that no executor has announced is freed when its last
//! unfinished task has ended, and its number is given to another kind.

use super::fair_queue::FairQueue;
use crate::core::{SlotCounts, Work, model::limits::FIRST_LENGTH};
use rustc_hash::FxHashMap;
use std::{
    ops::{Index, IndexMut},
    time::Duration,
};

/// Index of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NamespaceId(pub u32);

/// Index of a kind of slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KindId(u32);

/// The slots of one kind.
#[derive(Debug)]
pub(crate) struct KindSlots {
    pub work: Work,
    /// How many there are, as the executors have said.
    pub counts: SlotCounts,
    /// Tasks that have been handed out and have not ended.
    pub open: u32,
    /// Those of them that were handed out while no slot was free.
    pub lined_up: u32,
    /// Slots of the reserve held by those who took one ahead of their turn.
    pub ahead_of_turn: u32,
    /// Namespaces with a scheduler that could use a slot.
    pub(super) queue: FairQueue<NamespaceId>,
    /// How long an attempt typically lasts, microseconds.
    pub(super) length: i64,
    /// Some have ended, so that this is not a guess.
    pub(super) learned: bool,
    /// Tells this kind from an earlier one of the same number.
    pub(super) serial: u32,
    /// An executor has announced slots: status shows the kind even while there are none.
    pub announced: bool,
    /// Unfinished tasks that need a slot of this kind.
    users: u64,
}

/// All kinds of slots.
#[derive(Debug, Default)]
pub(crate) struct SlotsByKind {
    all: Vec<KindSlots>,
    by_work: FxHashMap<Work, KindId>,
    /// Numbers without a kind.
    free: Vec<KindId>,
    /// Kinds that may have lost their last user.
    unused: Vec<KindId>,
    /// Kinds made so far.
    serials: u32,
}

impl KindSlots {
    fn new(work: Work, serial: u32) -> Self {
        KindSlots {
            work,
            counts: SlotCounts::default(),
            open: 0,
            lined_up: 0,
            ahead_of_turn: 0,
            queue: FairQueue::default(),
            length: FIRST_LENGTH.as_micros() as i64,
            learned: false,
            serial,
            announced: false,
            users: 0,
        }
    }

    /// Free slots reserved for schedulers that run nothing on this kind: none below four slots,
    /// else a tenth, at least one.
    pub(crate) fn reserve(&self) -> u32 {
        match self.counts.total {
            0..4 => 0,
            total => (total / 10).max(1),
        }
    }

    /// Attempts that a scheduler that waits its turn may be owed: so long others of its namespace
    /// may have held all slots.
    /// Without a reserve one, since a newcomer would wait for what the others are owed.
    pub(super) fn owed(&self) -> u32 {
        if self.reserve() == 0 {
            1
        } else {
            self.counts.total
        }
    }

    /// For how long the next namespace has been served less than its share of these slots.
    pub(crate) fn lag(&self) -> Duration {
        self.queue.lag()
    }

    /// Slots on which something runs, by the rule of the executors
    /// ([`Line`](crate::executor::Line)): who was handed out for a slot has one, and who stood in
    /// line has what is left, but for the reserve.
    pub(crate) fn running(&self) -> u32 {
        let (open, lined_up) = self.here();
        let (total, for_slots) = (self.counts.total, open - lined_up);
        let left = total.saturating_sub(self.reserved());
        let from_line = lined_up.min(left.saturating_sub(for_slots));
        // A later owner does not know who was handed out for a slot.
        (for_slots + from_line).min(total)
    }

    /// Tasks that stand in line.
    pub(crate) fn in_line(&self) -> u32 {
        self.here().0 - self.running()
    }

    /// What is open at executors that are there, and what of it was handed out while no slot was
    /// free.
    fn here(&self) -> (u32, u32) {
        let counts = &self.counts;
        let open = self.open.saturating_sub(counts.away);
        let lined_up = self.lined_up.saturating_sub(counts.away_in_line);
        // A core that was built anew has not lined up what is away.
        (open, lined_up.min(open))
    }

    pub(crate) fn free(&self) -> u32 {
        self.counts.total.saturating_sub(self.running())
    }

    /// Whether one more task may stand in line. None may while less than the reserve is free.
    pub(super) fn has_place_in_line(&self) -> bool {
        let has_place = self.in_line() < self.counts.line && self.open < self.counts.window;
        has_place && self.free() >= self.reserved()
    }

    /// What of the reserve is not taken.
    pub(crate) fn reserved(&self) -> u32 {
        self.reserve().saturating_sub(self.ahead_of_turn)
    }

    /// Free slots for whoever is next.
    pub(crate) fn unreserved(&self) -> u32 {
        self.free().saturating_sub(self.reserved())
    }

    /// Whether what is free is for a namespace, of which those take it who run nothing: the second
    /// half of the reserve is for namespaces that run nothing.
    pub(super) fn has_reserve_for(&self, namespace_runs: bool) -> bool {
        self.free()
            > if namespace_runs {
                self.reserve() / 2
            } else {
                0
            }
    }
}

impl KindId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl SlotsByKind {
    /// The kind of slot for `work`, when there is one.
    pub(crate) fn find(&self, work: &Work) -> Option<KindId> {
        self.by_work.get(work).copied()
    }

    /// A new kind of slot, for `work`.
    pub(super) fn add(&mut self, work: &Work) -> KindId {
        self.serials = self.serials.wrapping_add(1);
        let slots = KindSlots::new(work.clone(), self.serials);
        let kind = match self.free.pop() {
            Some(kind) => {
                self[kind] = slots;
                kind
            }
            None => {
                self.all.push(slots);
                KindId(self.all.len() as u32 - 1)
            }
        };
        self.by_work.insert(work.clone(), kind);
        kind
    }

    /// Numbers of kinds given so far, free ones included.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Every kind, in the order of their numbers.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = KindId> + use<> {
        (0..self.all.len() as u32).map(KindId)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &KindSlots> {
        self.by_work.values().map(|kind| &self[*kind])
    }

    /// Executors have announced so many slots.
    pub(crate) fn announce(&mut self, kind: KindId, counts: SlotCounts) {
        let slots = &mut self[kind];
        slots.counts = counts;
        slots.announced = true;
    }

    /// So many more unfinished tasks need a slot of this kind.
    pub(crate) fn add_users(&mut self, kind: KindId, tasks: u32) {
        self[kind].users += u64::from(tasks);
    }

    /// So many of them have ended.
    pub(crate) fn remove_users(&mut self, kind: KindId, tasks: u32) {
        let slots = &mut self[kind];
        slots.users -= u64::from(tasks);
        if slots.users == 0 && !slots.announced {
            self.unused.push(kind);
        }
    }

    /// Frees the kinds that nothing uses any more. No scheduler may be listed for one.
    pub(crate) fn free_unused(&mut self) {
        while let Some(kind) = self.unused.pop() {
            let slots = &self.all[kind.index()];
            let unused = slots.users == 0 && !slots.announced;
            // One that was freed before may belong to other work by now.
            if unused && self.by_work.get(&slots.work) == Some(&kind) {
                self.by_work.remove(&slots.work);
                self.free.push(kind);
            }
        }
    }
}

impl Index<KindId> for SlotsByKind {
    type Output = KindSlots;

    fn index(&self, kind: KindId) -> &KindSlots {
        &self.all[kind.index()]
    }
}

impl IndexMut<KindId> for SlotsByKind {
    fn index_mut(&mut self, kind: KindId) -> &mut KindSlots {
        &mut self.all[kind.index()]
    }
}
