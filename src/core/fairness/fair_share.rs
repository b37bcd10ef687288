//! Who gets the next free slot: fairness in executor time, on two levels.
//!
//! For each kind of slot the namespaces wait in one queue, and the schedulers of each namespace in
//! another (`fair_queue.rs`). An attempt is charged in advance as long as its scheduler's attempts
//! typically last, then as it goes on, and the difference when it ends. A part of each kind's slots
//! is a reserve for those that run nothing there yet.

mod line;

use super::{
    fair_queue::{Charge, FairQueue, Flow},
    slot_kinds::{KindId, NamespaceId, SlotsByKind},
};
use crate::core::{
    Handle, Namespace, Share, Work,
    model::limits::{FIRST_LENGTH, MAX_DEBT},
};
use rustc_hash::FxHashMap;
use std::time::Duration;

/// A scheduler's place in the fair share.
#[derive(Debug)]
pub(crate) struct FairShare {
    pub handle: Handle,
    pub namespace: NamespaceId,
    weight: f64,
    entries: Vec<Entry>,
}

/// A scheduler on one kind of slot.
#[derive(Debug)]
struct Entry {
    kind: KindId,
    serial: u32,
    flow: Flow,
}

/// A namespace on one kind of slot.
#[derive(Debug)]
struct Member {
    flow: Flow,
    /// Its schedulers that could use a slot.
    queue: FairQueue<Handle>,
}

/// All slots and shares of a shard.
#[derive(Debug, Default)]
pub(crate) struct Fair {
    pub slots: SlotsByKind,
    /// By namespace, then by kind.
    members: Vec<Vec<Member>>,
    names: FxHashMap<Namespace, NamespaceId>,
}

/// What a scheduler may take now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub handle: Handle,
    pub slots: u32,
    /// From the reserve, while others are next.
    pub ahead_of_turn: bool,
    /// No slot is free: it stands in line for the next one.
    pub in_line: bool,
}

/// Slots that an assignment holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub kind: KindId,
    pub count: u32,
    /// Slot time charged for each of them since the attempt began, microseconds.
    pub charged: i64,
    /// The part of it that an earlier core charged.
    pub earlier: i64,
    pub ahead_of_turn: bool,
    /// It was handed out while no slot was free.
    pub in_line: bool,
}

impl FairShare {
    pub(crate) fn new(handle: Handle, namespace: NamespaceId, weight: f64) -> Self {
        FairShare {
            handle,
            namespace,
            weight,
            entries: Vec::new(),
        }
    }

    fn find(&self, kind: KindId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.kind == kind)
    }

    /// Its entry for `kind`, a new one if need be.
    fn entry(&mut self, slots: &SlotsByKind, kind: KindId) -> &mut Entry {
        let serial = slots[kind].serial;
        let known = |entry: &Entry| entry.kind == kind && entry.serial == serial;
        if let Some(at) = self.entries.iter().position(known) {
            return &mut self.entries[at];
        }
        // Kinds that were freed since are forgotten here.
        (self.entries).retain(|entry| slots[entry.kind].serial == entry.serial);
        self.entries.push(Entry {
            kind,
            serial,
            flow: Flow::new(slots[kind].length),
        });
        self.entries.last_mut().expect("just added")
    }
}

impl Fair {
    /// The kind of slot for `work`, known or new.
    pub(crate) fn kind(&mut self, work: &Work) -> KindId {
        if let Some(kind) = self.slots.find(work) {
            return kind;
        }
        let kind = self.slots.add(work);
        for member in &mut self.members {
            member.resize_with(self.slots.len(), Member::new);
            // The number may have been that of another kind.
            member[kind.index()] = Member::new();
        }
        kind
    }

