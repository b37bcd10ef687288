//! One life: the loop, the model journal, the executors and the callers, and what goes wrong between them.

mod others;

use crate::{
    callers::Callers,
    checks,
    executors::{Executors, Roll},
    fixtures::Fixtures,
    journal::Journal,
    prefetch::{self, Prefetch},
    recover::recover,
    rng::Rng,
    scenario::{Fault, Scenario},
    zombie::Zombie,
};
use rallypoint::{
    assignment::Body,
    coordinator::machine::{Effect, Envelope, Event, Machine, Release},
    core::{
        Action, Assignment, BatchNo, Command, Epoch, InDoubtWindow, ReleaseMode, ShardId, Ticket,
        Time, Work, model::limits::Limits,
    },
    journal::{Batch, Commit},
};
use std::{sync::Arc, time::Duration};

/// More than enough for everything to end once nothing goes wrong any more.
const LAST_STEPS: u64 = 4_000;
/// Timers that may go off before the next call is tried.
const PATIENCE: u32 = 100;
/// Waits for the end of a roll call.
const ROLL: Ticket = Ticket(u64::MAX);
const DAY_US: i64 = 86_400_000_000;

struct World<'a> {
    rng: Rng,
    now: Time,
    fixtures: &'a Fixtures,
    machine: Machine,
    journal: Journal,
    executors: Executors,
    library: Prefetch,
    callers: Callers,
    /// A batch that was sent and whose fate was not told.
    sent: Option<Arc<Batch>>,
    /// A send that got lost on its way and may still arrive.
    in_limbo: Option<Arc<Batch>>,
    /// The loop waits for the journal to be read.
    recovering: bool,
    /// What executors will tell the new owner.
    roll: Option<Roll>,
    since: Epoch,
    /// An earlier owner that does not know it yet.
    zombie: Option<Zombie>,
    slots: u32,
    faults: bool,
    life: Scenario,
}

/// What happened in a life, in short.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub batches: i64,
    pub owners: i64,
    pub tasks: i64,
    pub time: Duration,
}

/// Lives the life of a seed. Panics when a rule is broken.
pub(crate) fn live(life: Scenario, fixtures: &Fixtures) -> Summary {
    let mut world = World::new(life, fixtures);
    let begun = world.now;
    for _ in 0..life.steps {
        world.step();
    }
    world.end();
    let tasks = world
        .journal
        .schedulers
        .iter()
        .map(|tables| tables.highest())
        .sum();
    Summary {
        batches: world.journal.last_batch(),
        owners: world.journal.epoch.0,
        tasks,
        time: world.now.since(begun),
    }
}

impl<'a> World<'a> {
    fn new(life: Scenario, fixtures: &'a Fixtures) -> Self {
        let mut rng = Rng::new(life.seed);
        // The journal answers for most of those that are over.
        let limits = Limits {
            ended_schedulers: 1,
            ..Limits::default()
        };
        let (machine, _) = Machine::new(ShardId(0), limits);
        // Some lives begin shortly before midnight.
        let now = Time(20_000 * DAY_US - rng.below(20_000_000) as i64);
        let slots = 2 + rng.below(6) as u32;
        World {
            now,
            fixtures,
            machine,
            journal: Journal::new(),
            executors: Executors::default(),
            library: Prefetch::new(*rng.one_of(&[0, 700, 2_000, 1 << 20])),
            callers: Callers::new(),
            sent: None,
            in_limbo: None,
            recovering: true,
            roll: None,
            since: Epoch(0),
            zombie: None,
            slots,
            faults: true,
            life,
            rng,
        }
    }

