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
//! nothing.

use super::{Resources, passing::Watch, ready_lines::Ready};
use crate::core::{
    ClaimNo, Handle, Mode, Namespace, ResourceKey, Seq, Want, fairness::slot_kinds::KindId,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All lines.
#[derive(Debug, Default)]
pub(crate) struct TaskLines {
    pub(super) lines: BTreeMap<ClaimNo, TaskLine>,
    pub(super) ready: Ready,
    /// Lines that wait, by the resource they are parked at.
    parked: BTreeMap<ResourceKey, Parked>,
    /// Resources that lines want.
    pub(super) watched: BTreeMap<ResourceKey, Watch>,
    /// Lines for which what they want is kept.
    pub(super) reserved: BTreeSet<ClaimNo>,
    /// Lines that have become ready since asked.
    woken: Vec<(Handle, ClaimNo)>,
    /// Lines that were passed too often since asked.
    pub(super) passed: Vec<(Handle, ClaimNo)>,
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
    parked: Option<usize>,
}

/// Lines that are parked at one resource.
#[derive(Debug, Default)]
struct Parked {
    buckets: BTreeMap<Bucket, BTreeSet<(Seq, ClaimNo)>>,
    /// How many buckets there are of each mode.
    modes: BTreeMap<Mode, usize>,
}

/// Lines of one scheduler that are parked for the same. One for which it is kept is by itself.
type Bucket = (Handle, KindId, Mode, Option<ClaimNo>);

impl Parked {
    fn insert(&mut self, bucket: Bucket, line: (Seq, ClaimNo)) {
        let lines = self.buckets.entry(bucket).or_insert_with(|| {
            *self.modes.entry(bucket.2).or_default() += 1;
            BTreeSet::new()
        });
        lines.insert(line);
    }

    fn remove(&mut self, bucket: Bucket, line: (Seq, ClaimNo)) {
        let Some(lines) = self.buckets.get_mut(&bucket) else {
            return;
        };
        lines.remove(&line);
        if !lines.is_empty() {
            return;
        }
        self.buckets.remove(&bucket);
        match self.modes.get_mut(&bucket.2) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.modes.remove(&bucket.2)),
        }
    }
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

