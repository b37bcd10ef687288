//! Runs: they start, end, are repeated, and let the next one of their job begin.

use super::{
    Answered, Failure, Job, Jobs, Step, key_of, overlap::Firing, room::NoRoom, steps,
    timers::RUN_BYTES,
};
use crate::core::{
    Caller, Handle, JobKey, JobNo, JobPause, JobReject, JobReply, Order, Outcome, Overlap, Reject,
    Rerun, RunCause, RunImage, RunKey, RunReason, RunState, Time, Turn,
    fairness::allowance::Allowance,
};
use std::sync::Arc;
use uuid::Uuid;

impl Jobs {
    /// A run starts if nothing keeps it waiting: another run, a batch that starts much already, or
    /// the limits of its namespace.
    pub(super) fn start_or_wait(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        image: RunImage,
    ) {
        let key = image.key;
        let is_full = self.is_full() && !self.is_claimed(key.job);
        // Others of its job may wait for room already.
        let is_first = !self.no_room.contains_key(&key.job);
        let may = !is_full && is_first && self.is_free_for(&image) && self.may_start(&image);
        self.runs.insert(key, image);
        if !may || self.start(turn, allowance, key).is_err() {
            self.wait_in_line(turn, allowance, key);
        }
    }

    /// The next attempt of a run starts: its scheduler is opened with this batch.
    pub(super) fn start(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) -> Result<(), NoRoom> {
        if self.is_claimed(key.job) {
            if self.runs.get(&key).is_some_and(|run| run.attempt == 0) {
                self.count_delay(turn, key);
            }
            self.offer(turn, key);
            return Ok(());
        }
        let room = self.room_for(turn, allowance, key)?;
        if let Some(job) = self.jobs.get(&key.job) {
            self.started_bytes += RUN_BYTES + job.image.steps.bodies.bytes.len();
        }
        let attempt = self.runs.get(&key).map_or(0, |run| run.attempt + 1);
        let handle = self.handle_of(turn.now, key, attempt.into());
        let Some(run) = self.runs.get_mut(&key) else {
            return Ok(());
        };
        run.attempt = attempt;
        run.state = RunState::Running;
        run.reason = None;
        run.detail = "".into();
        run.handle = Some(handle);
        run.started_at = Some(turn.now);
        run.next_attempt_at = None;
        (run.failed, run.cancelled) = (0, 0);
        self.by_handle.insert(handle, key);
        self.steps.push_back(Step::Start(key, room));
        self.set_run_timer(key);
        self.record_run(turn, key);
        Ok(())
    }

    /// Its scheduler is opened.
    pub(crate) fn started(&mut self, turn: &mut Turn, key: RunKey) {
        if self.runs.get(&key).is_some_and(|run| run.attempt == 1) && !self.is_question(key) {
            self.count_delay(turn, key);
        }
    }

    fn count_delay(&self, turn: &mut Turn, key: RunKey) {
        let is_scheduled = |run: &RunImage| run.cause == RunCause::Scheduled;
        if self.runs.get(&key).is_some_and(is_scheduled) {
            turn.out.tally.start_delays.push(turn.now.since(key.due));
        }
    }

    /// The handle of the scheduler that a run opens for the so-manyth time.
    pub(super) fn handle_of(&self, now: Time, key: RunKey, opened: u64) -> Handle {
        Handle::new(self.shard, (now.0 / 1_000) as u64, name_of(key, opened))
    }

    /// Tasks of a scheduler have ended. Whether a run has failed must be known when it ends.
    pub(crate) fn note_outcome(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        outcome: Outcome,
        count: u32,
    ) {
        if self.by_handle.is_empty() || outcome == Outcome::Succeeded {
            return;
        }
        let Some(key) = self.by_handle.get(&handle).copied() else {
            return;
        };
        if let Some(run) = self.runs.get_mut(&key) {
            match outcome.is_failure() {
                true => run.failed += i64::from(count),
                false => run.cancelled += i64::from(count),
            }
            self.record_run(turn, key);
        }
    }

    /// Its steps cannot be submitted.
    pub(crate) fn refused(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
        why: String,
    ) {
        if self.is_question(key) {
            return self.target_not_asked(turn, allowance, key, &why);
        }
        if let Some(run) = self.runs.get_mut(&key) {
            run.reason = Some(RunReason::Refused);
            run.detail = why.into();
            if let Some(handle) = run.handle {
                self.by_handle.remove(&handle);
            }
            self.end_attempt(turn, allowance, key, RunState::Failed);
        }
    }

