//! One run: the core from now until the scheduler has ended, with executors whose tasks last as
//! chance has it.

use super::{
    classes::ClassId,
    lengths::{End, Length, Lengths},
    restart::restart,
    units::{UnitState, Units},
};
use crate::core::{
    Action, Assignment, Attempt, Command, Completion, Handle, OnFailure, Order, Output, Report,
    Seq, Shard, Snapshot, TaskError, Time, TimeLimit,
};
use rand::rngs::SmallRng;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
    time::Duration,
};

/// What ends later counts as never.
const HORIZON: Duration = Duration::from_secs(366 * 86_400);

/// When everything ended in one run; `Time::NEVER`: it did not.
#[derive(Clone, Debug)]
pub(super) struct RunEnds {
    pub all: Time,
    /// As `Wanted::orders`.
    pub orders: Vec<Time>,
    /// As `Wanted::tasks`.
    pub tasks: Vec<Time>,
    /// Ends of attempts, and timers.
    pub events: u32,
    /// Slot time of the attempts that began.
    pub slot_seconds: f64,
    /// There were more events than were allowed.
    pub cut_off: bool,
    /// A failure has halted it.
    pub halted: bool,
    /// Classes of which nobody knows how long they last, and a task has begun.
    pub unknown: BTreeSet<ClassId>,
}

/// What is looked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Units of each order.
    pub orders: Vec<(Option<Order>, i64)>,
    /// Units of tasks, and which part of each is over when the task is.
    pub tasks: Vec<(Seq, f64)>,
}

/// One run.
pub(super) struct Replay<'a> {
    units: &'a Units,
    wanted: &'a Wanted,
    lengths: Lengths<'a>,
    rng: SmallRng,
    shard: Shard,
    now: Time,
    /// Ends to come, by time.
    ends: BinaryHeap<Reverse<(Time, u64)>>,
    reports: BTreeMap<u64, (Handle, Seq, Attempt, Outcome)>,
    serial: u64,
    pending: i64,
    left: Vec<i64>,
    order_at: BTreeMap<Option<Order>, usize>,
    begun: BTreeMap<Seq, Time>,
    found: RunEnds,
}