impl TaskLines {
    /// What the lines wait for that are parked at a resource.
    pub(super) fn modes_parked_at(&self, key: &ResourceKey) -> impl Iterator<Item = Mode> {
        let parked = self.parked.get(key);
        parked
            .into_iter()
            .flat_map(|parked| parked.modes.keys())
            .copied()
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

    /// Takes a line out.
    pub(super) fn take_line(&mut self, no: ClaimNo) -> Option<TaskLine> {
        self.unpark(no);
        let is_reserved = self.tasks.reserved.remove(&no);
        self.note_ready(no, false);
        let line = self.tasks.lines.remove(&no)?;
        for (key, _) in line.keys() {
            self.watches.note(&key);
            if is_reserved && let Some(in_use) = self.in_use.get_mut(&key) {
                in_use.leave_queue(no);
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

    /// The resource that a line cannot have now. One that only seemed to be ready waits again, and
    /// others may have what it leaves.
    pub(super) fn check_ready(&mut self, no: ClaimNo) -> bool {
        let Some(at) = self.blocked_at(no) else {
            return true;
        };
        self.note_ready(no, false);
        self.park(no, at);
        if let Some(line) = self.tasks.lines.get(&no) {
            let others = (0..line.wants.len()).filter(|other| *other != at);
            let others: Vec<_> = others.map(|other| line.key(other)).collect();
            self.changed.extend(others);
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

    /// Wakes the lines that are parked at a resource, as many of each scheduler as there is
    /// something left for.
    pub(super) fn wake_lines(&mut self, key: &ResourceKey) {
        let Some(parked) = self.tasks.parked.get(key) else {
            return;
        };
        let buckets: Vec<Bucket> = parked.buckets.keys().copied().collect();
        let capacity = self.definitions.of(key);
        let capacity = capacity.map_or(0, |one| u64::from(one.image.settings.capacity));
        let used = self
            .in_use
            .get(key)
            .map_or(0, |in_use| in_use.used(self.now));
        for bucket in buckets {
            self.wake_bucket(key, &bucket, capacity.saturating_sub(used));
        }
    }

    fn wake_bucket(&mut self, key: &ResourceKey, bucket: &Bucket, mut left: u64) {
        while left > 0
            && let Some(no) = self.first_parked(key, bucket)
        {
            let blocked = self.blocked_at(no);
            let line = &self.tasks.lines[&no];
            if blocked.is_some_and(|at| line.key(at) == *key) {
                return;
            }
            let handle = line.handle;
            self.unpark(no);
            if let Some(at) = blocked {
                self.park(no, at);
                continue;
            }
            self.tasks.woken.push((handle, no));
            self.note_ready(no, true);
            left = match bucket.2 {
                Mode::Exclusive => 0,
                Mode::Shared(permits) => left.saturating_sub(permits.into()),
            };
        }
    }

    fn first_parked(&self, key: &ResourceKey, bucket: &Bucket) -> Option<ClaimNo> {
        let bucket = self.tasks.parked.get(key)?.buckets.get(bucket)?;
        bucket.first().map(|(_, no)| *no)
    }

    /// Which of its resources a line cannot have now, the first one.
    fn blocked_at(&mut self, no: ClaimNo) -> Option<usize> {
        let line = self.tasks.lines.get(&no)?.clone();
        let is_reserved = self.tasks.reserved.contains(&no);
        let mut keys = line.keys();
        keys.position(|(key, mode)| match is_reserved {
            true => !self.is_next_of(&key, no),
            false => !self.could_have(&key, no, mode),
        })
    }

    /// Whether somebody at this place could have a resource now.
    pub(super) fn could_have(&mut self, key: &ResourceKey, no: ClaimNo, mode: Mode) -> bool {
        self.in_use_of(key).enqueue(no, mode);
        let could = self.is_next_of(key, no);
        if let Some(in_use) = self.in_use.get_mut(key) {
            in_use.leave_queue(no);
        }
        self.forget_or_watch(key);
        could
    }

    pub(crate) fn is_kept_for(&self, no: ClaimNo) -> bool {
        self.tasks.reserved.contains(&no)
    }

    fn is_ready(&self, no: ClaimNo) -> bool {
        (self.tasks.lines.get(&no)).is_some_and(|line| line.parked.is_none())
    }

    fn park(&mut self, no: ClaimNo, at: usize) {
        let Some((key, bucket)) = self.parking(no, at) else {
            return;
        };
        let Some(line) = self.tasks.lines.get_mut(&no) else {
            return;
        };
        line.parked = Some(at);
        let parked = self.tasks.parked.entry(key.clone()).or_default();
        parked.insert(bucket, (line.front, no));
        self.watch_refill_for(&key, bucket.2);
    }

    fn unpark(&mut self, no: ClaimNo) {
        let Some(line) = self.tasks.lines.get_mut(&no) else {
            return;
        };
        let front = line.front;
        let Some((key, bucket)) = line.parked.take().and_then(|at| self.parking(no, at)) else {
            return;
        };
        let Some(parked) = self.tasks.parked.get_mut(&key) else {
            return;
        };
        parked.remove(bucket, (front, no));
        if parked.buckets.is_empty() {
            self.tasks.parked.remove(&key);
        }
    }

    fn parking(&self, no: ClaimNo, at: usize) -> Option<(ResourceKey, Bucket)> {
        let line = self.tasks.lines.get(&no)?;
        let own = self.tasks.reserved.contains(&no).then_some(no);
        let bucket = (line.handle, line.kind, line.wants[at].mode, own);
        Some((line.key(at), bucket))
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
            self.in_use_of(&key).enqueue(no, mode);
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
                in_use.leave_queue(no);
            }
            self.watches.note(&key);
            self.changed.insert(key);
        }
        if let Some(at) = parked {
            self.park(no, at);
        }
    }
}
