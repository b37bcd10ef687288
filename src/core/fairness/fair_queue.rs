//! Fair queueing by weight among the flows of one level: the namespaces that want a kind of slot,
//! or the schedulers of one namespace that do.
//!
//! A flow's virtual time is the slot time it was charged, divided by its weight; the least one is
//! next (start-time fair queueing: Goyal, Vin, Cheng 1996). The clock of the queue goes on as work
//! is done, by what each of the active flows would have got of it, and to the time of whoever is
//! served (as in WF2Q+: Bennett, Zhang 1997). It never goes back. Whoever joins stands at the clock
//! or, in debt, behind it: no credit is saved up by staying away, and an endless series of
//! newcomers does not keep the others from their turn.

use crate::core::model::limits::MAX_DEBT;
use std::{collections::BTreeSet, time::Duration};

/// Slot nanoseconds divided by weight: a microsecond counts even at the highest weight, and
/// thousands of slots at the lowest one do not overflow.
type VirtualTime = i128;

/// One contender for one kind of slot.
#[derive(Debug)]
pub(super) struct Flow {
    time: VirtualTime,
    /// Slots it holds.
    pub running: u32,
    /// Slot time charged for what it runs now, microseconds.
    charged: i64,
    /// How long its attempts typically last, microseconds.
    pub length: i64,
    /// Some have ended, so that this is not a guess.
    pub learned: bool,
    pub waits: bool,
    /// Its weight as counted among the active ones; 0: it neither waits nor runs anything.
    counted: u64,
}

/// Slot time that a flow is charged; below zero: it gets so much back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    /// Microseconds.
    pub us: i64,
    /// The change of what is charged for running tasks, microseconds.
    pub held: i64,
    /// How many attempts it may be owed.
    pub owed: u32,
}

/// The flows of one level that could use a slot, and the clock they share.
#[derive(Debug)]
pub(super) struct FairQueue<K> {
    clock: VirtualTime,
    /// Highest time of any flow so far.
    latest: VirtualTime,
    /// Sum of the weights of the flows that wait or run something, in millionths.
    active: u64,
    waiting: BTreeSet<(VirtualTime, K)>,
}

impl Flow {
    pub(super) fn new(length: i64) -> Self {
        Flow {
            time: 0,
            running: 0,
            charged: 0,
            length,
            learned: false,
            waits: false,
            counted: 0,
        }
    }

    /// Takes in how long an attempt has lasted. The last few count most: the estimate follows a
    /// change soon.
    pub(super) fn learn(&mut self, used: i64) {
        self.length = (self.length + (used - self.length) / 2).max(1);
        self.learned = true;
    }
}

impl<K> Default for FairQueue<K> {
    fn default() -> Self {
        FairQueue {
            clock: 0,
            latest: 0,
            active: 0,
            waiting: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Copy> FairQueue<K> {
    /// The flow joins those who wait.
    pub(super) fn join(&mut self, flow: &mut Flow, key: K, weight: f64) {
        flow.time = flow
            .time
            .clamp(self.clock, self.clock + most_debt(flow, weight));
        self.insert(flow, key);
        self.count(flow, weight);
    }

    /// The flow waits no more.
    pub(super) fn leave(&mut self, flow: &mut Flow, key: K, weight: f64) {
        self.remove(flow, key);
        self.count(flow, weight);
    }

    /// The flow, which is next, is served.
    pub(super) fn serve(&mut self, flow: &Flow) {
        self.clock = self.clock.max(flow.time);
    }

    /// The flow takes slots, or gives them back.
    pub(super) fn hold(&mut self, flow: &mut Flow, weight: f64, change: i32) {
        flow.running = flow.running.strict_add_signed(change);
        self.count(flow, weight);
    }

    /// So many microseconds of slot time were used.
    pub(super) fn work(&mut self, us: i64) {
        if self.active > 0 {
            self.clock += divided(us, self.active as f64 / MILLION);
        }
    }

    /// Charges the flow. One that waits owes no more than what runs now and one attempt.
    pub(super) fn charge(&mut self, flow: &mut Flow, key: K, weight: f64, charge: Charge) {
        let waits = flow.waits;
        if waits {
            self.remove(flow, key);
        }
        flow.charged += charge.held;
        flow.time += divided(charge.us, weight);
        let credit = (flow.length * i64::from(charge.owed)).min(LONGEST);
        let (earliest, latest) = (divided(credit, weight), most_debt(flow, weight));
        flow.time = (flow.time).clamp(self.clock - earliest, self.clock + latest);
        self.latest = self.latest.max(flow.time);
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
        flow.time = self.clock + (owed as f64 * old / new) as VirtualTime;
        if waits {
            self.insert(flow, key);
        }
        self.count(flow, new);
    }

    /// The flow that is next.
    pub(super) fn first(&self) -> Option<K> {
        self.waiting.first().map(|(_, key)| *key)
    }

    /// Those who wait, in the order of their turn.
    pub(super) fn iter(&self) -> impl Iterator<Item = K> {
        self.waiting.iter().map(|(_, key)| *key)
    }

    /// Those of them who owe nothing.
    pub(super) fn without_debt(&self) -> impl Iterator<Item = K> {
        let known = self.waiting.iter();
        known
            .take_while(|(time, _)| *time <= self.clock)
            .map(|(_, key)| *key)
    }

    /// By how much slot time, at weight 1, the flow that is next has been served less than its
    /// share since it waits.
    pub(super) fn lag(&self) -> Duration {
        let first = self.waiting.first().map_or(self.clock, |(time, _)| *time);
        let nanos = (self.clock - first).clamp(0, u64::MAX.into());
        Duration::from_nanos(nanos as u64)
    }

    /// How many wait whose turn is before that of `key`, and whether all were counted: `most` at
    /// most.
    pub(super) fn before(&self, key: K, most: usize) -> (usize, bool) {
        let place = self.iter().take(most).position(|other| other == key);
        place.map_or((most.min(self.len()), false), |place| (place, true))
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Counts the flow among the active ones, or not. Where nobody is active everybody has had what
    /// they wanted, and the past is forgotten.
    fn count(&mut self, flow: &mut Flow, weight: f64) {
        let counts = if flow.waits || flow.running > 0 {
            (weight * MILLION) as u64
        } else {
            0
        };
        let before = std::mem::replace(&mut flow.counted, counts);
        self.active = self.active - before + counts;
        if self.active == 0 {
            self.clock = self.clock.max(self.latest);
        }
    }

    fn insert(&mut self, flow: &mut Flow, key: K) {
        flow.waits = true;
        self.waiting.insert((flow.time, key));
    }

    fn remove(&mut self, flow: &mut Flow, key: K) {
        flow.waits = false;
        self.waiting.remove(&(flow.time, key));
    }
}

const MILLION: f64 = 1e6;
/// Microseconds of slot time that anybody may be owed, or owe for what is over.
const LONGEST: i64 = MAX_DEBT.as_micros() as i64;

/// What a flow may owe: what it runs now, and one more attempt.
fn most_debt(flow: &Flow, weight: f64) -> VirtualTime {
    divided(flow.charged + flow.length.max(LONGEST), weight)
}

fn divided(us: i64, weight: f64) -> VirtualTime {
    (us as f64 * 1e3 / weight) as VirtualTime
}
