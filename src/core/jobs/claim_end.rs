//! Claims of runs end: their owners say how the work went, or nothing more is heard of them.
//!
//! Where the work is done on a target, a claim that did not succeed is not the last word: the
//! target is asked, by the steps of the job, whether the work is done there.

use super::{
    Answered, Failure, Jobs, Step, claims::check_is_of, ended_claims::EndedClaim, wake::Wake,
};
use crate::core::{
    Caller, JobNo, JobReject, JobReply, KnownClaim, LateReport, Reject, RunClaim, RunClaimEnd,
    RunClaimOutcome, RunImage, RunKey, RunReason, RunReport, RunState, Time, Turn,
    fairness::allowance::Allowance, model::limits::LIMIT_WAIT,
};
use std::sync::Arc;

/// Tells the scheduler that asks a target once more from the one that asked first.
const ASKED_ANEW: i64 = 1 << 62;

impl Jobs {
    /// A claimant says how its work went. Repeating it changes nothing.
    pub(super) fn finish_run(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        (name, due): (&Arc<str>, Time),
        report: &RunReport,
        known: Option<&KnownClaim>,
    ) -> Answered {
        let job = self.job_of(caller, name)?;
        let key = RunKey { job, due };
        let open = self.claims.get(&key);
        if let Some(open) = open.filter(|claim| claim.image.token == report.token) {
            check_is_of(&open.image, caller)?;
            let outcome = match report.succeeded {
                true => RunClaimOutcome::Succeeded,
                false => RunClaimOutcome::Failed,
            };
            let claim = self.end_claim(turn, allowance, key, outcome, report.detail.clone());
            let claim = claim.ok_or_else(|| self.no_claim())?;
            let run = self.run_as_recorded(turn, key);
            return Ok(JobReply::Finished(claim, run, true));
        }
        let ended = self.ended_claims.get(key, report.token).cloned();
        let known = known.filter(|known| known.owner == self.owner);
        let Some(ended) = ended.or_else(|| known.map(EndedClaim::of)) else {
            return Err(self.no_claim());
        };
        check_is_of(&ended.image, caller)?;
        let run = known.map(|known| &known.run);
        let claim = &ended.image;
        if claim.is_finished() || claim.late.is_some() {
            let run = self.run_as_recorded(turn, key).or(run.cloned());
            return Ok(JobReply::Finished(ended.image, run, false));
        }
        Ok(self.finish_late(turn, allowance, ended, report, run))
    }

    pub(super) fn no_claim(&self) -> Reject {
        Reject::Job(JobReject::NoClaim(self.owner))
    }

    /// A claim was lost before, and its owner says how the work went. What is over stays as it is:
    /// only a run that is still to be claimed anew, and that nobody has claimed since, is done.
    /// Where a target has been asked, that has the last word.
    fn finish_late(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        EndedClaim { image, attempt }: EndedClaim,
        report: &RunReport,
        known: Option<&RunImage>,
    ) -> JobReply {
        let key = image.run;
        let claim = RunClaim {
            end: image.end.or(Some(RunClaimEnd {
                at: turn.now,
                outcome: RunClaimOutcome::Lost,
                detail: "".into(),
            })),
            late: Some(LateReport {
                at: turn.now,
                succeeded: report.succeeded,
                detail: report.detail.clone(),
            }),
            ..image
        };
        self.record_claim(turn, &claim);
        self.ended_claims.remember(EndedClaim {
            image: claim.clone(),
            attempt,
        });
        self.follow_failure(key, Failure::Late(claim.token));
        let is_open = |run: &RunImage| {
            matches!(run.state, RunState::Waiting | RunState::Retrying) && run.attempt == attempt
        };
        let is_done = report.succeeded && !self.asks_target(key);
        if is_done && let Some(run) = self.runs.get_mut(&key).filter(|run| is_open(run)) {
            run.reason = Some(RunReason::CompletedLate);
            run.detail = report.detail.clone();
            self.end_attempt(turn, allowance, key, RunState::Succeeded);
        }
        let run = self.run_as_recorded(turn, key).or(known.cloned());
        JobReply::Finished(claim, run, true)
    }

