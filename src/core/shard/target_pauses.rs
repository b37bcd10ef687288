//! Pauses of targets: nothing new starts there, whoever submits it, until the operator resumes it.
//!
//! A pause of one target and a pause of all are told apart: each ends with its own resume. A start
//! that waits for a resume waits until that is durable. What was handed out before a pause was
//! durable goes on, or is stopped and handed back: no attempt that a pause ends counts as a failure
//! or a loss. What an earlier owner handed out is stopped when its executor reports it.

use crate::core::{
    Action, Handle, PauseAnswer, PauseChange, PauseMode, PauseRecord, PauseView, Reply, Seq, Shard,
    TargetPause, TaskId, Turn, Work, fairness::slot_kinds::KindId, scheduler::in_flight::InFlight,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Running tasks that an answer names.
const TASKS_NAMED: usize = 100;

/// The pauses in force.
#[derive(Debug, Default)]
pub(crate) struct TargetPauses(BTreeMap<Option<Arc<str>>, TargetPause>);

impl TargetPauses {
    /// The pauses that keep work of this kind from starting.
    pub(crate) fn of<'a>(&'a self, work: &'a Work) -> impl Iterator<Item = &'a TargetPause> {
        self.all().filter(|pause| work.is_of(pause.target()))
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &TargetPause> {
        self.0.values()
    }

    /// Whether a running attempt is to be stopped: it was cancelled, or a pause stops it.
    pub(crate) fn is_to_stop(&self, flight: &InFlight) -> bool {
        let work = &flight.span.spec.work;
        let stops = |pause: &TargetPause| pause.mode == PauseMode::CancelRunning;
        flight.cancel.is_some() || work.has_session() && self.of(work).any(stops)
    }
}

impl TargetPause {
    fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }
}

impl Shard {
    /// Puts the pauses in force that the journal holds.
    pub(super) fn restore_pauses(&mut self, pauses: Vec<TargetPause>) {
        let keyed = pauses.into_iter().map(|one| (one.target.clone(), one));
        self.pauses = TargetPauses(keyed.collect());
    }

    /// Whether nothing of this kind may start.
    pub(super) fn is_paused(&self, kind: KindId) -> bool {
        self.pauses.of(&self.fair.slots[kind].work).next().is_some()
    }

    /// Pauses or resumes. A pause that stops what runs stays one that does, until the resume;
    /// asking for it again stops again what still runs.
    pub(super) fn change_pause(&mut self, turn: &mut Turn, change: &PauseChange) -> Reply {
        let known = self.pauses.0.get(&change.target);
        let changed = match (known.map(|pause| pause.mode), change.mode) {
            (Some(mode), Some(asked)) => asked > mode,
            (mode, asked) => mode != asked,
        };
        if changed {
            match change.begun(turn.now) {
                Some(pause) => drop(self.pauses.0.insert(change.target.clone(), pause)),
                None => {
                    self.pauses.0.remove(&change.target);
                    turn.out.unwritten.hold_everything();
                }
            }
            turn.out.records.pauses.push(PauseRecord {
                change: change.clone(),
                at: turn.now,
            });
        }
        let running = self.running_on(change.target.as_deref());
        if change.mode == Some(PauseMode::CancelRunning) {
            self.stop_all(turn, &running);
        }
        let id = |(handle, seq)| TaskId { handle, seq };
        let (own, others) = (self.pause_views().into_iter())
            .partition::<Vec<_>, _>(|view| view.pause.target == change.target);
        let overlaps = |view: &PauseView| view.pause.target.is_none() || change.target.is_none();
        Reply::Pauses(Box::new(PauseAnswer {
            changed,
            own: own.into_iter().next(),
            others: others.into_iter().filter(overlaps).collect(),
            tasks: running.into_iter().take(TASKS_NAMED).map(id).collect(),
        }))
    }

    /// The pauses in force, and what still runs under them.
    pub(super) fn pause_views(&self) -> Vec<PauseView> {
        let view = |pause: &TargetPause| {
            let kinds = (self.fair.slots.iter()).filter(|one| one.work.is_of(pause.target()));
            PauseView {
                pause: pause.clone(),
                running: kinds.map(|slots| slots.open).sum(),
                in_doubt: self.in_doubt.count(|kind| {
                    let work = &self.fair.slots[kind].work;
                    work.is_of(pause.target())
                }),
            }
        };
        self.pauses.all().map(view).collect()
    }

    /// The attempts that executors are known to run on a target (`None`: on all), by their first
    /// task. Everything that runs with a session is young, or charged as it goes on; so this costs
    /// as much as runs, however many schedulers there are.
    pub(super) fn running_on(&self, target: Option<&str>) -> BTreeSet<(Handle, Seq)> {
        let young = self.young.iter().copied();
        let charged = self.charges.iter().map(|Reverse(one)| *one);
        let runs = |(_, handle, first): (_, Handle, Seq)| {
            let scheduler = self.schedulers.get(handle)?;
            let flight = scheduler.running.by_first.get(&first)?;
            let is_meant = !flight.in_doubt && flight.span.spec.work.is_of(target);
            is_meant.then_some((handle, first))
        };
        young.chain(charged).filter_map(runs).collect()
    }

    fn stop_all(&self, turn: &mut Turn, running: &BTreeSet<(Handle, Seq)>) {
        for (handle, first) in running {
            let flight = &self.schedulers.expect(*handle).running.by_first[first];
            turn.out.actions.push(Action::Stop {
                handle: *handle,
                first: *first,
                attempt: flight.attempt,
            });
        }
    }
}
