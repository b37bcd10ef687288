//! Pauses of targets: nothing starts where one is in force by the journal, and what runs under one
//! that stops it is asked to stop.

use super::{Oracle, rows::Rows};
use rallypoint::core::{Handle, PauseChange, PauseMode, Seq, Work};
use std::{collections::BTreeMap, sync::Arc};

/// The pauses in force, by target; `None`: of everything.
pub(super) type Pauses = BTreeMap<Option<Arc<str>>, PauseMode>;

impl Oracle {
    /// An operator pauses or resumes, in a batch that is durable.
    pub(super) fn change_pause(&mut self, change: &PauseChange, rows: &mut Rows<'_>) {
        let known = self.pauses.get(&change.target).copied();
        let changes = match (known, change.mode) {
            (Some(PauseMode::CancelRunning), Some(_)) => false,
            (known, asked) => known != asked,
        };
        let recorded = rows.next_pause(change);
        assert_eq!(changes, recorded, "{change:?} is on record");
        if !changes {
            return;
        }
        match change.mode {
            Some(mode) => drop(self.pauses.insert(change.target.clone(), mode)),
            None => drop(self.pauses.remove(&change.target)),
        }
    }

    pub(super) fn is_paused(&self, work: &Work) -> bool {
        let mut pauses = self.pauses.keys();
        pauses.any(|target| work.is_of(target.as_deref()))
    }

    /// Everybody has reported what runs, and was answered: whoever goes on where a pause stops it
    /// has been asked to stop. `unstopped`: those who have not.
    pub(crate) fn nothing_goes_on_unasked(&self, unstopped: &[(Handle, Seq, Work)]) {
        for (target, mode) in &self.pauses {
            for (handle, seq, work) in unstopped {
                let stops = *mode == PauseMode::CancelRunning && work.is_of(target.as_deref());
                assert!(
                    !stops,
                    "{handle}/{} goes on under a pause that stops it",
                    seq.0
                );
            }
        }
    }
}
