//! Handing free slots to those whose turn it is. One decision covers barrier, limit, share and
//! slot: a task that cannot run is never picked.

use crate::core::{
    Action, Assignment, Attempt, AttemptEvent, AttemptRecord, Handle, Shard, Time, TimeLimit, Turn,
    fairness::{
        fair_share::{Fair, Grant},
        slot_kinds::KindId,
    },
    model::limits::SLOT_CHARGE,
    scheduler::{
        Scheduler,
        in_flight::InFlight,
        queue::{span::Span, step_counter::step},
    },
};
use std::cmp::Reverse;

impl Shard {
    /// Gives every free slot to the scheduler whose turn it is, as far as there are takers.
    pub(crate) fn dispatch(&mut self, turn: &mut Turn) {
        for kind in self.fair.slots.kinds() {
            while let Some(grant) = self.next_grant(kind) {
                let early = self.may_start_early(turn, kind, grant.handle, None);
                self.start(turn, kind, grant, early);
                // The next pick needs the fair share as it is now.
                self.refresh();
            }
        }
    }

    pub(crate) fn next_grant(&self, kind: KindId) -> Option<Grant> {
        if self.is_paused(kind) {
            return None;
        }
        let runs = |handle| {
            let scheduler = self.schedulers.get(handle);
            scheduler.is_some_and(|s| Fair::runs(&s.share, kind))
        };
        let line = || self.grant_in_line(kind);
        self.fair.pick(kind, runs).or_else(line)
    }

    /// Who may stand in line at an executor, so that a slot goes on without a word of ours: tasks
    /// that leave no record when they start, for they may be given back.
    fn grant_in_line(&self, kind: KindId) -> Option<Grant> {
        let short = self.limits.short_attempt;
        let grant = self.fair.pick_for_line(kind, short)?;
        let scheduler = self.schedulers.expect(grant.handle);
        let is_short = self.fair.expected(&scheduler.share, kind) <= short.as_micros() as i64;
        let next = scheduler.next_without_record(kind).filter(|_| is_short)?;
        // A host that is lost takes all with it that stood in line there.
        (!next.spec.options.retry.ends_with_a_loss()).then_some(grant)
    }

    /// Starts the next task of the scheduler whose turn it is, or for work without a session
    /// several; `early`: before the batch is durable.
    pub(crate) fn start(&mut self, turn: &mut Turn, kind: KindId, grant: Grant, early: bool) {
        let next = grant.handle;
        let grant = self.before_rivals(kind, grant);
        let (now, handle) = (turn.now, grant.handle);
        let has_session = self.fair.slots[kind].work.has_session();
        let scheduler = self.schedulers.expect_mut(handle);
        if scheduler.is_overdue(now) {
            return self.slice_later(now, handle);
        }
        let most = if has_session {
            1
        } else {
            grant.slots.min(scheduler.capacity())
        };
        let Some((span, token)) = scheduler.take_next(turn, &mut self.resources, kind, most) else {
            return;
        };
        let (attempt, again) = scheduler.next_attempt(&span, has_session);
        if handle == next {
            self.fair.serve(&scheduler.share, grant, kind);
        }
        let recorded = again || (has_session && scheduler.must_record(&span));
        if recorded {
            let record = start_record(handle, &span, attempt, now);
            turn.out.records.attempts.push(record);
        }
        let assignment = Assignment {
            resource_token: token,
            leaves_free: grant.in_line.then(|| self.fair.slots[kind].reserved()),
            ..scheduler.assignment(now, &span, attempt)
        };
        let actions = match early {
            true => &mut turn.out.early,
            false => &mut turn.out.actions,
        };
        actions.push(Action::Dispatch(assignment));
        if has_session {
            self.young.push_back((now, handle, span.first));
        }
        let flight = InFlight {
            span,
            attempt,
            since: now,
            charged: self.fair.expected(&scheduler.share, kind),
            charged_earlier: 0,
            ahead_of_turn: grant.ahead_of_turn,
            in_line: grant.in_line,
            cancel: None,
            recorded,
            in_doubt: false,
            resolving: None,
        };
        scheduler.begin(now, &mut self.fair, flight);
    }

