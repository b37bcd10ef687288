//! What runs of jobs do to schedulers: opened, given their tasks and released as if callers had
//! asked for that.

use super::*;
use rallypoint::core::{Caller, Open, Packed, ReleaseMode, Run, Submit, Verb};

impl Oracle {
    /// A batch is written: what its runs do to schedulers is decided as if callers had asked.
    pub(in crate::oracle) fn jobs_durable(
        &mut self,
        at: Time,
        records: &JobRecords,
        rows: &mut Rows<'_>,
    ) {
        let cancelled: Vec<Handle> = records
            .runs
            .iter()
            .filter(|(key, run)| {
                let before = self.jobs.runs.get(key);
                let same = before.filter(|before| before.handle == run.handle);
                run.reason.is_some_and(is_cancelling)
                    && same.is_some_and(|before| before.reason.is_none())
            })
            .filter_map(|(_, run)| run.handle)
            .collect();
        for handle in cancelled {
            self.asks(at, handle, &Verb::Release(ReleaseMode::Cancel), rows);
        }
        self.runs_end(at, records, rows);
        let failures = self.jobs.failures(records);
        let mut begun = self.jobs.durable(records);
        // What has ended again has given back its room among the limits before others began.
        begun.sort_by_key(|(run, _)| run.ended_at.is_none());
        for (run, job) in begun {
            self.begins(at, &run, &job, rows);
            if let Some(handle) = run.handle.filter(|_| run.ended_at.is_some()) {
                self.tasks_end(at, handle, rows);
            }
        }
        self.questions(at, rows);
        self.follow(at, records, failures, rows);
    }

    /// The tasks of runs that are over have ended before the runs that waited for that begin, and
    /// count for no limit any more. What begins and ends in this batch is decided as it begins.
    fn runs_end(&mut self, at: Time, records: &JobRecords, rows: &mut Rows<'_>) {
        let over = records.runs.values().filter(|run| run.ended_at.is_some());
        for handle in over.filter_map(|run| run.handle) {
            self.tasks_end(at, handle, rows);
        }
    }

    fn tasks_end(&mut self, at: Time, handle: Handle, rows: &mut Rows<'_>) {
        while self.jobs.opened.contains(&handle) && rows.left(handle) > 0 {
            self.uncaused(handle, at, rows);
        }
    }

    /// What asks a target about a claim had to wait for room, or is refused at once: its run has
    /// another state by then.
    fn questions(&mut self, at: Time, rows: &mut Rows<'_>) {
        for (handle, settings) in rows.labelled("job") {
            let is_question = !settings.labels.contains_key("on_failure");
            if is_question && self.jobs.opened.insert(handle) {
                let mut asks = self.jobs.runs.values();
                if let Some(run) = asks.find(|run| run.handle == Some(handle)).cloned() {
                    let job = self.jobs.jobs[&run.key.job].clone();
                    self.begins(at, &run, &job, rows);
                    continue;
                }
                let open = Open {
                    settings,
                    ..Open::default()
                };
                self.asks(at, handle, &Verb::Open(open), rows);
                self.asks(at, handle, &Verb::Release(ReleaseMode::Cancel), rows);
            }
        }
    }

    fn begins(&mut self, at: Time, run: &RunImage, job: &JobImage, rows: &mut Rows<'_>) {
        let handle = run.handle.expect("it begins");
        let mut settings = (*job.settings.scheduler).clone();
        let due = run.key.due.to_string();
        settings.labels.insert("due".to_owned(), due);
        settings
            .labels
            .insert("job".to_owned(), job.key.name.to_string());
        settings.display_name = job.key.name.to_string();
        let open = Open {
            settings: Arc::new(settings),
            ..Open::default()
        };
        if !rows.writes(handle) {
            let is_refused = run.reason == Some(RunReason::Refused);
            // What asks a target may have to wait for room among the tasks of its namespace.
            assert!(
                is_refused || job.settings.claimed,
                "{handle} is not opened: {run:?}"
            );
            self.jobs.opened.remove(&handle);
            return;
        }
        self.asks(at, handle, &Verb::Open(open), rows);
        let mut steps = steps(&job.steps, run.from_order);
        if !job.settings.claimed {
            steps = knowing(&steps, run.key.due);
        }
        let is_refused = match job.settings.claimed {
            true => !rows.accepts(handle, &steps),
            false => run.reason == Some(RunReason::Refused),
        };
        if is_refused {
            self.asks(at, handle, &Verb::Release(ReleaseMode::Cancel), rows);
            return;
        }
        self.asks(at, handle, &Verb::Submit(steps), rows);
        self.asks(at, handle, &Verb::Release(ReleaseMode::Finish), rows);
        // What asks a target about a claim is waited for.
        if !job.settings.claimed && run.reason.is_some_and(is_cancelling) {
            self.asks(at, handle, &Verb::Release(ReleaseMode::Cancel), rows);
        }
    }

    pub(super) fn asks(&mut self, at: Time, handle: Handle, verb: &Verb, rows: &mut Rows<'_>) {
        let caller = Caller {
            namespace: rallypoint::core::Namespace("jobs".into()),
            name: "keeper".into(),
        };
        // Who waits for room may have to wait for another turn.
        self.jobs.room_since.clear();
        self.call((at, at), (&caller, handle), verb, rows);
    }
}

fn is_cancelling(reason: RunReason) -> bool {
    use RunReason::{AgentStopped, Asked, MaxRuntime, Replaced};
    matches!(reason, AgentStopped | Asked | MaxRuntime | Replaced)
}

/// Tasks of a run know its due time.
pub(super) fn knowing(tasks: &Submit, due: Time) -> Arc<Submit> {
    let mut tasks = tasks.clone();
    for run in &mut tasks.runs {
        Arc::make_mut(&mut run.spec).options.session.due = Some(due);
    }
    Arc::new(tasks)
}

/// The steps from an order on.
pub(super) fn steps(all: &Arc<Submit>, from: Option<i64>) -> Arc<Submit> {
    let runs: Vec<Run> = all.runs.to_vec();
    let is_left = |run: &Run| from.is_none_or(|from| run.order.is_none_or(|order| order.0 >= from));
    let runs: Vec<Run> = runs.into_iter().filter(is_left).collect();
    Arc::new(Submit {
        request: None,
        bodies: Packed::new(runs.iter().map(|_| &b"select"[..])),
        runs,
        params: Packed::default(),
        retries: None,
    })
}
