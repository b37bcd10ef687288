//! Who gets the next free slot: fairness in executor time, on two levels.
//!
//! For each kind of slot the namespaces stand in one line, and the schedulers of each namespace in
//! another (`line.rs`). An attempt is charged in advance as long as its scheduler's attempts
//! typically last, then as it goes on, and the difference when it ends. A part of each kind's slots
//! is a reserve for those that run nothing there yet.

use super::{
    line::{Charge, Flow, Line},
    pool::{KindId, NamespaceId, Pools},
};
use crate::core::{Handle, Namespace, Time, Work, model::limits::MAX_DEBT};
use rustc_hash::FxHashMap;

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
    /// How long its attempts typically last, microseconds.
    length: i64,
}

/// A namespace on one kind of slot.
#[derive(Debug, Default)]
struct Member {
    flow: Flow,
    /// Its schedulers that could use a slot.
    line: Line<Handle>,
}

/// All pools and shares of a shard.
#[derive(Debug, Default)]
pub(crate) struct Fair {
    pub pools: Pools,
    /// The time of the present step.
    pub now: Time,
    /// By namespace, then by kind.
    members: Vec<Vec<Member>>,
    names: FxHashMap<Namespace, NamespaceId>,
}

/// What a scheduler may take now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub handle: Handle,
    pub slots: u32,
    /// From the reserve, before its namespace's turn.
    pub let_in: bool,
}

/// Slots that an assignment holds, and the slot time charged for each, microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub kind: KindId,
    pub count: u32,
    pub charged: i64,
    pub let_in: bool,
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
    fn entry(&mut self, pools: &Pools, kind: KindId) -> &mut Entry {
        let serial = pools[kind].serial;
        let known = |entry: &Entry| entry.kind == kind && entry.serial == serial;
        if let Some(at) = self.entries.iter().position(known) {
            return &mut self.entries[at];
        }
        // Kinds that were freed since are forgotten here.
        (self.entries).retain(|entry| pools[entry.kind].serial == entry.serial);
        self.entries.push(Entry {
            kind,
            serial,
            flow: Flow::default(),
            length: pools[kind].length,
        });
        self.entries.last_mut().expect("just added")
    }
}

