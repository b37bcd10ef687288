//! Claims of runs: one at a time, by tokens that rise, each with one end; and what the service
//! reads of them, and of due times, in the journal.

use super::*;
use rallypoint::core::{Epoch, KnownClaim, RunClaimOutcome};

impl Jobs {
    pub(super) fn claims_durable(&mut self, records: &JobRecords) {
        let highest = |jobs: &Jobs| jobs.claims.keys().map(|(_, token)| *token).max();
        let last = highest(self);
        for (id @ (key, token), claim) in &records.claims {
            let run = &self.runs[key];
            match self.claims.insert(*id, claim.clone()) {
                None => {
                    assert!(Some(*token) > last, "{key:?}: a token does not rise");
                    let has_ended = claim.end.is_some();
                    let goes_on = run.state == RunState::Running;
                    assert!(has_ended || goes_on, "{key:?} is claimed: {run:?}");
                }
                Some(before) => {
                    let same = before.end.is_none() || before.end == claim.end;
                    assert!(same, "the claim {token:?} of {key:?} ends twice");
                }
            }
        }
        let touched: BTreeSet<RunKey> = records.claims.keys().map(|(key, _)| *key).collect();
        for key in touched {
            let own = self
                .claims
                .range((key, RunToken(0))..=(key, RunToken(i64::MAX)));
            let own: Vec<&RunClaim> = own.map(|(_, claim)| claim).collect();
            let open = own.iter().filter(|claim| claim.end.is_none()).count();
            assert!(open <= 1, "{key:?} is claimed by two");
            let done = |claim: &&&RunClaim| {
                let outcome = claim.end.as_ref().map(|end| end.outcome);
                outcome == Some(RunClaimOutcome::Succeeded)
            };
            let done = own.iter().filter(done).count();
            assert!(done <= 1, "{key:?} is done twice");
            let run = &self.runs[&key];
            let succeeded = run.state == RunState::Succeeded;
            assert!(done == 0 || succeeded, "{key:?} is done, and {run:?}");
            assert!(
                run.attempt as usize >= own.len(),
                "{key:?}: an attempt a claim"
            );
        }
    }

    /// What is offered is offered for a time that is not over.
    pub(super) fn offers_end(&self, no: JobNo, now: Time) {
        let mut open = self.open(no);
        let endless = open.find(|run| {
            run.state == RunState::Waiting && run.closes.is_none_or(|closes| closes <= now)
        });
        assert_eq!(endless, None, "an offer without end");
        let mut open = self.open(no);
        let lost = open.find(|run| {
            let own = self
                .claims
                .range((run.key, RunToken(0))..=(run.key, RunToken(i64::MAX)));
            let has_claim = own.into_iter().any(|(_, claim)| claim.end.is_none());
            run.state == RunState::Running && run.handle.is_none() && !has_claim
        });
        assert_eq!(lost, None, "it runs, and nobody does it");
    }

    /// Due times that had no run, as the service reads them for a backfill.
    pub(crate) fn without_run(&self, name: &str, most: usize) -> Backfill {
        let Some(no) = self.present(name) else {
            return Backfill {
                job: JobNo(0),
                version: 0,
                due: Vec::new(),
                ranges: Vec::new(),
                seen: Time(0),
            };
        };
        let had_none = |run: &&RunImage| {
            let none = matches!(run.state, RunState::Skipped | RunState::Missed);
            let scheduled = run.cause != RunCause::Asked;
            run.key.job == no && none && run.attempt == 0 && run.last.is_none() && scheduled
        };
        let due = self.runs.values().filter(had_none).map(|run| run.key.due);
        Backfill {
            job: no,
            version: self.jobs[&no].version,
            due: due.take(most).collect(),
            ranges: Vec::new(),
            seen: self.states[&no].last_unscheduled,
        }
    }

    /// A claim as the service reads it when the core has forgotten it.
    pub(crate) fn known_claim(
        &self,
        name: &str,
        due: Time,
        (token, owner): (RunToken, Epoch),
    ) -> Option<KnownClaim> {
        let job = self.present(name)?;
        let key = RunKey { job, due };
        let own = self
            .claims
            .range((key, RunToken(0))..=(key, RunToken(i64::MAX)));
        let last = own.map(|((_, token), _)| *token).max();
        Some(KnownClaim {
            owner,
            claim: self.claims.get(&(key, token))?.clone(),
            is_last: last == Some(token),
            run: self.runs.get(&key)?.clone(),
        })
    }
}
