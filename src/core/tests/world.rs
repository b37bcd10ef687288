//! A shard, its virtual time, and executors that do what the test says.

mod recovery;
mod remembered;
mod tasks;

pub(crate) use tasks::*;

use crate::core::{
    Action, Assignment, Attempt, Caller, Cancel, Command, Completion, CoreStatus, Handle,
    Namespace, Open, Outcome, Output, Progress, Reject, ReleaseMode, Reply, Report, Request,
    SchedulerView, Seq, Settings, SettingsField, Shard, ShardId, TaskError, Ticket, Time, Update,
    Verb, Work, model::limits::Limits,
};
use remembered::Remembered;
use std::{sync::Arc, time::Duration};

/// A shard as the tests drive it. Every verb is a batch of its own: applied, settled, remembered,
/// released.
pub(crate) struct World {
    pub shard: Shard,
    pub now: Time,
    /// Assignments that were handed out and have not been reported.
    pub running: Vec<Assignment>,
    /// Assignments that the core has asked to stop: first task and attempt.
    pub stops: Vec<(i64, i32)>,
    /// Attempts of which the core wants to know whether they have committed.
    pub resolves: Vec<(i64, i32)>,
    pub remembered: Remembered,
    /// How many tasks the last batch ended.
    pub last_batch: i64,
    /// Those tasks, in ranges: the first, how many, and their last attempt.
    pub last_done: Vec<(i64, u32, i32)>,
    /// What tasks say of their ends, of all batches.
    pub errors: Vec<Arc<TaskError>>,
    /// How many rows the last batch wrote.
    pub last_rows: usize,
    slots: u32,
    limits: Limits,
    opened: u64,
}

impl World {
    /// With so many slots for SQL.
    pub(crate) fn new(slots: u32) -> Self {
        World::limited(slots, Limits::default())
    }

    /// With limits.
    pub(crate) fn limited(slots: u32, limits: Limits) -> Self {
        let mut world = World {
            shard: Shard::new(limits),
            now: Time(1_800_000_000_000_000),
            running: Vec::new(),
            stops: Vec::new(),
            resolves: Vec::new(),
            remembered: Remembered::default(),
            last_batch: 0,
            last_done: Vec::new(),
            errors: Vec::new(),
            last_rows: 0,
            slots,
            limits,
            opened: 0,
        };
        world.set_slots(slots);
        world
    }

    /// The executor has so many slots now.
    pub(crate) fn set_slots(&mut self, total: u32) {
        self.slots = total;
        for (work, total) in [(sql(), total), (Work::Noop, 100)] {
            self.command(slots(work, total));
        }
    }

    /// One command as a batch of its own.
    pub(crate) fn command(&mut self, command: Command) -> Option<Reply> {
        self.commands([command]).pop()
    }

    /// Several commands as one batch.
    pub(crate) fn commands(&mut self, commands: impl IntoIterator<Item = Command>) -> Vec<Reply> {
        let mut out = Output::default();
        for command in commands {
            self.shard
                .apply(self.now, Some(Ticket(0)), &command, &mut out);
        }
        self.shard.settle(self.now, &mut out);
        let mut replies = Vec::new();
        for action in out.take_actions() {
            match action {
                Action::Reply(_, reply) => replies.push(reply),
                Action::Dispatch(assignment) => self.running.push(assignment),
                Action::Stop { first, attempt, .. } => self.stops.push((first.0, attempt.0)),
                Action::Resolve(one) => self.resolves.push((one.seq.0, one.attempt.0)),
            }
        }
        self.last_batch = out
            .records
            .completions
            .iter()
            .map(|record| i64::from(record.count()))
            .sum();
        let done = out.records.completions.iter().flat_map(|row| &row.done);
        self.errors
            .extend(done.clone().filter_map(|done| done.error.clone()));
        self.last_done = done
            .map(|done| (done.first.0, done.count, done.attempt.0))
            .collect();
        self.last_rows =
            self.last_done.len() + out.records.attempts.len() + out.records.schedulers.len();
        self.remembered.add(out.records);
        replies
    }

    /// Opens a scheduler for the default namespace.
    pub(crate) fn open(&mut self, set: impl FnOnce(&mut Settings)) -> Handle {
        self.open_in("default", set)
    }

