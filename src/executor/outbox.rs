//! What the executor has been given and has not been released from, and what it has to report to
//! the owner of the shard.
//!
//! Every assignment stays here until its completion is acknowledged as durable, so that whoever
//! owns the shard next can be told what still runs and what has ended. There is one owner at a
//! time: what an older one hands out is not taken. A pure state: `shared` runs it in the server,
//! the simulator in the tests.

pub(crate) mod shared;

use crate::{
    core::{Completion, Epoch, Report, Work},
    executor_protocol::{BEGUN_PER_SLOT, Event, HeldAssignment, LINE_PER_SLOT, Snapshot, Token},
};
use rustc_hash::FxHashMap;
use std::{collections::BTreeMap, mem};

/// The outbox of one executor. What waits in it is bounded: `BEGUN_PER_SLOT` completions for each
/// slot, since the owner starts no more, and the last word about the slots of each kind.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The ownership it works for; `None`: it has no owner yet, was fenced, or is finished.
    epoch: Option<Epoch>,
    held: FxHashMap<Token, Held>,
    slots: BTreeMap<Work, u32>,
    waiting: Vec<Event>,
}

#[derive(Debug)]
struct Held {
    assignment: HeldAssignment,
    /// No other hand-out of its task has the number of its attempt.
    numbered: bool,
    completion: Option<Completion>,
}

impl Held {
    /// Whether a later owner must not be told: it never began, and somebody else may have been
    /// given the same attempt since. A late report would take it away again, and an attempt that
    /// nobody reports starts anyway. What has a number of its own is nobody else's, and an attempt
    /// on record that nobody reports would count as lost.
    fn is_nobodys(&self) -> bool {
        let completion = self.completion.as_ref();
        let never_began = completion.is_some_and(|one| one.report == Report::NotStarted);
        never_began && !self.numbered
    }
}

impl Outbox {
    /// Reports go to this owner from now on. Returns the snapshot, which must be sent to it first;
    /// `None`: the executor works for a younger owner already, or was enrolled under one. Who owns
    /// the shard by then may not know of this executor, and would not look here for what an older
    /// owner hands out.
    pub fn attach(&mut self, epoch: Epoch, enrolled_under: Epoch) -> Option<Snapshot> {
        if epoch < enrolled_under || self.epoch > Some(epoch) {
            return None;
        }
        self.epoch = Some(epoch);
        // The snapshot says it all.
        self.waiting.clear();
        self.held.retain(|_, held| !held.is_nobodys());
        let held = self.held.values();
        let mut attempts: Vec<HeldAssignment> = held.map(|held| held.assignment.clone()).collect();
        attempts.sort_by_key(|held| (held.running.handle, held.running.first));
        let completion = |(token, held): (&Token, &Held)| Some((*token, held.completion.clone()?));
        let mut completions: Vec<_> = self.held.iter().filter_map(completion).collect();
        completions.sort_by_key(|(token, _)| *token);
        let slots = |(work, total): (&Work, &u32)| (work.clone(), *total);
        Some(Snapshot {
            slots: self.slots.iter().map(slots).collect(),
            begun_per_slot: BEGUN_PER_SLOT,
            line_per_slot: LINE_PER_SLOT,
            attempts,
            completions,
        })
    }

    /// Nothing more is reported.
    pub fn detach(&mut self) {
        self.epoch = None;
        self.waiting.clear();
    }

    /// Keeps an assignment; false: it comes from an older owner than the present one, there is
    /// none, or it is here already. `numbered`: see
    /// [`Assignment::is_numbered`](crate::core::Assignment::is_numbered).
    pub fn take(&mut self, assignment: HeldAssignment, numbered: bool) -> bool {
        let token = assignment.token;
        let is_ours = self.epoch.is_some_and(|present| token.epoch >= present);
        if !is_ours || self.held.contains_key(&token) {
            return false;
        }
        let held = Held {
            assignment,
            numbered,
            completion: None,
        };
        self.held.insert(token, held);
        true
    }

    /// An assignment has ended.
    pub fn complete(&mut self, token: Token, completion: Completion) {
        // What was given up is nobody's any more.
        let Some(held) = self.held.get_mut(&token) else {
            return;
        };
        held.completion = Some(completion.clone());
        self.push(Event::Completed(token, completion));
    }