    /// Gives attempts that have lasted a row in the journal, and charges those that go on; each as
    /// many as one batch bears.
    pub(crate) fn watch_attempts(&mut self, turn: &mut Turn) {
        for _ in 0..self.limits.timers_per_batch {
            let Some((since, handle, first)) = self.young.front().copied() else {
                break;
            };
            let has_lasted = since + self.limits.long_attempt <= turn.now;
            let running = self.schedulers.get(handle).map(|one| &one.running.by_first);
            let flight = running.and_then(|all| all.get(&first));
            // The loop is not to wake for one that has ended.
            if !has_lasted && flight.is_some_and(|flight| flight.since == since) {
                break;
            }
            self.young.pop_front();
            step();
            let Some(scheduler) = self.schedulers.get_mut(handle) else {
                continue;
            };
            let flight = scheduler.running.by_first.get_mut(&first);
            let Some(flight) = flight.filter(|flight| flight.since == since && !flight.in_doubt)
            else {
                continue;
            };
            if !flight.recorded {
                flight.recorded = true;
                let record = start_record(handle, &flight.span, flight.attempt, since);
                turn.out.records.attempts.push(record);
            }
            let due = Time(since.0 + flight.charged);
            self.charges.push(Reverse((due, handle, first)));
        }
        self.charge_attempts(turn.now);
    }

    fn charge_attempts(&mut self, now: Time) {
        for _ in 0..self.limits.timers_per_batch {
            let next = self.charges.peek().copied();
            let Some(Reverse((due, handle, first))) = next.filter(|Reverse((at, ..))| *at <= now)
            else {
                break;
            };
            self.charges.pop();
            step();
            let Some(scheduler) = self.schedulers.get_mut(handle) else {
                continue;
            };
            let Some(flight) = scheduler.running.by_first.get_mut(&first) else {
                continue;
            };
            if flight.in_doubt || flight.since.0 + flight.charged != due.0 {
                continue;
            }
            let hold = flight.hold();
            let lasted = now.since(flight.since);
            let more = (lasted / 4).clamp(SLOT_CHARGE / 100, SLOT_CHARGE);
            flight.charged = (lasted + more).as_micros() as i64;
            let more = flight.charged - hold.charged;
            self.fair.prolong(&mut scheduler.share, hold, more);
            let due = Time(flight.since.0 + flight.charged);
            self.charges.push(Reverse((due, handle, first)));
        }
    }
}

impl Scheduler {
    /// The number of the next attempt of the tasks of `span`, and whether there was, or may have
    /// been, an earlier one. A later attempt is recorded before it starts: otherwise its number
    /// could be given again after a takeover, and the losses of a task that kills its host would
    /// not be counted.
    fn next_attempt(&mut self, span: &Span, has_session: bool) -> (Attempt, bool) {
        match self.histories.get_mut(&span.first) {
            Some(history) if has_session => {
                history.attempt.0 += 1;
                (history.attempt, true)
            }
            _ => (Attempt(1), false),
        }
    }

    /// Whether a first attempt is recorded before it starts: by its options, or because it passes
    /// tasks in doubt, so that a later owner cannot infer it from the task's number.
    pub(crate) fn must_record(&self, span: &Span) -> bool {
        span.spec.options.records_start() || self.running.in_doubt > 0
    }

    fn assignment(&self, now: Time, span: &Span, attempt: Attempt) -> Assignment {
        let time_limit = match (span.spec.options.timeout, span.deadline()) {
            (Some(timeout), Some(deadline)) if now + timeout <= deadline => {
                Some(TimeLimit::Timeout(timeout))
            }
            (_, Some(deadline)) => Some(TimeLimit::Deadline(deadline)),
            (Some(timeout), None) => Some(TimeLimit::Timeout(timeout)),
            (None, None) => None,
        };
        Assignment {
            handle: self.handle(),
            first: span.first,
            count: span.count,
            attempt,
            order: span.order,
            spec: span.spec.clone(),
            namespace: self.image.namespace.clone(),
            caller: self.image.caller.clone(),
            resource_token: None,
            leaves_free: None,
            time_limit,
            deadline: span.deadline(),
            session_reset: self.image.settings.session_reset,
        }
    }
}

fn start_record(handle: Handle, span: &Span, attempt: Attempt, at: Time) -> AttemptRecord {
    AttemptRecord {
        handle,
        seq: span.first,
        attempt,
        what: AttemptEvent::Start,
        at,
        ran: None,
    }
}
