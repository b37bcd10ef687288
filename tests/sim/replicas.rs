//! One scenario of several replicas: the shipped loop, hub, session and outbox of each process, a
//! model network between them, one model journal, and what befalls them: deaths, sleep, takeovers,
//! handovers, refused batches, broken and stalled connections, bodies that are still on their way.
//!
//! What begins on the targets is judged in `targets`, what becomes durable in the tables of the
//! journal.

mod client;
mod executor;
mod network;
mod outside;
mod owner;
mod targets;

use crate::{
    callers::Callers, checks, fixtures::Fixtures, journal::Journal, rng::Rng, scenario::Fault,
    scenario::Scenario, world::Summary,
};
use client::Client;
use executor::Executor;
use outside::Outside;
use owner::{Keeper, Owner};
use rallypoint::{
    core::{Epoch, ReleaseMode, Time},
    executor_protocol::Host,
    hub::session::machine::Owner as Known,
};
use std::time::Duration;
use uuid::Uuid;

const PROCESSES: usize = 3;
/// Steps of one process for each step of a scenario.
const STEPS_EACH: u64 = 8;
/// More than enough for everything to end once nothing goes wrong any more.
const LAST_ROUNDS: usize = 20_000;
/// Timers that may go off before the next call is tried.
const LAST_TIMERS: u32 = 100;
const DAY_US: i64 = 86_400_000_000;

struct Process {
    owner: Owner,
    executor: Executor,
    client: Client,
    /// Who owns the shard, as it has seen last.
    seen: (Epoch, Option<Uuid>),
    asleep: bool,
}

struct World<'a> {
    outside: Outside<'a>,
    processes: Vec<Process>,
    runs: u128,
    /// Backends of processes that died.
    orphans: Vec<i32>,
}

/// Simulates a scenario. Panics when a rule is broken.
pub(crate) fn simulate(scenario: Scenario, fixtures: &Fixtures) -> Summary {
    let mut world = World::new(scenario, fixtures);
    for _ in 0..scenario.steps * STEPS_EACH {
        let at = world.outside.rng.place(PROCESSES);
        if world.outside.rng.percent(8) {
            world.befall(at);
        }
        world.step(at);
    }
    world.end();
    let outside = &world.outside;
    let tables = outside.journal.schedulers.iter();
    Summary {
        batches: outside.journal.last_batch(),
        owners: outside.journal.epoch.0,
        tasks: tables.map(|tables| tables.highest()).sum(),
        time: outside.uptime(),
    }
}

impl<'a> World<'a> {
    fn new(scenario: Scenario, fixtures: &'a Fixtures) -> Self {
        let mut rng = Rng::new(scenario.seed);
        let begun = Time(20_000 * DAY_US + rng.below(20_000_000) as i64);
        let slots = 1 + rng.below(2) as u32;
        let outside = Outside {
            begun,
            now: begun,
            journal: Journal::new(),
            targets: Default::default(),
            network: Default::default(),
            callers: Callers::new(),
            fixtures,
            slots: fixtures
                .targets
                .clone()
                .map(|target| (target, slots))
                .into(),
            living: Default::default(),
            owner: None,
            faults: true,
            scenario,
            rng,
        };
        let mut world = World {
            outside,
            processes: Vec::new(),
            runs: 0,
            orphans: Vec::new(),
        };
        for _ in 0..PROCESSES {
            let born = world.born();
            world.processes.push(born);
        }
        world.processes[0].owner.claim(true, &mut world.outside);
        world
    }

    fn born(&mut self) -> Process {
        self.runs += 1;
        let run = Uuid::from_u128(self.runs);
        let outside = &mut self.outside;
        outside.journal.register.enrol(run);
        outside.living.insert(run);
        let host = Host {
            replica: run,
            incarnation: 1,
        };
        let mut owner = Owner::new(run, outside);
        owner.depose();
        Process {
            owner,
            executor: Executor::new(host, outside.journal.epoch, &outside.slots),
            client: Client::new(run),
            seen: (Epoch(0), None),
            asleep: false,
        }
    }

