//! One life: three processes, each with a loop and an executor, and what befalls them.

use super::{
    executor::Executor,
    outside::Outside,
    owner::{Keeper, Loop},
    rules,
    session::{Session, Stands},
};
use crate::coordinator::machine::Event;
use crate::core::{
    Caller, Command, Epoch, Handle, Namespace, Packed, Run, Seq, Settings, ShardId, Submit,
    TaskRef, Verb,
};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

const PROCESSES: usize = 3;
/// More than enough for everything to end once nothing goes wrong any more.
const LAST_ROUNDS: usize = 6_000;

pub(crate) struct Process {
    pub owner: Loop,
    pub executor: Executor,
    /// Who owns the shard, as it has seen last.
    seen: (Epoch, Option<Uuid>),
    paused: bool,
    /// Its executor gives everything up, because it was fenced.
    giving_up: bool,
}

pub(crate) struct World {
    pub outside: Outside,
    pub processes: Vec<Process>,
    sessions: Vec<Session>,
    last_session: u64,
    runs: u128,
    /// Backends of processes that died.
    orphans: Vec<u32>,
    handle: Handle,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let handle = Handle::new(ShardId(0), 1, [7; 10]);
        let outside = Outside::new(seed);
        let (processes, sessions, orphans) = Default::default();
        let mut world = World {
            outside,
            processes,
            sessions,
            last_session: 0,
            runs: 0,
            orphans,
            handle,
        };
        world.processes = (0..PROCESSES).map(|_| world.born()).collect();
        world.processes[0].owner.claim(false, &mut world.outside);
        world
    }

    fn born(&mut self) -> Process {
        self.runs += 1;
        let run = Uuid::from_u128(self.runs);
        self.outside.journal.enrol(run);
        let (mut owner, executor) = (
            Loop::new(run, &self.outside),
            Executor::new(run, &self.outside.slots),
        );
        if self.runs > 1 {
            owner.arriving.push_back(Event::Deposed);
        }
        Process {
            owner,
            executor,
            seen: (Epoch(0), None),
            paused: false,
            giving_up: false,
        }
    }

    pub(crate) fn live(&mut self, steps: usize) {
        for _ in 0..steps {
            let at = self.outside.rng.place(PROCESSES);
            if self.outside.rng.percent(6) {
                self.befall(at);
            }
            self.step(at);
        }
        self.end();
    }

    fn step(&mut self, at: usize) {
        let ms = if self.outside.rng.percent(3) {
            1_000
        } else {
            1
        };
        self.outside.wait(Duration::from_millis(ms));
        self.orphans_end();
        if self.processes[at].paused {
            return;
        }
        let Process {
            owner,
            executor,
            seen,
            giving_up,
            ..
        } = &mut self.processes[at];
        let outside = &mut self.outside;
        match outside.rng.below(10) {
            0 => owner.keep(executor, outside),
            1..=4 => {
                owner.turn(executor, outside);
                for (no, answer) in std::mem::take(&mut owner.answers) {
                    self.sessions
                        .iter_mut()
                        .filter(|session| session.no == no)
                        .for_each(|session| session.answered(answer));
                }
            }
            5 => owner.roll_on(outside),
            6 => executor.act(outside),
            7 if outside.rng.percent(30) => *seen = (outside.journal.epoch, outside.journal.owner),
            7 if *giving_up => *giving_up = !executor.begins_afresh(outside),
            7 => self.work_for_the_owner(at),
            _ => self.sessions_go_on(at),
        }
    }

    /// The executor has a session with whom it takes for the owner.
    fn work_for_the_owner(&mut self, at: usize) {
        let Process {
            executor,
            seen: (epoch, owner),
            ..
        } = &self.processes[at];
        let has = self
            .sessions
            .iter()
            .any(|session| session.from == executor.run && session.is_open());
        let Some(to) = owner.filter(|owner| *owner != executor.run && !has) else {
            return;
        };
        if !self
            .processes
            .iter()
            .any(|process| process.executor.run == to)
        {
            return;
        }
        self.last_session += 1;
        self.sessions.extend(Session::open(
            self.last_session,
            executor,
            *epoch,
            to,
            &mut self.outside,
        ));
    }

    fn sessions_go_on(&mut self, at: usize) {
        let Process {
            owner,
            executor,
            seen,
            giving_up,
            ..
        } = &mut self.processes[at];
        let outside = &mut self.outside;
        for session in &mut self.sessions {
            if session.from == executor.run && session.is_open() {
                let moved = seen.1 != Some(session.to) && outside.rng.percent(50);
                match session.at_the_executor(executor, outside) {
                    Stands::Open if moved || outside.chance(6) => session.close(),
                    Stands::Open => {}
                    Stands::Closed => session.close(),
                    Stands::Fenced => {
                        session.close();
                        *giving_up = true;
                    }
                }
            }
            if session.to == executor.run && outside.rng.percent(60) {
                match outside.chance(2) {
                    true => session.hang_up(owner),
                    false => session.at_the_owner(owner, outside),
                }
            }
        }
        self.sessions.retain(|session| !session.is_over());
    }

    /// Backends of dead processes run their text to its end, and vanish.
    fn orphans_end(&mut self) {
        if !self.orphans.is_empty() && self.outside.rng.percent(5) {
            let at = self.outside.rng.place(self.orphans.len());
            let pid = self.orphans.swap_remove(at);
            self.outside.kill(pid);
        }
    }

    fn befall(&mut self, at: usize) {
        let outside = &mut self.outside;
        match outside.rng.below(20) {
            0..=7 => self.call(),
            8..=9 if outside.rng.percent(50) => self.take_over(at),
            10 if outside.rng.percent(30) => self.die(at),
            11..=12 => self.processes[at].paused = outside.rng.percent(50),
            13..=16 => self.processes[at].paused = false,
            _ => {}
        }
    }

    /// A caller says something to the owner, if that is who it takes itself for.
    fn call(&mut self) {
        let Some(owner) = self.outside.journal.owner else {
            return;
        };
        let Some(process) = self
            .processes
            .iter_mut()
            .find(|process| process.owner.run == owner)
        else {
            return;
        };
        let outside = &mut self.outside;
        let verb = match outside.rng.below(10) {
            _ if outside.journal.recover().is_empty() => Verb::Open {
                settings: Arc::new(Settings::default()),
                request: None,
            },
            0..=2 if outside.journal.tasks() > 0 => {
                let seq = Seq(1 + outside.rng.place(outside.journal.tasks()) as i64);
                Verb::Cancel(TaskRef { seq, order: None })
            }
            _ => {
                let spec = outside.specs[outside.rng.place(outside.specs.len())].clone();
                let count = 1 + outside.rng.below(3) as u32;
                let bodies = Packed::new((0..count).map(|_| &b"text"[..]));
                let runs = vec![Run {
                    count,
                    order: None,
                    spec,
                }];
                Verb::Submit(Arc::new(Submit {
                    request: None,
                    runs,
                    bodies,
                    params: Packed::default(),
                }))
            }
        };
        let caller = Caller {
            namespace: Namespace::default_namespace(),
            name: "test".into(),
        };
        process.owner.submit(Command::Call {
            caller,
            handle: self.handle,
            verb,
        });
    }

    fn take_over(&mut self, at: usize) {
        let Process { owner, paused, .. } = &mut self.processes[at];
        if matches!(owner.keeper, Keeper::Standby) && owner.machine.stands_by() && !*paused {
            owner.claim(true, &mut self.outside);
        }
    }

    fn die(&mut self, at: usize) {
        let born = self.born();
        let Process {
            owner, executor, ..
        } = std::mem::replace(&mut self.processes[at], born);
        if let Some(batch) = owner.sent.filter(|_| self.outside.rng.percent(50)) {
            self.outside.journal.append(&batch);
        }
        self.orphans.extend(executor.backends());
        for session in &mut self.sessions {
            if session.from == executor.run {
                session.close();
            }
            if session.to == executor.run {
                session.orphan();
            }
        }
        // It finds the shard owned under its own name.
        if self.outside.journal.owner == Some(executor.run) && self.outside.rng.percent(50) {
            let owner = &mut self.processes[at].owner;
            owner.arriving.clear();
            owner.claim(true, &mut self.outside);
        }
    }

    /// Nothing goes wrong any more: everything must come to its end.
    fn end(&mut self) {
        self.outside.faults = false;
        self.processes
            .iter_mut()
            .for_each(|process| process.paused = false);
        let mut rounds = 0;
        while !self.is_quiet() {
            rounds += 1;
            assert!(
                rounds < LAST_ROUNDS,
                "something never ends: {}",
                self.picture()
            );
            for at in 0..PROCESSES {
                self.step(at);
            }
            let owner = self.outside.journal.owner;
            if !self
                .processes
                .iter()
                .any(|process| Some(process.owner.run) == owner)
            {
                self.take_over(rounds % PROCESSES);
            }
        }
        self.processes
            .iter()
            .for_each(|process| rules::at_rest(&process.owner.pool));
    }

    fn is_quiet(&self) -> bool {
        let journal = &self.outside.journal;
        let owned = self.processes.iter().any(|p| {
            Some(p.owner.run) == journal.owner && matches!(p.owner.keeper, Keeper::Serving(_))
        });
        let done = journal.ended.len() == journal.tasks();
        let idle = self
            .processes
            .iter()
            .all(|p| p.owner.is_quiet() && p.executor.desk.is_empty() && !p.giving_up);
        let open = self
            .sessions
            .iter()
            .filter(|session| session.is_quiet())
            .count();
        owned && done && idle && open == PROCESSES - 1 && self.sessions.len() == open
    }

    fn picture(&self) -> String {
        let journal = &self.outside.journal;
        let mut picture = format!(
            "{} of {} tasks are done;",
            journal.ended.len(),
            journal.tasks()
        );
        for process in &self.processes {
            let (owner, executor) = (&process.owner, &process.executor);
            let quiet = owner.is_quiet();
            let state = owner.pool.state();
            picture += &format!(
                " {}: quiet {}, {} members, {} given, {} wait, {} jobs, keeps {:?}, incarnation {}, gives up {};",
                owner.run.as_u128(),
                quiet,
                state.members.len(),
                state.given.len(),
                state.waiting.len(),
                executor.jobs.len(),
                !executor.desk.is_empty(),
                executor.incarnation,
                process.giving_up
            );
        }
        picture
            + &format!(
                " {} sessions, {} quiet",
                self.sessions.len(),
                self.sessions.iter().filter(|s| s.is_quiet()).count()
            )
    }
}
