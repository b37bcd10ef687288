//! Who gets the next free slot: fairness in executor time, on two levels.
//!
//! Every namespace, and every scheduler within it, has a virtual time: slot time used, divided by
//! its weight. The least one goes first. A part of each kind's slots is a reserve for those that
//! run nothing there yet.

use super::pool::{KindId, NamespaceId, Pools, VirtualTime};
use crate::core::{Handle, Namespace, Work, model::limits::SLOT_CHARGE};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// A scheduler's place in the fair share.
#[derive(Debug)]
pub(crate) struct FairShare {
    pub handle: Handle,
    pub namespace: NamespaceId,
    pub weight: f64,
    time: VirtualTime,
    running: Vec<(KindId, u32)>,
    listed: Vec<KindId>,
    active: bool,
}

#[derive(Debug)]
struct Contender {
    time: VirtualTime,
    /// By kind: schedulers that could use a slot.
    ready: Vec<BTreeSet<(VirtualTime, Handle)>>,
    running: Vec<u32>,
    /// Schedulers that could use a slot or run something.
    active: BTreeSet<(VirtualTime, Handle)>,
}

/// All pools and shares of a shard.
#[derive(Debug, Default)]
pub(crate) struct Fair {
    pub pools: Pools,
    members: Vec<Contender>,
    names: FxHashMap<Namespace, NamespaceId>,
    active: BTreeSet<(VirtualTime, NamespaceId)>,
}

/// What a scheduler may take now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub handle: Handle,
    pub slots: u32,
}

impl FairShare {
    pub(crate) fn new(handle: Handle, namespace: NamespaceId, weight: f64) -> Self {
        FairShare {
            handle,
            namespace,
            weight,
            time: 0,
            running: Vec::new(),
            listed: Vec::new(),
            active: false,
        }
    }

    fn running_on(&self, kind: KindId) -> u32 {
        self.running
            .iter()
            .find(|(k, _)| *k == kind)
            .map_or(0, |(_, n)| *n)
    }

    fn add_running(&mut self, kind: KindId, delta: i64) {
        match self.running.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, n)) => *n = (i64::from(*n) + delta) as u32,
            None => self.running.push((kind, delta as u32)),
        }
    }

    fn runs_anything(&self) -> bool {
        self.running.iter().any(|(_, n)| *n > 0)
    }
}

impl Fair {
    /// The kind of slot for `work`, known or new.
    pub(crate) fn kind(&mut self, work: &Work) -> KindId {
        let kind = self.pools.find_or_add(work);
        for member in &mut self.members {
            if member.running.len() == self.pools.len() {
                break;
            }
            member.ready.resize_with(self.pools.len(), BTreeSet::new);
            member.running.resize(self.pools.len(), 0);
        }
        kind
    }