    fn step(&mut self) {
        let mut events = Vec::new();
        for _ in 0..=self.rng.below(3) {
            match self.rng.below(100) {
                0..=24 => {
                    let tables = &self.journal.schedulers;
                    let call = self.callers.act(
                        self.now,
                        tables,
                        self.fixtures,
                        self.faults,
                        &mut self.rng,
                    );
                    events.extend(call.map(Event::Command));
                }
                25..=54 => self.executors_report(&mut events),
                55..=86 => self.journal_answers(&mut events),
                87..=93 => self.time_passes(),
                94 => self.keep_house(&mut events),
                95..=96 => self.others_act(),
                97..=98 if !self.may(Fault::Crashes) => {}
                97..=98 => {
                    self.crash();
                    events.clear();
                }
                _ => self.target_comes_and_goes(&mut events),
            }
        }
        self.feed(events);
        if self.rng.percent(50) {
            self.bodies_arrive();
        }
    }

    /// Feeds the loop and does what it wants done.
    fn feed(&mut self, events: Vec<Event>) {
        for event in &events {
            if let Event::Recovered { schedulers, .. } = event {
                self.library.bodies.recovered(schedulers);
            }
        }
        let effects = self.machine.step(self.now, events);
        for effect in effects {
            match effect {
                Effect::Append(batch, _) => {
                    assert!(self.sent.is_none(), "two batches in flight");
                    self.sent = Some(batch);
                }
                Effect::Release(release) => self.release(release),
                Effect::StandBy => unreachable!("this loop is never deposed"),
                Effect::Recover => {
                    self.recovering = true;
                    let undecided = self.machine.undecided_tickets();
                    if let Some(roll) = self.roll.as_mut().filter(|_| !undecided.contains(&ROLL)) {
                        roll.said = false;
                    }
                    self.callers.answers_lost(&undecided);
                }
            }
        }
        if let Some(core) = self.machine.core() {
            self.library.look_ahead(core);
        }
    }

    fn release(&mut self, release: Release) {
        checks::released(&self.journal, &release);
        self.executors.acknowledged(&release.over);
        release
            .batch
            .iter()
            .for_each(|batch| self.library.bodies.durable(&batch.records));
        for action in release.actions {
            match action {
                Action::Reply(ROLL, _) => self.roll = None,
                Action::Reply(ticket, reply) => {
                    let pending = self
                        .callers
                        .pending
                        .remove(&ticket)
                        .expect("an answer nobody waits for");
                    checks::answered(&self.journal, &mut self.callers, &pending, &reply);
                }
                Action::Dispatch(assignment) => {
                    checks::dispatched(
                        &mut self.journal,
                        &self.executors,
                        i64::from(self.slots),
                        &assignment,
                    );
                    self.hand_out(assignment);
                }
                Action::Stop {
                    handle,
                    first,
                    attempt,
                } => match self.library.bodies.stop(handle, first, attempt) {
                    Some(assignment) => self.executors.decline(self.now, &assignment),
                    None => self
                        .executors
                        .stop(self.now, handle, first, attempt, &mut self.rng),
                },
            }
        }
        for (handle, _) in release
            .progress
            .iter()
            .filter(|(_, progress)| progress.pending == 0)
        {
            self.library.bodies.forget(*handle);
        }
    }

    fn hand_out(&mut self, assignment: Assignment) {
        if assignment.spec.work == Work::Noop {
            return self.begin(assignment);
        }
        self.executors.awaiting.push(assignment.clone());
        let here = self.library.bodies.take(assignment);
        here.into_iter()
            .for_each(|(assignment, body)| self.begin_with(assignment, body));
    }

    fn begin_with(&mut self, assignment: Assignment, body: Option<Body>) {
        prefetch::check(&self.journal, &assignment, body.as_ref());
        self.executors.awaited(&assignment);
        self.begin(assignment);
    }

    fn begin(&mut self, assignment: Assignment) {
        let (handle, first, count) = (assignment.handle, assignment.first, assignment.count);
        let begins = self.executors.start(
            self.now,
            assignment,
            self.fixtures,
            self.faults,
            &mut self.rng,
        );
        checks::begun(&mut self.journal, handle, first, count, begins);
    }