    /// The namespace of that name, known or new.
    pub(crate) fn namespace(&mut self, name: &Namespace) -> NamespaceId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = NamespaceId(self.members.len() as u32);
        let mut member = Vec::new();
        member.resize_with(self.slots.len(), Member::new);
        self.members.push(member);
        self.names.insert(name.clone(), id);
        id
    }

    /// The name of every namespace.
    pub(crate) fn names(&self) -> FxHashMap<NamespaceId, Namespace> {
        let names = self.names.iter();
        names.map(|(name, id)| (*id, name.clone())).collect()
    }

    /// Has the scheduler wait for a slot of exactly these kinds.
    pub(crate) fn list(&mut self, share: &mut FairShare, kinds: &[KindId]) {
        for at in 0..share.entries.len() {
            let Entry { kind, flow, .. } = &share.entries[at];
            if flow.waits && !kinds.contains(kind) {
                self.leave_queue(share, at);
            }
        }
        for kind in kinds {
            let waits = |entry: &Entry| entry.kind == *kind && entry.flow.waits;
            if !share.entries.iter().any(waits) {
                self.join_queue(share, *kind);
            }
        }
    }

    /// What its running tasks will be charged changes with the weight, and what it owes stays the
    /// same slot time: a change gives no credit.
    pub(crate) fn reweigh(&mut self, share: &mut FairShare, weight: f64) {
        let old = std::mem::replace(&mut share.weight, weight);
        let member = &mut self.members[share.namespace.0 as usize];
        for entry in &mut share.entries {
            if self.slots[entry.kind].serial != entry.serial {
                continue;
            }
            let queue = &mut member[entry.kind.index()].queue;
            queue.reweigh(&mut entry.flow, share.handle, old, weight);
        }
    }

    /// It is the turn of the scheduler whom [`Fair::pick`] has named: the clocks go on to its time.
    pub(crate) fn serve(&mut self, share: &FairShare, grant: Grant, kind: KindId) {
        let member = &mut self.members[share.namespace.0 as usize][kind.index()];
        if let Some(entry) = share.find(kind)
            && !grant.ahead_of_turn
        {
            member.queue.serve(&entry.flow);
            self.slots[kind].queue.serve(&member.flow);
        }
    }

    /// How long its next attempt on `kind` is expected to last, microseconds: charged in advance.
    pub(crate) fn expected(&self, share: &FairShare, kind: KindId) -> i64 {
        let known = share.find(kind);
        let length = known.map_or(self.slots[kind].length, |entry| entry.flow.length);
        length.min(MAX_DEBT.as_micros() as i64)
    }

    /// How long attempts of the scheduler have lasted of late, by kind of slot: its own, or if none
    /// has ended those of all. Kinds of which nobody has seen one end are left out.
    pub(crate) fn usual(&self, share: &FairShare) -> Vec<(Work, Duration)> {
        let current = |entry: &&Entry| self.slots[entry.kind].serial == entry.serial;
        let known = share.entries.iter().filter(current);
        let usual = |entry: &Entry| {
            let (flow, slots) = (&entry.flow, &self.slots[entry.kind]);
            let of_all = slots.learned.then_some(slots.length);
            let length = flow.learned.then_some(flow.length).or(of_all)?;
            let length = Duration::from_micros(length.max(1) as u64);
            Some((slots.work.clone(), length))
        };
        known.filter_map(usual).collect()
    }

    /// The scheduler takes slots, and is charged for each what no earlier core has charged.
    pub(crate) fn occupy(&mut self, share: &mut FairShare, hold: Hold) {
        self.hold(share, hold, 1);
        let new = hold.charged - hold.earlier;
        self.charge(share, hold, new, new);
    }

    /// An attempt lasts longer than what was charged: charges `more` for each slot.
    pub(crate) fn prolong(&mut self, share: &mut FairShare, hold: Hold, more: i64) {
        // What stood in line may not have begun, where its executor is away.
        let most = match hold.in_line {
            true => FIRST_LENGTH.as_micros() as i64,
            false => i64::MAX,
        };
        let entry = share.entry(&self.slots, hold.kind);
        entry.flow.length = entry.flow.length.max(hold.charged.min(most));
        self.charge(share, hold, more, more);
    }

    /// The scheduler gives its slots back, each of which it had for `used` microseconds.
    pub(crate) fn vacate(&mut self, share: &mut FairShare, hold: Hold, used: i64) {
        let id = share.namespace.0 as usize;
        let entry = share.entry(&self.slots, hold.kind);
        entry.flow.learn(used);
        let member = &mut self.members[id][hold.kind.index()];
        member.flow.learn(used);
        let slots = &mut self.slots[hold.kind];
        slots.length = (slots.length + (used - slots.length) / 2).max(1);
        slots.learned = true;
        let work = used * i64::from(hold.count);
        member.queue.work(work);
        slots.queue.work(work);
        let new = hold.charged - hold.earlier;
        self.charge(share, hold, (used - hold.charged).max(-new), -new);
        self.hold(share, hold, -1);
    }

    /// Who may take slots of `kind` now. While more than the reserve is free: who is next. From the
    /// reserve: only a scheduler that runs nothing on this kind, as `runs` tells, and is the first
    /// of its namespace or owes nothing. Its second half is for namespaces that run nothing. Those
    /// who are not next never hold more than the reserve.
    pub(crate) fn pick(&self, kind: KindId, runs: impl Fn(Handle) -> bool) -> Option<Grant> {
        let slots = &self.slots[kind];
        if slots.free() == 0 {
            return None;
        }
        let next = slots.queue.first()?;
        let unreserved = slots.unreserved();
        if unreserved > 0 {
            return Some(Grant {
                handle: self.member(next, kind).queue.first()?,
                slots: unreserved,
                ahead_of_turn: false,
                in_line: false,
            });
        }
        slots.queue.iter().find_map(|id| {
            let member = self.member(id, kind);
            if !slots.has_reserve_for(member.flow.running > 0) {
                return None;
            }
            let first = member.queue.first()?;
            let handle = std::iter::once(first)
                .chain(member.queue.without_debt())
                .find(|handle| !runs(*handle))?;
            Some(Grant {
                handle,
                slots: 1,
                ahead_of_turn: id != next || handle != first,
                in_line: false,
            })
        })
    }

    /// Whether a slot of `kind` is free that the scheduler may take when it is next, or ahead of
    /// its turn.
    pub(crate) fn has_slot_for(&self, share: &FairShare, kind: KindId) -> bool {
        let slots = &self.slots[kind];
        let namespace_runs = self.member(share.namespace, kind).flow.running > 0;
        let reserved = slots.has_reserve_for(namespace_runs) && !Fair::runs(share, kind);
        slots.unreserved() > 0 || reserved
    }

    /// The place of a scheduler among those that wait for `kind`, counted up to `most`; `None`: it
    /// does not.
    pub(crate) fn place_of(&self, share: &FairShare, kind: KindId, most: usize) -> Option<Share> {
        let entry = share.find(kind).filter(|entry| entry.flow.waits)?;
        let member = self.member(share.namespace, kind);
        let (namespaces, all) = self.slots[kind].queue.before(share.namespace, most);
        let (schedulers, exact) = member.queue.before(share.handle, most);
        Some(Share {
            namespaces,
            schedulers,
            exact: all && exact,
            held_by_namespace: member.flow.running,
            held: entry.flow.running,
        })
    }

    /// Schedulers whose turn on `kind` is next, about `most`; the first ones of every namespace.
    pub(crate) fn in_line(&self, kind: KindId, most: usize) -> Vec<Handle> {
        let queue = &self.slots[kind].queue;
        let each = most.div_ceil(queue.len().clamp(1, most));
        queue
            .iter()
            .take(most)
            .flat_map(|id| self.member(id, kind).queue.iter().take(each))
            .collect()
    }

    /// Whether the scheduler runs something on `kind`.
    pub(crate) fn runs(share: &FairShare, kind: KindId) -> bool {
        (share.find(kind)).is_some_and(|entry| entry.flow.running > 0)
    }

    fn member(&self, id: NamespaceId, kind: KindId) -> &Member {
        &self.members[id.0 as usize][kind.index()]
    }

    fn join_queue(&mut self, share: &mut FairShare, kind: KindId) {
        let (id, handle, weight) = (share.namespace, share.handle, share.weight);
        let entry = share.entry(&self.slots, kind);
        let member = &mut self.members[id.0 as usize][kind.index()];
        if member.queue.is_empty() {
            self.slots[kind].queue.join(&mut member.flow, id, 1.0);
        }
        member.queue.join(&mut entry.flow, handle, weight);
    }

    fn leave_queue(&mut self, share: &mut FairShare, at: usize) {
        let (id, handle, weight) = (share.namespace, share.handle, share.weight);
        let entry = &mut share.entries[at];
        let member = &mut self.members[id.0 as usize][entry.kind.index()];
        member.queue.leave(&mut entry.flow, handle, weight);
        if member.queue.is_empty() {
            let queue = &mut self.slots[entry.kind].queue;
            queue.leave(&mut member.flow, id, 1.0);
        }
    }

    /// Charges each slot of `hold` on both levels, see [`FairQueue::charge`].
    fn charge(&mut self, share: &mut FairShare, hold: Hold, us: i64, held: i64) {
        let count = i64::from(hold.count);
        let charge = Charge {
            us: us * count,
            held: held * count,
            owed: self.slots[hold.kind].owed(),
        };
        let (id, handle, weight) = (share.namespace, share.handle, share.weight);
        let entry = share.entry(&self.slots, hold.kind);
        let member = &mut self.members[id.0 as usize][hold.kind.index()];
        (member.queue).charge(&mut entry.flow, handle, weight, charge);
        let queue = &mut self.slots[hold.kind].queue;
        // More would keep newcomers of the other namespaces waiting.
        queue.charge(&mut member.flow, id, 1.0, Charge { owed: 1, ..charge });
    }

    fn hold(&mut self, share: &mut FairShare, hold: Hold, sign: i32) {
        let (change, id, weight) = (hold.count as i32 * sign, share.namespace, share.weight);
        let entry = share.entry(&self.slots, hold.kind);
        let member = &mut self.members[id.0 as usize][hold.kind.index()];
        member.queue.hold(&mut entry.flow, weight, change);
        let slots = &mut self.slots[hold.kind];
        slots.queue.hold(&mut member.flow, 1.0, change);
        slots.open = slots.open.strict_add_signed(change);
        if hold.in_line {
            slots.lined_up = slots.lined_up.strict_add_signed(change);
        }
        if hold.ahead_of_turn {
            slots.ahead_of_turn = slots.ahead_of_turn.strict_add_signed(change);
        }
    }
}

impl Member {
    fn new() -> Self {
        Member {
            flow: Flow::new(0),
            queue: FairQueue::default(),
        }
    }
}