    /// Opens a scheduler for a namespace.
    pub(crate) fn open_in(&mut self, namespace: &str, set: impl FnOnce(&mut Settings)) -> Handle {
        let handle = self.new_handle();
        let mut settings = Settings::default();
        set(&mut settings);
        let verb = Verb::Open(Open {
            settings: Arc::new(settings),
            ..Open::default()
        });
        let caller = Caller {
            namespace: Namespace(namespace.into()),
            name: "test".into(),
        };
        self.command(Command::Call {
            caller,
            handle,
            verb,
        });
        handle
    }

    /// A handle nobody has.
    pub(crate) fn new_handle(&mut self) -> Handle {
        self.opened += 1;
        Handle::new(ShardId(0), 1_800_000_000_000 + self.opened, [7; 10])
    }

    /// A caller's command about a scheduler of the default namespace.
    pub(crate) fn say(handle: Handle, verb: Verb) -> Command {
        Command::Call {
            caller: Caller {
                namespace: Namespace("default".into()),
                name: "test".into(),
            },
            handle,
            verb,
        }
    }

    /// Says it as a batch of its own.
    pub(crate) fn call(&mut self, handle: Handle, verb: Verb) -> Reply {
        self.command(World::say(handle, verb))
            .expect("every call is answered")
    }

    /// Submits tasks; the number of the first one.
    pub(crate) fn submit(&mut self, handle: Handle, tasks: impl IntoIterator<Item = Task>) -> i64 {
        self.try_submit(handle, None, tasks)
            .expect("the tasks are accepted")
            .0
    }

    /// Submits tasks: number of the first one, and the last event before it.
    pub(crate) fn try_submit(
        &mut self,
        handle: Handle,
        request: Option<Request>,
        tasks: impl IntoIterator<Item = Task>,
    ) -> Result<(i64, i64), Reject> {
        match self.call(handle, Verb::Submit(Arc::new(submission(request, tasks)))) {
            Reply::Submitted {
                first_seq, done_no, ..
            } => Ok((first_seq.0, done_no.0)),
            Reply::Rejected(reject) => Err(reject),
            other => panic!("a submit was answered with {other:?}"),
        }
    }

    /// The tasks of a scheduler that run, by number.
    pub(crate) fn running(&self, handle: Handle) -> Vec<i64> {
        let mine = self.running.iter().filter(|a| a.handle == handle);
        let mut seqs: Vec<i64> = mine
            .flat_map(|a| a.first.0..a.first.0 + i64::from(a.count))
            .collect();
        seqs.sort_unstable();
        seqs
    }

    /// The running attempt of a task.
    pub(crate) fn attempt(&self, handle: Handle, seq: i64) -> i32 {
        self.assignment(handle, seq).attempt.0
    }

    /// The running assignment that begins with a task.
    pub(crate) fn assignment(&self, handle: Handle, seq: i64) -> &Assignment {
        self.running
            .iter()
            .find(|a| a.handle == handle && a.first == Seq(seq))
            .expect("the task runs")
    }

    /// The executor reports what became of the assignment that begins with `seq`.
    pub(crate) fn report(&mut self, handle: Handle, seq: i64, report: Report) {
        let completion = self.completion(handle, seq, report);
        self.command(Command::Completed(vec![completion]));
    }

    /// What the executor would report; the assignment counts as over.
    pub(crate) fn completion(&mut self, handle: Handle, seq: i64, report: Report) -> Completion {
        let at = self
            .running
            .iter()
            .position(|a| a.handle == handle && a.first == Seq(seq))
            .expect("the task runs");
        let attempt = self.running.remove(at).attempt;
        self.stale(handle, seq, attempt.0, report)
    }

    /// A report about any attempt.
    pub(crate) fn stale(
        &self,
        handle: Handle,
        seq: i64,
        attempt: i32,
        report: Report,
    ) -> Completion {
        let (started, ended) = (Time(0), self.now);
        Completion {
            handle,
            first: Seq(seq),
            attempt: Attempt(attempt),
            report,
            started,
            ended,
            slot: 1,
            backend_pid: 7,
            diagnostics: Default::default(),
        }
    }

    /// The target has said what became of a lost attempt.
    pub(crate) fn resolved(&mut self, handle: Handle, seq: i64, attempt: i32, report: Report) {
        let completion = self.stale(handle, seq, attempt, report);
        self.command(Command::Completed(vec![completion]));
    }