    fn bodies_arrive(&mut self) {
        for (assignment, body) in self.library.read(&self.journal, self.faults, &mut self.rng) {
            self.begin_with(assignment, body);
        }
    }

    fn executors_report(&mut self, events: &mut Vec<Event>) {
        if !self.executors.has_reports() && self.rng.percent(60) {
            let end = self.executors.next_end();
            if end != Time::NEVER {
                self.now = self.now.max(end);
            }
        }
        self.executors.finish(self.now);
        let reports = self.executors.reports(self.faults, &mut self.rng);
        if !reports.is_empty() {
            events.push(told(Command::Completed(reports)));
        }
    }

    /// The fate of what was sent, or what the journal says.
    fn journal_answers(&mut self, events: &mut Vec<Event>) {
        if let Some(late) = self.in_limbo.take_if(|_| self.rng.percent(50)) {
            self.journal.append(&late);
        }
        if let Some(batch) = self.sent.take() {
            let fate = self.fate(&batch);
            events.push(Event::Commit(batch.no, fate));
        } else if self.recovering {
            self.recover(events);
        } else if self.rng.percent(30) {
            self.call_the_roll(events);
        }
    }

    fn recover(&mut self, events: &mut Vec<Event>) {
        self.recovering = false;
        let epoch = self.journal.take_over();
        let schedulers = recover(&self.journal, self.now);
        let window = (epoch.0 > self.machine.epoch().0 + 1)
            .then(|| InDoubtWindow::from([(self.fixtures.sql.clone(), self.slots)]));
        if window.is_some() && (self.machine.epoch().0 > 0 || self.roll.is_none()) {
            // Another owner came between, or before: who runs what is reported anew.
            self.library.bodies.drop_waiting();
            let done = |event: &Event| matches!(event, Event::Command(said) if matches!(said.command, Command::Completed(_)));
            events.retain(|event| !done(event));
            let lost = self.is_lost() || (self.faults && self.rng.percent(20));
            self.roll = Some(self.executors.change_owner(lost, || false));
        }
        if window.is_some() {
            self.since = epoch;
        }
        events.push(Event::Recovered {
            schedulers,
            epoch,
            last_batch: BatchNo(self.journal.last_batch()),
            window,
        });
        events.push(self.slots_told(self.slots));
        events.push(told(Command::Slots {
            work: Work::Noop,
            total: 1_000,
        }));
    }

    /// A host was lost, and that is not on record yet.
    fn is_lost(&self) -> bool {
        self.roll.as_ref().is_some_and(|roll| roll.lost)
    }

    /// Executors report to the new owner, a few at a time, and in the end it is known that nobody else will.
    fn call_the_roll(&mut self, events: &mut Vec<Event>) {
        let Some(roll) = self.roll.as_mut().filter(|roll| !roll.said) else {
            return;
        };
        let some = self.rng.below(roll.survivors.len() as u64 + 1) as usize;
        let reported: Vec<_> = roll.survivors.drain(..some).collect();
        roll.said = roll.survivors.is_empty();
        let over = roll.said.then_some(roll.lost);
        self.executors.reported(&reported);
        events.push(told(Command::Reported(reported)));
        events.push(self.slots_told(self.slots));
        if let Some(lost) = over {
            let command = Command::Cleared {
                work: Some(self.fixtures.sql.clone()),
                lost,
                since: self.since,
            };
            events.push(Event::Command(Envelope {
                ticket: Some(ROLL),
                command,
            }));
        }
    }

    fn fate(&mut self, batch: &Arc<Batch>) -> Commit {
        let unknown = || Commit::Unknown {
            message: "no answer".into(),
        };
        match self.rng.below(100) {
            0..=7 if self.may(Fault::Fates) => {
                self.journal.append(batch);
                unknown()
            }
            8..=12 if self.may(Fault::Fates) => unknown(),
            13..=16 if self.may(Fault::Fates) => {
                self.in_limbo = Some(batch.clone());
                unknown()
            }
            _ => self.journal.append(batch),
        }
    }

