//! Tasks in doubt: after a takeover nobody knows yet which of the tasks handed out before still
//! run.
//!
//! A task in doubt counts as running, on a host that nobody knows: it holds its barrier and its
//! scheduler's limit, and it can be cancelled. Either its executor reports it, and it is an
//! ordinary attempt again; or its kind is cleared, when every executor has reported or is fenced,
//! and it is judged, in slices. New tasks never wait for it. Whoever has cleared a kind is answered
//! when all of it is judged: only then may it forget who was lost.

use super::finish::Ending;
use crate::core::{
    Action, Attempt, AttemptEvent, AttemptRecord, Delivery, Handle, Outcome, Reply, Running, Seq,
    Shard, TaskError, TaskId, Ticket, Time, Turn, Unreported, Work,
    fairness::{fair_share::Fair, slot_kinds::KindId},
    model::{limits::SLOT_CHARGE, retry::LOST},
    scheduler::starts_and_ends::Used,
    scheduler::{
        Scheduler,
        in_flight::InFlight,
        queue::{span::Span, step_counter::step},
    },
};
use rustc_hash::FxHashSet;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// What a task in doubt has used: it had no slot.
const NO_SLOT: Used = Used::Slot(Duration::ZERO);

/// All assignments in doubt, and which of them are to be judged.
#[derive(Debug, Default)]
pub(crate) struct InDoubt {
    /// As they were restored: some have been reported since.
    by_kind: BTreeMap<KindId, BTreeSet<(Handle, Seq)>>,
    /// What is cleared, in sequence.
    cleared: VecDeque<Clearance>,
    /// Schedulers that an earlier owner could not read. Executors may have reported to it how
    /// a task ended: that nobody reports it now does not mean that it has not begun.
    pub(super) set_aside: FxHashSet<Handle>,
}

/// Nothing runs any more of these kinds that was not reported.
#[derive(Debug)]
struct Clearance {
    kinds: Vec<KindId>,
    unreported: Unreported,
    /// Who waits until it is judged.
    ticket: Option<Ticket>,
}

impl InDoubt {
    pub(crate) fn add(&mut self, kind: KindId, handle: Handle, first: Seq) {
        self.by_kind
            .entry(kind)
            .or_default()
            .insert((handle, first));
    }

    /// How many there are at most on some kinds.
    pub(crate) fn count(&self, is_meant: impl Fn(KindId) -> bool) -> u32 {
        let of_kind = self.by_kind.iter().filter(|(kind, _)| is_meant(**kind));
        of_kind.map(|(_, all)| all.len() as u32).sum()
    }

    /// Whether something is still to be judged.
    pub(crate) fn is_judging(&self) -> bool {
        !self.cleared.is_empty()
    }

    fn is_cleared(&self, kind: KindId) -> bool {
        self.cleared.iter().any(|one| one.kinds.contains(&kind))
    }

    /// The next assignment to judge, and what became of it if nobody reported it. Answers those
    /// whose kinds are done.
    fn next(&mut self, turn: &mut Turn) -> Option<(Handle, Seq, Unreported)> {
        while let Some(clearance) = self.cleared.front_mut() {
            while let Some(kind) = clearance.kinds.last() {
                let all = self.by_kind.get_mut(kind);
                if let Some((handle, first)) = all.and_then(BTreeSet::pop_first) {
                    let unreported = match self.set_aside.contains(&handle) {
                        true => Unreported::MayHaveBegun,
                        false => clearance.unreported,
                    };
                    return Some((handle, first, unreported));
                }
                self.by_kind.remove(kind);
                clearance.kinds.pop();
            }
            let reply = |ticket| Action::Reply(ticket, Reply::Cleared);
            turn.out.actions.extend(clearance.ticket.map(reply));
            self.cleared.pop_front();
        }
        None
    }
}

impl Shard {
    /// Takes in what an executor runs that an earlier core handed out. What is not known any more,
    /// or was cancelled since, or runs where a pause stops it, is to be stopped.
    pub(crate) fn adopt(&mut self, turn: &mut Turn, running: &[Running]) {
        for one in running {
            if self.adopt_one(turn.now, one) != Some(false) {
                turn.out.actions.push(Action::Stop {
                    handle: one.handle,
                    first: one.first,
                    attempt: one.attempt,
                });
            }
        }
    }

