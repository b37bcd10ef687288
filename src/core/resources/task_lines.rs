//! Tasks that wait for resources.
//!
//! Tasks of one scheduler and order that want the same stand in one line, of which the first one
//! counts. A line has a place among the claims of callers, which it takes anew with each task that
//! starts. It takes its resources together with a slot, so it is only told when it could have them:
//! it is ready. Others may pass it while it waits, but only so often; then it is in line like a
//! claim that was requested just now, and what it wants is kept for it.
//!
//! Nothing of this is on record: after a takeover the lines take new places. A line that is not
//! ready is parked at one resource that it cannot have, so that a change of another one costs
//! nothing (`parked_lines.rs`).

use super::{
    Resources,
    parked_lines::{Parked, Waking},
    passing::Watch,
    ready_lines::Ready,
};
use crate::core::{
    ClaimNo, Handle, Mode, Namespace, ResourceKey, Seq, Want, fairness::slot_kinds::KindId,
    model::limits::Limits, scheduler::queue::step_counter::step,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::Arc,
};

/// All lines.
#[derive(Debug, Default)]
pub(crate) struct TaskLines {
    pub(super) lines: BTreeMap<ClaimNo, TaskLine>,
    pub(super) ready: Ready,
    /// Lines that wait, by the resource they are parked at.
    pub(super) parked: BTreeMap<ResourceKey, Parked>,
    /// Of which resources more lines are to be woken, if those that were have left something.
    pub(super) waking: BTreeMap<(ResourceKey, Mode), Waking>,
    /// Resources that lines want.
    pub(super) watched: BTreeMap<ResourceKey, Watch>,
    /// Lines whose tasks may not start any more, and that still stand here; never an empty part.
    pub(super) leaving: VecDeque<Leaving>,
    /// Lines for which what they want is kept.
    pub(super) reserved: BTreeSet<ClaimNo>,
    /// Lines that have become ready since asked.
    pub(super) woken: Vec<(Handle, ClaimNo)>,
    /// Lines that were passed too often since asked, those of one scheduler together.
    pub(super) passed: Vec<(Handle, Vec<ClaimNo>)>,
}

/// Lines that leave together. What their scheduler has kept of each is freed when it is taken from
/// here, not when they are handed over.
pub(super) struct Leaving(Box<dyn ExactSizeIterator<Item = ClaimNo> + Send + Sync>);

impl fmt::Debug for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leaving").field(&self.0.len()).finish()
    }
}

/// Tasks that want the same.
#[derive(Clone, Debug)]
pub(crate) struct TaskLine {
    pub handle: Handle,
    pub kind: KindId,
    pub namespace: Namespace,
    pub wants: Arc<[Want]>,
    /// The first task.
    pub front: Seq,
    /// Which of `wants` it is parked at; `None`: it is ready.
    pub(super) parked: Option<usize>,
}

impl TaskLine {
    pub(crate) fn new(
        handle: Handle,
        kind: KindId,
        namespace: Namespace,
        wants: Arc<[Want]>,
        front: Seq,
    ) -> Self {
        TaskLine {
            handle,
            kind,
            namespace,
            wants,
            front,
            parked: None,
        }
    }

    pub(super) fn key(&self, at: usize) -> ResourceKey {
        ResourceKey {
            namespace: self.namespace.clone(),
            name: self.wants[at].name.clone(),
        }
    }

    pub(super) fn mode_of(&self, key: &ResourceKey) -> Option<Mode> {
        let want = self.wants.iter().find(|want| want.name == key.name)?;
        Some(want.mode)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = (ResourceKey, Mode)> {
        (0..self.wants.len()).map(|at| (self.key(at), self.wants[at].mode))
    }
}

impl Resources {
    /// A line waits from now on. Returns its place, and whether it is ready.
    pub(crate) fn join_line(&mut self, line: TaskLine) -> (ClaimNo, bool) {
        self.last.0 += 1;
        let no = self.last;
        for (key, _) in line.keys() {
            self.watches.note(&key);
            let watch = self.tasks.watched.entry(key).or_default();
            watch.join(line.handle, line.front, no);
        }
        self.tasks.lines.insert(no, line);
        let blocked = self.blocked_at(no);
        match blocked {
            Some(at) => self.park(no, at),
            None => self.note_ready(no, true),
        }
        (no, blocked.is_none())
    }

    /// A line has another first task.
    pub(crate) fn set_front(&mut self, no: ClaimNo, front: Seq) {
        let Some(line) = self.tasks.lines.get(&no) else {
            return;
        };
        let (handle, before) = (line.handle, line.front);
        for (key, _) in line.keys() {
            self.watches.note(&key);
            if let Some(watch) = self.tasks.watched.get_mut(&key) {
                watch.set_front(handle, (before, no), front);
            }
        }
        let parked = line.parked;
        self.unpark(no);
        if let Some(line) = self.tasks.lines.get_mut(&no) {
            line.front = front;
        }
        if let Some(at) = parked {
            self.park(no, at);
        }
    }

    /// A line is gone, or its tasks may not start any more. What it might have had others may have.
    pub(crate) fn leave_line(&mut self, no: ClaimNo) {
        let was_ready = self.is_ready(no);
        let was_reserved = self.tasks.reserved.contains(&no);
        if let Some(line) = self.take_line(no)
            && (was_ready || was_reserved)
        {
            self.changed.extend(line.keys().map(|(key, _)| key));
        }
    }