    fn time_passes(&mut self) {
        let due = self.machine.next_due();
        let soon = due != Time::NEVER && due < self.now + Duration::from_secs(30);
        match self.rng.below(10) {
            0..=4 => self.now = self.now + self.rng.up_to(Duration::from_millis(50)),
            5..=7 if soon => self.now = self.now.max(due),
            8 if self.rng.percent(2) => {
                self.now = self.now + Duration::from_secs(16 * 60);
                self.callers.give_up();
            }
            _ => self.now = self.now + self.rng.up_to(Duration::from_secs(1)),
        }
    }

    /// Whether a fault may happen in this life.
    fn may(&self, fault: Fault) -> bool {
        self.faults && self.life.has(fault)
    }

    /// Some checkpoints are written anew, so that old rows could go.
    fn keep_house(&mut self, events: &mut Vec<Event>) {
        let rng = &mut self.rng;
        let stale = self
            .callers
            .known
            .iter()
            .filter(|_| rng.percent(50))
            .copied()
            .collect();
        events.push(told(Command::Checkpoint(stale)));
    }

    fn target_comes_and_goes(&mut self, events: &mut Vec<Event>) {
        let total = if self.may(Fault::Targets) && self.rng.percent(50) {
            0
        } else {
            self.slots
        };
        events.push(self.slots_told(total));
    }

    /// Slots of those who have reported.
    fn slots_told(&self, total: u32) -> Event {
        let absent = self
            .roll
            .as_ref()
            .map_or(0, |roll| roll.survivors.len() as u32);
        told(Command::Slots {
            work: self.fixtures.sql.clone(),
            total: total.saturating_sub(absent),
        })
    }

    /// Nothing goes wrong any more: everything must come to its end.
    fn end(&mut self) {
        self.faults = false;
        self.zombie
            .take()
            .iter()
            .for_each(|zombie| zombie.end(&mut self.callers));
        self.callers.give_up();
        let mut events = vec![self.slots_told(self.slots)];
        // The first call may find the shard owned elsewhere, and be lost. What never ends by itself needs a CANCEL.
        let (mut calls, mut patience) = (3, PATIENCE);
        for _ in 0..LAST_STEPS {
            self.journal_answers(&mut events);
            self.executors_report(&mut events);
            self.feed(std::mem::take(&mut events));
            self.bodies_arrive();
            let due = self.machine.next_due();
            if !self.is_quiet() {
                continue;
            } else if due < self.now + Duration::from_secs(600) && patience > 0 {
                patience -= 1;
                self.now = self.now.max(due);
            } else if calls > 0 && self.journal.schedulers.iter().any(|tables| !tables.ended()) {
                (calls, patience) = (calls - 1, PATIENCE);
                let mode = if calls == 2 {
                    ReleaseMode::Finish
                } else {
                    ReleaseMode::Cancel
                };
                events.extend(self.callers.wind_up(mode).into_iter().map(Event::Command));
            } else {
                break;
            }
        }
        checks::at_the_end(&self.journal, &self.callers);
        if self
            .journal
            .schedulers
            .iter()
            .all(|tables| tables.unfinished() == 0)
        {
            assert_eq!(
                self.library.bodies.bytes(),
                0,
                "bodies of ended tasks are kept"
            );
        }
    }
}

impl World<'_> {
    /// Nothing is under way: only time can change anything.
    fn is_quiet(&self) -> bool {
        let awaiting = !self.executors.awaiting.is_empty();
        let executing =
            self.executors.next_end() != Time::NEVER || self.executors.has_reports() || awaiting;
        self.sent.is_none()
            && !self.recovering
            && self.roll.is_none()
            && !executing
            && self.machine.backlog() == 0
    }
}

fn told(command: Command) -> Event {
    Event::Command(Envelope {
        ticket: None,
        command,
    })
}
