//! Model callers: they open schedulers, submit, cancel, pause, release, and say it again under the
//! same request id when nobody told them what became of it. What they are told is judged in
//! `checks`.

mod cancels;
mod questions;
mod retries;
mod settings;

use crate::{fixtures::Fixtures, rng::Rng, tables::Tables};
use cancels::{cancel_one, cancel_some};
use questions::{place, select};
use rallypoint::{
    coordinator::machine::Envelope,
    core::{
        Caller, Command, DoneNo, Handle, Namespace, Open, Order, Packed, ReleaseMode, Reply,
        Request, Run, Seq, ShardId, Submit, Ticket, Time, Until, Verb,
    },
};
use retries::Search;
use rustc_hash::{FxHashMap, FxHashSet};
use settings::{naming, settings, update};
use std::sync::Arc;
use uuid::Uuid;

const SCHEDULERS: usize = 4;
/// Calls that wait to be said again.
const AGAIN: usize = 8;
/// Calls that may be made once more.
const ACCEPTED: usize = 8;

/// A call whose answer is still to come.
#[derive(Clone)]
pub(crate) struct Pending {
    pub handle: Handle,
    pub verb: Verb,
    pub poisoned: bool,
    /// Its request id may be forgotten by now.
    pub old: bool,
}

pub(crate) struct Callers {
    namespaces: [Namespace; 2],
    name: Arc<str>,
    next: u64,
    /// Every scheduler a caller may know of.
    pub known: Vec<Handle>,
    pub pending: FxHashMap<Ticket, Pending>,
    /// Calls of unknown outcome.
    unknown: Vec<Pending>,
    /// Calls that had their effect, and may be made once more.
    accepted_calls: Vec<Pending>,
    /// What a request was answered: a scheduler, or first task, count and last event.
    pub opened: FxHashMap<Uuid, Handle>,
    pub accepted: FxHashMap<(Handle, Request), (Seq, u32, DoneNo)>,
    /// Requests that were definitely refused.
    pub refused: Vec<(Handle, Request)>,
    pub streams: Vec<Handle>,
    /// What was found to retry, perhaps long ago.
    searches: Vec<Search>,
    /// There are resources that tasks may hold.
    pub with_resources: bool,
}

impl Callers {
    pub(crate) fn new() -> Self {
        Callers {
            namespaces: [Namespace("one".into()), Namespace("two".into())],
            name: "caller".into(),
            next: 0,
            known: Vec::new(),
            pending: FxHashMap::default(),
            unknown: Vec::new(),
            accepted_calls: Vec::new(),
            opened: FxHashMap::default(),
            accepted: FxHashMap::default(),
            refused: Vec::new(),
            streams: Vec::new(),
            searches: Vec::new(),
            with_resources: false,
        }
    }

    /// Something a caller does now.
    pub(crate) fn act(
        &mut self,
        now: Time,
        journal: &[Tables],
        fixtures: &Fixtures,
        faults: bool,
        rng: &mut Rng,
    ) -> Option<Envelope> {
        if !self.unknown.is_empty() && rng.percent(40) {
            return Some(self.say_again(rng));
        }
        if !self.accepted_calls.is_empty() && rng.percent(3) {
            return Some(self.use_request_again(rng));
        }
        let few = self.known.len() < SCHEDULERS;
        if self.known.is_empty() || rng.percent(if few { 10 } else { 1 }) {
            return Some(self.open(faults, rng));
        }
        let handle = *rng.one_of(&self.known);
        let tables = journal.iter().find(|tables| tables.handle() == handle);
        let poisoned = faults && rng.percent(2);
        let verb = match rng.below(100) {
            0..=9 => match self.retry(handle, tables, poisoned, fixtures, rng) {
                Some(retry) => retry,
                None => self.submit(now, tables, poisoned, fixtures, rng),
            },
            10..=54 => self.submit(now, tables, poisoned, fixtures, rng),
            55..=59 => cancel_one(tables, rng),
            60..=64 => cancel_some(tables, rng),
            65..=69 => Verb::Pause,
            70..=79 => Verb::Resume {
                ignore_failures: rng.percent(50),
            },
            80..=84 => self.watch(tables, rng),
            85..=88 => return Some(self.close_stream(rng)),
            89..=91 => update(poisoned, rng),
            92..=93 => Verb::Describe,
            94 => select(tables, rng),
            95 => Verb::Explain(place(tables, tables.map_or(0, Tables::highest))),
            96..=97 => Verb::Locate(
                (1..=tables.map_or(0, |t| t.highest()).min(3))
                    .map(|seq| place(tables, seq))
                    .collect(),
            ),
            98 => Verb::Release(ReleaseMode::Cancel),
            _ => Verb::Release(ReleaseMode::Finish),
        };
        let poisoned = poisoned && matches!(verb, Verb::Submit(_) | Verb::Update(_));
        Some(self.say(Pending {
            handle,
            verb,
            poisoned,
            old: false,
        }))
    }