    /// Its scheduler is not known any more. What was being stopped ends as it would have: what was
    /// cancelled is not repeated.
    pub(crate) fn scheduler_gone(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) {
        if self.is_question(key) {
            return self.target_not_asked(turn, allowance, key, "its scheduler is gone");
        }
        if let Some(run) = self.runs.get_mut(&key) {
            run.reason = run.reason.or(Some(RunReason::SchedulerGone));
            let state = run.ends_as();
            if let Some(handle) = run.handle {
                self.by_handle.remove(&handle);
            }
            self.end_attempt(turn, allowance, key, state);
        }
    }

    /// A scheduler has ended.
    pub(crate) fn scheduler_ended(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        handle: Handle,
    ) {
        if self.by_handle.is_empty() {
            return;
        }
        let Some(key) = self.by_handle.remove(&handle) else {
            return;
        };
        if self.is_question(key) {
            return self.target_answered(turn, allowance, key);
        }
        let state = self.runs[&key].ends_as();
        self.end_attempt(turn, allowance, key, state);
    }

    pub(super) fn end_attempt(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
        state: RunState,
    ) {
        if self.is_unreadable(key.job) {
            return self.leave_undecided(turn, key);
        }
        if state == RunState::Succeeded && !self.decide_followers(turn, allowance, key.job) {
            return self.decide_later(turn, key);
        }
        let next = self.next_attempt(turn.now, key, state);
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        run.state = state;
        run.ended_at = Some(turn.now);
        run.next_attempt_at = None;
        if let Some(at) = next {
            run.state = RunState::Retrying;
            run.ended_at = None;
            run.next_attempt_at = Some(at);
            self.set_run_timer(key);
            self.record_run(turn, key);
            // One of a backfill keeps nobody waiting until then.
            return self.take_turns(turn, allowance, key.job);
        }
        let cause = run.cause;
        self.record_run(turn, key);
        self.count(turn, key.job, cause, state);
        self.follow_failure(key, Failure::Ended(state));
        if state == RunState::Succeeded {
            self.fire_followers(turn, allowance, key.job);
        }
        self.take_turns(turn, allowance, key.job);
    }

    /// When a run that has failed is repeated.
    fn next_attempt(&self, now: Time, key: RunKey, state: RunState) -> Option<Time> {
        let rule: Rerun = self.jobs.get(&key.job)?.image.settings.rerun?;
        let run = &self.runs[&key];
        let at = now + rule.delay;
        // A run that was asked for, or is made up for, has no window: else it would go on for ever.
        let is_open = match run.closes {
            Some(closes) => at < closes,
            None => rule.max.is_some(),
        };
        // What is offered no more nobody could claim.
        let is_offered = self.is_claimed(key.job) && run.closes.is_some();
        let may = state.is_failure()
            && rule.max.is_none_or(|max| run.attempt <= max)
            && (is_open || !(rule.within_window || is_offered))
            && !self.gives_way(key);
        may.then_some(at)
    }

    /// Counts failures in a row, and pauses a job that has too many of them. What is made up for
    /// does not count.
    pub(super) fn count(&mut self, turn: &mut Turn, no: JobNo, cause: RunCause, ended: RunState) {
        if cause == RunCause::Backfilled {
            return;
        }
        let Some(job) = self.jobs.get(&no) else {
            return;
        };
        let most = job.image.settings.pause_after_failures;
        let since = turn.now;
        self.change_state(turn, no, |state| {
            if ended == RunState::Succeeded {
                state.failures = 0;
            } else if ended.is_failure() {
                state.failures = state.failures.saturating_add(1);
                if most.is_some_and(|most| state.failures >= most) && state.paused.is_none() {
                    let reason = format!("{} failed runs in a row", state.failures);
                    state.paused = Some(JobPause {
                        since,
                        by: "".into(),
                        reason: reason.into(),
                    });
                }
            }
        });
    }

