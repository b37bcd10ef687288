//! Runs of jobs are ordinary schedulers: opened, given the steps, and released, all in the batch in
//! which their due time is put on record.

use crate::core::{
    Caller, Handle, Open, Order, Packed, Reject, ReleaseMode, Reply, Run, RunImage, RunKey,
    SchedulerState, Settings, Shard, Submit, Time, Turn, jobs::Step, model::limits::Limits,
    shard::lifecycle::Releaser,
};
use jiff::Timestamp;
use std::sync::Arc;

/// Labels of the scheduler of a run.
const JOB_LABEL: &str = "job";
const DUE_LABEL: &str = "due";

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
                Step::Check(key) => self.check_run(turn, &limits, key),
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
        if let Reply::Rejected(reject) = self.open(turn, &caller, handle, &open) {
            return self.jobs.refused(turn, limits, key, why(&reject));
        }
        let submitted = self.submit(turn, &caller, handle, &steps);
        if let Reply::Rejected(reject) = submitted {
            self.jobs.refused(turn, limits, key, why(&reject));
            self.release(turn, handle, ReleaseMode::Cancel, Releaser::Caller);
            return;
        }
        self.release(turn, handle, ReleaseMode::Finish, Releaser::Caller);
    }

    /// What opens the scheduler of a run, and its tasks.
    fn run_to_start(&self, key: RunKey) -> Option<(Caller, Open, Arc<Submit>, Handle)> {
        let run = self.jobs.run(key)?;
        let image = self.jobs.definition(key.job)?;
        let caller = Caller {
            namespace: image.key.namespace.clone(),
            name: image.changed_by.clone(),
        };
        let mut settings: Settings = (*image.settings.scheduler).clone();
        let name = &image.key.name;
        settings
            .labels
            .insert(JOB_LABEL.to_owned(), name.to_string());
        settings.labels.insert(DUE_LABEL.to_owned(), text(key.due));
        if settings.display_name.is_empty() {
            settings.display_name = name.to_string();
        }
        let open = Open {
            settings: Arc::new(settings),
            ..Open::default()
        };
        Some((caller, open, steps_of(run, &image.steps), run.handle?))
    }

    /// After a recovery: the scheduler of a run may have ended under an owner that knows no jobs,
    /// or have been set aside.
    fn check_run(&mut self, turn: &mut Turn, limits: &Limits, key: RunKey) {
        let handle = self.jobs.run(key).and_then(|run| run.handle);
        let scheduler = handle.and_then(|handle| self.schedulers.get(handle));
        match scheduler.map(|scheduler| scheduler.image.state) {
            None | Some(SchedulerState::Released) => self.jobs.scheduler_gone(turn, limits, key),
            // It was asked to end, and that was not carried out.
            Some(_) => self.jobs.cancel_again(key),
        }
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

fn why(reject: &Reject) -> String {
    match reject {
        Reject::LimitReached { limit, value, .. } => {
            format!("a limit of the namespace is reached: {limit:?} = {value}")
        }
        other => format!("{other:?}"),
    }
}

/// A due time as the label has it.
fn text(due: Time) -> String {
    Timestamp::from_microsecond(due.0)
        .map(|due| due.to_string())
        .unwrap_or_default()
}
