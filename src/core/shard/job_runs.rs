//! Runs of jobs are ordinary schedulers: opened, given the steps, and released, all in the batch in
//! which their due time is put on record.

use crate::core::{
    Caller, Handle, JobImage, Open, Order, Packed, Reject, ReleaseMode, Reply, ResourceReject, Run,
    RunImage, RunKey, SchedulerState, Settings, Shard, Spec, Submit, Time, Turn,
    jobs::{Failure, Step},
    model::limits::{Limit, Limits},
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
        let limits = self.limits;
        self.jobs.settle(turn, &limits);
        self.carry_out(turn);
    }

    /// Does what jobs have left to do.
    pub(crate) fn carry_out(&mut self, turn: &mut Turn) {
        let limits = self.limits;
        while let Some(step) = self.jobs.next_step() {
            match step {
                Step::Start(key) => self.start_run(turn, &limits, key),
                Step::Check(key, handle) => self.check_run(turn, &limits, key, handle),
                Step::Follow(key, failure) => self.follow_failure(turn, key, failure),
                Step::FindClaim(key) => self.jobs.claim_missing(turn, &limits, key),
                Step::EndClaim(key) => self.jobs.end_cancelled(turn, &limits, key),
                Step::Cancel(handle) => {
                    if self.schedulers.get(handle).is_some() {
                        self.release(turn, handle, ReleaseMode::Cancel, Releaser::Caller);
                    }
                }
            }
        }
    }

    fn start_run(&mut self, turn: &mut Turn, limits: &Limits, key: RunKey) {
        let Some((caller, open, steps, handle)) = self.run_to_start(key) else {
            return self.jobs.scheduler_gone(turn, limits, key);
        };
        if let Err(over) = self.has_room(turn.now, &caller, &steps)
            && let Some(wait) = over.wait
        {
            return self
                .jobs
                .put_off(turn, key, wait, &limit_reached(over.limit, over.value));
        }
        if let Reply::Rejected(reject) = self.open(turn, limits, &caller, handle, &open) {
            return self.jobs.refused(turn, limits, key, why(&reject));
        }
        let submitted = self.submit(turn, limits, &caller, handle, &steps);
        if let Reply::Rejected(reject) = submitted {
            self.jobs.refused(turn, limits, key, why(&reject));
            self.release(turn, handle, ReleaseMode::Cancel, Releaser::Caller);
            return;
        }
        self.release(turn, handle, ReleaseMode::Finish, Releaser::Caller);
        self.jobs.started(turn, key);
    }

    /// What opens the scheduler of a run, and its tasks.
    fn run_to_start(&self, key: RunKey) -> Option<(Caller, Open, Arc<Submit>, Handle)> {
        let run = self.jobs.run(key)?;
        let image = self.jobs.definition(key.job)?;
        let steps = match image.settings.claimed {
            true => self.question(key, image),
            false => at_due_time(&steps_of(run, &image.steps), key.due),
        };
        let open = opens(image, key, None);
        Some((caller_of(image), open, steps, run.handle?))
    }

    /// The tasks that follow a failure are submitted, whatever its namespace has going on: a limit
    /// that holds tasks back does not hold back word of it, but for that of the bytes in memory.
    fn follow_failure(&mut self, turn: &mut Turn, key: RunKey, failure: Failure) {
        let Some(image) = self.jobs.definition(key.job) else {
            return;
        };
        let tasks = at_due_time(&image.on_failure, key.due);
        let caller = caller_of(image);
        let open = opens(image, key, Some(failure));
        let handle = self.jobs.handle_after(turn.now, key, failure);
        let limits = Limits {
            open_schedulers: i64::MAX as usize,
            queued_tasks: i64::MAX,
            submit_rate: None,
            ..self.limits
        };
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

    /// What asks a target whether the work of a claimed run is done there: no claim so far may say
    /// so from now on, and then either one has, or the last step fails.
    fn question(&self, key: RunKey, image: &JobImage) -> Arc<Submit> {
        let token = self.jobs.last_token(key.job).0.to_string();
        let (name, due) = (image.key.name.to_string(), key.due.to_string());
        let namespace = image.key.namespace.0.to_string();
        let close = json(&[&name, &due, &token, &namespace]);
        let require = json(&[&name, &due, &namespace]);
        Arc::new(Submit {
            params: Packed::new([close.as_bytes(), require.as_bytes()]),
            ..(*image.steps).clone()
        })
    }

    /// After a recovery: the scheduler of a run may have ended under an owner that knows no jobs,
    /// or have been set aside.
    fn check_run(&mut self, turn: &mut Turn, limits: &Limits, key: RunKey, handle: Handle) {
        if self.jobs.run(key).and_then(|run| run.handle) != Some(handle) {
            // That attempt has ended meanwhile, and perhaps the next one starts with this batch.
            return;
        }
        let scheduler = self.schedulers.get(handle);
        match scheduler.map(|scheduler| scheduler.image.state) {
            None | Some(SchedulerState::Released) => self.jobs.scheduler_gone(turn, limits, key),
            // It was asked to end, and that was not carried out.
            Some(_) => self.jobs.cancel_again(key),
        }
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

/// The steps that a run has.
fn steps_of(run: &RunImage, all: &Arc<Submit>) -> Arc<Submit> {
    let Some(from) = run.from_order.map(Order) else {
        return all.clone();
    };
    let is_left = |run: &Run| run.order.is_none_or(|order| order >= from);
    let (mut runs, mut kept, mut at) = (Vec::new(), Vec::new(), 0);
    for run in &all.runs {
        if is_left(run) {
            runs.push(run.clone());
            kept.extend(at..at + run.count as usize);
        }
        at += run.count as usize;
    }
    let pick = |packed: &Packed| match packed.is_empty() {
        true => Packed::default(),
        false => Packed::new(kept.iter().map(|at| packed.slice(*at))),
    };
    Arc::new(Submit {
        request: None,
        runs,
        bodies: pick(&all.bodies),
        params: pick(&all.params),
        retries: None,
    })
}

/// Tasks that know the due time of their run.
fn at_due_time(tasks: &Submit, due: Time) -> Arc<Submit> {
    let mut tasks = tasks.clone();
    // Runs that share what they say go on sharing it.
    let mut last: Option<(Arc<Spec>, Arc<Spec>)> = None;
    for run in &mut tasks.runs {
        let known = last.take().filter(|(of, _)| Arc::ptr_eq(of, &run.spec));
        let (of, with_due) = known.unwrap_or_else(|| {
            let mut spec = (*run.spec).clone();
            spec.options.session.due = Some(due);
            (run.spec.clone(), Arc::new(spec))
        });
        run.spec = with_due.clone();
        last = Some((of, with_due));
    }
    Arc::new(tasks)
}

fn why(reject: &Reject) -> String {
    match reject {
        Reject::LimitReached { limit, value, .. } => limit_reached(*limit, *value),
        Reject::TaskResource {
            index,
            name,
            reject,
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

/// Which limit of its namespace keeps a run waiting, or refuses it.
fn limit_reached(limit: Limit, value: i64) -> String {
    format!(
        "the limit {} ({value}) of the namespace is reached",
        limit.name()
    )
}

/// Parameters of a task.
fn json(values: &[&String]) -> String {
    serde_json::to_string(values).expect("texts are JSON")
}
