//! Lines of tasks that could have what they want now: who is before whom, and how many of them the
//! resources admit together.
//!
//! Each line is ready by itself, and learns that another one has taken what it wants only when its
//! turn comes. So a free permit makes lines of several schedulers ready (`parked_lines.rs`).

use super::{Resources, in_use::Room};
use crate::core::{
    ClaimNo, Handle, Mode, Namespace, ResourceKey, Time, Want, fairness::slot_kinds::KindId,
};
use std::{collections::BTreeMap, sync::Arc};

/// Earlier lines that are looked at before one gets what it wants.
const RIVALS: usize = 16;
/// Different wants of a kind that are compared with what is left; more count as admitted.
const WANTS_COMPARED: usize = 1_000;

/// How many lines of each kind are ready, by what they want.
#[derive(Debug, Default)]
pub(super) struct Ready(BTreeMap<KindId, OfKind>);

#[derive(Debug, Default)]
struct OfKind {
    lines: u64,
    by_wants: BTreeMap<Wants, u64>,
}

/// What a line wants.
type Wants = (Namespace, Arc<[Want]>);

impl Ready {
    /// One more is ready, or one less.
    fn count(&mut self, kind: KindId, wants: Wants, ready: bool) {
        let of_kind = self.0.entry(kind).or_default();
        let alike = of_kind.by_wants.entry(wants.clone()).or_default();
        if ready {
            *alike += 1;
            of_kind.lines += 1;
            return;
        }
        *alike -= 1;
        of_kind.lines -= 1;
        if *alike == 0 {
            of_kind.by_wants.remove(&wants);
        }
        if of_kind.lines == 0 {
            self.0.remove(&kind);
        }
    }
}

impl Resources {
    /// How many ready lines of a kind could have what they want together: at most, where that takes
    /// more looks than a status may cost. Other kinds are as if they were not there, so that what
    /// cannot start elsewhere hides nothing here.
    pub(crate) fn admitted(&self, kind: KindId, now: Time) -> i64 {
        let Some(of_kind) = self.tasks.ready.0.get(&kind) else {
            return 0;
        };
        let mut rooms: BTreeMap<ResourceKey, Room> = BTreeMap::new();
        let (mut admitted, mut left) = (0, of_kind.lines);
        for ((namespace, wants), lines) in of_kind.by_wants.iter().take(WANTS_COMPARED) {
            left -= lines;
            let keys = wants.iter().map(|want| ResourceKey {
                namespace: namespace.clone(),
                name: want.name.clone(),
            });
            let keys: Vec<_> = keys.zip(wants.iter().map(|want| want.mode)).collect();
            let mut fitting = *lines;
            for (key, mode) in &keys {
                let room = rooms.entry(key.clone());
                let room = room.or_insert_with(|| self.room_of(key, now));
                fitting = fitting.min(room.fitting(*mode));
            }
            for (key, mode) in &keys {
                if let Some(room) = rooms.get_mut(key).filter(|_| fitting > 0) {
                    room.take_times(*mode, fitting);
                }
            }
            admitted += fitting;
        }
        (admitted + left) as i64
    }

    /// A line is ready, or is not any more.
    pub(super) fn note_ready(&mut self, no: ClaimNo, ready: bool) {
        let Some(line) = self.tasks.lines.get(&no) else {
            return;
        };
        let mut has_changed = false;
        for (key, _) in line.keys() {
            let Some(watch) = self.tasks.watched.get_mut(&key) else {
                continue;
            };
            has_changed |= match ready {
                true => watch.ready.insert(no),
                false => watch.ready.remove(&no),
            };
        }
        if has_changed {
            let wants = (line.namespace.clone(), line.wants.clone());
            self.tasks.ready.count(line.kind, wants, ready);
        }
    }

    /// Ready lines that come before this one and could not have what they want any more if it got
    /// it: some of them, with their schedulers.
    pub(crate) fn rivals(&self, no: ClaimNo) -> Vec<(Handle, ClaimNo)> {
        let Some(line) = self.tasks.lines.get(&no) else {
            return Vec::new();
        };
        let mut rivals = Vec::new();
        for (key, mode) in line.keys() {
            let Some(watch) = self.tasks.watched.get(&key) else {
                continue;
            };
            let kept = self.tasks.reserved.intersection(&watch.ready);
            let most = if self.is_kept_for(no) { 0 } else { RIVALS };
            let earlier = watch.ready.range(..no).take(most);
            for earlier in kept.take(RIVALS).chain(earlier) {
                let other = &self.tasks.lines[earlier];
                if self.rank(*earlier) < self.rank(no)
                    && other.kind == line.kind
                    && !self.has_both(&key, mode, other.mode_of(&key))
                {
                    rivals.push((other.handle, *earlier));
                }
            }
        }
        rivals
    }

    /// Which of two lines comes first, the lower one: those for which what they want is kept do,
    /// then those with the earlier place.
    pub(crate) fn rank(&self, no: ClaimNo) -> (bool, ClaimNo) {
        (!self.is_kept_for(no), no)
    }

    /// Whether two that want a resource can have it now.
    fn has_both(&self, key: &ResourceKey, one: Mode, other: Option<Mode>) -> bool {
        let (Mode::Shared(one), Some(Mode::Shared(other))) = (one, other) else {
            return false;
        };
        let capacity = self.definitions.of(key);
        let capacity = capacity.map_or(0, |known| u64::from(known.image.settings.capacity));
        let used = self
            .in_use
            .get(key)
            .map_or(0, |in_use| in_use.used(self.now));
        used + u64::from(one) + u64::from(other) <= capacity
    }
}