    /// A run as this batch leaves it.
    pub(super) fn run_as_recorded(&self, turn: &Turn, key: RunKey) -> Option<RunImage> {
        let recorded = turn.out.records.jobs.runs.get(&key);
        self.runs.get(&key).or(recorded).cloned()
    }

    /// A claim ends, and what becomes of its run follows.
    pub(super) fn end_claim(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
        outcome: RunClaimOutcome,
        detail: Arc<str>,
    ) -> Option<RunClaim> {
        let mut claim = self.claims.remove(&key)?.image;
        claim.end = Some(RunClaimEnd {
            at: turn.now,
            outcome,
            detail: detail.clone(),
        });
        self.record_claim(turn, &claim);
        let run = self.runs.get_mut(&key)?;
        self.ended_claims.remember(EndedClaim {
            image: claim.clone(),
            attempt: run.attempt,
        });
        run.detail = detail;
        let reason = match outcome {
            RunClaimOutcome::Succeeded => None,
            // Who has cancelled it was told so, whatever came between.
            RunClaimOutcome::Failed => run.reason.or(Some(RunReason::Reported)),
            RunClaimOutcome::Lost => run.reason.or(Some(RunReason::ClaimantLost)),
            RunClaimOutcome::TimedOut => Some(RunReason::MaxRuntime),
            RunClaimOutcome::Cancelled => run.reason.or(Some(RunReason::Asked)),
        };
        run.reason = reason;
        match reason {
            None => self.end_attempt(turn, allowance, key, RunState::Succeeded),
            Some(_) if self.asks_target(key) => {
                self.ask_target(turn, allowance, key, claim.token.0)
            }
            Some(_) => self.claim_failed(turn, allowance, key),
        }
        Some(claim)
    }

    /// Whether a target is asked before a run counts as not done.
    fn asks_target(&self, key: RunKey) -> bool {
        let job = self.jobs.get(&key.job);
        job.is_some_and(|job| !job.image.steps.runs.is_empty())
    }

    fn ask_target(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
        token: i64,
    ) {
        let handle = self.handle_of(turn.now, key, token as u64);
        if let Some(run) = self.runs.get_mut(&key) {
            run.handle = Some(handle);
            (run.failed, run.cancelled) = (0, 0);
            self.by_handle.insert(handle, key);
            self.record_run(turn, key);
            self.ask_if_room(turn, allowance, key);
        }
    }

    /// The scheduler that asked a target did not answer before this owner: it waited for room, or
    /// its answer was not noted. Another one asks.
    pub(crate) fn ask_anew(&mut self, turn: &mut Turn, allowance: &mut Allowance<'_>, key: RunKey) {
        let before = self.runs.get(&key).and_then(|run| run.handle);
        if let Some(handle) = before {
            self.by_handle.remove(&handle);
        }
        let token = ASKED_ANEW | self.last_token(key.job).0;
        self.ask_target(turn, allowance, key, token);
    }

    /// Has the target of a claimed run asked, now or as soon as there is room for that.
    pub(super) fn ask_if_room(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) {
        let asks = |run: &RunImage| run.state == RunState::Running && run.handle.is_some();
        if !self.runs.get(&key).is_some_and(asks) {
            return;
        }
        let image = self.definition(key.job);
        if image.is_none_or(|image| image.steps.runs.is_empty()) {
            return self.target_not_asked(turn, allowance, key, "its job names none any more");
        }
        match self.ask_for_room(turn.now, allowance, key) {
            Ok(room) => self.steps.push_back(Step::Start(key, room)),
            Err(_) => {
                let at = turn.now + LIMIT_WAIT;
                self.timers.insert((at, Wake::Ask(key)));
            }
        }
    }

    /// The target has said whether the work of a claimed run is done there.
    pub(super) fn target_answered(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) {
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        if run.failed == 0 && run.cancelled == 0 {
            run.reason = None;
            run.detail = "the target has its marker".into();
            return self.end_attempt(turn, allowance, key, RunState::Succeeded);
        }
        self.claim_failed(turn, allowance, key);
    }

    /// It is not known whether the work is done on the target: as if it was not. A claimant that
    /// does it again is refused there by the marker.
    pub(super) fn target_not_asked(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
        why: &str,
    ) {
        if let Some(run) = self.runs.get_mut(&key) {
            run.detail = format!("the target could not be asked: {why}").into();
            if let Some(handle) = run.handle {
                self.by_handle.remove(&handle);
            }
            self.claim_failed(turn, allowance, key);
        }
    }