    /// Ends pauses and halts, and releases everything: after this nothing keeps a task from ending.
    pub(crate) fn wind_up(&mut self, mode: ReleaseMode) -> Vec<Envelope> {
        let verbs = [
            Verb::Resume {
                ignore_failures: true,
            },
            Verb::Release(mode),
        ];
        let calls = self
            .known
            .clone()
            .into_iter()
            .flat_map(|handle| verbs.clone().map(|verb| (handle, verb)));
        calls
            .map(|(handle, verb)| {
                self.say(Pending {
                    handle,
                    verb,
                    poisoned: false,
                    old: false,
                })
            })
            .collect()
    }

    /// Whoever waits for an answer that no longer comes tries again, or gives up.
    pub(crate) fn answers_lost(&mut self, still_undecided: &FxHashSet<Ticket>) {
        let mut lost: Vec<Ticket> = self
            .pending
            .keys()
            .filter(|ticket| !still_undecided.contains(ticket))
            .copied()
            .collect();
        lost.sort_unstable();
        self.lose(&lost);
    }

    /// The answers to these calls no longer come.
    pub(crate) fn lose(&mut self, lost: &[Ticket]) {
        for ticket in lost {
            let Some(pending) = self.pending.remove(ticket) else {
                continue;
            };
            let repeatable = match &pending.verb {
                Verb::Open(_) => true,
                Verb::Submit(submit) => submit.request.is_some(),
                Verb::Release(_) => true,
                _ => false,
            };
            if repeatable && !pending.old && self.unknown.len() < AGAIN {
                self.unknown.push(pending);
            }
        }
    }

    /// Calls too old to be repeated are given up.
    pub(crate) fn give_up(&mut self) {
        self.unknown.clear();
        self.accepted_calls.clear();
        self.pending
            .values_mut()
            .for_each(|pending| pending.old = true);
    }

    fn say_again(&mut self, rng: &mut Rng) -> Envelope {
        let at = rng.place(self.unknown.len());
        let mut pending = self.unknown.swap_remove(at);
        if let Verb::Open(_) = pending.verb {
            pending.handle = self.new_handle(namespace_of(pending.handle), rng);
        }
        self.say(pending)
    }

    /// The same call, or another one under the same request id.
    fn use_request_again(&mut self, rng: &mut Rng) -> Envelope {
        let mut pending = rng.one_of(&self.accepted_calls).clone();
        let other = rng.percent(50);
        match &mut pending.verb {
            Verb::Open(open) => {
                let used = open.request.as_mut().filter(|_| other);
                used.into_iter().for_each(|request| request.hash = 2);
                pending.handle = self.new_handle(namespace_of(pending.handle), rng);
            }
            Verb::Submit(submit) if other => {
                let submit = Arc::make_mut(submit);
                submit.request = submit.request.map(|request| Request { hash: 2, ..request });
            }
            _ => {}
        }
        self.say(pending)
    }

    /// A call that had its effect may be made once more.
    pub(crate) fn answered(&mut self, pending: &Pending, reply: &Reply) {
        if !matches!(reply, Reply::Scheduler(_) | Reply::Submitted { .. }) {
            return;
        }
        let repeatable = match &pending.verb {
            Verb::Open(_) => true,
            Verb::Submit(submit) => submit.request.is_some(),
            _ => false,
        };
        if repeatable && !pending.old {
            self.accepted_calls.truncate(ACCEPTED - 1);
            self.accepted_calls.insert(0, pending.clone());
        }
    }

    /// A caller knows of a scheduler.
    pub(crate) fn knows(&mut self, handle: Handle) {
        if !self.known.contains(&handle) {
            self.known.push(handle);
        }
    }

