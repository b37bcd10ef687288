//! The slots of a target: which are free, what each is doing, and what stands in line for one.
//!
//! Invariant: there are never more than the last [`Slots::resize`] has said, but for those that
//! were taken before it.

use super::{register::Session, target_session::Live};
use crate::{
    core::{Assignment, Attempt, Handle, TaskId, Time},
    executor::{line::Line, pg_client::Login},
    executor_protocol::{Body, Token},
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

pub(crate) struct Slots(Mutex<State>);

/// What an executor was given to run.
pub(crate) struct Given {
    pub(crate) token: Token,
    pub(crate) assignment: Assignment,
    pub(crate) body: Body,
    pub(crate) stop: CancellationToken,
}

/// Runs one task at a time; keeps its session between tasks.
pub(crate) struct Slot {
    /// From 1.
    pub(crate) number: u32,
    pub(crate) live: Option<Box<Live>>,
}

impl Slot {
    /// One without a session.
    pub(crate) fn new(number: u32) -> Self {
        Slot { number, live: None }
    }
}

/// What a slot is doing.
#[derive(Clone, Default)]
pub(super) struct Activity {
    pub(super) session: Option<Session>,
    /// Its session is being opened.
    pub(super) opens: bool,
    pub(super) running: Option<(Assignment, Time)>,
}

#[derive(Default)]
struct State {
    total: u32,
    /// The last one is taken first: the lowest number, and later the one whose session is warm.
    free: Vec<Slot>,
    /// Who gets the next slot that becomes free.
    line: Line<Given>,
    /// By number.
    activity: BTreeMap<u32, Activity>,
}

impl Slots {
    pub(super) fn new(total: u32) -> Self {
        let slots = Slots(Mutex::default());
        slots.resize(total);
        slots
    }

    /// Makes it so many. Returns the sessions of those that are free and too many; others end when
    /// they are put back.
    pub(super) fn resize(&self, total: u32) -> Vec<Live> {
        let state = &mut *self.state();
        let mut added = Vec::new();
        for number in (1..=total).rev() {
            if let Entry::Vacant(vacant) = state.activity.entry(number) {
                vacant.insert(Activity::default());
                added.push(Slot::new(number));
            }
        }
        // Those that were there are taken first.
        added.append(&mut state.free);
        state.total = total;
        let (kept, surplus): (Vec<Slot>, _) =
            added.into_iter().partition(|slot| slot.number <= total);
        state.free = kept;
        let end = |slot: Slot| {
            state.activity.remove(&slot.number);
            slot.live.map(|live| *live)
        };
        surplus.into_iter().filter_map(end).collect()
    }

    /// Has it stand in line for a slot.
    pub(super) fn line_up(&self, now: Time, given: Given, leaves_free: Option<u32>) {
        self.state().line.join(now, given, leaves_free);
    }

    /// Gives free slots to who is next in line. `wants`: the scheduler whose session would be best,
    /// if it need not be clean, and the login.
    pub(super) fn next_in_line<'a>(
        &self,
        wants: impl Fn(&Assignment) -> (Option<Handle>, &'a Arc<Login>),
    ) -> Vec<(Slot, Given)> {
        let state = &mut *self.state();
        let mut begin = Vec::new();
        while let Some(given) = state.line.next(state.free.len()) {
            let (used_by, login) = wants(&given.assignment);
            begin.extend(state.take(used_by, login).map(|slot| (slot, given)));
        }
        begin
    }

    /// Takes somebody out of the line.
    pub(super) fn take_out(&self, token: Token) -> Option<Given> {
        self.state().line.remove(|given| given.token == token)
    }

    /// See [`Line::leave`].
    pub(super) fn leave_line(&self, now: Time, longest: Duration) -> Vec<Given> {
        self.state().line.leave(now, longest)
    }

    /// See [`Line::since`].
    pub(super) fn in_line_since(&self) -> Option<Time> {
        self.state().line.since()
    }

    /// Takes a slot back. Returns its session, when it is one too many.
    pub(super) fn put(&self, slot: Slot) -> Option<Live> {
        let mut state = self.state();
        if slot.number > state.total {
            state.activity.remove(&slot.number);
            return slot.live.map(|live| *live);
        }
        let session = slot.live.as_ref().map(|live| live.session.clone());
        let idle = Activity {
            session,
            ..Activity::default()
        };
        state.activity.insert(slot.number, idle);
        state.free.push(slot);
        None
    }

    /// Whether any of them has a session.
    pub(super) fn have_sessions(&self) -> bool {
        let state = self.state();
        state
            .activity
            .values()
            .any(|activity| activity.session.is_some())
    }

    /// Whether any of them has a session, or is opening one.
    pub(super) fn are_used(&self) -> bool {
        let state = self.state();
        let mut all = state.activity.values();
        all.any(|one| one.opens || one.session.is_some())
    }

    /// Takes a session of a free slot of which this is true; it is told as well how many sessions
    /// there are, with those of busy slots.
    pub(super) fn take_one(&self, wanted: impl Fn(&Live, usize) -> bool) -> Option<Live> {
        let state = &mut *self.state();
        let sessions = state.activity.values();
        let count = sessions.filter(|one| one.session.is_some()).count();
        let mut places = 0..state.free.len();
        places.find_map(|place| state.take_session(place, |live| wanted(live, count)))
    }

    /// Takes from free slots the sessions that have died.
    pub(super) fn take_dead_sessions(&self) -> Vec<Live> {
        let mut state = self.state();
        let places = 0..state.free.len();
        places
            .filter_map(|place| state.take_session(place, |live| live.has_died()))
            .collect()
    }

    /// Takes from free slots the sessions of which this is true; `warm`: but one that is clean, for
    /// the next task.
    pub(super) fn take_sessions(
        &self,
        warm: bool,
        mut wanted: impl FnMut(&Live) -> bool,
    ) -> Vec<Live> {
        let state = &mut *self.state();
        let is_clean = |slot: &Slot| {
            slot.live
                .as_ref()
                .is_some_and(|live| live.used_by().is_none())
        };
        let kept = state.free.iter().rposition(is_clean).filter(|_| warm);
        let places = (0..state.free.len()).filter(|place| Some(*place) != kept);
        places
            .filter_map(|place| state.take_session(place, |live| wanted(live)))
            .collect()
    }

    /// Notes what a slot that has been taken is doing.
    pub(super) fn note(&self, slot: u32, change: impl FnOnce(&mut Activity)) {
        change(self.state().activity.entry(slot).or_default());
    }

    /// The one that runs an attempt.
    pub(super) fn running(&self, task: TaskId, attempt: Attempt) -> Option<(u32, Activity)> {
        let is_it = |(a, _): &(Assignment, Time)| {
            (a.handle, a.first, a.attempt) == (task.handle, task.seq, attempt)
        };
        let state = self.state();
        let mut all = state.activity.iter();
        let found = all.find(|(_, one)| one.running.as_ref().is_some_and(is_it));
        found.map(|(slot, one)| (*slot, one.clone()))
    }

    /// All of them by number.
    pub(super) fn activity(&self) -> Vec<(u32, Activity)> {
        let state = self.state();
        let activity = state.activity.iter();
        activity.map(|(slot, one)| (*slot, one.clone())).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The session of the free slot in this place, if this is true of it; the slot has none then.
    fn take_session(
        &mut self,
        place: usize,
        wanted: impl FnOnce(&mut Live) -> bool,
    ) -> Option<Live> {
        let slot = &mut self.free[place];
        let live = slot.live.take_if(|live| wanted(live))?;
        if let Some(activity) = self.activity.get_mut(&slot.number) {
            activity.session = None;
        }
        Some(*live)
    }

    /// A free slot: one whose session this scheduler has used, if it need not be clean; else one
    /// with a session of this login, or with none.
    fn take(&mut self, used_by: Option<Handle>, login: &Arc<Login>) -> Option<Slot> {
        let free = &mut self.free;
        let find = |wanted: &dyn Fn(&Live) -> bool| {
            free.iter()
                .rposition(|slot| slot.live.as_deref().is_some_and(wanted))
        };
        let its_own = |live: &Live| used_by.is_some() && live.used_by() == used_by;
        let at = find(&|live| its_own(live) && live.login() == login)
            .or_else(|| find(&|live| live.login() == login))
            .or_else(|| free.iter().rposition(|slot| slot.live.is_none()));
        match at {
            Some(at) => Some(free.remove(at)),
            None => free.pop(),
        }
    }
}
