//! Runs of jobs are ordinary schedulers: opened, given the steps, and released, all in the batch in
//! which their due time is put on record.

use crate::core::{
    Caller, Handle, JobImage, Open, Reject, ReleaseMode, Reply, ResourceReject, RunImage, RunKey,
    RunState, SchedulerState, Settings, Shard, Submit, Turn,
    fairness::allowance::Allowance,
    jobs::{Failure, Jobs, Room, Step, at_due_time, limit_reached},
    model::limits::Limits,
    shard::lifecycle::Releaser,
};
use std::sync::Arc;

/// Labels of the scheduler of a run.
const JOB_LABEL: &str = "job";
const DUE_LABEL: &str = "due";
const FAILURE_LABEL: &str = "on_failure";

impl Shard {
    /// Does what is due of jobs, as much as one batch bears.
    pub(crate) fn run_jobs(&mut self, turn: &mut Turn) {
        let (jobs, mut allowance) = self.jobs();
        jobs.settle(turn, &mut allowance);
        self.carry_out(turn);
    }

    /// Does what jobs have left to do.
    pub(crate) fn carry_out(&mut self, turn: &mut Turn) {
        while let Some(step) = self.jobs.next_step() {
            match step {
                Step::Start(key, room) => self.start_run(turn, key, room),
                Step::Check(key, handle) => self.check_run(turn, key, handle),
                Step::Follow(key, failure, image) => {
                    self.follow_failure(turn, key, failure, &image);
                }
                Step::FindClaim(key) => {
                    let (jobs, mut allowance) = self.jobs();
                    jobs.claim_missing(turn, &mut allowance, key);
                }
                Step::EndClaim(key) => {
                    let (jobs, mut allowance) = self.jobs();
                    jobs.end_cancelled(turn, &mut allowance, key);
                }
                Step::Cancel(handle) => {
                    if self.schedulers.get(handle).is_some() {
                        self.release(turn, handle, ReleaseMode::Cancel, Releaser::Caller);
                    }
                }
            }
        }
    }

    /// Jobs, and what they ask of the limits.
    pub(crate) fn jobs(&mut self) -> (&mut Jobs, Allowance<'_>) {
        let allowance = Allowance {
            limits: &self.limits,
            quotas: &mut self.quotas,
            fair: &mut self.fair,
        };
        (&mut self.jobs, allowance)
    }

    fn start_run(&mut self, turn: &mut Turn, key: RunKey, room: Room) {
        let promised = match room {
            Room::Promised(promise) => {
                self.quotas.redeem(promise);
                Some(promise.load)
            }
            Room::Never => None,
        };
        let Some((caller, open, steps, handle)) = self.run_to_start(key) else {
            let (jobs, mut allowance) = self.jobs();
            return jobs.scheduler_gone(turn, &mut allowance, key);
        };
        if steps.runs.is_empty() {
            // The job was changed since, and names no target any more.
            let (jobs, mut allowance) = self.jobs();
            return jobs.refused(
                turn,
                &mut allowance,
                key,
                "the job names none any more".to_owned(),
            );
        }
        // The steps may have changed since they were promised room.
        let limits = match promised == Some(steps.load()) {
            true => Limits {
                queued_bytes: i64::MAX,
                ..lifted(&self.limits)
            },
            false => self.limits,
        };
        if let Reply::Rejected(reject) = self.open(turn, &limits, &caller, handle, &open) {
            let (jobs, mut allowance) = self.jobs();
            return jobs.refused(turn, &mut allowance, key, why(&reject));
        }
        let submitted = self.submit(turn, &limits, &caller, handle, &steps);
        if let Reply::Rejected(reject) = submitted {
            let (jobs, mut allowance) = self.jobs();
            jobs.refused(turn, &mut allowance, key, why(&reject));
            self.release(turn, handle, ReleaseMode::Cancel, Releaser::Caller);
            return;
        }
        self.release(turn, handle, ReleaseMode::Finish, Releaser::Caller);
        self.jobs.started(turn, key);
    }

    /// What opens the scheduler of a run, and its tasks.
    fn run_to_start(&self, key: RunKey) -> Option<(Caller, Open, Arc<Submit>, Handle)> {
        let handle = self.jobs.run(key)?.handle?;
        let image = self.jobs.definition(key.job)?;
        let tasks = self.jobs.tasks_of(key)?;
        let steps = match image.settings.claimed {
            true => tasks,
            false => at_due_time(&tasks, key.due),
        };
        Some((caller_of(image), opens(image, key, None), steps, handle))
    }

