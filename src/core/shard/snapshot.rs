//! Makes the copy that a forecast starts from. Nothing here changes anything, and it costs a
//! bounded number of steps however much waits and however many schedulers there are.

use crate::core::{
    Handle, KindSnapshot, Past, RecoveredClaim, Reply, ResourceKey, RunningTasks,
    SchedulerSnapshot, Seq, Shard, Snapshot, TaskId, Time, WaitingTasks, Work,
    fairness::slot_kinds::KindId,
    scheduler::{
        Scheduler,
        in_flight::InFlight,
        queue::{copied::CopiedQueue, span::Span},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Other schedulers that are copied.
const OTHERS: usize = 500;
/// Spans that are copied of each.
const SPANS_OF_OTHERS: usize = 8;
/// Running assignments of one scheduler that are copied, and tasks that wait for a time.
const SINGLE_TASKS: usize = 10_000;
/// Sets of resources that are looked at.
const WANTS: usize = 1_000;

impl Shard {
    /// What a forecast of this scheduler starts from.
    pub(crate) fn snapshot(&self, now: Time, handle: Handle, tasks: &[Seq]) -> Reply {
        let target = self.schedulers.expect(handle);
        let scheduler = self.copy_of(target, self.limits.listing_steps);
        let kinds = self.kinds_of([&scheduler]);
        let (others, crowded) = self.rivals(handle, &kinds);
        let others = others.into_iter();
        let others = others.filter_map(|handle| self.schedulers.get(handle));
        let others: Vec<SchedulerSnapshot> = others
            .map(|other| self.copy_of(other, SPANS_OF_OTHERS))
            .collect();
        let other_kinds = self.kinds_of(&others).into_iter();
        let other_kinds = other_kinds.filter(|kind| !kinds.contains(kind));
        let kind = |kind: KindId| {
            let slots = &self.fair.slots[kind];
            KindSnapshot {
                work: slots.work.clone(),
                total: slots.counts.total,
                announced: slots.announced,
            }
        };
        let mut snapshot = Snapshot {
            at: now,
            highest_seq: target.highest_seq,
            unfinished: target.unfinished_of(tasks),
            limits: self.limits,
            other_kinds: other_kinds.map(kind).collect(),
            kinds: kinds.iter().copied().map(kind).collect(),
            pauses: self.pauses.all().cloned().collect(),
            scheduler,
            others,
            crowded,
            definitions: Vec::new(),
            claims: Vec::new(),
            kept: Vec::new(),
            claimed: Vec::new(),
        };
        self.copy_resources(&mut snapshot);
        Reply::Snapshot(Some(Box::new(snapshot)))
    }

    /// The kinds of slots that these need.
    fn kinds_of<'a>(&self, all: impl IntoIterator<Item = &'a SchedulerSnapshot>) -> Vec<KindId> {
        let specs = all.into_iter().flat_map(|one| {
            let waiting = one.waiting.iter().map(|one| &one.spec);
            waiting.chain(one.running.iter().map(|one| &one.spec))
        });
        let works: BTreeSet<&Work> = specs.map(|spec| &spec.work).collect();
        let kinds = works.into_iter();
        kinds
            .filter_map(|work| self.fair.slots.find(work))
            .collect()
    }

    /// Who waits for slots of these kinds or runs there, and whether there are more.
    fn rivals(&self, handle: Handle, kinds: &[KindId]) -> (BTreeSet<Handle>, bool) {
        let in_line = kinds
            .iter()
            .flat_map(|kind| self.fair.in_line(*kind, OTHERS + 1));
        let works = |kind: KindId| &self.fair.slots[kind].work;
        let running = self.running_on(None).into_iter();
        let running = running.filter(|(handle, first)| {
            let flight = &self.schedulers.expect(*handle).running.by_first[first];
            kinds
                .iter()
                .any(|kind| *works(*kind) == flight.span.spec.work)
        });
        let mut others: BTreeSet<Handle> = in_line
            .chain(running.map(|(handle, _)| handle))
            .filter(|other| *other != handle)
            .collect();
        let crowded = others.len() > OTHERS;
        while others.len() > OTHERS {
            others.pop_last();
        }
        (others, crowded)
    }

    fn copy_of(&self, scheduler: &Scheduler, most: usize) -> SchedulerSnapshot {
        let CopiedQueue { spans, assumed } = scheduler.queue.copy(most);
        let waiting = spans.into_iter().map(|copied| {
            let waiting = scheduler.waiting(copied.span, None, !copied.assumed);
            WaitingTasks {
                assumed: copied.assumed,
                ..waiting
            }
        });
        let single = SINGLE_TASKS.min(most * 10);
        let delayed = scheduler.queue.delayed().take(single);
        let delayed = delayed.map(|(at, delayed)| {
            let span = delayed.span.clone();
            scheduler.waiting(span, delayed.retry.then_some(at), delayed.retry)
        });
        let waiting: Vec<WaitingTasks> = waiting.chain(delayed).collect();
        let running = scheduler.running.by_first.values().take(single);
        let running: Vec<RunningTasks> = running.map(|one| scheduler.running_tasks(one)).collect();
        let counted: i64 = waiting.iter().map(|one| i64::from(one.count)).sum();
        let runs: i64 = running.iter().map(|one| i64::from(one.count)).sum();
        let unfinished = scheduler.ledger.count;
        SchedulerSnapshot {
            usual: self.fair.usual(&scheduler.share),
            image: scheduler.image.clone(),
            unfinished,
            beyond: unfinished - counted - runs,
            waiting,
            running,
            assumed,
        }
    }

    /// Definitions of what these tasks want, and who has it.
    fn copy_resources(&self, snapshot: &mut Snapshot) {
        let all = || [&snapshot.scheduler].into_iter().chain(&snapshot.others);
        let attempts = all().flat_map(|of| {
            let handle = of.image.handle;
            let needing = of
                .running
                .iter()
                .filter(|one| !one.spec.options.resources.is_empty());
            needing.map(move |one| TaskId {
                handle,
                seq: one.first,
            })
        });
        let claims: Vec<RecoveredClaim> = attempts
            .take(WANTS)
            .filter_map(|task| self.resources.held_by_task(task))
            .collect();
        let keys = |of: &SchedulerSnapshot| -> Vec<ResourceKey> {
            let specs = of.waiting.iter().map(|one| &one.spec);
            let specs = specs.chain(of.running.iter().map(|one| &one.spec));
            let wants = specs.filter(|spec| !spec.options.resources.is_empty());
            let names = wants
                .take(WANTS)
                .flat_map(|spec| spec.options.resources.iter());
            let key = |name: &std::sync::Arc<str>| ResourceKey {
                namespace: of.image.namespace.clone(),
                name: name.clone(),
            };
            names.map(|want| key(&want.name)).collect()
        };
        let own: BTreeSet<ResourceKey> = keys(&snapshot.scheduler).into_iter().collect();
        let wanted: BTreeSet<ResourceKey> = all().flat_map(keys).collect();
        let known: BTreeSet<_> = claims.iter().map(|claim| claim.no).collect();
        let mut kept: BTreeMap<_, RecoveredClaim> = BTreeMap::new();
        let mut claimed = Vec::new();
        for key in &own {
            let all = self.resources.claims_of(key);
            let mut unknown = all.filter(|claim| !known.contains(&claim.no)).peekable();
            claimed.extend(unknown.peek().map(|_| key.name.clone()));
            let room = WANTS.saturating_sub(kept.len()).max(1);
            kept.extend(unknown.take(room).map(|claim| (claim.no, claim)));
        }
        let definitions = self.resources.definitions_of(&wanted);
        snapshot.claims = claims;
        snapshot.kept = kept.into_values().collect();
        snapshot.claimed = claimed;
        snapshot.definitions = definitions;
    }
}

impl Scheduler {
    fn waiting(&self, span: Span, again_at: Option<Time>, has_begun: bool) -> WaitingTasks {
        WaitingTasks {
            first: span.first,
            count: span.count,
            order: span.order,
            submitted_at: span.submitted_at,
            again_at,
            past: match has_begun && span.count == 1 {
                true => self.past(span.first),
                false => Past::default(),
            },
            spec: span.spec,
            assumed: false,
        }
    }

    fn unfinished_of(&self, tasks: &[Seq]) -> Vec<Seq> {
        let ranges = &self.ledger.ranges;
        let tasks = tasks.iter().copied();
        let unfinished = tasks.filter(|task| !ranges.within(*task, *task).is_empty());
        unfinished.collect()
    }

    fn running_tasks(&self, flight: &InFlight) -> RunningTasks {
        let span = &flight.span;
        RunningTasks {
            first: span.first,
            count: span.count,
            order: span.order,
            spec: span.spec.clone(),
            submitted_at: span.submitted_at,
            attempt: flight.attempt,
            since: flight.since,
            past: self.past(span.first),
            in_doubt: flight.in_doubt,
            recorded: flight.recorded,
        }
    }

    fn past(&self, seq: Seq) -> Past {
        let history = self.histories.get(&seq).copied().unwrap_or_default();
        Past {
            attempt: history.attempt,
            failures: history.failures,
            losses: history.losses,
        }
    }
}
