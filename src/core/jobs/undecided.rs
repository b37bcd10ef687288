//! A run ends under an owner that cannot read its job. Only the job says whether a target is asked
//! first, whether the run is repeated, and what follows it, so that is left to the next owner that
//! can read it.

use super::{Jobs, key_of, wake::Wake};
use crate::core::{
    Caller, Handle, JobNo, JobVerb, RunImage, RunKey, RunReason, RunState, Time, Turn,
    fairness::allowance::Allowance,
};
use std::{collections::BTreeSet, sync::Arc};

impl RunImage {
    /// It has ended, and nobody has decided what follows.
    pub(super) fn is_undecided(&self) -> bool {
        self.state == RunState::Retrying && self.next_attempt_at.is_none()
    }

    /// How it ends if it is not repeated: by why it was stopped, or else by its tasks.
    pub(super) fn ends_as(&self) -> RunState {
        match self.reason {
            Some(RunReason::MaxRuntime) => RunState::TimedOut,
            Some(RunReason::SchedulerGone | RunReason::ClaimantLost) => RunState::Lost,
            Some(RunReason::Refused | RunReason::Reported) => RunState::Failed,
            Some(RunReason::CompletedLate) => RunState::Succeeded,
            Some(_) => RunState::Cancelled,
            None if self.failed > 0 => RunState::Failed,
            None if self.cancelled > 0 => RunState::Cancelled,
            None => RunState::Succeeded,
        }
    }
}

impl Jobs {
    /// Whether nothing is known of what a job says, for this version cannot read it.
    pub(crate) fn is_unreadable(&self, no: JobNo) -> bool {
        self.job(no).is_none()
    }

    /// Whether it is not known what became of a scheduler: it has rows, and this owner cannot read
    /// them.
    pub(crate) fn is_set_aside(&self, handle: Handle) -> bool {
        self.set_aside.contains(&handle)
    }

    /// A run has ended, and waits for an owner that decides what follows.
    pub(super) fn leave_undecided(&mut self, turn: &mut Turn, key: RunKey) {
        if let Some(run) = self.runs.get_mut(&key) {
            run.state = RunState::Retrying;
            run.next_attempt_at = None;
            self.record_run(turn, key);
        }
    }

    /// An undecided run is not to be repeated. The owner that decides ends it as cancelled, unless
    /// it is claimed and its target says that the work is done.
    pub(super) fn cancel_undecided(
        &mut self,
        turn: &mut Turn,
        key: RunKey,
        reason: RunReason,
        by: &Arc<str>,
    ) {
        if let Some(run) = self.runs.get_mut(&key) {
            run.reason = Some(reason);
            run.by = by.clone();
            self.record_run(turn, key);
        }
    }

    /// What follows from a success is more than this batch bears: it is left to the next one. What
    /// is undecided is decided before all else, and ends by the same rules then.
    pub(super) fn decide_later(&mut self, turn: &mut Turn, key: RunKey) {
        self.leave_undecided(turn, key);
        self.set_run_timer(key);
    }

    /// Commands may come before this owner has decided anything: what is open of the jobs that a
    /// verb names is decided first, as much as this batch bears. A verb leaves alone what still is
    /// undecided.
    pub(super) fn decide_first(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        verb: &JobVerb,
    ) {
        let Some(name) = verb.job() else {
            return;
        };
        let named: Vec<JobNo> = self.named(&key_of(caller, name)).collect();
        self.decide_each(turn, allowance, named);
    }

    /// What is open of all jobs is decided, as much as this batch bears, and none of it if that is
    /// full: else what follows a success would only wait there. So it does even now where others
    /// that follow the last success fill the batch. Returns whether that was all.
    pub(super) fn decide_all(&mut self, turn: &mut Turn, allowance: &mut Allowance<'_>) -> bool {
        let undecided = self.runs.values().filter(|run| run.is_undecided());
        let jobs = undecided.map(|run| run.key.job);
        // Of a job that cannot be read nothing can be decided now.
        let jobs: BTreeSet<JobNo> = jobs.filter(|no| !self.is_unreadable(*no)).collect();
        (jobs.is_empty() || !self.is_full()) && self.decide_each(turn, allowance, jobs)
    }

    /// What is open of the jobs that follow this one is decided before they run once more, as much
    /// as this batch bears. Returns whether that was all. A chain may be of any length: its end
    /// comes first, so that no decision has to make the next one.
    pub(super) fn decide_followers(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        no: JobNo,
    ) -> bool {
        let mut chain = vec![no];
        let mut at = 0;
        while let Some(&one) = chain.get(at) {
            let followers = self.followers(one);
            chain.extend(followers.filter(|no| self.first_undecided(*no).is_some()));
            at += 1;
        }
        self.decide_each(turn, allowance, chain.into_iter().skip(1).rev())
    }

    /// Decides what is open of these jobs, one after the other: one run at least, so that it goes
    /// on when commands fill every batch. Returns whether that was all.
    fn decide_each(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        jobs: impl IntoIterator<Item = JobNo>,
    ) -> bool {
        let mut is_first = true;
        for no in jobs {
            while let Some(key) = self.first_undecided(no) {
                if !is_first && self.bears_no_more(turn, allowance.limits) {
                    return false;
                }
                is_first = false;
                self.timers.remove(&(Time(0), Wake::Run(key)));
                self.decide_end(turn, allowance, key);
            }
        }
        true
    }

    /// The timers of what is undecided are the first of all.
    fn first_undecided(&self, no: JobNo) -> Option<RunKey> {
        let first = (Time(0), Wake::Run(*RunKey::all_of(no).start()));
        match self.timers.range(first..).next() {
            Some(&(Time(0), Wake::Run(key))) if key.job == no => Some(key),
            _ => None,
        }
    }

    /// What an owner that could not read the job of a run has left open, if that can be read now. A
    /// claimed run that has not succeeded has its target asked, perhaps once more: that changes
    /// nothing.
    pub(super) fn decide_end(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) {
        let is_claimed = self.is_question(key);
        let Some(job) = self.definition(key.job) else {
            return;
        };
        let asks_target = !job.steps.runs.is_empty();
        let run = self.runs.get_mut(&key);
        let Some(run) = run.filter(|run| run.is_undecided()) else {
            return;
        };
        let state = run.ends_as();
        if !is_claimed || state == RunState::Succeeded {
            return self.end_attempt(turn, allowance, key, state);
        }
        run.state = RunState::Running;
        match asks_target {
            true => self.ask_anew(turn, allowance, key),
            false => self.claim_failed(turn, allowance, key),
        }
    }
}