    /// Says whether it is to be stopped; `None`: it is not ours any more.
    fn adopt_one(&mut self, now: Time, one: &Running) -> Option<bool> {
        let scheduler = self.schedulers.get_mut(one.handle)?;
        match scheduler.running.by_first.get(&one.first) {
            Some(flight) if flight.in_doubt && self.in_doubt.is_cleared(flight.span.kind) => {
                return None;
            }
            Some(flight) if !flight.in_doubt && flight.attempt == one.attempt => {
                return Some(self.pauses.is_to_stop(flight));
            }
            _ => {}
        }
        let flight = scheduler.adopt(&mut self.fair, now, one)?;
        let stops = self.pauses.is_to_stop(&flight);
        if flight.span.spec.work.has_session() {
            self.young.push_back((flight.since, one.handle, one.first));
        }
        scheduler.begin(now, &mut self.fair, flight);
        Some(stops)
    }

    /// Nothing runs any more that was handed out on this kind (`None`: on any) before and not
    /// reported; `unreported` says what became of it. Of two clearances of a kind the first one
    /// counts.
    pub(crate) fn clear(
        &mut self,
        work: Option<&Work>,
        unreported: Unreported,
        ticket: Option<Ticket>,
    ) {
        let kinds = match work {
            Some(work) => self.fair.slots.find(work).into_iter().collect(),
            None => self.in_doubt.by_kind.keys().copied().collect(),
        };
        self.in_doubt.cleared.push_back(Clearance {
            kinds,
            unreported,
            ticket,
        });
    }

    /// Judges up to `most` assignments of the kinds that are cleared. Returns how many it has
    /// looked at.
    pub(crate) fn judge_cleared(&mut self, turn: &mut Turn, most: u32) -> u32 {
        for looked_at in 0..most {
            let Some((handle, first, unreported)) = self.in_doubt.next(turn) else {
                return looked_at;
            };
            step();
            let Some(scheduler) = self.schedulers.get_mut(handle) else {
                continue;
            };
            let running = scheduler.running.by_first.get(&first);
            if running.is_some_and(|flight| flight.in_doubt)
                && let Some(flight) = scheduler.leave(&mut self.fair, first, NO_SLOT)
            {
                self.judge_in_doubt(turn, handle, flight, unreported);
            }
        }
        most
    }

    fn judge_in_doubt(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        flight: InFlight,
        unreported: Unreported,
    ) {
        if flight.recorded && flight.span.spec.options.delivery() == Delivery::ExactlyOnce {
            return self.resolve(turn, handle, flight, unreported);
        }
        let now = turn.now;
        let seq = flight.span.first;
        self.resources.end_of_attempt(turn, TaskId { handle, seq });
        let scheduler = self.schedulers.expect_mut(handle);
        let InFlight { span, attempt, .. } = &flight;
        let history = scheduler.histories.get(&span.first).copied();
        let mut history = history.unwrap_or_default();
        let may_have_begun = unreported == Unreported::MayHaveBegun;
        // Without a row it has run for a moment at most: no loss is counted.
        let began = may_have_begun && flight.recorded;
        history.losses += u32::from(began);
        if let Some((outcome, code, message)) = flight.end_in_doubt(now, began, history.losses) {
            let ending = Ending::idle(outcome, *attempt, now, code, &message);
            return self.finish(turn, handle, span, ending);
        }
        if may_have_begun || flight.recorded {
            // Its attempt number may have been used, so no later owner may give it again.
            history.attempt = *attempt;
            scheduler.histories.insert(span.first, history);
            let what = if began {
                AttemptEvent::Lost {
                    next_at: now,
                    error: None,
                }
            } else {
                AttemptEvent::HandedBack
            };
            turn.out.records.attempts.push(AttemptRecord {
                handle,
                seq: span.first,
                attempt: *attempt,
                what,
                at: now,
                ran: None,
            });
        }
        scheduler.queue.put_back(flight.span);
    }
}

impl InFlight {
    /// An assignment that an earlier owner may have handed out.
    fn in_doubt(
        now: Time,
        span: Span,
        attempt: Attempt,
        cancel: Option<Arc<TaskError>>,
        recorded: bool,
    ) -> Self {
        InFlight {
            span,
            attempt,
            since: now,
            charged: 0,
            charged_earlier: 0,
            ahead_of_turn: false,
            in_line: false,
            cancel,
            recorded,
            in_doubt: true,
            resolving: None,
        }
    }

