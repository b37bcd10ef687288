//! One scenario: the loop, the model journal, the executors and the callers, and what goes wrong
//! between them.

mod keepers;
mod limits;
mod operator;
mod others;
mod release;
mod takeover;

use crate::{
    callers::Callers,
    checks,
    claimants::Claimants,
    executors::{Executors, LONGEST_IN_LINE, Survivors},
    fixtures::Fixtures,
    job_keepers::JobKeepers,
    journal::Journal,
    oracle::settled::Outside,
    prefetch::Prefetch,
    rng::Rng,
    scenario::{Fault, Scenario},
    zombie::Zombie,
};
use rallypoint::{
    coordinator::machine::{Effect, Envelope, Event, Machine},
    core::{Command, Epoch, ReleaseMode, ShardId, Ticket, Time, model::limits::Limits},
    journal::{Batch, Commit},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// More than enough for everything to end once nothing goes wrong any more.
const LAST_STEPS: u64 = 4_000;
/// Of these, how many go by until jobs are stopped once more.
const STEPS_PER_STOP: u64 = 200;
/// Timers that may go off before the next call is tried.
const MOST_TIMERS: u32 = 100;
/// Waits until it is known that nobody else runs anything.
const CLEARED: Ticket = Ticket(u64::MAX);
const DAY_US: i64 = 86_400_000_000;

struct World<'a> {
    rng: Rng,
    now: Time,
    fixtures: &'a Fixtures,
    limits: Limits,
    machine: Machine,
    journal: Journal,
    executors: Executors,
    prefetch: Prefetch,
    callers: Callers,
    claimants: Claimants,
    job_keepers: JobKeepers,
    /// A batch that was sent and whose outcome was not told.
    sent: Option<Arc<Batch>>,
    /// A send that got lost on its way and may still arrive.
    in_limbo: Option<Arc<Batch>>,
    /// The loop waits for the journal to be read.
    recovering: bool,
    /// What executors will tell the new owner.
    survivors: Option<Survivors>,
    since: Epoch,
    /// An earlier owner that does not know it yet.
    zombie: Option<Zombie>,
    /// Of each target, when it is there.
    slots: [u32; 2],
    /// How many tasks each of them counts for in the register.
    begun_per_slot: u32,
    /// How many tasks may stand in line for each of them.
    line_per_slot: u32,
    /// Targets that the operator has asked to pause.
    paused: BTreeSet<Option<Arc<str>>>,
    faults: bool,
    scenario: Scenario,
}

/// What happened in a scenario, in short.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub batches: i64,
    pub owners: i64,
    pub tasks: i64,
    pub time: Duration,
}