    fn step(&mut self, at: usize) {
        let outside = &mut self.outside;
        let passes = if outside.rng.percent(3) { 1_000 } else { 1 };
        outside.now = outside.now + Duration::from_millis(passes);
        outside.network.sweep();
        if !self.orphans.is_empty() && outside.rng.percent(5) {
            let at = outside.rng.place(self.orphans.len());
            outside.targets.kill(self.orphans.swap_remove(at));
        }
        let process = &mut self.processes[at];
        if process.asleep {
            return;
        }
        let Process {
            owner,
            executor,
            client,
            seen,
            ..
        } = process;
        match outside.rng.below(12) {
            0 => owner.keep(executor, outside),
            1..=4 => owner.turn(executor, outside),
            5 => owner.bodies_arrive(executor, outside),
            6..=7 => owner.hub_goes_on(executor, outside),
            8..=9 => executor.act(outside),
            10 if outside.rng.percent(30) => {
                *seen = (outside.journal.epoch, outside.owner);
                let known = seen.1.map(|replica| Known {
                    replica,
                    epoch: seen.0,
                });
                client.learn(known, executor, outside);
            }
            _ => client.act(executor, outside),
        }
    }

    /// Something befalls the world.
    fn befall(&mut self, at: usize) {
        let outside = &mut self.outside;
        match outside.rng.below(24) {
            0..=9 => self.call(),
            10..=11 if outside.scenario.has(Fault::Owners) && outside.rng.percent(40) => {
                self.take_over(at);
            }
            12 if outside.scenario.has(Fault::Owners) && outside.rng.percent(40) => {
                self.hand_over(at)
            }
            13 if outside.scenario.has(Fault::Crashes) && outside.rng.percent(30) => self.die(at),
            14..=15 if outside.scenario.has(Fault::Zombies) => {
                self.processes[at].asleep = outside.rng.percent(50);
            }
            16..=19 => self.processes[at].asleep = false,
            20..=22 if outside.scenario.has(Fault::Targets) => self.break_a_connection(),
            _ => {}
        }
    }

    fn break_a_connection(&mut self) {
        let outside = &mut self.outside;
        let connections = &mut outside.network.connections;
        if connections.is_empty() {
            return;
        }
        let at = outside.rng.place(connections.len());
        match outside.rng.below(4) {
            0 => connections[at].cut = true,
            1 => connections[at].stalled = true,
            _ => connections.iter_mut().for_each(|one| one.stalled = false),
        }
    }

    /// A caller says something to a process that takes itself for the owner.
    fn call(&mut self) {
        let outside = &mut self.outside;
        let tables = &outside.journal.schedulers;
        let call = outside.callers.act(
            outside.now,
            tables,
            outside.fixtures,
            outside.faults,
            &mut outside.rng,
        );
        let Some(envelope) = call else { return };
        let is_owner = |process: &&mut Process| !process.owner.machine.stands_by();
        let mut owners: Vec<&mut Process> = self.processes.iter_mut().filter(is_owner).collect();
        if owners.is_empty() {
            return outside.callers.lose(envelope.ticket.as_slice());
        }
        let at = outside.rng.place(owners.len());
        owners[at].owner.call(envelope);
    }

    fn take_over(&mut self, at: usize) {
        let Process { owner, asleep, .. } = &mut self.processes[at];
        if matches!(owner.keeper, Keeper::Standby) && owner.machine.stands_by() && !*asleep {
            owner.claim(true, &mut self.outside);
        }
    }

    /// The owner gives the shard to another process that is ready for it.
    fn hand_over(&mut self, to: usize) {
        let Some(owner) = self.outside.owner else {
            return;
        };
        let serving = |process: &Process| {
            process.owner.run == owner && matches!(process.owner.keeper, Keeper::Serving(_))
        };
        let from = self.processes.iter().position(serving);
        let Some(from) = from.filter(|from| *from != to && !self.processes[*from].asleep) else {
            return;
        };
        self.processes[from].owner.depose();
        self.take_over(to);
    }

