//! Claimants of a job: they claim its runs, renew some claims, say of some how the work went, and
//! forget about others. Of a claim that the core has forgotten they show what the journal has, as
//! the service does.

use crate::{oracle::jobs::Jobs, rng::Rng};
use rallypoint::core::{
    Claimant, Epoch, JobVerb, KnownClaim, RunClaimed, RunReport, RunToken, Time,
};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

#[derive(Default)]
pub(super) struct Claims {
    /// Claims that were given.
    given: Vec<(Time, RunToken)>,
    /// What is to be said of claims that the core does not know, and who owned the shard then.
    forgotten: Vec<(Time, RunReport, Epoch)>,
}

impl Claims {
    pub(super) fn verb(&mut self, rng: &mut Rng, name: Arc<str>, jobs: &Jobs) -> JobVerb {
        if let Some((due, report, owner)) = self.forgotten.pop()
            && let Some(known) = jobs.known_claim(&name, due, (report.token, owner))
        {
            return finish(name, due, report, Some(known));
        }
        match rng.below(10) {
            0..=2 if !self.given.is_empty() => {
                let (due, token) = *rng.one_of(&self.given);
                JobVerb::RenewRun { name, due, token }
            }
            3..=5 if !self.given.is_empty() => {
                // Now and then of one that ended long ago.
                let place = match rng.percent(70) {
                    true => self.given.len() - 1,
                    false => rng.place(self.given.len()),
                };
                let (due, token) = self.given[place];
                let report = RunReport {
                    token,
                    succeeded: rng.percent(70),
                    detail: "".into(),
                };
                finish(name, due, report, None)
            }
            _ => JobVerb::Claim {
                // Now and then of a certain run, which may be over, or another one's.
                due: match rng.percent(25) {
                    true => jobs.newest_due_time(&name),
                    false => None,
                },
                name,
                claimant: Claimant {
                    owner: "one".into(),
                    request: Some(Uuid::from_u128(1 + u128::from(rng.next()))),
                    lease: Duration::from_secs(1 + rng.below(5)),
                },
            },
        }
    }

    pub(super) fn given(&mut self, claimed: &RunClaimed) {
        let claim = &claimed.claim;
        self.given.push((claim.run.due, claim.token));
    }

    /// The core knows no such claim.
    pub(super) fn unknown(&mut self, verb: JobVerb, owner: Epoch) {
        if let JobVerb::FinishRun { due, report, .. } = verb {
            self.forgotten.push((due, report, owner));
        }
    }
}

fn finish(name: Arc<str>, due: Time, report: RunReport, known: Option<KnownClaim>) -> JobVerb {
    JobVerb::FinishRun {
        name,
        due,
        report,
        known: known.map(Box::new),
    }
}