    /// How a task in doubt ends that nobody reported; `None`: it may start again.
    fn end_in_doubt(
        &self,
        now: Time,
        began: bool,
        losses: u32,
    ) -> Option<(Outcome, &'static str, Cow<'static, str>)> {
        let options = &self.span.spec.options;
        let exhausted = losses >= options.retry.max_losses()
            || match options.delivery() {
                Delivery::AtLeastOnce | Delivery::ExactlyOnce => false,
                Delivery::AtMostOnce => began,
            };
        let overdue = self.span.deadline().is_some_and(|at| at <= now);
        let lost = "its host was lost while it ran";
        match (&self.cancel, exhausted, overdue) {
            (Some(why), ..) => Some((
                Outcome::Cancelled,
                "CANCELLED",
                format!("{}; its host was lost", why.message).into(),
            )),
            _ if began && options.retry.forbids(LOST) => Some((Outcome::Failed, LOST, lost.into())),
            (_, true, _) => Some((Outcome::Exhausted, LOST, lost.into())),
            (.., true) => Some((
                Outcome::TimedOut,
                "DEADLINE",
                "its deadline passed before another attempt".into(),
            )),
            _ => None,
        }
    }
}

impl Scheduler {
    /// Restores a task that by its rows may still run somewhere.
    pub(crate) fn restore_in_doubt(
        &mut self,
        now: Time,
        fair: &mut Fair,
        span: Span,
        attempt: Attempt,
        cancel: Option<Arc<TaskError>>,
    ) {
        self.queue.count_running(&span);
        self.begin(
            now,
            fair,
            InFlight::in_doubt(now, span, attempt, cancel, true),
        );
    }

    /// Puts the first waiting tasks of a kind in doubt: as many of the current order, and as many
    /// without order, as the earlier owners had slots. Tasks are handed out by their number, so one
    /// that ran is among them; what has a row, or waited for its time and therefore got one, is
    /// known anyway; what a halt or a release keeps from starting did not run.
    pub(crate) fn doubt_first(&mut self, now: Time, fair: &mut Fair, kind: KindId, most: u32) {
        let firsts = self
            .queue
            .first_of(kind, self.barrier(), most, &self.histories);
        for (order, seq) in firsts {
            for span in self.queue.remove_of(order, seq, seq) {
                let flight = InFlight::in_doubt(now, span, Attempt(1), None, false);
                self.begin(now, fair, flight);
            }
        }
    }

    /// Takes a surviving assignment out of what is in doubt or waits, as an ordinary one; `None`
    /// when its tasks have ended, or the attempt has.
    fn adopt(&mut self, fair: &mut Fair, now: Time, survivor: &Running) -> Option<InFlight> {
        let running = self.running.by_first.get(&survivor.first);
        let (span, cancel, recorded) = match running {
            Some(flight)
                if flight.in_doubt
                    && flight.resolving.is_none()
                    && flight.attempt == survivor.attempt =>
            {
                let flight = self.leave(fair, survivor.first, NO_SLOT)?;
                (flight.span, flight.cancel, flight.recorded)
            }
            Some(_) => return None,
            None => (self.take_survivor(survivor)?, None, false),
        };
        // As if charged every second until now: that time was charged to the core that is gone.
        let charge = SLOT_CHARGE.as_micros() as i64;
        // The clock of its host may be ahead of ours.
        let since = survivor.since.min(now);
        let charged = ((now.0 - since.0) / charge + 1) * charge;
        Some(InFlight {
            span,
            attempt: survivor.attempt,
            since,
            charged,
            charged_earlier: 0,
            ahead_of_turn: false,
            in_line: false,
            cancel,
            recorded,
            in_doubt: false,
            resolving: None,
        })
    }

    /// Takes the waiting tasks of a surviving assignment, unless this attempt is known to be over.
    fn take_survivor(&mut self, survivor: &Running) -> Option<Span> {
        let history = self.histories.get(&survivor.first);
        if history.is_some_and(|history| survivor.attempt <= history.attempt) {
            return None;
        }
        // What runs is unfinished, and so its order, if it has one, is the current one.
        let (first, last) = (survivor.first, survivor.first.plus(survivor.count - 1));
        let mut spans = self.queue.remove_of(None, first, last);
        if let current @ Some(_) = self.queue.current_order() {
            spans.extend(self.queue.remove_of(current, first, last));
        }
        let count: u32 = spans.iter().map(|span| span.count).sum();
        Some(Span {
            count,
            ..spans.into_iter().min_by_key(|span| span.first)?
        })
    }
}