/// What an executor will say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Succeeded,
    Failed,
    Again,
    TimedOut,
    Stopped,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        snapshot: &Snapshot,
        units: &'a Units,
        wanted: &'a Wanted,
        lengths: Lengths<'a>,
        rng: SmallRng,
    ) -> Self {
        let (shard, mut out) = restart(snapshot, units);
        let left: Vec<i64> = wanted.orders.iter().map(|(_, units)| *units).collect();
        let orders = wanted.orders.iter().enumerate();
        let mut replay = Replay {
            units,
            wanted,
            lengths,
            rng,
            shard,
            now: snapshot.at,
            ends: BinaryHeap::new(),
            reports: BTreeMap::new(),
            serial: 0,
            pending: left.iter().sum(),
            order_at: orders.map(|(at, (order, _))| (*order, at)).collect(),
            begun: BTreeMap::new(),
            found: RunEnds {
                all: Time::NEVER,
                orders: vec![Time::NEVER; left.len()],
                tasks: vec![Time::NEVER; wanted.tasks.len()],
                events: 0,
                slot_seconds: 0.0,
                cut_off: false,
                halted: false,
                unknown: BTreeSet::new(),
            },
            left,
        };
        replay.go_on_with_what_runs();
        replay.settle(&mut out);
        replay
    }

    /// Runs until the scheduler has ended, or can end no more, or there were `most` events.
    pub(super) fn run(mut self, most: u32) -> RunEnds {
        let until = self.now + HORIZON;
        while self.pending > 0 {
            let end = self.ends.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
            let next = end.min(self.shard.next_change());
            if next > until {
                break;
            }
            if self.found.events >= most {
                self.found.cut_off = true;
                break;
            }
            self.found.events += 1;
            self.now = self.now.max(next);
            let mut out = Output::default();
            self.report(&mut out);
            self.settle(&mut out);
        }
        let own = self.units.own().image.handle;
        let progress = self.shard.progress(own);
        self.found.halted = progress.is_some_and(|one| one.halt.is_some());
        self.found
    }

    fn report(&mut self, out: &mut Output) {
        let mut completions = Vec::new();
        while let Some(Reverse((at, serial))) = self.ends.peek().copied()
            && at <= self.now
        {
            self.ends.pop();
            let known = self.reports.remove(&serial);
            let (handle, first, attempt, outcome) = known.expect("each end has a report");
            completions.push(Completion {
                handle,
                first,
                attempt,
                report: outcome.report(),
                started: Time(0),
                ended: at,
                slot: 1,
                backend_pid: 0,
                diagnostics: Default::default(),
            });
        }
        if !completions.is_empty() {
            let command = Command::Completed(completions);
            self.shard.apply(self.now, None, &command, out);
        }
    }

    fn settle(&mut self, out: &mut Output) {
        self.shard.settle(self.now, out);
        for action in out.take_actions() {
            match action {
                Action::Dispatch(assignment) => self.begin(&assignment),
                Action::Stop {
                    handle,
                    first,
                    attempt,
                } => self.push(self.now, (handle, first, attempt, Outcome::Stopped)),
                Action::Reply(..) | Action::Resolve(_) => {}
            }
        }
        let own = self.units.own().image.handle;
        let rows = out.records.completions.iter();
        for row in rows.filter(|row| row.handle == own) {
            for done in &row.done {
                self.note_end(done.first, done.count, done.order);
            }
        }
    }

    fn note_end(&mut self, first: Seq, count: u32, order: Option<Order>) {
        self.pending -= i64::from(count);
        if let Some(at) = self.order_at.get(&order) {
            self.left[*at] -= i64::from(count);
            if self.left[*at] == 0 {
                self.found.orders[*at] = self.now;
            }
        }
        for (at, (unit, part)) in self.wanted.tasks.iter().enumerate() {
            if *unit >= first && *unit < first.plus(count) {
                let begun = self.begun.get(unit).copied().unwrap_or(self.now);
                let over = self.now.since(begun).mul_f64(*part);
                self.found.tasks[at] = begun + over;
            }
        }
        if self.pending == 0 {
            self.found.all = self.now;
        }
    }

    /// An assignment starts.
    fn begin(&mut self, assignment: &Assignment) {
        let Assignment {
            handle,
            first,
            count,
            attempt,
            ..
        } = *assignment;
        let Some((span, unit)) = self.units.find(handle, first) else {
            return;
        };
        let (from, tasks) = span.tasks(unit);
        let classes = span.classes(from, tasks);
        let length = match tasks {
            _ if count > 1 || tasks == 1 => self.lengths.of_one(classes, &mut self.rng),
            _ => self.lengths.of_row(classes, tasks, &mut self.rng),
        };
        let own = self.units.own();
        if handle == own.image.handle && self.wanted.tasks.iter().any(|(of, _)| *of == first) {
            self.begun.insert(first, self.now);
        }
        let Some(mut length) = length else {
            self.found.unknown.extend(classes);
            return;
        };
        if assignment.spec.work.has_session() {
            length.seconds += self.lengths.turnaround() * f64::from(tasks);
        }
        self.found.slot_seconds += length.seconds;
        let outcome = outcome(&length, tasks, own.image.settings.on_failure);
        let limit = assignment.time_limit.filter(|_| tasks == 1);
        let (at, outcome) = self.within(limit, length.seconds, outcome);
        self.push(at, (handle, first, attempt, outcome));
    }

    /// What runs already has a part of its duration behind it.
    fn go_on_with_what_runs(&mut self) {
        let units = self.units;
        for scheduler in &units.schedulers {
            let handle = scheduler.image.handle;
            for span in &scheduler.spans {
                let UnitState::Running { attempt, since, .. } = span.state else {
                    continue;
                };
                let elapsed = self.now.since(since).as_secs_f64();
                let class = span.classes(0, 1)[0];
                self.begun.insert(span.first, self.now);
                match self.lengths.rest(class, elapsed, &mut self.rng) {
                    Some(length) => {
                        let end = outcome(&length, 1, OnFailure::Halt);
                        let limit = span.spec.options.timeout.map(TimeLimit::Timeout);
                        let limit = limit.map(|limit| shortened(limit, elapsed));
                        let (at, end) = self.within(limit, length.seconds, end);
                        self.push(at, (handle, span.first, attempt, end));
                    }
                    None => drop(self.found.unknown.insert(class)),
                }
            }
        }
    }

    /// When an attempt ends that would last so long, given its limit.
    fn within(&self, limit: Option<TimeLimit>, seconds: f64, outcome: Outcome) -> (Time, Outcome) {
        let length = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(HORIZON);
        let end = self.now + length;
        let latest = match limit {
            Some(TimeLimit::Timeout(timeout)) => self.now + timeout,
            Some(TimeLimit::Deadline(at)) => at,
            None => Time::NEVER,
        };
        match end > latest {
            true => (latest, Outcome::TimedOut),
            false => (end, outcome),
        }
    }

    fn push(&mut self, at: Time, report: (Handle, Seq, Attempt, Outcome)) {
        self.serial += 1;
        self.ends.push(Reverse((at, self.serial)));
        self.reports.insert(self.serial, report);
    }
}

impl Outcome {
    fn report(self) -> Report {
        let error = || Arc::new(TaskError::new("FORECAST", "as others of its kind"));
        match self {
            Outcome::Succeeded => Report::Succeeded(None),
            Outcome::Failed => Report::Failed {
                error: error(),
                transient: false,
            },
            Outcome::Again => Report::Failed {
                error: error(),
                transient: true,
            },
            Outcome::TimedOut => Report::TimedOut(error()),
            Outcome::Stopped => Report::Stopped,
        }
    }
}

/// Of several tasks in a row one that fails only counts where that stops the others.
fn outcome(length: &Length, tasks: u32, on_failure: OnFailure) -> Outcome {
    match length.end {
        End::Well => Outcome::Succeeded,
        End::Badly if tasks > 1 && on_failure == OnFailure::Continue => Outcome::Succeeded,
        End::Badly => Outcome::Failed,
        End::Again if tasks > 1 => Outcome::Succeeded,
        End::Again => Outcome::Again,
    }
}

fn shortened(limit: TimeLimit, elapsed: f64) -> TimeLimit {
    match limit {
        TimeLimit::Timeout(timeout) => {
            let passed = Duration::try_from_secs_f64(elapsed).unwrap_or(HORIZON);
            TimeLimit::Timeout(timeout.saturating_sub(passed))
        }
        deadline => deadline,
    }
}
