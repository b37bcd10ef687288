//! Start-time fair queueing among the flows of one level: the namespaces that want a kind of slot,
//! or the schedulers of one namespace that do (Goyal, Vin, Cheng 1996).
//!
//! A flow's virtual time is the slot time it was charged, divided by its weight; the least one is
//! next. The clock of the line is the time of the flow that was served last, and it never goes
//! back. Whoever joins the line stands at the clock or, in debt, behind it, whatever it used in the
//! past. No credit is saved up. A debt is at most [`MAX_DEBT`] beside what is charged for tasks
//! that still run, and staying away works it off.

use crate::core::{Time, model::limits::MAX_DEBT};
use std::collections::BTreeSet;

/// Slot microseconds divided by weight.
pub(crate) type VirtualTime = i64;

/// One contender for one kind of slot.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub time: VirtualTime,
    /// Slots it holds.
    pub running: u32,
    /// Slot time charged for what it runs now, microseconds.
    pub charged: i64,
    /// It stands in the line.
    pub waits: bool,
    /// When it last waited or was charged.
    seen: Time,
}

/// Slot time that a flow is charged.
#[derive(Clone, Copy)]
pub(super) struct Charge {
    pub now: Time,
    /// Microseconds; below zero: given back.
    pub us: i64,
    /// Change of what is charged for running tasks.
    pub held: i64,
}

/// The flows of one level that could use a slot, and the clock they share.
#[derive(Debug)]
pub(super) struct Line<K> {
    clock: VirtualTime,
    waiting: BTreeSet<(VirtualTime, K)>,
}

impl<K> Default for Line<K> {
    fn default() -> Self {
        Line {
            clock: 0,
            waiting: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Copy> Line<K> {
    /// The flow joins the line. If it ran nothing meanwhile, the time that it stayed away is taken
    /// off its debt.
    pub(super) fn join(&mut self, flow: &mut Flow, key: K, weight: f64, now: Time) {
        if flow.running == 0 {
            flow.time -= divided(now.since(flow.seen).as_micros() as i64, weight);
        }
        self.limit(flow, weight);
        self.insert(flow, key);
    }

    /// The flow leaves the line.
    pub(super) fn leave(&mut self, flow: &mut Flow, key: K, now: Time) {
        flow.seen = now;
        self.remove(flow, key);
    }

    /// The flow, which is the first of the line, is served.
    pub(super) fn serve(&mut self, flow: &Flow) {
        self.clock = self.clock.max(flow.time);
    }

    /// Charges the flow.
    pub(super) fn charge(&mut self, flow: &mut Flow, key: K, weight: f64, charge: Charge) {
        let waits = flow.waits;
        if waits {
            self.remove(flow, key);
        }
        flow.seen = charge.now;
        flow.charged += charge.held;
        flow.time += divided(charge.us, weight);
        self.limit(flow, weight);
        if waits {
            self.insert(flow, key);
        }
    }

    /// The weight of the flow changes, and what it owes stays the same slot time.
    pub(super) fn reweigh(&mut self, flow: &mut Flow, key: K, old: f64, new: f64) {
        let waits = flow.waits;
        if waits {
            self.remove(flow, key);
        }
        let owed = (flow.time - self.clock).max(0);
        flow.time = self.clock + (owed as f64 * old / new) as i64;
        if waits {
            self.insert(flow, key);
        }
    }

    /// The flow that is next.
    pub(super) fn first(&self) -> Option<K> {
        self.waiting.first().map(|(_, key)| *key)
    }

    /// Those who wait, in the order of their turn.
    pub(super) fn iter(&self) -> impl Iterator<Item = K> {
        self.waiting.iter().map(|(_, key)| *key)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn insert(&mut self, flow: &mut Flow, key: K) {
        flow.waits = true;
        self.waiting.insert((flow.time, key));
    }

    fn remove(&mut self, flow: &mut Flow, key: K) {
        flow.waits = false;
        self.waiting.remove(&(flow.time, key));
    }

    fn limit(&self, flow: &mut Flow, weight: f64) {
        let most = divided(flow.charged + MAX_DEBT.as_micros() as i64, weight);
        flow.time = flow.time.clamp(self.clock, self.clock + most);
    }
}

fn divided(us: i64, weight: f64) -> i64 {
    (us as f64 / weight) as i64
}
