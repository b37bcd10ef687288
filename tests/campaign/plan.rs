//! What goes wrong, when and where: all of it follows from the seed, before anything is started.

use crate::rng::Rng;
use std::{collections::BTreeMap, fmt, time::Duration};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A server dies at once.
    Kill,
    /// A server stands still for longer than its lease, and goes on as if nothing had happened.
    Pause,
    /// Postgres stops as in a crash, and starts again.
    PostgresCrash,
    /// One backend of Postgres dies, and Postgres ends all of them.
    BackendKilled,
    /// Some sessions of the service are ended.
    SessionsEnded,
    /// The acknowledgements of some commits are lost.
    AcknowledgementCut,
    /// The answers to some commits of exactly-once tasks are lost.
    CommitCut,
    /// Some statements are lost on their way.
    StatementCut,
    /// All connections of a server to the databases go silent; new ones work.
    HalfOpen,
    /// One connection goes silent for good; new ones work. That of the owner that appends,
    HalfOpenWriter,
    /// its heartbeat,
    HalfOpenHeartbeat,
    /// one of the handlers of calls or of the register of sessions,
    HalfOpenReader,
    /// that with which a replica takes the shard over,
    HalfOpenOwnership,
    /// with which it recovers,
    HalfOpenRecovery,
    /// makes partitions of batch numbers,
    HalfOpenBatches,
    /// or those of days,
    HalfOpenMaintenance,
    /// a session of a task,
    HalfOpenTarget,
    /// that of a replica with another,
    HalfOpenPeer,
    /// those of callers, some before they have said anything.
    HalfOpenCallers,
    /// Everything between a server and Postgres is delayed.
    Latency,
    /// A server cannot reach Postgres; later what was withheld arrives, or the connections break.
    Partition,
    /// A server cannot be reached by the others.
    PeersApart,
    /// A server cannot be reached by its callers.
    CallersApart,
    /// The disk of Postgres is full for a while.
    DiskFull,
    /// Postgres takes no more connections, and the service loses those it has.
    NoConnections,
    /// Hundreds of callers hang up in mid-call.
    CallersVanish,
    /// Others abuse HTTP/2: resets, headers without end, no room for answers, silence.
    Http2Abuse,
    /// Readers open streams, and do not read.
    SlowReaders,
    /// A server has less memory than it needs, and is ended by the kernel.
    MemoryLimit,
    /// The clock of a server is an hour or a day ahead or behind, and then jumps to and fro.
    ClockJumps,
    /// The clock of the journal's Postgres jumps by days, or runs slow or fast, while the shard
    /// changes its owner.
    ClockOfJournal,
    /// The clock of the Postgres on which tasks run does, while sessions end.
    ClockOfTarget,
    /// Servers are stopped with SIGTERM, one after the other, and started again.
    RollingRestart,
}

pub(crate) const KINDS: [Kind; 33] = [
    Kind::Kill,
    Kind::Pause,
    Kind::PostgresCrash,
    Kind::BackendKilled,
    Kind::SessionsEnded,
    Kind::AcknowledgementCut,
    Kind::CommitCut,
    Kind::StatementCut,
    Kind::HalfOpen,
    Kind::HalfOpenWriter,
    Kind::HalfOpenHeartbeat,
    Kind::HalfOpenReader,
    Kind::HalfOpenOwnership,
    Kind::HalfOpenRecovery,
    Kind::HalfOpenBatches,
    Kind::HalfOpenMaintenance,
    Kind::HalfOpenTarget,
    Kind::HalfOpenPeer,
    Kind::HalfOpenCallers,
    Kind::Latency,
    Kind::Partition,
    Kind::PeersApart,
    Kind::CallersApart,
    Kind::DiskFull,
    Kind::NoConnections,
    Kind::CallersVanish,
    Kind::Http2Abuse,
    Kind::SlowReaders,
    Kind::MemoryLimit,
    Kind::ClockJumps,
    Kind::ClockOfJournal,
    Kind::ClockOfTarget,
    Kind::RollingRestart,
];

/// One fault to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub kind: Kind,
    /// Quiet before it.
    pub wait: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// Which server; taken modulo their number.
    pub server: usize,
    /// A choice within the kind.
    pub variant: u64,
    /// The next one begins without waiting for the end of this one.
    pub together: bool,
}

/// What is done in this run, in this order.
pub(crate) struct Plan {
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Rounds of these kinds, shuffled, until the time is filled.
    pub(crate) fn new(seed: u64, length: Duration, kinds: &[Kind]) -> Plan {
        assert!(!kinds.is_empty(), "a plan needs a kind of fault");
        let mut rng = Rng::new(seed);
        let mut faults: Vec<Fault> = Vec::new();
        let mut filled = Duration::ZERO;
        while faults.is_empty() || filled < length {
            for kind in shuffled(kinds, &mut rng) {
                let fault = Fault::new(kind, &mut rng);
                filled += fault.wait + fault.lasts;
                faults.push(fault);
            }
        }
        // The last whole round may overshoot: a plan is no longer than asked for, but holds every
        // kind once.
        while faults.len() > kinds.len() && total(&faults) > length {
            faults.pop();
        }
        Plan { faults }
    }

