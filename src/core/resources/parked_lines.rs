//! Lines of tasks that wait, each at one resource that it cannot have, and which of them are woken
//! when there is something left of it.
//!
//! A change of a resource must not cost as much as there are lines: those of the earliest places
//! are woken, which get it before others, and a few more, of which some may not start. If they
//! leave something, more are woken.

use super::Resources;
use crate::core::{
    ClaimNo, Handle, Mode, ResourceKey, Seq, fairness::slot_kinds::KindId,
    scheduler::queue::step_counter::step,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound::{Excluded, Unbounded},
};

/// Lines that are woken at once besides as many as there is something left for.
const WOKEN_BESIDES: u64 = 16;

/// Lines that are parked at one resource.
#[derive(Debug, Default)]
pub(super) struct Parked {
    groups: BTreeMap<Group, Lines>,
    /// The groups of each mode, by their first place in line.
    by_place: BTreeMap<Mode, BTreeSet<(ClaimNo, Group)>>,
}

/// Lines of one scheduler that are parked for the same. One for which it is kept is by itself.
type Group = (Handle, KindId, Mode, Option<ClaimNo>);

#[derive(Debug, Default)]
struct Lines {
    /// By the number of the first task.
    by_task: BTreeSet<(Seq, ClaimNo)>,
    by_place: BTreeSet<ClaimNo>,
}

/// Who of a group is woken.
enum Next {
    /// Also one that waits for another one of its resources, by the place of that.
    Wake(ClaimNo, Option<usize>),
    /// The first in line does not get this resource.
    CannotHaveIt,
    Nobody,
}

impl Parked {
    fn insert(&mut self, group: Group, line: (Seq, ClaimNo)) {
        self.change(group, |lines| {
            lines.by_task.insert(line);
            lines.by_place.insert(line.1);
        });
    }

    fn remove(&mut self, group: Group, line: (Seq, ClaimNo)) {
        self.change(group, |lines| {
            lines.by_task.remove(&line);
            lines.by_place.remove(&line.1);
        });
    }

    fn change(&mut self, group: Group, change: impl FnOnce(&mut Lines)) {
        let lines = self.groups.entry(group).or_default();
        let before = lines.by_place.first().copied();
        change(lines);
        let after = lines.by_place.first().copied();
        if after.is_none() {
            self.groups.remove(&group);
        }
        if before == after {
            return;
        }
        let by_place = self.by_place.entry(group.2).or_default();
        if let Some(before) = before {
            by_place.remove(&(before, group));
        }
        if let Some(after) = after {
            by_place.insert((after, group));
        }
        if by_place.is_empty() {
            self.by_place.remove(&group.2);
        }
    }

    /// The group of a mode whose first place comes next after another one.
    fn next(&self, mode: Mode, after: Option<(ClaimNo, Group)>) -> Option<(ClaimNo, Group)> {
        let after = after.map_or(Unbounded, Excluded);
        let by_place = self.by_place.get(&mode)?;
        by_place.range((after, Unbounded)).next().copied()
    }
}

impl Resources {
    /// What the lines wait for that are parked at a resource.
    pub(super) fn modes_parked_at(&self, key: &ResourceKey) -> impl Iterator<Item = Mode> {
        let parked = self.tasks.parked.get(key);
        parked
            .into_iter()
            .flat_map(|parked| parked.by_place.keys())
            .copied()
    }

    /// Wakes lines that are parked at a resource: of each scheduler and mode as many as there is
    /// something left for are ready then, beginning with the earliest places.
    pub(super) fn wake_lines(&mut self, key: &ResourceKey) {
        let modes: Vec<Mode> = self.modes_parked_at(key).collect();
        for mode in modes {
            self.wake_mode(key, mode);
        }
    }

    fn wake_mode(&mut self, key: &ResourceKey, mode: Mode) {
        let fitting = self.room_of(key, self.now).fitting(mode);
        if fitting == 0 {
            return;
        }
        let mut left = fitting.saturating_add(WOKEN_BESIDES);
        let mut after = None;
        while let Some((first, group)) =
            (self.tasks.parked.get(key)).and_then(|parked| parked.next(mode, after))
        {
            step();
            let watch = self.tasks.watched.get(key);
            let mut ready = watch.map_or(0, |watch| watch.ready_of((group.0, group.1, mode)));
            while ready < fitting {
                if left == 0 {
                    self.tasks.to_wake_more.insert(key.clone());
                    return;
                }
                left -= 1;
                match self.next_of_group(key, &group) {
                    Next::Nobody => break,
                    // Nor can whoever comes later in line.
                    Next::CannotHaveIt => return,
                    Next::Wake(no, blocked) => ready += u64::from(self.wake(no, blocked)),
                }
            }
            after = Some((first, group));
        }
    }

    /// The line with the first task, or where that is too late in line, the first in line.
    fn next_of_group(&mut self, key: &ResourceKey, group: &Group) -> Next {
        let parked = self.tasks.parked.get(key);
        let Some(lines) = parked.and_then(|parked| parked.groups.get(group)) else {
            return Next::Nobody;
        };
        let by_task = lines.by_task.first().map(|(_, no)| *no);
        let by_place = lines.by_place.first().copied();
        for no in by_task.into_iter().chain(by_place) {
            let blocked = self.blocked_at(no);
            if blocked.is_none_or(|at| self.tasks.lines[&no].key(at) != *key) {
                return Next::Wake(no, blocked);
            }
        }
        Next::CannotHaveIt
    }

    /// A line is ready now, or waits for another one of its resources; returns whether it is ready.
    fn wake(&mut self, no: ClaimNo, blocked: Option<usize>) -> bool {
        self.unpark(no);
        if let Some(at) = blocked {
            self.park(no, at);
            return false;
        }
        let handle = self.tasks.lines[&no].handle;
        self.tasks.woken.push((handle, no));
        self.note_ready(no, true);
        true
    }

    /// Resources of which those who were woken have left something are looked at again.
    pub(crate) fn wake_more(&mut self) {
        for key in std::mem::take(&mut self.tasks.to_wake_more) {
            let room = self.room_of(&key, self.now);
            if self
                .modes_parked_at(&key)
                .any(|mode| room.fitting(mode) > 0)
            {
                self.changed.insert(key);
            }
        }
    }

    pub(super) fn park(&mut self, no: ClaimNo, at: usize) {
        let Some((key, group)) = self.parking(no, at) else {
            return;
        };
        let Some(line) = self.tasks.lines.get_mut(&no) else {
            return;
        };
        line.parked = Some(at);
        let parked = self.tasks.parked.entry(key.clone()).or_default();
        parked.insert(group, (line.front, no));
        self.watch_refill_for(&key, group.2);
    }

    pub(super) fn unpark(&mut self, no: ClaimNo) {
        let Some(line) = self.tasks.lines.get_mut(&no) else {
            return;
        };
        let front = line.front;
        let Some((key, group)) = line.parked.take().and_then(|at| self.parking(no, at)) else {
            return;
        };
        let Some(parked) = self.tasks.parked.get_mut(&key) else {
            return;
        };
        parked.remove(group, (front, no));
        if parked.groups.is_empty() {
            self.tasks.parked.remove(&key);
        }
    }

    fn parking(&self, no: ClaimNo, at: usize) -> Option<(ResourceKey, Group)> {
        let line = self.tasks.lines.get(&no)?;
        let own = self.tasks.reserved.contains(&no).then_some(no);
        let group = (line.handle, line.kind, line.wants[at].mode, own);
        Some((line.key(at), group))
    }
}