    /// The namespace of that name, known or new.
    pub(crate) fn namespace(&mut self, name: &Namespace) -> NamespaceId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = NamespaceId(self.members.len() as u32);
        self.members.push(Contender {
            time: 0,
            ready: vec![BTreeSet::new(); self.pools.len()],
            running: vec![0; self.pools.len()],
            active: BTreeSet::new(),
        });
        self.names.insert(name.clone(), id);
        id
    }

    /// The name of every namespace.
    pub(crate) fn names(&self) -> FxHashMap<NamespaceId, Namespace> {
        let names = self.names.iter();
        names.map(|(name, id)| (*id, name.clone())).collect()
    }

    /// Lists the scheduler for exactly these kinds. A new or returning one starts at the present
    /// minimum of those that are active, not at zero; so does its namespace.
    pub(crate) fn list(&mut self, share: &mut FairShare, kinds: &[KindId]) {
        let active = !kinds.is_empty() || share.runs_anything();
        if active && !share.active {
            self.activate(share);
        }
        for at in (0..share.listed.len()).rev() {
            if !kinds.contains(&share.listed[at]) {
                let kind = share.listed.swap_remove(at);
                self.unlist(share, kind);
            }
        }
        for kind in kinds {
            if !share.listed.contains(kind) {
                share.listed.push(*kind);
                self.enlist(share, *kind);
            }
        }
        if !active && share.active {
            self.deactivate(share);
        }
    }

    /// Charges `us` microseconds of slot time (less than zero: gives back).
    pub(crate) fn charge(&mut self, share: &mut FairShare, us: i64) {
        let listed = std::mem::take(&mut share.listed);
        for kind in &listed {
            self.unlist(share, *kind);
        }
        let id = share.namespace;
        let was_active = std::mem::take(&mut share.active);
        let member = &mut self.members[id.0 as usize];
        if was_active {
            member.active.remove(&(share.time, share.handle));
        }
        let changed = member.time + us;
        self.set_time(id, changed);
        share.time += (us as f64 / share.weight) as i64;
        if was_active {
            self.members[id.0 as usize]
                .active
                .insert((share.time, share.handle));
            share.active = true;
        }
        for kind in &listed {
            self.enlist(share, *kind);
        }
        share.listed = listed;
    }

    /// Takes `count` slots of `kind`.
    pub(crate) fn occupy(&mut self, share: &mut FairShare, kind: KindId, count: u32) {
        share.add_running(kind, i64::from(count));
        self.pools[kind].busy += count;
        self.members[share.namespace.0 as usize].running[kind.index()] += count;
    }

    /// Gives `count` slots of `kind` back.
    pub(crate) fn vacate(&mut self, share: &mut FairShare, kind: KindId, count: u32) {
        share.add_running(kind, -i64::from(count));
        self.pools[kind].busy -= count;
        self.members[share.namespace.0 as usize].running[kind.index()] -= count;
    }

    /// Who may take slots of `kind` now, while more than the reserve is free: the least virtual
    /// time.
    pub(crate) fn pick(&self, kind: KindId) -> Option<Grant> {
        let pool = &self.pools[kind];
        let (free, reserve) = (pool.free(), pool.reserve());
        if free <= reserve {
            return None;
        }
        let (_, id) = pool.ready.first()?;
        let (_, handle) = self.members[id.0 as usize].ready[kind.index()].first()?;
        Some(Grant {
            handle: *handle,
            slots: free - reserve,
        })
    }

    /// As [`Fair::pick`], from the reserve: only a scheduler that runs nothing on this kind, as
    /// `runs` tells; its second half only for a namespace that runs nothing. Not for those that are
    /// ahead of the least virtual time by more than a second (a namespace: a second of the whole
    /// pool).
    pub(crate) fn pick_newcomer(
        &self,
        kind: KindId,
        runs: impl Fn(Handle) -> bool,
    ) -> Option<Grant> {
        let pool = &self.pools[kind];
        let (free, reserve) = (pool.free(), pool.reserve());
        if free == 0 || free > reserve {
            return None;
        }
        let second = SLOT_CHARGE.as_micros() as i64;
        let last = pool.ready.first()?.0 + second * i64::from(pool.total);
        let allowed = |id: &NamespaceId| {
            free > reserve / 2 || self.members[id.0 as usize].running[kind.index()] == 0
        };
        let in_turn = |id: &NamespaceId| {
            let ready = &self.members[id.0 as usize].ready[kind.index()];
            let last = ready.first().map_or(0, |(time, _)| time + second);
            ready.iter().take_while(move |(time, _)| *time <= last)
        };
        (pool
            .ready
            .iter()
            .take_while(|(time, _)| *time <= last)
            .map(|(_, id)| id)
            .filter(|id| allowed(id)))
        .flat_map(in_turn)
        .find(|(_, handle)| !runs(*handle))
        .map(|(_, handle)| Grant {
            handle: *handle,
            slots: 1,
        })
    }

    /// Schedulers whose turn on `kind` is next, about `most`; the first ones of every namespace.
    pub(crate) fn in_line(&self, kind: KindId, most: usize) -> Vec<Handle> {
        let ready = &self.pools[kind].ready;
        let each = most.div_ceil(ready.len().clamp(1, most));
        let first = |id: &NamespaceId| {
            self.members[id.0 as usize].ready[kind.index()]
                .iter()
                .take(each)
        };
        ready
            .iter()
            .take(most)
            .flat_map(|(_, id)| first(id))
            .map(|(_, handle)| *handle)
            .collect()
    }

    /// Whether the scheduler runs something on `kind`.
    pub(crate) fn runs(share: &FairShare, kind: KindId) -> bool {
        share.running_on(kind) > 0
    }

    fn activate(&mut self, share: &mut FairShare) {
        let id = share.namespace;
        if self.members[id.0 as usize].active.is_empty() {
            if let Some((least, _)) = self.active.first() {
                let time = self.members[id.0 as usize].time.max(*least);
                self.set_time(id, time);
            }
            let time = self.members[id.0 as usize].time;
            self.active.insert((time, id));
        }
        let member = &mut self.members[id.0 as usize];
        if let Some((least, _)) = member.active.first() {
            share.time = share.time.max(*least);
        }
        member.active.insert((share.time, share.handle));
        share.active = true;
    }

    fn deactivate(&mut self, share: &mut FairShare) {
        let id = share.namespace;
        let member = &mut self.members[id.0 as usize];
        member.active.remove(&(share.time, share.handle));
        if member.active.is_empty() {
            self.active.remove(&(member.time, id));
        }
        share.active = false;
    }

    fn enlist(&mut self, share: &FairShare, kind: KindId) {
        let member = &mut self.members[share.namespace.0 as usize];
        let ready = &mut member.ready[kind.index()];
        if ready.is_empty() {
            self.pools[kind]
                .ready
                .insert((member.time, share.namespace));
        }
        ready.insert((share.time, share.handle));
    }

    fn unlist(&mut self, share: &FairShare, kind: KindId) {
        let member = &mut self.members[share.namespace.0 as usize];
        let ready = &mut member.ready[kind.index()];
        ready.remove(&(share.time, share.handle));
        if ready.is_empty() {
            self.pools[kind]
                .ready
                .remove(&(member.time, share.namespace));
        }
    }

    /// Moves a namespace to another virtual time in every set that is ordered by it.
    fn set_time(&mut self, id: NamespaceId, time: VirtualTime) {
        let member = &mut self.members[id.0 as usize];
        let old = std::mem::replace(&mut member.time, time);
        for kind in self.pools.kinds() {
            if !member.ready[kind.index()].is_empty() {
                let ready = &mut self.pools[kind].ready;
                ready.remove(&(old, id));
                ready.insert((time, id));
            }
        }
        if self.active.remove(&(old, id)) {
            self.active.insert((time, id));
        }
    }
}
