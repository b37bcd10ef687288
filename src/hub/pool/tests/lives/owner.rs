//! The loop of one process, with the real pool and the real machine: what `coordinator/driver.rs` and `driver/crew.rs` do
//! with channels and tasks, one step at a time.

use super::{executor::Executor, outside::Outside, roll::Op, rules};
use crate::{
    assignment::{ExecutorId, ExecutorReport, Link},
    coordinator::machine::{Effect, Envelope, Event, Machine, Release},
    core::{
        Action, BatchNo, Command, Epoch, InDoubtWindow, ShardId, Ticket, Work,
        model::limits::Limits,
    },
    hub::pool::{Host, Instruction, Joining, Pool, Refusal, Route},
    journal::{Batch, Commit},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
};
use tokio::sync::mpsc;
use uuid::Uuid;

/// Something about executors that the loop must know.
pub(crate) enum ExecutorChange {
    /// By which session.
    Join(Joining, u64),
    Leave(ExecutorId),
    Fenced {
        host: Host,
        work: Work,
        began: bool,
        no: u64,
    },
}

/// What became of an executor that wants to work.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Admitted(ExecutorId),
    Fenced,
    NotNow,
}

/// Whoever keeps the ownership.
#[derive(Clone, Copy)]
pub(crate) enum Keeper {
    Standby,
    /// Takes over: whether others have owned the shard since.
    Claimed {
        epoch: Epoch,
        last_batch: i64,
        anew: bool,
    },
    Serving(Epoch),
}

pub(crate) struct Loop {
    pub run: Uuid,
    pub machine: Machine,
    pub pool: Pool,
    pub reports: (mpsc::Sender<ExecutorReport>, mpsc::Receiver<ExecutorReport>),
    pub changes: VecDeque<ExecutorChange>,
    pub arriving: VecDeque<Event>,
    pub answers: Vec<(u64, Answer)>,
    pub ops: Vec<Op>,
    pub keeper: Keeper,
    /// Changes of the fence that the loop has taken in.
    pub taken: BTreeSet<u64>,
    pub sent: Option<Arc<Batch>>,
    asked: VecDeque<(Option<u64>, Command)>,
    waiting: BTreeMap<Ticket, u64>,
    answered: BTreeSet<u64>,
    last_no: u64,
    /// How often the pool has begun afresh.
    ownership: u64,
    rebuild: bool,
    local: Option<mpsc::Receiver<Instruction>>,
}

