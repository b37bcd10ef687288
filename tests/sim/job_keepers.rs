//! Model callers that keep jobs: they define them, change, pause and resume them, ask for runs and
//! cancel them, and an operator stops and starts the agent.

use crate::{fixtures::Fixtures, rng::Rng};
use rallypoint::{
    coordinator::machine::Envelope,
    core::{
        Caller, Command, JobReply, JobSettings, JobVerb, Misfire, Namespace, NewJob, Order,
        Overlap, Packed, Reply, Rerun, Run, RunKey, Settings, StopMode, Submit, Ticket, Time,
        schedule::{RuleText, ScheduleText},
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
const NAMES: [&str; 3] = ["a", "b", "c"];

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
        }
    }

    /// Something one of them does now.
    pub(crate) fn act(&mut self, fixtures: &Fixtures) -> Option<Envelope> {
        if !self.rng.percent(15) {
            return None;
        }
        let verb = match self.unknown.pop() {
            Some(verb) => verb,
            None if self.defined < NAMES.len() => JobVerb::Create {
                name: NAMES[self.defined].into(),
                job: self.job(fixtures),
            },
            None => self.verb(fixtures),
        };
        Some(self.say(verb))
    }

    /// The operator stops the agent for good.
    pub(crate) fn stop(&mut self) -> Envelope {
        self.say(JobVerb::StopAgent {
            mode: StopMode::CancelRunning,
            reason: "the end".into(),
        })
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

    fn verb(&mut self, fixtures: &Fixtures) -> JobVerb {
        let name: Arc<str> = (*self.rng.one_of(&NAMES)).into();
        match self.rng.below(20) {
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
                name,
                job: self.job(fixtures),
                version: None,
            },
            10 => JobVerb::Pause {
                name,
                reason: "why".into(),
            },
            11 => JobVerb::StopAgent {
                mode: match self.rng.percent(50) {
                    true => StopMode::Drain,
                    false => StopMode::CancelRunning,
                },
                reason: "why".into(),
            },
            12..=15 => JobVerb::StartAgent,
            _ => JobVerb::Resume(name),
        }
    }

    fn job(&mut self, fixtures: &Fixtures) -> Arc<NewJob> {
        let rng = &mut self.rng;
        let second = Duration::from_secs(1);
        let settings = JobSettings {
            schedule: ScheduleText {
                rule: RuleText::Interval {
                    every: second * (1 + rng.below(40) as u32),
                    phase: Duration::ZERO,
                },
                time_zone: "UTC".to_owned(),
                dst_gap: None,
                dst_fold: None,
                jitter: Duration::ZERO,
                start: String::new(),
                end: String::new(),
                exclude: Vec::new(),
            },
            overlap: *rng.one_of(&OVERLAPS),
            misfire: *rng.one_of(&[Misfire::Skip, Misfire::RunOnce, Misfire::CatchUp(3)]),
            rerun: rng.percent(30).then(|| Rerun {
                within_window: false,
                max: Some(2),
                delay: second * rng.below(5) as u32,
            }),
            max_runtime: rng.percent(30).then(|| second * (1 + rng.below(5) as u32)),
            pause_after_failures: rng.percent(20).then_some(3),
            scheduler: Arc::new(Settings::default()),
            claimed: false,
        };
        let count = 1 + rng.place(2);
        let run = |order| Run {
            count: 1,
            order: Some(Order(order)),
            spec: fixtures.plain(),
        };
        Arc::new(NewJob {
            settings: Arc::new(settings),
            steps: Arc::new(Submit {
                request: None,
                runs: (1..=count as i64).map(|order| run(order + 1)).collect(),
                bodies: Packed::new((0..count).map(|_| &b"select"[..])),
                params: Packed::default(),
                retries: None,
            }),
            on_failure: Arc::new(Submit::none()),
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
            Reply::Rejected(_) => return,
            other => panic!("{verb:?} is answered with {other:?}"),
        };
        match (verb, reply) {
            (JobVerb::Create { .. }, _) => self.defined += 1,
            (JobVerb::Run { name, request, .. }, JobReply::Run(run, _)) => {
                let request = request.expect("each has one");
                let known = *self.runs.entry(request).or_insert(run.key);
                assert_eq!(known, run.key, "one request, one run");
                self.known.push((name, run.key.due));
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