    /// It succeeded.
    pub(crate) fn succeed(&mut self, handle: Handle, seqs: impl IntoIterator<Item = i64>) {
        for seq in seqs {
            self.report(handle, seq, Report::Succeeded(None));
        }
    }

    /// It reported an error.
    pub(crate) fn fail(&mut self, handle: Handle, seq: i64) {
        self.report(
            handle,
            seq,
            Report::Failed {
                error: error("42601"),
                transient: false,
            },
        );
    }

    /// It was lost to a transient error.
    pub(crate) fn lose(&mut self, handle: Handle, seq: i64) {
        self.report(
            handle,
            seq,
            Report::Failed {
                error: error("08006"),
                transient: true,
            },
        );
    }

    /// Time passes, timer by timer.
    pub(crate) fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        while self.shard.next_due() <= until {
            self.now = self.now.max(self.shard.next_due());
            self.commands([]);
        }
        self.now = until;
        self.commands([]);
    }

    /// As [`World::advance`].
    pub(crate) fn seconds(&mut self, seconds: f64) {
        self.advance(Duration::from_secs_f64(seconds));
    }

    /// How the tasks of a scheduler ended, in the order of their events.
    pub(crate) fn outcomes(&self, handle: Handle) -> Vec<(i64, Outcome)> {
        self.remembered.outcomes(handle)
    }

    /// How one task ended.
    pub(crate) fn outcome(&self, handle: Handle, seq: i64) -> Option<Outcome> {
        self.outcomes(handle)
            .iter()
            .find(|(s, _)| *s == seq)
            .map(|(_, outcome)| *outcome)
    }

    pub(crate) fn view(&mut self, handle: Handle) -> SchedulerView {
        view(self.call(handle, Verb::Describe))
    }

    pub(crate) fn status(&mut self) -> CoreStatus {
        match self.command(Command::Status) {
            Some(Reply::Status(status)) => *status,
            other => panic!("a status was answered with {other:?}"),
        }
    }

    pub(crate) fn progress(&self, handle: Handle) -> Progress {
        self.shard
            .progress(handle)
            .expect("the scheduler is in memory")
    }

    pub(crate) fn release(&mut self, handle: Handle, mode: ReleaseMode) -> (bool, i64) {
        match self.call(handle, Verb::Release(mode)) {
            Reply::Released {
                already, pending, ..
            } => (already, pending),
            other => panic!("a release was answered with {other:?}"),
        }
    }

    pub(crate) fn limit(&mut self, handle: Handle, max: Option<u32>) -> SchedulerView {
        view(self.try_limit(handle, max))
    }

    pub(crate) fn try_limit(&mut self, handle: Handle, max: Option<u32>) -> Reply {
        let settings = Settings {
            max_parallelism: max,
            ..Settings::default()
        };
        let update = Update {
            settings,
            fields: vec![SettingsField::MaxParallelism],
        };
        self.call(handle, Verb::Update(Arc::new(update)))
    }

    pub(crate) fn cancel(&mut self, handle: Handle, seq: i64) -> Cancelling {
        let cancel = Cancel::one(self.remembered.place(handle, seq));
        match self.cancel_tasks(handle, cancel) {
            (1, 0) => Cancelling::Cancelled,
            (0, 1) => Cancelling::Stopping,
            (0, 0) => Cancelling::Ended,
            other => panic!("one task was counted as {other:?}"),
        }
    }

    /// How many waited and how many ran.
    pub(crate) fn cancel_tasks(&mut self, handle: Handle, cancel: Cancel) -> (u32, u32) {
        match self.call(handle, Verb::Cancel(Arc::new(cancel))) {
            Reply::Cancelled { waiting, running } => (waiting, running),
            other => panic!("a cancel was answered with {other:?}"),
        }
    }
}

/// What a call to cancel a task finds and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelling {
    /// It runs, and is being stopped.
    Stopping,
    /// It waited, and has ended as CANCELLED.
    Cancelled,
    /// It had ended before.
    Ended,
}

fn view(reply: Reply) -> SchedulerView {
    match reply {
        Reply::Scheduler(view) => *view,
        other => panic!("a view was expected, not {other:?}"),
    }
}