    /// The tasks that follow a failure are submitted, whatever its namespace has going on: a limit
    /// that holds tasks back does not hold back word of it, but for that of the bytes in memory.
    fn follow_failure(&mut self, turn: &mut Turn, key: RunKey, failure: Failure, image: &JobImage) {
        let tasks = at_due_time(&image.on_failure, key.due);
        let caller = caller_of(image);
        let open = opens(image, key, Some(failure));
        let handle = self.jobs.handle_after(turn.now, key, failure);
        let limits = lifted(&self.limits);
        if let Reply::Rejected(reject) = self.open(turn, &limits, &caller, handle, &open) {
            return self.jobs.not_followed(turn, key, failure, &why(&reject));
        }
        let submitted = self.submit(turn, &limits, &caller, handle, &tasks);
        let mode = match submitted {
            Reply::Rejected(reject) => {
                self.jobs.not_followed(turn, key, failure, &why(&reject));
                ReleaseMode::Cancel
            }
            _ => ReleaseMode::Finish,
        };
        self.release(turn, handle, mode, Releaser::Caller);
    }

    /// After a recovery: the scheduler of a run may have ended under an owner that knows no jobs,
    /// or have been set aside. What may go on must not be repeated: an owner that can read job and
    /// scheduler finds out. A target may be asked once more meanwhile.
    fn check_run(&mut self, turn: &mut Turn, key: RunKey, handle: Handle) {
        let goes_on =
            |run: &&RunImage| run.state == RunState::Running && run.handle == Some(handle);
        if self.jobs.run(key).filter(goes_on).is_none() {
            // That attempt has ended meanwhile, and perhaps the next one starts with this batch.
            return;
        }
        let scheduler = self.schedulers.get(handle);
        let state = scheduler.map(|scheduler| scheduler.image.state);
        let (jobs, mut allowance) = self.jobs();
        match state {
            None | Some(SchedulerState::Released) if jobs.is_unreadable(key.job) => {}
            None | Some(SchedulerState::Released) if jobs.is_question(key) => {
                jobs.ask_anew(turn, &mut allowance, key);
            }
            None if jobs.is_set_aside(handle) => {}
            None | Some(SchedulerState::Released) => {
                jobs.scheduler_gone(turn, &mut allowance, key);
            }
            // It was asked to end, and that was not carried out.
            Some(_) => jobs.cancel_again(key),
        }
    }
}

/// The limits, with those of a namespace lifted but for that of the bytes in memory.
fn lifted(limits: &Limits) -> Limits {
    Limits {
        open_schedulers: i64::MAX as usize,
        queued_tasks: i64::MAX,
        submit_rate: None,
        ..*limits
    }
}

/// Runs are made in the name of whoever defined the job last.
fn caller_of(image: &JobImage) -> Caller {
    Caller {
        namespace: image.key.namespace.clone(),
        name: image.changed_by.clone(),
    }
}

/// The scheduler of a run, or of what follows its failure.
fn opens(image: &JobImage, key: RunKey, failure: Option<Failure>) -> Open {
    let mut settings: Settings = (*image.settings.scheduler).clone();
    let name = &image.key.name;
    let labels = &mut settings.labels;
    labels.insert(JOB_LABEL.to_owned(), name.to_string());
    labels.insert(DUE_LABEL.to_owned(), key.due.to_string());
    if let Some(failure) = failure {
        labels.insert(FAILURE_LABEL.to_owned(), failure.text().to_owned());
    }
    if settings.display_name.is_empty() {
        settings.display_name = name.to_string();
    }
    Open {
        settings: Arc::new(settings),
        ..Open::default()
    }
}

fn why(reject: &Reject) -> String {
    match reject {
        Reject::LimitReached { limit, value, .. } => limit_reached(*limit, *value),
        Reject::TaskResource {
            index,
            name,
            reject,
            ..
        } => {
            let reason = match reject {
                ResourceReject::UnknownResource(_) => "there is none of that name".to_owned(),
                ResourceReject::TooManyPermits { capacity, .. } => {
                    format!("that has {capacity} permits, which is less than it asks for")
                }
                other => format!("{other:?}"),
            };
            format!("task {} needs the resource {name}: {reason}", index + 1)
        }
        other => format!("{other:?}"),
    }
}