    /// The tasks of these lines may not start any more. There may be as many as tasks, so they
    /// leave a few with each batch.
    pub(crate) fn leave_lines(
        &mut self,
        lines: impl ExactSizeIterator<Item = ClaimNo> + Send + Sync + 'static,
    ) {
        if lines.len() > 0 {
            self.tasks.leaving.push_back(Leaving(Box::new(lines)));
        }
    }

    /// Has lines leave that are to, as many as one batch bears: as many as may join with it, some
    /// by their orders and some by a slice, so that who pauses and resumes leaves no more and more.
    pub(super) fn run_leaving(&mut self, limits: &Limits) {
        for _ in 0..2 * limits.slice {
            let Some(Leaving(lines)) = self.tasks.leaving.front_mut() else {
                return;
            };
            let (next, left) = (lines.next(), lines.len());
            if left == 0 {
                self.tasks.leaving.pop_front();
            }
            if let Some(no) = next {
                step();
                self.leave_line(no);
            }
        }
    }

    /// Takes a line out.
    pub(super) fn take_line(&mut self, no: ClaimNo) -> Option<TaskLine> {
        self.unpark(no);
        let is_reserved = self.tasks.reserved.remove(&no);
        self.note_ready(no, false);
        let line = self.tasks.lines.remove(&no)?;
        for (key, _) in line.keys() {
            self.watches.note(&key);
            if is_reserved && let Some(in_use) = self.in_use.get_mut(&key) {
                in_use.queue.remove(no);
            }
            let Some(watch) = self.tasks.watched.get_mut(&key) else {
                continue;
            };
            watch.leave(line.handle, (line.front, no));
            if watch.is_empty() {
                self.tasks.watched.remove(&key);
            }
        }
        Some(line)
    }

    /// Whether a line can have what it wants. One that only seemed to be ready waits again, and
    /// others may have what it leaves: also of what it cannot have, who comes before it in line.
    pub(super) fn check_ready(&mut self, no: ClaimNo) -> bool {
        let Some(at) = self.blocked_at(no) else {
            return true;
        };
        self.note_ready(no, false);
        self.park(no, at);
        if let Some(line) = self.tasks.lines.get(&no) {
            self.changed.extend(line.keys().map(|(key, _)| key));
        }
        false
    }

    /// Lines that have become ready, with their schedulers.
    pub(crate) fn take_woken(&mut self) -> Vec<(Handle, ClaimNo)> {
        std::mem::take(&mut self.tasks.woken)
    }

    pub(crate) fn line(&self, no: ClaimNo) -> Option<&TaskLine> {
        self.tasks.lines.get(&no)
    }

    /// Which of its resources a line cannot have now, the first one.
    pub(super) fn blocked_at(&self, no: ClaimNo) -> Option<usize> {
        step();
        let line = self.tasks.lines.get(&no)?.clone();
        let is_reserved = self.tasks.reserved.contains(&no);
        let mut keys = line.keys();
        keys.position(|(key, mode)| match is_reserved {
            true => !self.is_next_of(&key, no),
            false => !self.could_have(&key, no, mode),
        })
    }

    /// Whether somebody at this place could have a resource now.
    pub(super) fn could_have(&self, key: &ResourceKey, no: ClaimNo, mode: Mode) -> bool {
        match self.in_use.get(key) {
            Some(in_use) => in_use.has_turn(&self.in_force(key, in_use), self.now, (no, mode)),
            None => self.room_of(key, self.now).fitting(mode) > 0,
        }
    }

    /// Whether it wants something that nobody gets, by its definition.
    pub(crate) fn is_closed_for(&self, line: &TaskLine) -> bool {
        let mut keys = line.keys();
        keys.any(|(key, _)| {
            let known = self.definitions.of(&key);
            known.is_none_or(|one| one.image.settings.capacity == 0)
        })
    }

    pub(crate) fn is_kept_for(&self, no: ClaimNo) -> bool {
        self.tasks.reserved.contains(&no)
    }

    pub(crate) fn is_ready(&self, no: ClaimNo) -> bool {
        (self.tasks.lines.get(&no)).is_some_and(|line| line.parked.is_none())
    }

    /// Lines for which what they want is kept.
    pub(crate) fn reserved(&self) -> Vec<ClaimNo> {
        self.tasks.reserved.iter().copied().collect()
    }

    /// What a line wants is kept for it, as for a claim in its place.
    pub(crate) fn reserve(&mut self, no: ClaimNo) {
        if !self.tasks.lines.contains_key(&no) || self.is_kept_for(no) {
            return;
        }
        let parked = self.tasks.lines.get(&no).and_then(|line| line.parked);
        self.unpark(no);
        self.tasks.reserved.insert(no);
        for (key, mode) in self.tasks.lines[&no].clone().keys() {
            self.watches.note(&key);
            self.in_use_of(&key).queue.keep(no, mode);
        }
        if let Some(at) = parked {
            self.park(no, at);
        }
    }

    /// It is kept no more: its tasks could not start if they had it.
    pub(crate) fn unreserve(&mut self, no: ClaimNo) {
        if !self.is_kept_for(no) {
            return;
        }
        let parked = self.tasks.lines.get(&no).and_then(|line| line.parked);
        self.unpark(no);
        self.tasks.reserved.remove(&no);
        for (key, _) in self.tasks.lines[&no].clone().keys() {
            if let Some(in_use) = self.in_use.get_mut(&key) {
                in_use.queue.remove(no);
            }
            self.watches.note(&key);
            self.changed.insert(key);
        }
        if let Some(at) = parked {
            self.park(no, at);
        }
    }
}