    /// Somebody asks for a run now. The same request gets the same run.
    pub(super) fn run_now(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        name: &Arc<str>,
        (request, from_order): (Option<Uuid>, Option<i64>),
    ) -> Answered {
        let no = self.job_of(caller, name)?;
        if let Some(request) = request {
            let mut open = self.open_runs(no);
            let known = open.find(|run| run.request == Some(request));
            if let Some(run) = known.or_else(|| self.asked.get(no, request)) {
                let same = (run.from_order == from_order).then(|| run.clone());
                let same = same.map(|run| JobReply::Run(run, false));
                return same.ok_or(Reject::RequestIdReused);
            }
        }
        if self.agent.is_stopped {
            return Err(Reject::Job(JobReject::AgentStopped));
        }
        let job = &self.jobs[&no];
        steps::check_from(&job.image, from_order.map(Order)).map_err(Reject::Job)?;
        let overlap = job.image.settings.overlap;
        let busy = self.ordinary_runs(no).next();
        if let Some(run) = busy.filter(|_| overlap == Overlap::Skip) {
            let is_held = run.state != RunState::Running && !self.may_start(run);
            return Err(Reject::Job(match is_held {
                true => JobReject::RunHeld(run.key.due),
                false => JobReject::JobRuns(run.key.due),
            }));
        }
        let is_busy = busy.is_some();
        if self.open_runs(no).count() >= allowance.limits.waiting_runs {
            return Err(Reject::Job(JobReject::RunsWait(
                allowance.limits.waiting_runs,
            )));
        }
        let due = self.unscheduled(turn, no);
        let key = RunKey { job: no, due };
        let image = RunImage {
            by: caller.name.clone(),
            request,
            from_order,
            // It was asked for by somebody, so it has its turn.
            catches_up: true,
            closes: self.offered_until(turn.now, allowance.limits, no, (due, RunCause::Asked)),
            ..Firing::new(due, RunCause::Asked).image(no)
        };
        match !is_busy || overlap == Overlap::Allow {
            true => self.start_or_wait(turn, allowance, image),
            false => self.wait(turn, allowance, image),
        }
        Ok(JobReply::Run(self.runs[&key].clone(), true))
    }

    /// Cancels a run, whether it runs or waits.
    pub(super) fn cancel_run(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        name: &Arc<str>,
        due: Time,
    ) -> Answered {
        let key = self.run_of(caller, name, due)?;
        // There may have been more to decide than one batch bears.
        self.decide_end(turn, allowance, key);
        // What is undecided even now has succeeded: it is over for who cancels it.
        let run = self.runs.get(&key).filter(|run| !run.is_undecided());
        let Some(before) = run.cloned() else {
            return Err(Reject::Job(JobReject::UnknownRun));
        };
        if before.state == RunState::Running {
            self.cancel(turn, key, RunReason::Asked, &caller.name);
        } else {
            if let Some(run) = self.runs.get_mut(&key) {
                run.by = caller.name.clone();
            }
            self.give_up(turn, key, RunState::Cancelled, RunReason::Asked);
            self.take_turns(turn, allowance, key.job);
        }
        let run = self.run_as_recorded(turn, key);
        let run = run.ok_or(Reject::Job(JobReject::UnknownRun))?;
        let changes = run != before;
        Ok(JobReply::Run(run, changes))
    }

    /// A run of the job of this name, or of a deleted one that had it.
    fn run_of(&self, caller: &Caller, name: &Arc<str>, due: Time) -> Result<RunKey, Reject> {
        let job = key_of(caller, name);
        let mut keys = self.named(&job).map(|job| RunKey { job, due });
        match keys.find(|key| self.runs.contains_key(key)) {
            Some(key) => Ok(key),
            None => self.job_of(caller, name).map(|job| RunKey { job, due }),
        }
    }

    /// The job of this name, and deleted ones that had it.
    pub(super) fn named(&self, key: &JobKey) -> impl Iterator<Item = JobNo> {
        let had_it = move |(no, one): (&JobNo, &Job)| (one.image.key == *key).then_some(*no);
        let deleted = self.deleted.iter().filter_map(had_it);
        self.by_name.get(key).copied().into_iter().chain(deleted)
    }
}

/// Bits that name an attempt of a run, so that no other one has its handle.
fn name_of(key: RunKey, opened: u64) -> [u8; 10] {
    let mix = |number: u64| {
        let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    };
    let due = mix(key.due.0 as u64 ^ 0x9e37_79b9_7f4a_7c15);
    let low = mix(due ^ mix(key.job.0 as u64) ^ opened.rotate_left(40));
    let high = mix(low ^ key.job.0 as u64) as u16;
    let mut bits = [0; 10];
    bits[..2].copy_from_slice(&high.to_be_bytes());
    bits[2..].copy_from_slice(&low.to_be_bytes());
    bits
}