    fn die(&mut self, at: usize) {
        let born = self.born();
        let mut died = std::mem::replace(&mut self.processes[at], born);
        let outside = &mut self.outside;
        let run = died.owner.run;
        if let Some(batch) = died.owner.sent.take().filter(|_| outside.rng.percent(50)) {
            outside.journal.append(&batch);
        }
        died.owner.lose_calls(outside);
        self.orphans.extend(died.executor.backends());
        outside.network.die(run);
        outside.living.remove(&run);
        // It finds the shard owned under its own name.
        if outside.owner == Some(run) && outside.rng.percent(50) {
            self.processes[at].owner.claim(true, outside);
        }
    }

    /// Nothing goes wrong any more: everything must come to its end.
    fn end(&mut self) {
        self.outside.faults = false;
        self.outside.callers.give_up();
        for connection in &mut self.outside.network.connections {
            connection.stalled = false;
        }
        for process in &mut self.processes {
            process.asleep = false;
        }
        let (mut calls, mut timers) = (3, LAST_TIMERS);
        for round in 0..LAST_ROUNDS {
            for at in 0..PROCESSES {
                self.step(at);
            }
            self.find_an_owner(round);
            let Some(owner) = self.quiet_owner() else {
                continue;
            };
            let outside = &mut self.outside;
            let due = self.processes[owner].owner.machine.next_due();
            if due < outside.now + Duration::from_secs(600) && timers > 0 {
                timers -= 1;
                outside.now = outside.now.max(due);
                self.step(owner);
            } else if calls > 0
                && outside
                    .journal
                    .schedulers
                    .iter()
                    .any(|tables| !tables.ended())
            {
                (calls, timers) = (calls - 1, LAST_TIMERS);
                let mode = match calls {
                    2 => ReleaseMode::Finish,
                    _ => ReleaseMode::Cancel,
                };
                for envelope in outside.callers.wind_up(mode) {
                    self.processes[owner].owner.call(envelope);
                }
            } else {
                return self.judge(owner);
            }
        }
        panic!("something never ends: {}", self.picture());
    }

    fn find_an_owner(&mut self, round: usize) {
        let owner = self.outside.owner;
        let is_up = |process: &Process| {
            Some(process.owner.run) == owner && !matches!(process.owner.keeper, Keeper::Standby)
        };
        if !self.processes.iter().any(is_up) {
            self.take_over(round % PROCESSES);
        }
    }

    /// The owner, when nothing is under way: only time can change anything.
    fn quiet_owner(&self) -> Option<usize> {
        let owner = |process: &Process| Some(process.owner.run) == self.outside.owner;
        let at = self.processes.iter().position(owner)?;
        let is_idle = |other: &Process| {
            let executes = !other.executor.is_idle() || other.client.giving_up;
            let owns = other.owner.run == self.processes[at].owner.run;
            !executes && (owns || other.owner.stands_by())
        };
        let idle = self.processes.iter().all(is_idle);
        (idle && self.processes[at].owner.is_quiet(&self.outside)).then_some(at)
    }

    fn judge(&self, owner: usize) {
        checks::at_the_end(&self.outside.journal, &self.outside.callers);
        self.outside.targets.tell_the_truth(&self.outside.journal);
        let hub = &self.processes[owner].owner.hub;
        assert_eq!(hub.open_assignments(), 0, "something is kept as given");
        assert_eq!(hub.busy_slots(), 0, "slots are busy with nothing");
    }

    fn picture(&self) -> String {
        let outside = &self.outside;
        let mut picture = format!(
            "owner {:?}, epoch {:?};",
            outside.owner, outside.journal.epoch
        );
        for process in &self.processes {
            let Process {
                owner, executor, ..
            } = process;
            picture += &format!(
                " {}: {:?}, quiet {}, {} given, {} busy, due {:?}, executor idle {};",
                owner.run.as_u128(),
                owner.keeper,
                owner.is_quiet(outside),
                owner.hub.open_assignments(),
                owner.hub.busy_slots(),
                owner.hub.next_due(),
                executor.is_idle(),
            );
        }
        picture
    }
}