impl Loop {
    pub(crate) fn new(run: Uuid, outside: &Outside) -> Self {
        let machine = Machine::new(ShardId(0), Limits::default()).0;
        let pool = Pool::new(1, outside.clock.clone());
        let (changes, arriving, answers, ops, taken) = Default::default();
        let (asked, waiting, answered) = Default::default();
        let keeper = Keeper::Standby;
        let (sent, local, last_no, ownership, rebuild) = (None, None, 0, 0, false);
        let reports = mpsc::channel(8);
        Loop {
            run,
            machine,
            pool,
            reports,
            changes,
            arriving,
            answers,
            ops,
            keeper,
            taken,
            sent,
            asked,
            waiting,
            answered,
            last_no,
            ownership,
            rebuild,
            local,
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.last_no += 1;
        self.last_no
    }

    /// Asks the loop; the number is that of the answer.
    pub(crate) fn ask(&mut self, command: Command) -> u64 {
        let no = self.number();
        self.asked.push_back((Some(no), command));
        no
    }

    pub(crate) fn submit(&mut self, command: Command) {
        self.asked.push_back((None, command));
    }

    pub(crate) fn is_answered(&self, no: u64) -> bool {
        self.answered.contains(&no)
    }

    pub(crate) fn is_lost(&self, no: u64) -> bool {
        let asked = self.asked.iter().any(|(asked, _)| *asked == Some(no));
        !asked && !self.is_answered(no) && !self.waiting.values().any(|waits| *waits == no)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        let idle =
            self.sent.is_none() && self.machine.backlog() == 0 && !self.machine.waits_for_lease();
        let empty = self.changes.is_empty()
            && self.arriving.is_empty()
            && self.ops.is_empty()
            && self.asked.is_empty();
        idle && empty && !self.pool.has_done() && self.reports.1.is_empty()
    }

    /// Keeps the ownership: takes over step by step, begins again when the core is of no more use, finds out that it is over.
    pub(crate) fn keep(&mut self, executor: &mut Executor, outside: &mut Outside) {
        let present = outside.journal.epoch;
        match self.keeper {
            Keeper::Standby => {}
            Keeper::Claimed { epoch, .. } | Keeper::Serving(epoch) if epoch != present => {
                if outside.rng.percent(50) {
                    self.arriving.push_back(Event::Deposed);
                    self.keeper = Keeper::Standby;
                }
            }
            Keeper::Claimed { anew: true, .. } if !executor.begins_afresh(outside) => {}
            Keeper::Claimed {
                epoch,
                last_batch,
                anew,
            } => {
                let window = anew.then(|| window(outside));
                let schedulers = outside.journal.recover();
                self.arriving.push_back(Event::Recovered {
                    schedulers,
                    epoch,
                    last_batch: BatchNo(last_batch),
                    window,
                });
                self.keeper = Keeper::Serving(epoch);
            }
            Keeper::Serving(_) if self.rebuild => self.claim(false, outside),
            Keeper::Serving(_) => {}
        }
    }

    pub(crate) fn claim(&mut self, anew: bool, outside: &mut Outside) {
        self.rebuild = false;
        let epoch = outside.journal.take_over(self.run);
        self.keeper = Keeper::Claimed {
            epoch,
            last_batch: outside.journal.last_batch(),
            anew,
        };
    }

    /// Once around: something happens, and everything that has arrived is taken with it.
    pub(crate) fn turn(&mut self, executor: &mut Executor, outside: &mut Outside) {
        let free = !self.machine.waits_for_journal();
        let mut events = Vec::new();
        match outside.rng.below(3) {
            0 => {
                if let Some(batch) = self.sent.take() {
                    let fate = fate(&batch, outside);
                    events.push(Event::Commit(batch.no, fate));
                }
            }
            1 if free => {
                if let Some(change) = self.changes.pop_front() {
                    events.extend(self.change(change, executor, outside));
                }
            }
            _ => events.extend(self.arriving.pop_front()),
        }
        events.extend(self.take_arrived(executor, outside));
        self.step(events, executor, outside);
        let done = self.take_arrived(executor, outside);
        if !done.is_empty() {
            self.step(done, executor, outside);
        }
        rules::consistent(&self.pool, &outside.slots);
    }

    fn take_arrived(&mut self, executor: &mut Executor, outside: &mut Outside) -> Vec<Event> {
        let mut events: Vec<Event> = self.arriving.drain(..).collect();
        while let Ok(told) = self.reports.1.try_recv() {
            let commands = self.pool.told(told);
            events.extend(self.heard(commands, executor, outside));
        }
        let done = self
            .pool
            .take_done()
            .into_iter()
            .map(|completion| Command::Completed(vec![completion]))
            .collect();
        events.extend(self.heard(done, executor, outside));
        for (no, command) in mem::take(&mut self.asked) {
            if self.machine.stands_by() {
                continue;
            }
            let ticket = no.map(|_| Ticket(self.number()));
            self.waiting.extend(ticket.zip(no));
            events.push(Event::Command(Envelope { ticket, command }));
        }
        events
    }

    /// What the pool says to the core; the executor of this process has heard by then what it was told.
    fn heard(
        &mut self,
        commands: Vec<Command>,
        executor: &mut Executor,
        outside: &mut Outside,
    ) -> Vec<Event> {
        outside
            .rules
            .said(self.run, self.ownership, &self.pool, &commands);
        self.tell_local(executor, outside);
        commands
            .into_iter()
            .map(|command| {
                Event::Command(Envelope {
                    ticket: None,
                    command,
                })
            })
            .collect()
    }

    fn tell_local(&mut self, executor: &mut Executor, outside: &mut Outside) {
        while let Some(message) = self.local.as_mut().and_then(|local| local.try_recv().ok()) {
            executor.obey(message, outside);
        }
    }

    fn step(&mut self, mut events: Vec<Event>, executor: &mut Executor, outside: &mut Outside) {
        if let Some(end) = events
            .iter()
            .position(|event| matches!(event, Event::Deposed))
            .filter(|end| end + 1 < events.len())
        {
            let later = events.split_off(end + 1);
            self.step(events, executor, outside);
            return self.step(later, executor, outside);
        }
        let holds = match self.keeper {
            Keeper::Claimed { epoch, .. } | Keeper::Serving(epoch) => {
                epoch == outside.journal.epoch
            }
            Keeper::Standby => false,
        };
        self.machine.set_lease(holds);
        let begun = events.iter().find_map(|event| match event {
            Event::Recovered { epoch, window, .. } => {
                Some((*epoch, window.as_ref().map(|w| w.keys().cloned().collect())))
            }
            _ => None,
        });
        if let Some((epoch, inherited)) = begun {
            events.extend(self.begin(epoch, inherited, executor, outside));
        }
        for effect in self.machine.step(outside.now, events) {
            match effect {
                Effect::Append(batch, _) => self.sent = Some(batch),
                Effect::Release(release) => self.release(release, executor, outside),
                Effect::Recover => {
                    let undecided = self.machine.undecided_tickets();
                    self.waiting.retain(|ticket, _| undecided.contains(ticket));
                    self.rebuild = true;
                }
                Effect::StandBy => {
                    // The gate has the last word on what is still on its way.
                    if let Some(batch) = self.sent.take() {
                        outside.journal.append(&batch);
                    }
                    self.waiting.clear();
                    self.pool.disband();
                    self.ownership += 1;
                    self.local = None;
                    self.ops.clear();
                }
            }
        }
    }

    fn release(&mut self, release: Release, executor: &mut Executor, outside: &mut Outside) {
        outside
            .rules
            .settled(self.run, self.ownership, &release.over);
        self.pool.over(&release.over);
        let mut work = Vec::new();
        for action in release.actions {
            match action {
                Action::Reply(ticket, _) => self.answered.extend(self.waiting.remove(&ticket)),
                Action::Dispatch(assignment) => work.push((assignment, None)),
                Action::Stop {
                    handle,
                    first,
                    attempt,
                } => self.pool.stop(handle, first, attempt),
            }
        }
        self.pool.dispatch(work);
        self.tell_local(executor, outside);
    }

    fn begin(
        &mut self,
        epoch: Epoch,
        inherited: Option<Vec<Work>>,
        executor: &mut Executor,
        outside: &mut Outside,
    ) -> Vec<Event> {
        self.pool.begin(epoch, inherited.is_some());
        if let Some(mut works) = inherited {
            works.extend(outside.slots.keys().cloned());
            self.ownership += 1;
            self.ops = vec![Op::Call {
                since: epoch,
                works,
                others: None,
            }];
        }
        let mut commands = vec![self.pool.own_slots()];
        if self.pool.is_empty() {
            let member = self.pool.new_member();
            let host = Host {
                replica: self.run,
                incarnation: executor.incarnation,
            };
            let link = Link {
                epoch,
                member,
                out: self.reports.0.clone(),
            };
            if let Some(mut snapshot) = executor.desk.attach(link) {
                outside.mix(&mut snapshot);
                let (out, local) = mpsc::channel(1_024);
                self.local = Some(local);
                let joining = Joining {
                    member,
                    host,
                    epoch,
                    session: 0,
                    name: "here".into(),
                    snapshot,
                    route: Route::Remote(out),
                };
                commands.extend(self.pool.join(joining).into_iter().flatten());
            }
        }
        self.heard(commands, executor, outside)
    }

    fn change(
        &mut self,
        change: ExecutorChange,
        executor: &mut Executor,
        outside: &mut Outside,
    ) -> Vec<Event> {
        let commands = match change {
            ExecutorChange::Join(joining, session)
                if self.machine.stands_by() || joining.host.replica == self.run =>
            {
                self.answers.push((session, Answer::NotNow));
                Vec::new()
            }
            ExecutorChange::Join(joining, session) => {
                let member = joining.member;
                let told = self.pool.join(joining);
                let answer = match &told {
                    Ok(_) => Answer::Admitted(member),
                    Err(Refusal::Fenced) => Answer::Fenced,
                    Err(Refusal::Stale) => Answer::NotNow,
                };
                self.answers.push((session, answer));
                told.unwrap_or_default()
            }
            ExecutorChange::Leave(member) => {
                let (host, commands) = self.pool.leave(member);
                self.ops.extend(host.map(|host| Op::Gone {
                    host,
                    shut: false,
                    fenced: false,
                }));
                commands
            }
            ExecutorChange::Fenced {
                host,
                work,
                began,
                no,
            } => {
                self.taken.insert(no);
                self.pool.fenced(host, &work, began)
            }
        };
        self.heard(commands, executor, outside)
    }
}

/// How much earlier owners may have handed out, as the register says.
fn window(outside: &Outside) -> InDoubtWindow {
    let hosts = outside.journal.enrolled.len() as u32;
    outside
        .slots
        .iter()
        .map(|(work, total)| (work.clone(), hosts * total))
        .collect()
}

fn fate(batch: &Arc<Batch>, outside: &mut Outside) -> Commit {
    let unknown = Commit::Unknown {
        message: "no answer".into(),
    };
    if outside.chance(10) {
        return unknown;
    }
    let fate = outside.journal.append(batch);
    if outside.chance(10) { unknown } else { fate }
}
