//! A second opinion: a plain, slow model of every promise, fed by the callers' commands, the
//! executors' reports, the time, and the records, answers and actions that the machine yields.
//!
//! It decides each batch again once that is durable, and never reads the state or an image of the
//! core: those it compares with its own. It knows nothing of speculation: what never becomes
//! durable never happened.

mod calls;
mod cancels;
mod dispatch;
mod expected;
pub(crate) mod jobs;
mod listing;
mod model;
mod pauses;
mod report;
mod resources;
mod rows;
pub(crate) mod settled;
mod submit;
mod task_resources;
mod uncaused;

use expected::{Expected, same_image};
use jobs::Jobs;
use model::{Scheduler, Task};
use pauses::Pauses;
use rallypoint::{
    coordinator::machine::Envelope,
    core::{
        Action, Command, Completion, Handle, Namespace, Progress, Reject, Reply, Report, Request,
        ResourceVerb, SchedulerImage, SchedulerState, Seq, SlotCounts, Ticket, Time, Unreported,
        Verb, Work,
        model::limits::{Limits, REQUEST_MEMORY},
    },
    journal::Batch,
};
use resources::Resources;
use rows::Rows;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use submit::Accepted;

/// A scheduler that was opened by a request with an id.
#[derive(Debug)]
struct Opened {
    namespace: Namespace,
    request: Request,
    handle: Handle,
    /// It was opened between these.
    at: (Time, Time),
}

pub(crate) struct Oracle {
    limits: Limits,
    /// When the present core began, and since when it remembered calls then.
    remembers: (Time, Time),
    schedulers: Vec<Scheduler>,
    /// What each batch decided, by epoch and number.
    decided: FxHashMap<(i64, i64), Decided>,
    /// The batch that was sent last.
    last_sent: Option<(i64, i64)>,
    /// What calls of durable batches must be answered.
    expected: FxHashMap<Ticket, Expected>,
    /// When a call was fed to the machine, and when that decided it, unless it is still to do so.
    asked: FxHashMap<Ticket, (Time, Option<Time>)>,
    opened: Vec<Opened>,
    calls: Vec<Accepted>,
    /// The submit rate of a namespace is used up to this time.
    rate_used: BTreeMap<Namespace, Time>,
    /// Counts the cores: each recovery builds another one.
    core: u64,
    /// What earlier cores handed out is not all known yet.
    in_doubt: bool,
    /// A host was lost with what it ran.
    host_lost: bool,
    executors: ExecutorState,
    pauses: Pauses,
    pub resources: Resources,
    pub jobs: Jobs,
    /// Started before any batch that was decided later was sent.
    early: Vec<(Handle, Seq)>,
    /// Whose ends executors report with the batch that is judged: the first tasks of attempts.
    reported: BTreeSet<(Handle, Seq)>,
    /// Tasks that one of the cancels of this batch has ended, and who knows which.
    ended_by_some_cancel: BTreeSet<(Handle, Seq)>,
    /// Everything that time had brought was done.
    settled_at: Time,
}

struct Decided {
    commands: Vec<Envelope>,
    at: Time,
    executors: ExecutorState,
    /// Started before it was sent, and known as running to all batches behind it.
    early: Vec<(Handle, Seq)>,
}

/// What executors have told the owner.
#[derive(Clone, Default)]
pub(crate) struct ExecutorState {
    /// Slots as last told.
    pub slots: BTreeMap<Work, SlotCounts>,
    /// Attempts that run and are not reported to this owner yet.
    pub unreported: Vec<(Handle, Seq)>,
}

impl Oracle {
    pub(crate) fn new(limits: Limits) -> Self {
        Oracle {
            limits,
            schedulers: Vec::new(),
            decided: FxHashMap::default(),
            last_sent: None,
            expected: FxHashMap::default(),
            asked: FxHashMap::default(),
            opened: Vec::new(),
            calls: Vec::new(),
            rate_used: BTreeMap::new(),
            core: 0,
            remembers: (Time(0), Time(0)),
            in_doubt: true,
            host_lost: false,
            executors: ExecutorState::default(),
            pauses: Pauses::new(),
            resources: Resources::default(),
            jobs: Jobs::default(),
            early: Vec::new(),
            reported: BTreeSet::new(),
            ended_by_some_cancel: BTreeSet::new(),
            settled_at: Time(0),
        }
    }