    /// There are so many slots now.
    pub fn set_slots(&mut self, work: Work, total: u32) {
        self.slots.insert(work.clone(), total);
        // Only the last word counts, however often a target comes and goes meanwhile.
        self.waiting
            .retain(|earlier| !matches!(earlier, Event::Slots { work: of, .. } if *of == work));
        self.push(Event::Slots { work, total });
    }

    /// These completions are durable, or stale.
    pub fn acknowledge(&mut self, tokens: &[Token]) {
        for token in tokens {
            self.held.remove(token);
        }
    }

    /// Gives everything up without a report, and takes nothing more before the next owner: the
    /// executor was fenced.
    pub fn give_up(&mut self) {
        self.epoch = None;
        self.held.clear();
        self.waiting.clear();
    }

    /// Nothing has been given that is not acknowledged.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// What is next on its way to the owner.
    pub fn next_events(&mut self) -> Vec<Event> {
        mem::take(&mut self.waiting)
    }

    /// These could not be sent after all: they go before everything that has come since.
    fn put_back(&mut self, mut events: Vec<Event>) {
        events.append(&mut self.waiting);
        self.waiting = events;
    }

    fn push(&mut self, event: Event) {
        if self.epoch.is_some() {
            self.waiting.push(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Attempt, Handle, Running, Seq, ShardId, Time};

    fn held(epoch: i64, serial: u64) -> HeldAssignment {
        HeldAssignment {
            token: Token {
                epoch: Epoch(epoch),
                serial,
            },
            running: Running {
                handle: Handle::new(ShardId(0), 1, [0; 10]),
                first: Seq(serial as i64),
                count: 1,
                attempt: Attempt(1),
                since: Time(0),
            },
            work: Work::Noop,
        }
    }

    /// Takes an assignment, and ends it if there is a report.
    fn take(outbox: &mut Outbox, serial: u64, numbered: bool, report: Option<Report>) {
        let held = held(1, serial);
        let (token, running) = (held.token, held.running);
        assert!(outbox.take(held, numbered));
        if let Some(report) = report {
            let completion = Completion {
                handle: running.handle,
                first: running.first,
                attempt: running.attempt,
                report,
                started: Time(0),
                ended: Time(0),
                slot: 0,
                backend_pid: 0,
                diagnostics: Default::default(),
            };
            outbox.complete(token, completion);
        }
    }

    /// The tasks that a new owner hears of, and those of them that have ended.
    fn heard_by_a_new_owner(outbox: &mut Outbox) -> (Vec<i64>, Vec<i64>) {
        let snapshot = outbox.attach(Epoch(2), Epoch(1)).expect("the next owner");
        let attempts = snapshot.attempts.iter().map(|held| held.running.first.0);
        let completions = snapshot.completions.iter().map(|(_, one)| one.first.0);
        (attempts.collect(), completions.collect())
    }

    /// The outbox of an executor with an owner.
    fn outbox() -> Outbox {
        let mut outbox = Outbox::default();
        let _ = outbox.attach(Epoch(1), Epoch(1)).expect("the first owner");
        outbox
    }

    #[test]
    fn an_executor_works_for_no_owner_older_than_its_enrolment() {
        let mut outbox = Outbox::default();
        assert!(!outbox.take(held(1, 1), false), "it has no owner yet");
        assert!(outbox.attach(Epoch(1), Epoch(1)).is_some());
        assert!(outbox.take(held(1, 2), false));
        outbox.give_up();
        assert!(!outbox.take(held(1, 3), false), "it was fenced");
        let older = outbox.attach(Epoch(1), Epoch(2));
        assert!(older.is_none(), "its successor may not know of it");
        assert!(outbox.attach(Epoch(2), Epoch(2)).is_some());
        assert!(!outbox.take(held(1, 4), false) && outbox.take(held(2, 5), false));
    }

    #[test]
    fn a_new_owner_is_told_of_what_runs_and_what_has_ended_and_not_of_what_never_began() {
        let mut outbox = outbox();
        let reports = [None, Some(Report::Stopped), Some(Report::NotStarted)];
        for (serial, report) in (1..).zip(reports) {
            take(&mut outbox, serial, false, report);
        }
        assert_eq!(heard_by_a_new_owner(&mut outbox), (vec![1, 2], vec![2]));
    }

    #[test]
    fn an_attempt_with_a_number_of_its_own_that_never_began_is_reported() {
        let mut outbox = outbox();
        take(&mut outbox, 1, true, Some(Report::NotStarted));
        assert_eq!(heard_by_a_new_owner(&mut outbox), (vec![1], vec![1]));
    }
}