    pub(crate) fn by_kind(&self) -> BTreeMap<Kind, usize> {
        let mut count = BTreeMap::new();
        self.faults
            .iter()
            .for_each(|fault| *count.entry(fault.kind).or_default() += 1);
        count
    }
}

impl Kind {
    /// The kinds with these names, which are separated by commas; all of them without a name.
    pub(crate) fn named(names: &str) -> Vec<Kind> {
        if names.is_empty() {
            return KINDS.to_vec();
        }
        let kind = |name| {
            let mut kinds = KINDS.into_iter();
            kinds
                .find(|kind| format!("{kind:?}") == name)
                .unwrap_or_else(|| panic!("no kind of fault is called {name}; there are {KINDS:?}"))
        };
        let mut kinds: Vec<Kind> = names.split(',').map(kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// One connection goes silent for good.
    pub(crate) fn is_half_open(self) -> bool {
        (Kind::HalfOpenWriter..=Kind::HalfOpenCallers).contains(&self)
    }

    /// It needs several servers.
    pub(crate) fn is_among_servers(self) -> bool {
        let takeovers = Kind::HalfOpenOwnership..=Kind::HalfOpenMaintenance;
        takeovers.contains(&self) || matches!(self, Kind::PeersApart | Kind::HalfOpenPeer)
    }

    /// It needs clocks that can be set.
    pub(crate) fn is_of_clocks(self) -> bool {
        (Kind::ClockJumps..=Kind::ClockOfTarget).contains(&self)
    }
}

impl Fault {
    fn new(kind: Kind, rng: &mut Rng) -> Fault {
        let (least, most) = match kind {
            Kind::Kill
            | Kind::MemoryLimit
            | Kind::PostgresCrash
            | Kind::BackendKilled
            | Kind::SessionsEnded => (100, 1_500),
            // Longer than the lease, which is 3 s.
            Kind::Pause => (4_500, 9_000),
            // Sometimes longer: then the others take over, and what was withheld arrives under a
            // new owner.
            Kind::Partition => (1_500, 6_500),
            Kind::AcknowledgementCut | Kind::CommitCut | Kind::StatementCut => (1_500, 2_500),
            Kind::RollingRestart => (500, 1_000),
            // Once for the jump, once for the strobes.
            Kind::ClockJumps => (800, 2_000),
            Kind::ClockOfJournal | Kind::ClockOfTarget => (2_000, 5_000),
            kind if kind.is_half_open() => (200, 1_000),
            _ => (1_500, 4_000),
        };
        let between = |rng: &mut Rng, least: u64, most: u64| {
            Duration::from_millis(least + rng.below(most - least))
        };
        Fault {
            kind,
            wait: between(rng, 1_000, 3_000),
            lasts: between(rng, least, most),
            server: rng.place(60),
            variant: rng.next() >> 32,
            together: rng.percent(15),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault {
            kind,
            lasts,
            server,
            variant,
            ..
        } = self;
        write!(
            f,
            "{kind:?} for {} ms (server {server}, variant {variant})",
            lasts.as_millis()
        )
    }
}

fn total(faults: &[Fault]) -> Duration {
    faults.iter().map(|fault| fault.wait + fault.lasts).sum()
}

fn shuffled(kinds: &[Kind], rng: &mut Rng) -> Vec<Kind> {
    let mut kinds = kinds.to_vec();
    for at in (1..kinds.len()).rev() {
        kinds.swap(at, rng.place(at + 1));
    }
    kinds
}

#[test]
fn a_seed_always_makes_the_same_plan_with_every_kind_in_it() {
    let minutes = Duration::from_secs(300);
    let plan = |seed, length| Plan::new(seed, length, &KINDS);
    assert_eq!(plan(7, minutes).faults, plan(7, minutes).faults);
    assert_ne!(plan(7, minutes).faults, plan(8, minutes).faults);
    let short = plan(7, Duration::from_secs(1));
    assert_eq!(short.by_kind().len(), KINDS.len());
}

#[test]
fn kinds_are_named_as_they_are_written_here() {
    assert_eq!(Kind::named(""), KINDS);
    assert_eq!(Kind::named("Pause,Kill"), [Kind::Kill, Kind::Pause]);
}

#[test]
#[should_panic(expected = "no kind of fault is called kill")]
fn a_misspelt_kind_is_no_kind() {
    Kind::named("Pause,kill");
}