    /// A command is fed to the machine.
    pub(crate) fn asked(&mut self, now: Time, envelope: &Envelope) {
        if let Some(ticket) = envelope.ticket {
            self.asked.insert(ticket, (now, None));
        }
        match &envelope.command {
            Command::Slots { work, slots } => self.note_slots(work, *slots),
            Command::Cleared { unreported, .. } => {
                self.host_lost |= *unreported == Unreported::MayHaveBegun;
            }
            Command::StreamClosed(handle) => self.use_now(*handle, now),
            Command::Resource {
                verb: ResourceVerb::Renew { claim, .. },
                ..
            } => self.resources.may_be_renewed(*claim, now),
            Command::Completed(completions) => {
                for completion in completions {
                    self.use_now(completion.handle, now);
                    self.may_not_have_begun(completion);
                }
            }
            _ => {}
        }
    }

    /// Tasks that start early may take slots of which the batch in flight knew nothing, while it
    /// has still to hand out what it was closed with.
    fn slots_since_sent(&mut self, work: &Work, slots: SlotCounts) {
        let sent = self.last_sent.and_then(|key| self.decided.get_mut(&key));
        if let Some(sent) = sent {
            let most = sent.executors.slots.entry(work.clone()).or_default();
            most.total = slots.total.max(most.total);
            most.line = slots.line.max(most.line);
        }
    }

    /// Executors run this without having reported it to the owner.
    pub(crate) fn unreported(&mut self, attempts: Vec<(Handle, Seq)>) {
        self.executors.unreported = attempts;
    }

    /// A core is built anew: what it knows of running attempts it must be told again.
    pub(crate) fn recovers(&mut self, now: Time, remembered: (Time, Time)) {
        self.core += 1;
        self.remembers = remembered;
        self.in_doubt = true;
        self.rate_used.clear();
        self.resources.recovers(now);
        self.settled_at = Time(0);
        for scheduler in &mut self.schedulers {
            scheduler.used = (now, now);
            scheduler.recovered = scheduler.highest();
        }
    }

    /// Calls that were accepted since then may be repeated: for fifteen minutes of the time that
    /// the shard had an owner.
    pub(crate) fn requests_since(&self, now: Time) -> Time {
        let (begun, since) = self.remembers;
        match now.since(begun) {
            passed if passed < REQUEST_MEMORY => since + passed,
            _ => now - REQUEST_MEMORY,
        }
    }

    /// The machine is told that the batch it sent last is durable.
    pub(crate) fn commits(&mut self, now: Time) {
        let sent = self.last_sent.and_then(|key| self.decided.get(&key));
        if let Some(at) = sent.map(|sent| sent.at) {
            self.resources.commits(at, now);
        }
    }

    /// The machine has closed a batch and sends it for the first time.
    pub(crate) fn sent(&mut self, now: Time, batch: &Batch, commands: &[Envelope]) {
        let key = (batch.epoch.0, batch.no.0);
        let early = &mut self.early;
        self.last_sent = Some(key);
        self.decided.entry(key).or_insert_with(|| Decided {
            commands: commands.to_vec(),
            at: now,
            executors: self.executors.clone(),
            early: std::mem::take(early),
        });
    }

    /// A batch is written: it is decided again, and its rows are explained one by one.
    pub(crate) fn durable(&mut self, batch: &Batch) {
        let key = (batch.epoch.0, batch.no.0);
        let decided = self.decided.get_mut(&key);
        let decided = decided.expect("a batch that the machine has sent");
        let (commands, at) = (std::mem::take(&mut decided.commands), decided.at);
        let early = std::mem::take(&mut decided.early);
        self.resources.durable(&batch.records.resources, &commands);
        self.reported = commands.iter().flat_map(reported).collect();
        self.ended_by_some_cancel.clear();
        let mut rows = Rows::new(&batch.records);
        for envelope in &commands {
            self.decide(at, envelope, &mut rows);
        }
        self.jobs_durable(at, &batch.records.jobs, &mut rows);
        self.abandon(at, batch, &mut rows);
        while let Some((handle, done)) = rows.any_done() {
            self.uncaused_done(handle, done, at);
        }
        for row in rows.take_attempts() {
            self.uncaused_attempt(row);
        }
        rows.nothing_is_left();
        self.no_longer_early(&early);
    }

    fn decide(&mut self, at: Time, envelope: &Envelope, rows: &mut Rows<'_>) {
        let asked = envelope.ticket.and_then(|ticket| self.asked.get(&ticket));
        let (asked, decided) = asked.copied().unwrap_or((self.settled_at, None));
        let between = (asked, decided.unwrap_or(at));
        match &envelope.command {
            Command::Call {
                caller,
                handle,
                verb,
            } => {
                let expected = self.call(between, (caller, *handle), verb, rows);
                if let Some(ticket) = envelope.ticket {
                    self.expected.insert(ticket, expected);
                }
            }
            Command::Completed(completions) => {
                for completion in completions {
                    self.completed(between, completion, rows);
                }
            }
            Command::ChangePause(change) => self.change_pause(change, rows),
            _ => {}
        }
    }