/// Simulates a scenario. Panics when a rule is broken.
pub(crate) fn simulate(scenario: Scenario, fixtures: &Fixtures) -> Summary {
    let mut world = World::new(scenario, fixtures);
    let begun = world.now;
    for _ in 0..scenario.steps {
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
    fn new(scenario: Scenario, fixtures: &'a Fixtures) -> Self {
        let mut rng = Rng::new(scenario.seed);
        let limits = Limits {
            // So that the lines are used: attempts here last as long as those of people.
            short_attempt: Duration::from_secs(2),
            ..limits::limits(&mut rng)
        };
        let (machine, _) = Machine::new(ShardId(0), limits);
        // Some scenarios begin shortly before midnight.
        let now = Time(20_000 * DAY_US - rng.below(20_000_000) as i64);
        World {
            now,
            fixtures,
            limits,
            machine,
            journal: Journal::judged(limits),
            executors: Executors::default(),
            prefetch: Prefetch::new(*rng.one_of(&[0, 700, 2_000, 1 << 20])),
            callers: Callers::new(),
            claimants: Claimants::new(scenario.seed),
            job_keepers: JobKeepers::new(scenario.seed),
            sent: None,
            in_limbo: None,
            recovering: true,
            survivors: None,
            since: Epoch(0),
            zombie: None,
            slots: [2 + rng.below(6) as u32, 1 + rng.below(3) as u32],
            begun_per_slot: 1 + rng.below(8) as u32,
            line_per_slot: (scenario.seed % 3) as u32,
            paused: BTreeSet::new(),
            faults: true,
            scenario,
            rng,
        }
    }

    fn step(&mut self) {
        let mut events = Vec::new();
        for _ in 0..=self.rng.below(3) {
            self.operator_resumes(&mut events);
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
                94 => self.write_checkpoints(&mut events),
                95..=96 => self.others_act(),
                97..=98 if !self.may(Fault::Crashes) => {}
                97..=98 => {
                    if self.rng.percent(20) {
                        // It may be durable when nobody has been asked to stop yet.
                        self.operator_pauses(&mut events);
                        self.feed(std::mem::take(&mut events));
                    }
                    self.crash();
                    events.clear();
                }
                _ if self.rng.percent(30) => self.operator_pauses(&mut events),
                _ => self.slots_change(&mut events),
            }
        }
        self.keepers_act(&mut events);
        self.feed(events);
        if self.rng.percent(50) {
            self.bodies_arrive();
        }
    }

    /// Feeds the loop and does what it wants done.
    fn feed(&mut self, events: Vec<Event>) {
        for event in &events {
            match event {
                Event::Recovered { schedulers, .. } => {
                    self.prefetch.bodies.recovered(schedulers);
                    let remembered = self.journal.remembered;
                    self.journal.oracle.recovers(self.now, remembered);
                }
                Event::Command(envelope) => self.journal.oracle.asked(self.now, envelope),
                Event::Commit(_, Commit::Durable) => self.journal.oracle.commits(self.now),
                _ => {}
            }
        }
        self.journal.oracle.unreported(self.executors.unreported());
        if self.machine.backlog() > 0 {
            // What was asked before may be decided only now.
            self.journal.oracle.all_used(self.now);
        }
        let effects = self.machine.step(self.now, events);
        let undecided = self.machine.undecided_tickets();
        self.journal.oracle.decides(self.now, &undecided);
        if self.machine.core().is_some() {
            let since = self.journal.oracle.requests_since(self.now);
            self.journal.requests_since = Some(since);
        }
        for effect in effects {
            match effect {
                Effect::Append(batch, _) => {
                    assert!(self.sent.is_none(), "two batches in flight");
                    let commands = self.machine.commands_in_flight();
                    self.journal.oracle.sent(self.now, &batch, commands);
                    self.sent = Some(batch);
                }
                Effect::Release(release) => self.release(release),
                Effect::Discard(_) => {}
                Effect::StandBy => unreachable!("this loop is never deposed"),
                Effect::Recover => {
                    self.recovering = true;
                    let survivors = self.survivors.as_mut();
                    if let Some(survivors) = survivors.filter(|_| !undecided.contains(&CLEARED)) {
                        survivors.reported = false;
                    }
                    self.callers.answers_lost(&undecided);
                    self.claimants.answers_lost(&undecided);
                    self.job_keepers.answers_lost(&undecided);
                }
            }
        }
        if let Some(core) = self.machine.core() {
            self.prefetch.look_ahead(core);
        }
        self.settled();
    }

    /// Once nothing is under way and nothing due, everything that had to happen has.
    fn settled(&mut self) {
        let slice = self.limits.slice_pause * 2;
        let waits = self.sent.is_some() || self.recovering || self.survivors.is_some();
        if waits || self.machine.backlog() > 0 || self.machine.next_due() <= self.now + slice {
            return;
        }
        let outside = Outside {
            now: self.now,
            running: self.executors.occupied(),
            streams: &self.callers.streams,
        };
        let oracle = &mut self.journal.oracle;
        oracle.settled(&outside);
        oracle.jobs.settled(self.now);
        oracle.nothing_waits_beside_room(self.now);
        oracle.nothing_goes_on_unasked(&self.executors.unstopped());
    }

    fn executors_report(&mut self, events: &mut Vec<Event>) {
        if !self.executors.has_reports() && self.rng.percent(60) {
            let end = self.executors.next_end();
            if end != Time::NEVER {
                self.now = self.now.max(end);
            }
        }
        self.executors_go_on();
        let reports = self.executors.reports(self.faults, &mut self.rng);
        if !reports.is_empty() {
            events.push(command(Command::Completed(reports)));
        }
    }

    /// The outcome of what was sent, or what the journal says.
    fn journal_answers(&mut self, events: &mut Vec<Event>) {
        if let Some(late) = self.in_limbo.take_if(|_| self.rng.percent(50)) {
            self.journal.append(&late);
        }
        if let Some(batch) = self.sent.take() {
            let outcome = self.outcome(&batch);
            events.push(Event::Commit(batch.no, outcome));
        } else if self.recovering {
            self.recover(events);
        } else if self.rng.percent(30) {
            self.executors_return(events);
        }
    }

    fn outcome(&mut self, batch: &Arc<Batch>) -> Commit {
        let unknown = || Commit::Unknown {
            message: "no answer".into(),
        };
        match self.rng.below(100) {
            0..=7 if self.may(Fault::UnknownOutcomes) => {
                self.journal.append(batch);
                unknown()
            }
            8..=12 if self.may(Fault::UnknownOutcomes) => unknown(),
            13..=16 if self.may(Fault::UnknownOutcomes) => {
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
                self.claimants.give_up();
                self.job_keepers.give_up();
            }
            _ => self.now = self.now + self.rng.up_to(Duration::from_secs(1)),
        }
    }

    /// Whether a fault may happen in this scenario.
    fn may(&self, fault: Fault) -> bool {
        self.faults && self.scenario.has(fault)
    }

    /// Nothing goes wrong any more: everything must come to its end.
    fn end(&mut self) {
        self.faults = false;
        self.zombie
            .take()
            .iter()
            .for_each(|zombie| zombie.end(&mut self.callers));
        self.callers.give_up();
        let mut events = self.all_slots();
        events.extend(self.resume_everything());
        // The first call may be lost with its owner. What never ends by itself needs a CANCEL.
        let (mut calls, mut stops, mut timers) = (3, 3, MOST_TIMERS);
        for step in 0..LAST_STEPS {
            self.journal_answers(&mut events);
            self.executors_report(&mut events);
            events.extend(self.job_keepers.stop_on().map(Event::Command));
            self.feed(std::mem::take(&mut events));
            self.bodies_arrive();
            let due = self.machine.next_due();
            // Jobs that catch up would keep it from being quiet for long.
            let stops_jobs = step % STEPS_PER_STOP == 0 || (self.is_quiet() && stops > 0);
            if stops_jobs && !self.journal.oracle.jobs.is_over() {
                stops -= u32::from(self.is_quiet() && stops > 0);
                events.push(Event::Command(self.job_keepers.stop()));
            } else if !self.is_quiet() {
                if due <= self.now + self.limits.slice_pause {
                    self.now = self.now.max(due);
                } else if self.executors.has_line() {
                    // What has all slots may never end; who stands in line gives up some day.
                    self.now = due.min(self.now + LONGEST_IN_LINE);
                }
            } else if due < self.now + Duration::from_secs(600) && timers > 0 {
                timers -= 1;
                self.now = self.now.max(due);
            } else if calls > 0 && self.journal.schedulers.iter().any(|tables| !tables.ended()) {
                (calls, timers) = (calls - 1, MOST_TIMERS);
                let mode = if calls == 2 {
                    ReleaseMode::Finish
                } else {
                    ReleaseMode::Cancel
                };
                events.extend(self.resume_everything());
                self.executors
                    .end_the_endless(self.now, &self.callers.known);
                events.extend(self.callers.wind_up(mode).into_iter().map(Event::Command));
            } else {
                break;
            }
        }
        checks::at_the_end(&self.journal, &self.callers);
        self.journal.oracle.resources.nothing_is_open();
        self.journal.oracle.jobs.nothing_runs();
        let schedulers = &self.journal.schedulers;
        if schedulers.iter().all(|tables| tables.unfinished() == 0) {
            assert_eq!(
                self.prefetch.bodies.bytes(),
                0,
                "bodies of ended tasks stay in memory"
            );
        }
    }
}

fn command(command: Command) -> Event {
    Event::Command(Envelope {
        ticket: None,
        command,
    })
}
