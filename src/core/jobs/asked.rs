//! Runs that somebody asked for, and that are over: a call that is repeated gets the same run.

use crate::core::{JobNo, RunImage, Time};
use std::collections::{BTreeMap, VecDeque};
use uuid::Uuid;

#[derive(Debug, Default)]
pub(crate) struct Asked {
    runs: BTreeMap<(JobNo, Uuid), RunImage>,
    /// By the time they were asked for, about.
    oldest: VecDeque<(JobNo, Uuid)>,
}

impl Asked {
    pub(super) fn remember(&mut self, run: RunImage) {
        let Some(request) = run.request else {
            return;
        };
        let id = (run.key.job, request);
        if self.runs.insert(id, run).is_none() {
            self.oldest.push_back(id);
        }
    }

    pub(super) fn get(&self, job: JobNo, request: Uuid) -> Option<&RunImage> {
        self.runs.get(&(job, request))
    }

    /// Forgets those that were asked for before `since`, and those above the limit.
    pub(super) fn forget(&mut self, since: Time, most: usize) {
        while let Some(id) = self.oldest.front()
            && (self.oldest.len() > most || self.runs.get(id).is_none_or(|r| r.key.due < since))
        {
            self.runs.remove(id);
            self.oldest.pop_front();
        }
    }
}