    /// The answer to a call whose batch was durable when its owner was overtaken.
    pub(crate) fn answered_late(&mut self, ticket: Ticket, reply: &Reply) {
        if let Some(expected) = self.expected.remove(&ticket) {
            expected.check(reply);
        }
    }

    /// The answer to a call is released. That of a batch without records is decided now.
    pub(crate) fn answered(
        &mut self,
        now: Time,
        (ticket, reply): (Ticket, &Reply),
        namespace: &Namespace,
        (handle, verb): (Handle, &Verb),
    ) {
        if matches!(reply, Reply::Rejected(Reject::JournalRejected)) {
            return;
        }
        let (asked, decided) = self.asked.remove(&ticket).unwrap_or((now, None));
        let between = (asked, decided.unwrap_or(now));
        let expected = self.expected.remove(&ticket).unwrap_or_else(|| {
            let caller = rallypoint::core::Caller {
                namespace: namespace.clone(),
                name: "".into(),
            };
            self.call(between, (&caller, handle), verb, &mut Rows::default())
        });
        expected.check(reply);
    }

    /// What a stream is told is true.
    pub(crate) fn progress(&self, handle: Handle, progress: &Progress) {
        let Some(at) = self.at(handle) else {
            panic!("a stream of {handle}, which was never opened")
        };
        let scheduler = &self.schedulers[at];
        let blocked = scheduler
            .halt
            .as_ref()
            .map_or(0, |halt| scheduler.unfinished_above(halt.order.0));
        assert_eq!(
            progress.halt, scheduler.halt,
            "{handle}: the halt that a stream is told"
        );
        assert_eq!(
            progress.blocked, blocked,
            "{handle}: the blocked tasks that a stream is told"
        );
        let released = scheduler.state != SchedulerState::Open;
        assert_eq!(
            progress.released, released,
            "{handle}: the release that a stream is told"
        );
    }

    /// What the journal holds of a scheduler after a batch is what callers have asked for and
    /// reports have brought.
    pub(crate) fn same_image(&self, image: &SchedulerImage) {
        let Some(at) = self.at(image.handle) else {
            panic!("{} was never opened", image.handle)
        };
        let scheduler = &self.schedulers[at];
        same_image(&scheduler.image(), image);
        let waits = |task: &&Task| task.doomed && task.running.is_none();
        let cancels = self.in_doubt || scheduler.unfinished().find(waits).is_none();
        assert!(
            cancels || image.cancel_rest.is_some(),
            "{}: tasks are still to be cancelled, and the intention is forgotten",
            image.handle
        );
    }

    /// An attempt that never began leaves no record: whether its report was taken in remains open.
    fn may_not_have_begun(&mut self, completion: &Completion) {
        if completion.report != Report::NotStarted {
            return;
        }
        let at = self.at(completion.handle);
        let task = at.and_then(|at| self.schedulers[at].task_mut(completion.first));
        if let Some(running) = task.and_then(|task| task.running.as_mut()) {
            running.core = 0;
        }
    }

    fn at(&self, handle: Handle) -> Option<usize> {
        self.schedulers
            .iter()
            .position(|scheduler| scheduler.handle == handle)
    }

    /// All schedulers may have been used now.
    pub(crate) fn all_used(&mut self, now: Time) {
        for scheduler in &mut self.schedulers {
            scheduler.used.1 = now;
        }
        self.resources.may_all_be_renewed(now);
    }

    pub(crate) fn use_now(&mut self, handle: Handle, now: Time) {
        if let Some(at) = self.at(handle) {
            self.schedulers[at].used.1 = now;
        }
    }

    /// Whether an attempt of a task may be under way: it was handed out, or may have been by an
    /// earlier core.
    fn may_run(&self, task: &Task) -> bool {
        task.running.is_some() || self.in_doubt
    }

    /// Told with a release, in the sequence of the machine: actions that are not answers.
    pub(crate) fn acts(&mut self, now: Time, batch: Option<&Batch>, action: &Action) {
        if let Action::Dispatch(assignment) = action {
            let key = batch.map(|batch| (batch.epoch.0, batch.no.0));
            let decided = key.and_then(|key| self.decided.get(&key));
            let at = decided.map_or(now, |decided| decided.at);
            self.dispatched(at, batch.is_none(), assignment);
        }
    }
}

/// The first tasks of the attempts that a command says have ended.
fn reported(envelope: &Envelope) -> Vec<(Handle, Seq)> {
    match &envelope.command {
        Command::Completed(all) => all.iter().map(|one| (one.handle, one.first)).collect(),
        _ => Vec::new(),
    }
}
