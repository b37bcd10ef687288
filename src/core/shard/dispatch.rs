//! Handing free slots to those whose turn it is. One decision covers barrier, limit, share and slot: a task that cannot
//! run is never picked (design 5.4).

use crate::core::{
    Action, Assignment, Attempt, AttemptEvent, AttemptRecord, Handle, Output, Shard, Time,
    TimeLimit, Work,
    fairness::fair_share::{Fair, Grant, KindId},
    model::limits,
    scheduler::{InFlight, Scheduler, queue::Span},
};

impl Shard {
    /// Gives every free slot to the scheduler whose turn it is, as far as there are takers.
    pub(crate) fn dispatch(&mut self, now: Time, out: &mut Output) {
        for kind in (0..self.fair.pools().len()).map(|kind| KindId(kind as u16)) {
            while let Some(grant) = self.next_grant(kind) {
                self.start(now, kind, grant, out);
            }
        }
    }

    fn next_grant(&self, kind: KindId) -> Option<Grant> {
        let runs = |handle| {
            self.schedulers
                .get(&handle)
                .is_some_and(|s| Fair::runs(&s.share, kind))
        };
        self.fair
            .pick(kind)
            .or_else(|| self.fair.pick_newcomer(kind, runs))
    }

    fn start(&mut self, now: Time, kind: KindId, grant: Grant, out: &mut Output) {
        let handle = grant.handle;
        let sessionless = self.fair.pools()[kind.0 as usize].work == Work::Noop;
        let scheduler = self
            .schedulers
            .get_mut(&handle)
            .expect("listed schedulers are in memory");
        if scheduler.is_overdue(now) {
            self.slice_later(now, handle);
            return self.refresh(handle);
        }
        let most = if sessionless {
            grant.slots.min(scheduler.room())
        } else {
            1
        };
        let start_limit = scheduler.start_limit();
        if let Some(span) = scheduler.queue.take(kind, start_limit, most) {
            let (attempt, again) = scheduler.next_attempt(&span, sessionless);
            let options = &span.spec.options;
            // Tasks that waited for their time, or that pass suspects, start out of turn: only a row tells a later owner.
            let out_of_turn = options.not_before.is_some() || scheduler.suspects > 0;
            let recorded = again || (!sessionless && (options.at_most_once() || out_of_turn));
            if recorded {
                out.records
                    .attempts
                    .push(start_record(handle, &span, attempt, now));
            }
            out.actions
                .push(Action::Dispatch(scheduler.assignment(now, &span, attempt)));
            let count = span.count;
            let charged = limits::CHARGE.as_micros() as i64;
            if !sessionless {
                self.young.push_back((now, handle, span.first));
            }
            self.fair.occupy(&mut scheduler.share, kind, count);
            self.fair
                .charge(&mut scheduler.share, charged * i64::from(count));
            scheduler.running += count;
            let flight = InFlight {
                span,
                attempt,
                since: now,
                charged,
                cancel: false,
                recorded,
                suspect: false,
            };
            scheduler.in_flight.insert(flight.span.first, flight);
        }
        self.refresh(handle);
    }

    /// Gives attempts that have lasted a row in the journal, and charges those that go on.
    pub(crate) fn watch_attempts(&mut self, now: Time, out: &mut Output) {
        while let Some((since, handle, first)) = self.young.front().copied()
            && since + self.limits.long_attempt <= now
        {
            self.young.pop_front();
            let Some(scheduler) = self.schedulers.get_mut(&handle) else {
                continue;
            };
            let Some(flight) = scheduler
                .in_flight
                .get_mut(&first)
                .filter(|flight| flight.since == since)
            else {
                continue;
            };
            if !flight.recorded {
                flight.recorded = true;
                out.records.attempts.push(start_record(
                    handle,
                    &flight.span,
                    flight.attempt,
                    since,
                ));
            }
            self.charges.push(std::cmp::Reverse((
                Time(since.0 + flight.charged),
                handle,
                first,
            )));
        }
        self.charge_attempts(now);
    }

    fn charge_attempts(&mut self, now: Time) {
        let second = limits::CHARGE.as_micros() as i64;
        while let Some(std::cmp::Reverse((due, handle, first))) = self.charges.peek().copied()
            && due <= now
        {
            self.charges.pop();
            let Some(scheduler) = self.schedulers.get_mut(&handle) else {
                continue;
            };
            let Some(flight) = scheduler.in_flight.get_mut(&first) else {
                continue;
            };
            if flight.since.0 + flight.charged != due.0 {
                continue;
            }
            flight.charged += second;
            self.fair
                .charge(&mut scheduler.share, second * i64::from(flight.span.count));
            self.charges
                .push(std::cmp::Reverse((due + limits::CHARGE, handle, first)));
        }
    }
}

impl Scheduler {
    /// The number of the next attempt of the tasks of `span`, and whether it follows another one, known or suspected. Such
    /// a one is recorded before it starts, so that no number is given twice and a task that kills its host is counted
    /// (design 7).
    fn next_attempt(&mut self, span: &Span, sessionless: bool) -> (Attempt, bool) {
        match self.histories.get_mut(&span.first) {
            Some(history) if !sessionless => {
                history.attempt.0 += 1;
                (history.attempt, true)
            }
            _ => (Attempt(1), false),
        }
    }

    fn assignment(&self, now: Time, span: &Span, attempt: Attempt) -> Assignment {
        let options = &span.spec.options;
        let deadline = options
            .deadline
            .map(|deadline| span.submitted_at + deadline);
        let time_limit = match (options.timeout, deadline) {
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
            caller: self.image.caller.clone(),
            time_limit,
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
    }
}