    /// Whose a scheduler is.
    pub(crate) fn namespace(&self, handle: Handle) -> Namespace {
        self.namespaces[namespace_of(handle)].clone()
    }

    fn say(&mut self, pending: Pending) -> Envelope {
        // Made once more, a call that was refused may be accepted.
        if let Verb::Submit(submit) = &pending.verb
            && let Some(request) = submit.request
        {
            let again = (pending.handle, request);
            self.refused.retain(|refused| *refused != again);
        }
        self.next += 1;
        let ticket = Ticket(self.next);
        let namespace = self.namespaces[namespace_of(pending.handle)].clone();
        let caller = Caller {
            namespace,
            name: self.name.clone(),
        };
        let command = Command::Call {
            caller,
            handle: pending.handle,
            verb: pending.verb.clone(),
        };
        self.pending.insert(ticket, pending);
        Envelope {
            ticket: Some(ticket),
            command,
        }
    }

    fn open(&mut self, faults: bool, rng: &mut Rng) -> Envelope {
        let poisoned = faults && rng.percent(2);
        let verb = Verb::Open(Open {
            settings: settings(poisoned, rng),
            naming: naming(rng),
            request: Some(request(rng)),
        });
        let handle = self.new_handle(rng.place(2), rng);
        self.say(Pending {
            handle,
            verb,
            poisoned,
            old: false,
        })
    }

    /// A handle whose last bit tells its namespace.
    fn new_handle(&mut self, namespace: usize, rng: &mut Rng) -> Handle {
        self.next += 1;
        let mut random = [0; 10];
        random[2..].copy_from_slice(&(rng.next() & !1 | namespace as u64).to_be_bytes());
        Handle::new(ShardId(0), 1_800_000_000_000 + self.next, random)
    }

    fn submit(
        &mut self,
        now: Time,
        tables: Option<&Tables>,
        poisoned: bool,
        fixtures: &Fixtures,
        rng: &mut Rng,
    ) -> Verb {
        let least = tables.and_then(Tables::current_order).unwrap_or(1);
        let mut count = 0;
        let runs: Vec<Run> = (0..=rng.below(3))
            .map(|_| {
                let order = match rng.below(10) {
                    0..=1 => None,
                    2 => Some(Order((least - 1).max(0))),
                    _ => Some(Order(least + rng.below(3) as i64)),
                };
                let tasks = 1 + rng.below(3) as u32;
                count += tasks as usize;
                Run {
                    count: tasks,
                    order,
                    spec: match self.with_resources && rng.percent(30) {
                        true => fixtures.holding(rng),
                        false => fixtures.spec(now, rng),
                    },
                }
            })
            .collect();
        let request = rng.percent(80).then(|| request(rng));
        Verb::Submit(Arc::new(Submit {
            request,
            runs,
            bodies: fixtures.bodies(count, poisoned, rng),
            params: Packed::default(),
            retries: None,
        }))
    }

    fn watch(&mut self, tables: Option<&Tables>, rng: &mut Rng) -> Verb {
        let (highest, done_no) = tables.map_or((0, 0), |tables| (tables.highest(), tables.done_no));
        let until = match rng.below(6) {
            0..=1 => Until::Order(Order(1 + rng.below(4) as i64)),
            2 => Until::Forever,
            3 => Until::Count(1 + rng.below(9)),
            4 => Until::FirstFailure,
            _ => Until::All,
        };
        let last_seq = rng
            .percent(30)
            .then(|| Seq(rng.below(highest as u64 + 1) as i64));
        Verb::Watch {
            after: DoneNo(rng.below(done_no as u64 + 1) as i64),
            until,
            last_seq,
        }
    }

    fn close_stream(&mut self, rng: &mut Rng) -> Envelope {
        let handle = match self.streams.is_empty() {
            true => self.known[0],
            false => self.streams.swap_remove(rng.place(self.streams.len())),
        };
        Envelope {
            ticket: None,
            command: Command::StreamClosed(handle),
        }
    }
}

/// A list of the newest tasks of a phase.
fn namespace_of(handle: Handle) -> usize {
    (handle.uuid().as_u128() & 1) as usize
}

fn request(rng: &mut Rng) -> Request {
    Request {
        id: Uuid::from_u64_pair(rng.next(), rng.next()),
        hash: 1,
    }
}
