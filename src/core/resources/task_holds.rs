//! What tasks hold: a claim like those of callers, granted in the batch that records the start of
//! an attempt, and ended in the one that records its end. It has no lease.

use super::{Resources, claim::Claim};
use crate::core::{
    ClaimEnd, ClaimEnding, ClaimEvent, ClaimNo, ClaimRecord, ClaimSpec, ClaimState, Handle, Seq,
    TaskId, Token, Turn,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// What an owner of an older version keeps it for.
const LEASE: Duration = Duration::from_secs(366 * 86_400);

impl Resources {
    /// Grants the first task of a line what it wants, if it can have it now; the line is gone then.
    pub(crate) fn grant_task(
        &mut self,
        turn: &mut Turn,
        no: ClaimNo,
        task: TaskId,
        caller: &Arc<str>,
    ) -> Option<Token> {
        if !self.check_ready(no) {
            return None;
        }
        let line = self.take_line(no)?;
        self.last.0 += 1;
        self.token.0 += 1;
        let (no, token) = (self.last, self.token);
        let spec = Arc::new(ClaimSpec {
            namespace: line.namespace.clone(),
            wants: line.wants.to_vec(),
            owner: Arc::default(),
            caller: caller.clone(),
            reason: Arc::default(),
            labels: BTreeMap::new(),
            request: None,
            lease: LEASE,
            wait: None,
            task: Some(task),
        });
        let mut claim = Claim::new(spec.clone(), turn.now, self.pace.steady(turn.now));
        claim.state = ClaimState::Held {
            token,
            since: turn.now,
        };
        self.claims.insert(no, claim);
        self.note_open(no);
        let taken = self.take(no, token);
        self.note_change_of(no);
        self.holders.insert(task, no);
        self.recorded = no;
        let what = ClaimEvent::Granted {
            token,
            spec: Some(spec),
            taken,
        };
        turn.out.records.resources.claims.push(ClaimRecord {
            no,
            at: turn.now,
            what,
        });
        self.count_passes(no, Some((task.handle, task.seq)));
        Some(token)
    }

    /// The attempt of a task is over: what it held is free.
    pub(crate) fn end_of_attempt(&mut self, turn: &mut Turn, task: TaskId) {
        let Some(no) = self.holders.remove(&task) else {
            return;
        };
        let held = self.claims.get(&no).filter(|claim| claim.is_open());
        // An operator may have ended it.
        let Some((_, since)) = held.and_then(|claim| claim.state.granted()) else {
            return;
        };
        self.note_length(no, turn.now.since(since));
        self.give_back(no);
        self.note_change_of(no);
        let ending = Arc::new(ClaimEnding {
            how: ClaimEnd::Released,
            free_at: turn.now,
            by: Arc::default(),
            reason: Arc::default(),
        });
        turn.out.records.resources.claims.push(ClaimRecord {
            no,
            at: turn.now,
            what: ClaimEvent::Ended(ending),
        });
        self.note_ended(no);
        self.claims.remove(&no);
        self.count_ended(turn.now);
    }

    /// Claims of tasks that do not run: an owner of an older version has seen the end of their
    /// attempts.
    pub(crate) fn end_orphans(&mut self, turn: &mut Turn, runs: impl Fn(TaskId) -> bool) {
        if !std::mem::take(&mut self.restored) {
            return;
        }
        let orphans = self.holders.keys().filter(|task| !runs(**task));
        let orphans: Vec<TaskId> = orphans.copied().collect();
        for task in orphans {
            self.end_of_attempt(turn, task);
        }
    }

    /// Lines that wait for what a claim has been granted are passed; `task`: by a task.
    pub(super) fn count_passes(&mut self, no: ClaimNo, task: Option<(Handle, Seq)>) {
        if self.tasks.watched.is_empty() {
            return;
        }
        for key in self.claims[&no].keys() {
            if let Some(watch) = self.tasks.watched.get_mut(&key) {
                self.tasks.passed.extend(watch.granted(task));
            }
        }
    }
}
