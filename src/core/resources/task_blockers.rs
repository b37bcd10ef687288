//! Why a task cannot have what it wants.

use super::Resources;
use crate::core::{ClaimNo, Mode, Namespace, ResourceBlocker, ResourceKey, Time, Want};

/// Holders that are named for one resource.
const HOLDERS_NAMED: usize = 10;
/// Lines that are counted: who waits behind more is shown a place before its own.
const LINES_COUNTED: usize = 10_000;

impl Resources {
    /// The resources that somebody at this place in line cannot have now, at the end for `None`.
    pub(crate) fn blockers(
        &mut self,
        now: Time,
        namespace: &Namespace,
        wants: &[Want],
        place: Option<ClaimNo>,
    ) -> Vec<ResourceBlocker> {
        // Permits that have come back by time are there.
        self.now = now;
        let no = place.unwrap_or(ClaimNo(self.last.0 + 1));
        let mut blockers = Vec::new();
        for want in wants {
            let key = ResourceKey {
                namespace: namespace.clone(),
                name: want.name.clone(),
            };
            let could = match self.is_kept_for(no) {
                true => self.is_next_of(&key, no),
                false => self.could_have(&key, no, want.mode),
            };
            if !could {
                blockers.push(self.blocker(&key, want.mode, no));
            }
        }
        blockers
    }

    fn blocker(&self, key: &ResourceKey, mode: Mode, no: ClaimNo) -> ResourceBlocker {
        let in_use = self.in_use.get(key);
        let claims = in_use.map_or(0, |one| one.queue.ahead(no).waiters);
        let watch = self.tasks.watched.get(key);
        let lines = watch
            .into_iter()
            .flat_map(|watch| watch.all().take(LINES_COUNTED));
        let lines = lines.filter(|line| *line < no && !self.is_kept_for(*line));
        let held = in_use
            .into_iter()
            .flat_map(|one| one.held.iter().take(HOLDERS_NAMED));
        ResourceBlocker {
            resource: key.name.clone(),
            mode,
            capacity: (self.definitions.of(key)).map(|one| one.image.settings.capacity),
            position: 1 + claims + lines.count() as u64,
            holders: held
                .filter_map(|(no, mode)| self.holder(key, *no, *mode))
                .collect(),
        }
    }
}
