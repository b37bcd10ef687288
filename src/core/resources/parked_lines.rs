//! Lines of tasks that wait, each at one resource that it cannot have, and which of them are woken
//! when there is something left of it.
//!
//! A change of a resource must not cost as much as there are lines: those of the earliest places
//! are woken, which get it before others, and a few more, of which some may not start. If they
//! have left something after a dispatch, more are.

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
    /// The groups of each mode, in the order in which they are looked at.
    in_line: BTreeMap<Mode, BTreeSet<InLine>>,
}

/// Lines of one scheduler that are parked for the same. One for which it is kept is by itself.
type Group = (Handle, KindId, Mode, Option<ClaimNo>);

/// Whether the group is one for which nothing is kept, its first place in line, and which it is.
type InLine = (bool, ClaimNo, Group);

#[derive(Debug, Default)]
struct Lines {
    /// By the number of the first task.
    by_task: BTreeSet<(Seq, ClaimNo)>,
    by_place: BTreeSet<ClaimNo>,
}

/// How far the lines of one mode were woken after a change of their resource.
#[derive(Debug, Default)]
pub(super) struct Waking {
    /// How many lines of a group are woken at most: as many as there was room for at first, since
    /// those that have started are among them.
    most: u64,
    /// Groups up to this one were looked at.
    after: Option<InLine>,
    /// How many lines of each group were woken.
    woken: BTreeMap<Group, u64>,
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
        let place = |lines: &Lines| {
            let first = lines.by_place.first();
            first.map(|first| (group.3.is_none(), *first, group))
        };
        let before = place(lines);
        change(lines);
        let after = place(lines);
        if after.is_none() {
            self.groups.remove(&group);
        }
        if before == after {
            return;
        }
        let in_line = self.in_line.entry(group.2).or_default();
        if let Some(before) = before {
            in_line.remove(&before);
        }
        in_line.extend(after);
        if in_line.is_empty() {
            self.in_line.remove(&group.2);
        }
    }

    /// The group of a mode that comes next after another one.
    fn next(&self, mode: Mode, after: Option<InLine>) -> Option<InLine> {
        let after = after.map_or(Unbounded, Excluded);
        let in_line = self.in_line.get(&mode)?;
        in_line.range((after, Unbounded)).next().copied()
    }
}

impl Resources {
    /// What the lines wait for that are parked at a resource.
    pub(super) fn modes_parked_at(&self, key: &ResourceKey) -> impl Iterator<Item = Mode> {
        let parked = self.tasks.parked.get(key);
        parked
            .into_iter()
            .flat_map(|parked| parked.in_line.keys())
            .copied()
    }

    /// A resource has changed: wakes lines that are parked there, of each scheduler and mode as
    /// many as there is something left for. First come those for which it is kept, then those of
    /// the earliest places; the last ones only with [`Resources::wake_more`].
    pub(super) fn wake_lines(&mut self, key: &ResourceKey) {
        let modes: Vec<Mode> = self.modes_parked_at(key).collect();
        for mode in modes {
            self.tasks.waking.remove(&(key.clone(), mode));
            let waking = Waking {
                most: self.room_of(key, self.now).fitting(mode),
                ..Waking::default()
            };
            self.wake_mode(key, mode, waking);
        }
    }

    /// Whoever could start has started: wakes more lines of what was left. Returns whether there
    /// may be any.
    pub(crate) fn wake_more(&mut self) -> bool {
        let waking = std::mem::take(&mut self.tasks.waking);
        let any = !waking.is_empty();
        for ((key, mode), waking) in waking {
            self.wake_mode(&key, mode, waking);
        }
        any
    }

    fn wake_mode(&mut self, key: &ResourceKey, mode: Mode, mut waking: Waking) {
        let fitting = self.room_of(key, self.now).fitting(mode);
        let mut left = fitting.saturating_add(WOKEN_BESIDES);
        let mut kept_have_it = true;
        while fitting > 0
            && let Some(group) = self.next_group(key, mode, waking.after)
        {
            step();
            let mut woken = waking.woken.remove(&group.2).unwrap_or(0);
            while woken < waking.most && (group.0 || kept_have_it) {
                if left == 0 {
                    waking.woken.insert(group.2, woken);
                    self.tasks.waking.insert((key.clone(), mode), waking);
                    return;
                }
                left -= 1;
                match self.next_of_group(key, &group.2) {
                    Next::Nobody => break,
                    Next::Wake(no, blocked) => woken += u64::from(self.wake(no, blocked)),
                    Next::CannotHaveIt => {
                        // Nor can whoever comes later in line; others may come before the place
                        // that is the first one of this group now.
                        let is_first = self.next_group(key, mode, waking.after) == Some(group);
                        if group.0 && is_first {
                            return;
                        }
                        kept_have_it &= group.0;
                        break;
                    }
                }
            }
            waking.woken.insert(group.2, woken);
            waking.after = Some(group);
        }
    }

    fn next_group(&self, key: &ResourceKey, mode: Mode, after: Option<InLine>) -> Option<InLine> {
        let parked = self.tasks.parked.get(key)?;
        parked.next(mode, after)
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

    /// Lines that wait though they could have what they want.
    #[cfg(test)]
    pub(crate) fn overlooked(&mut self) -> Vec<ClaimNo> {
        let lines = self.tasks.lines.iter();
        let waiting = lines.filter(|(_, line)| line.parked.is_some());
        let mut waiting: Vec<ClaimNo> = waiting.map(|(no, _)| *no).collect();
        waiting.retain(|no| self.blocked_at(*no).is_none());
        waiting
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