impl Fair {
    /// The kind of slot for `work`, known or new.
    pub(crate) fn kind(&mut self, work: &Work) -> KindId {
        if let Some(kind) = self.pools.find(work) {
            return kind;
        }
        let kind = self.pools.add(work);
        for member in &mut self.members {
            member.resize_with(self.pools.len(), Member::default);
            // The number may have been that of another kind.
            member[kind.index()] = Member::default();
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
        member.resize_with(self.pools.len(), Member::default);
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
                self.leave_line(share, at);
            }
        }
        for kind in kinds {
            let waits = |entry: &Entry| entry.kind == *kind && entry.flow.waits;
            if !share.entries.iter().any(waits) {
                self.join_line(share, *kind);
            }
        }
    }

    /// What its running tasks will be charged changes with the weight, and what it owes stays the
    /// same slot time: a change gives no credit.
    pub(crate) fn reweigh(&mut self, share: &mut FairShare, weight: f64) {
        let old = std::mem::replace(&mut share.weight, weight);
        let member = &mut self.members[share.namespace.0 as usize];
        for entry in &mut share.entries {
            if self.pools[entry.kind].serial != entry.serial {
                continue;
            }
            let line = &mut member[entry.kind.index()].line;
            line.reweigh(&mut entry.flow, share.handle, old, weight);
        }
    }

    /// It is the turn of the scheduler whom [`Fair::pick`] has named: the clocks go on to its time.
    pub(crate) fn serve(&mut self, share: &FairShare, kind: KindId, let_in: bool) {
        let member = &mut self.members[share.namespace.0 as usize][kind.index()];
        if let Some(entry) = share.find(kind) {
            member.line.serve(&entry.flow);
        }
        if !let_in {
            self.pools[kind].line.serve(&member.flow);
        }
    }

    /// How long its next attempt on `kind` is expected to last, microseconds: charged in advance.
    pub(crate) fn expected(&self, share: &FairShare, kind: KindId) -> i64 {
        let known = share.find(kind);
        known.map_or(self.pools[kind].length, |entry| entry.length)
    }

    /// The scheduler takes slots. Of what is charged for each, `new` microseconds count from now;
    /// an earlier core has seen the others.
    pub(crate) fn occupy(&mut self, share: &mut FairShare, hold: Hold, new: i64) {
        self.hold(share, hold, 1);
        self.charge(share, hold, new, hold.charged);
    }

    /// An attempt lasts longer than what was charged: charges `more` for each slot.
    pub(crate) fn prolong(&mut self, share: &mut FairShare, hold: Hold, more: i64) {
        let entry = share.entry(&self.pools, hold.kind);
        entry.length = entry
            .length
            .max(hold.charged.min(MAX_DEBT.as_micros() as i64));
        self.charge(share, hold, more, more);
    }

    /// The scheduler gives its slots back, each of which it used for `used` microseconds.
    pub(crate) fn vacate(&mut self, share: &mut FairShare, hold: Hold, used: i64) {
        self.hold(share, hold, -1);
        self.charge(share, hold, used - hold.charged, -hold.charged);
        let used = used.clamp(1, MAX_DEBT.as_micros() as i64);
        let pool = &mut self.pools[hold.kind];
        pool.length = averaged(pool.length, used);
        let entry = share.entry(&self.pools, hold.kind);
        entry.length = averaged(entry.length, used);
    }

    /// Who may take slots of `kind` now. While more than the reserve is free: whose turn it is.
    /// From the reserve: only a scheduler that runs nothing on this kind, as `runs` tells, and that
    /// is the next one of its namespace. Its second half is for namespaces that run nothing.
    /// Before their turn, namespaces never hold more than the reserve.
    pub(crate) fn pick(&self, kind: KindId, runs: impl Fn(Handle) -> bool) -> Option<Grant> {
        let pool = &self.pools[kind];
        let (free, reserve) = (pool.free(), pool.reserve());
        if free == 0 {
            return None;
        }
        let reserved = reserve.saturating_sub(pool.let_in);
        let next = pool.line.first()?;
        if free > reserved {
            return Some(Grant {
                handle: self.member(next, kind).line.first()?,
                slots: free - reserved,
                let_in: false,
            });
        }
        pool.line.iter().find_map(|id| {
            let member = self.member(id, kind);
            let handle = member.line.first()?;
            let first_half = free > reserve / 2;
            let allowed = !runs(handle) && (first_half || member.flow.running == 0);
            allowed.then_some(Grant {
                handle,
                slots: 1,
                let_in: id != next,
            })
        })
    }

    /// Schedulers whose turn on `kind` is next, about `most`; the first ones of every namespace.
    pub(crate) fn in_line(&self, kind: KindId, most: usize) -> Vec<Handle> {
        let line = &self.pools[kind].line;
        let each = most.div_ceil(line.len().clamp(1, most));
        line.iter()
            .take(most)
            .flat_map(|id| self.member(id, kind).line.iter().take(each))
            .collect()
    }

    /// Whether the scheduler runs something on `kind`.
    pub(crate) fn runs(share: &FairShare, kind: KindId) -> bool {
        (share.find(kind)).is_some_and(|entry| entry.flow.running > 0)
    }

    fn member(&self, id: NamespaceId, kind: KindId) -> &Member {
        &self.members[id.0 as usize][kind.index()]
    }

    fn join_line(&mut self, share: &mut FairShare, kind: KindId) {
        let (id, handle, weight) = (share.namespace, share.handle, share.weight);
        let entry = share.entry(&self.pools, kind);
        let member = &mut self.members[id.0 as usize][kind.index()];
        if member.line.is_empty() {
            self.pools[kind]
                .line
                .join(&mut member.flow, id, 1.0, self.now);
        }
        (member.line).join(&mut entry.flow, handle, weight, self.now);
    }

    fn leave_line(&mut self, share: &mut FairShare, at: usize) {
        let (id, handle) = (share.namespace, share.handle);
        let entry = &mut share.entries[at];
        let member = &mut self.members[id.0 as usize][entry.kind.index()];
        member.line.leave(&mut entry.flow, handle, self.now);
        if member.line.is_empty() {
            let line = &mut self.pools[entry.kind].line;
            line.leave(&mut member.flow, id, self.now);
        }
    }

    /// Charges each slot of `hold` on both levels.
    fn charge(&mut self, share: &mut FairShare, hold: Hold, us: i64, held: i64) {
        let count = i64::from(hold.count);
        let charge = Charge {
            now: self.now,
            us: us * count,
            held: held * count,
        };
        let (id, handle, weight) = (share.namespace, share.handle, share.weight);
        let entry = share.entry(&self.pools, hold.kind);
        let member = &mut self.members[id.0 as usize][hold.kind.index()];
        (member.line).charge(&mut entry.flow, handle, weight, charge);
        let line = &mut self.pools[hold.kind].line;
        line.charge(&mut member.flow, id, 1.0, charge);
    }

    fn hold(&mut self, share: &mut FairShare, hold: Hold, sign: i32) {
        let (change, id) = (hold.count as i32 * sign, share.namespace);
        let entry = share.entry(&self.pools, hold.kind);
        let member = &mut self.members[id.0 as usize][hold.kind.index()];
        let pool = &mut self.pools[hold.kind];
        for held in [
            &mut entry.flow.running,
            &mut member.flow.running,
            &mut pool.busy,
        ] {
            *held = held.strict_add_signed(change);
        }
        if hold.let_in {
            pool.let_in = pool.let_in.strict_add_signed(change);
        }
    }
}

/// The recent past counts most: an estimate follows a change within a few attempts.
fn averaged(length: i64, used: i64) -> i64 {
    (length + (used - length) / 4).max(1)
}