    /// Whether the scheduler of a run asks a target whether its work is done: the run is claimed.
    /// A job that is deleted leaves such a question behind, and nothing else under that reason.
    pub(crate) fn is_question(&self, key: RunKey) -> bool {
        let is_one = |run: &RunImage| match run.reason {
            Some(RunReason::JobDeleted) => true,
            // No other run has a scheduler under these. That is all there is to go by.
            Some(RunReason::ClaimantLost | RunReason::Reported) => self.is_unreadable(key.job),
            _ => false,
        };
        self.is_claimed(key.job) || self.runs.get(&key).is_some_and(is_one)
    }

    /// Claims of a job that is deleted end with it. Targets that are asked have the last word.
    pub(super) fn end_claims_of(&mut self, turn: &mut Turn, no: JobNo) {
        if !self.is_claimed(no) {
            return;
        }
        let running = self.open_runs(no).filter(|run| run.handle.is_some());
        let asks: Vec<RunKey> = running.map(|run| run.key).collect();
        for key in asks {
            self.cancel(turn, key, RunReason::JobDeleted, &"".into());
        }
        let open = self.claims.range(RunKey::all_of(no));
        let open: Vec<RunKey> = open.map(|(key, _)| *key).collect();
        for key in open {
            if let Some(mut claim) = self.claims.remove(&key).map(|claim| claim.image) {
                claim.end = Some(RunClaimEnd {
                    at: turn.now,
                    outcome: RunClaimOutcome::Cancelled,
                    detail: "".into(),
                });
                self.record_claim(turn, &claim);
                self.give_up(turn, key, RunState::Cancelled, RunReason::JobDeleted);
            }
        }
    }

    /// A claim ended, and the work is not done.
    pub(super) fn claim_failed(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) {
        // Its target may have to be asked first, which only the job says.
        if self.is_unreadable(key.job) {
            return self.leave_undecided(turn, key);
        }
        let run = &self.runs[&key];
        let is_open = run.closes.is_none_or(|closes| turn.now < closes);
        match run.reason {
            Some(RunReason::ClaimantLost) if is_open => self.offer(turn, key),
            Some(RunReason::ClaimantLost) => self.end_attempt(turn, allowance, key, RunState::Lost),
            Some(RunReason::MaxRuntime) => {
                self.end_attempt(turn, allowance, key, RunState::TimedOut)
            }
            Some(RunReason::Reported) => self.end_attempt(turn, allowance, key, RunState::Failed),
            _ => self.end_attempt(turn, allowance, key, RunState::Cancelled),
        }
    }

    /// A run is claimed, and its claim is not known: its row cannot be read. So it is lost.
    pub(crate) fn claim_missing(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) {
        let is_without = |run: &&mut RunImage| run.state == RunState::Running;
        let run = self.runs.get_mut(&key).filter(is_without);
        let (Some(run), false) = (run, self.claims.contains_key(&key)) else {
            return;
        };
        run.reason = run.reason.or(Some(RunReason::ClaimantLost));
        run.detail = "its claim cannot be read".into();
        match self.asks_target(key) {
            true => self.ask_target(turn, allowance, key, self.last_token(key.job).0),
            false => self.claim_failed(turn, allowance, key),
        }
    }

    /// The claim of a run ends because the run is cancelled.
    pub(crate) fn end_cancelled(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) {
        let reason = self.runs.get(&key).and_then(|run| run.reason);
        let outcome = match reason {
            // The claim of then has ended, and another one has the run.
            None => return,
            Some(RunReason::MaxRuntime) => RunClaimOutcome::TimedOut,
            Some(_) => RunClaimOutcome::Cancelled,
        };
        self.end_claim(turn, allowance, key, outcome, "".into());
    }

    /// Writes the row of a claim with this batch.
    pub(super) fn record_claim(&self, turn: &mut Turn, claim: &RunClaim) {
        let claims = &mut turn.out.records.jobs.claims;
        claims.insert((claim.run, claim.token), claim.clone());
    }

    /// Forgets claims that ended before.
    pub(super) fn forget_claims(&mut self, since: Time) {
        self.ended_claims.forget(since);
    }
}
