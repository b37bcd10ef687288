//! Model callers that keep jobs: they define them, change, delete, pause and resume them, ask for
//! runs and backfills and cancel runs; claimants do the runs of one of them; and an operator stops
//! and starts the agent.

mod claims;
mod schedules;

use crate::{fixtures::Fixtures, oracle::jobs::Jobs, rng::Rng};
use claims::Claims;
use rallypoint::{
    coordinator::machine::Envelope,
    core::{
        Caller, Command, JobReject, JobReply, JobSettings, JobVerb, Misfire, Namespace, NewJob,
        OnFailure, Order, Overlap, Packed, Reject, Reply, Rerun, Run, RunKey, Settings, Spec,
        StopAgent, StopMode, Submit, Ticket, Time,
    },
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use uuid::Uuid;

/// Their tickets are those from here on.
const FIRST_TICKET: u64 = 1 << 50;
const OVERLAPS: [Overlap; 6] = [
    Overlap::Skip,
    Overlap::QueueOne,
    Overlap::QueueAll,
    Overlap::KeepNewest,
    Overlap::CancelRunning,
    Overlap::Allow,
];
const NAMES: [&str; 4] = ["a", "b", "c", CLAIMED];
/// Claimants do its runs.
const CLAIMED: &str = "d";

pub(crate) struct JobKeepers {
    rng: Rng,
    next: u64,
    defined: usize,
    /// Calls whose answer is still to come.
    asked: FxHashMap<Ticket, JobVerb>,
    /// Calls of unknown outcome.
    unknown: Vec<JobVerb>,
    /// Runs by the requests that asked for them.
    runs: BTreeMap<Uuid, RunKey>,
    /// Runs that were told of.
    known: Vec<(Arc<str>, Time)>,
    claims: Claims,
    /// A call that stops the agent and is to go on.
    stopping: Option<JobVerb>,
    /// Backfills that were asked for.
    backfills: Vec<JobVerb>,
    /// There are resources that steps may hold.
    with_resources: bool,
}

impl JobKeepers {
    pub(crate) fn new(seed: u64) -> Self {
        JobKeepers {
            rng: Rng::new(seed ^ 0x5eed_70b5),
            next: FIRST_TICKET,
            defined: 0,
            asked: FxHashMap::default(),
            unknown: Vec::new(),
            runs: BTreeMap::new(),
            known: Vec::new(),
            claims: Claims::default(),
            stopping: None,
            backfills: Vec::new(),
            with_resources: false,
        }
    }

    /// Something one of them does now.
    pub(crate) fn act(
        &mut self,
        now: Time,
        fixtures: &Fixtures,
        with_resources: bool,
        jobs: &Jobs,
    ) -> Option<Envelope> {
        self.with_resources = with_resources;
        if !self.rng.percent(15) {
            return None;
        }
        if let Some(call) = self.stop_on() {
            return Some(call);
        }
        let verb = match self.unknown.pop() {
            Some(verb) => verb,
            None if self.defined < NAMES.len() => JobVerb::Create {
                name: NAMES[self.defined].into(),
                job: self.job(now, fixtures, NAMES[self.defined]),
            },
            None if self.rng.percent(40) => self.claims.verb(&mut self.rng, CLAIMED.into(), jobs),
            None => self.verb(now, fixtures, jobs),
        };
        Some(self.say(verb))
    }

    /// The operator stops the agent for good.
    pub(crate) fn stop(&mut self) -> Envelope {
        self.say(JobVerb::StopAgent(StopAgent {
            mode: StopMode::CancelRunning,
            reason: "the end".into(),
            goes_on: None,
        }))
    }

    /// A call that stops the agent goes on, as the service has it do.
    pub(crate) fn stop_on(&mut self) -> Option<Envelope> {
        let verb = self.stopping.take()?;
        Some(self.say(verb))
    }

    fn say(&mut self, verb: JobVerb) -> Envelope {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.asked.insert(ticket, verb.clone());
        let caller = Caller {
            namespace: Namespace("jobs".into()),
            name: "keeper".into(),
        };
        Envelope {
            ticket: Some(ticket),
            command: Command::Job { caller, verb },
        }
    }

    fn verb(&mut self, now: Time, fixtures: &Fixtures, jobs: &Jobs) -> JobVerb {
        let name: Arc<str> = (*self.rng.one_of(&NAMES)).into();
        match self.rng.below(27) {
            0..=5 => JobVerb::Run {
                name,
                request: Some(Uuid::from_u128(1 + u128::from(self.rng.next()))),
                from_order: self.rng.percent(20).then_some(2),
            },
            6..=8 if !self.known.is_empty() => {
                let (name, due) = self.rng.one_of(&self.known).clone();
                JobVerb::CancelRun { name, due }
            }
            9 => JobVerb::Update {
                job: self.job(now, fixtures, &name),
                version: self.seen(&name, jobs),
                name,
            },
            10 => JobVerb::Pause {
                name,
                reason: "why".into(),
            },
            11 => JobVerb::StopAgent(StopAgent {
                mode: match self.rng.percent(50) {
                    true => StopMode::Drain,
                    false => StopMode::CancelRunning,
                },
                reason: "why".into(),
                goes_on: None,
            }),
            12..=15 => JobVerb::StartAgent,
            16..=18 => self.backfill(name, jobs),
            // One that others follow stays.
            19 => JobVerb::Delete {
                version: self.seen(&name, jobs),
                name,
            },
            20..=22 => JobVerb::Create {
                job: self.job(now, fixtures, &name),
                name,
            },
            _ => JobVerb::Resume(name),
        }
    }

    /// Now and then one that has read the journal long ago.
    fn backfill(&mut self, name: Arc<str>, jobs: &Jobs) -> JobVerb {
        if !self.backfills.is_empty() && self.rng.percent(40) {
            return self.rng.one_of(&self.backfills).clone();
        }
        let asked = jobs.without_run(&name, 1 + self.rng.place(3));
        let verb = JobVerb::Backfill { name, asked };
        self.backfills.push(verb.clone());
        verb
    }

    /// The version that a caller has read, as half of them say.
    fn seen(&mut self, name: &str, jobs: &Jobs) -> Option<i64> {
        let version = jobs.version(name);
        version.filter(|_| self.rng.percent(50))
    }

    fn job(&mut self, now: Time, fixtures: &Fixtures, name: &str) -> Arc<NewJob> {
        let rng = &mut self.rng;
        let claimed = name == CLAIMED;
        let second = Duration::from_secs(1);
        let settings = JobSettings {
            schedule: schedules::schedule(rng, now),
            overlap: *rng.one_of(&OVERLAPS),
            misfire: *rng.one_of(&[Misfire::Skip, Misfire::RunOnce, Misfire::CatchUp(3)]),
            rerun: rng.percent(30).then(|| Rerun {
                within_window: rng.percent(30),
                max: Some(2),
                delay: second * rng.below(5) as u32,
            }),
            max_runtime: rng.percent(30).then(|| second * (1 + rng.below(5) as u32)),
            pause_after_failures: rng.percent(20).then_some(3),
            scheduler: scheduler_of(claimed),
            claimed,
        };
        // Those of claims ask a target, which has two steps, if there is one.
        let count = match claimed {
            true => 2 * rng.place(2),
            false => 1 + rng.place(2),
        };
        let alarms = match rng.percent(50) {
            true => 1 + rng.place(2),
            false => 0,
        };
        // Half a question about a claim has no meaning: it waits for nothing, and has no deadline.
        let holds = self.with_resources;
        let spec = |rng: &mut Rng| match holds && rng.percent(40) {
            true => fixtures.holding(rng),
            false => fixtures.plain(),
        };
        let steps: Vec<_> = (0..count)
            .map(|_| match claimed {
                true => fixtures.plain(),
                false => spec(rng),
            })
            .collect();
        let alarms: Vec<_> = (0..alarms).map(|_| spec(rng)).collect();
        Arc::new(NewJob {
            settings: Arc::new(settings),
            steps: tasks(steps),
            on_failure: tasks(alarms),
        })
    }

    /// Whether the answer is for one of them.
    pub(crate) fn waits(ticket: Ticket) -> bool {
        (FIRST_TICKET..u64::MAX).contains(&ticket.0)
    }

    pub(crate) fn answered(&mut self, ticket: Ticket, reply: &Reply) {
        let Some(verb) = self.asked.remove(&ticket) else {
            return;
        };
        let reply = match reply {
            Reply::Job(reply) => &**reply,
            Reply::Rejected(Reject::Job(JobReject::NoClaim(owner))) => {
                return self.claims.unknown(verb, *owner);
            }
            Reply::Rejected(_) => return,
            other => panic!("{verb:?} is answered with {other:?}"),
        };
        match (verb, reply) {
            (JobVerb::Create { .. }, _) => self.defined += 1,
            // Another job may have its name from now on.
            (JobVerb::Delete { .. }, JobReply::Job(_, _, true)) => self.runs.clear(),
            (JobVerb::StopAgent(stop), JobReply::Agent(view, _)) => {
                self.stopping = view.goes_on.map(|then| {
                    JobVerb::StopAgent(StopAgent {
                        goes_on: Some(then),
                        ..stop
                    })
                });
            }
            (JobVerb::Run { name, request, .. }, JobReply::Run(run, _)) => {
                let request = request.expect("each has one");
                let known = *self.runs.entry(request).or_insert(run.key);
                assert_eq!(known, run.key, "one request, one run");
                self.known.push((name, run.key.due));
            }
            (JobVerb::Claim { name, .. }, JobReply::Claimed(claimed, _)) => {
                self.known.push((name, claimed.run.key.due));
                self.claims.given(claimed);
            }
            (JobVerb::Backfill { name, .. }, JobReply::Backfilled(due)) => {
                self.known
                    .extend(due.iter().map(|due| (name.clone(), *due)));
            }
            _ => {}
        }
    }

    /// Calls too old to be repeated are given up.
    pub(crate) fn give_up(&mut self) {
        self.unknown.clear();
        self.runs.clear();
    }

    /// Who waits for an answer that no longer comes asks again, or gives up.
    pub(crate) fn answers_lost(&mut self, still_undecided: &FxHashSet<Ticket>) {
        let mut lost: Vec<Ticket> = self.asked.keys().copied().collect();
        lost.retain(|ticket| !still_undecided.contains(ticket));
        lost.sort_unstable();
        for ticket in lost {
            self.unknown.extend(self.asked.remove(&ticket));
        }
    }
}

/// One task of each, in orders from 2 on.
fn tasks(specs: Vec<Arc<Spec>>) -> Arc<Submit> {
    let count = specs.len();
    let run = |(order, spec)| Run {
        count: 1,
        order: Some(Order(order)),
        spec,
    };
    Arc::new(Submit {
        request: None,
        runs: (2..).zip(specs).map(run).collect(),
        bodies: Packed::new((0..count).map(|_| &b"select"[..])),
        params: Packed::default(),
        retries: None,
    })
}

/// Settings of the schedulers of runs: half a question about a claim has no meaning.
fn scheduler_of(claimed: bool) -> Arc<Settings> {
    Arc::new(Settings {
        on_failure: match claimed {
            true => OnFailure::CancelRest,
            false => OnFailure::default(),
        },
        ..Settings::default()
    })
}
