//! Suspects: after a takeover nobody knows yet what of the tasks handed out before still runs somewhere.
//!
//! A suspect counts as running, on a host that nobody knows: it holds its barrier and its scheduler's limit, and it can be
//! cancelled. It ends in one of two ways. Its executor reports it, and it is an ordinary attempt again; or its kind is
//! cleared, when every executor has reported or is fenced, and it is judged. New tasks never wait for it.

use super::finish::Ending;
use crate::core::{
    Action, Attempt, AttemptEvent, AttemptRecord, Handle, Outcome, Output, Running, Seq, Shard,
    Time, Work,
    fairness::fair_share::KindId,
    model::limits,
    scheduler::{History, InFlight, Scheduler, queue::Span},
};

impl Shard {
    /// Takes in what an executor runs that an earlier core handed out. What is not known any more, or known better, is to be
    /// stopped.
    pub(crate) fn adopt(&mut self, now: Time, running: &[Running], out: &mut Output) {
        for one in running {
            let adopted = self.adopt_one(now, one);
            if adopted != Some(false) {
                let Running {
                    handle,
                    first,
                    attempt,
                    ..
                } = *one;
                out.actions.push(Action::Stop {
                    handle,
                    first,
                    attempt,
                });
            }
            self.refresh(one.handle);
        }
    }

    /// Says whether it is to be stopped; `None`: it is not ours any more.
    fn adopt_one(&mut self, now: Time, one: &Running) -> Option<bool> {
        let scheduler = self.schedulers.get_mut(&one.handle)?;
        let known = scheduler
            .in_flight
            .get(&one.first)
            .filter(|flight| !flight.suspect && flight.attempt == one.attempt);
        if let Some(flight) = known {
            return Some(flight.cancel);
        }
        scheduler.adopt(now, one)?;
        let flight = &scheduler.in_flight[&one.first];
        let (kind, count, cancel) = (flight.span.kind, flight.span.count, flight.cancel);
        let ahead = flight.since.0 + flight.charged - now.0;
        if flight.span.spec.work != Work::Noop {
            self.young.push_back((one.since, one.handle, one.first));
        }
        self.fair.occupy(&mut scheduler.share, kind, count);
        self.fair
            .charge(&mut scheduler.share, ahead * i64::from(count));
        Some(cancel)
    }

    /// Nothing runs any more that was handed out on this kind (`None`: on any) before and not reported. `lost`: a host was
    /// fenced, so that what is still suspect may have run there; else none of it has begun.
    pub(crate) fn clear(&mut self, now: Time, work: Option<&Work>, lost: bool, out: &mut Output) {
        let kind = work.map(|work| self.fair.kind(work));
        let mut handles: Vec<Handle> = self
            .schedulers
            .values()
            .filter(|s| s.suspects > 0)
            .map(|s| s.handle())
            .collect();
        handles.sort_unstable();
        for handle in handles {
            let scheduler = self.scheduler_mut(handle);
            let wanted = |flight: &&InFlight| {
                flight.suspect && kind.is_none_or(|kind| kind == flight.span.kind)
            };
            let firsts: Vec<Seq> = scheduler
                .in_flight
                .values()
                .filter(wanted)
                .map(|flight| flight.span.first)
                .collect();
            for first in firsts {
                if let Some(flight) = self.scheduler_mut(handle).release_suspect(first) {
                    self.judge_suspect(now, handle, flight, lost, out);
                }
            }
            self.refresh(handle);
        }
    }

    fn judge_suspect(
        &mut self,
        now: Time,
        handle: Handle,
        flight: InFlight,
        lost: bool,
        out: &mut Output,
    ) {
        let InFlight {
            span,
            attempt,
            cancel,
            recorded,
            ..
        } = flight;
        let options = &span.spec.options;
        let overdue = options
            .deadline
            .is_some_and(|deadline| span.submitted_at + deadline <= now);
        let scheduler = self.scheduler_mut(handle);
        let history = scheduler
            .histories
            .get(&span.first)
            .copied()
            .unwrap_or_default();
        let losses = history.losses + u32::from(lost && recorded);
        let spent =
            lost && recorded && options.at_most_once() || losses >= options.retry.max_losses();
        let end = match (cancel, spent, overdue) {
            (true, ..) => Some((
                Outcome::Cancelled,
                "CANCELLED",
                "stopped while it ran; its host was lost",
            )),
            (_, true, _) => Some((Outcome::Exhausted, "LOST", "its host was lost while it ran")),
            (.., true) => Some((
                Outcome::TimedOut,
                "DEADLINE",
                "its deadline passed before another attempt",
            )),
            _ => None,
        };
        if let Some((outcome, code, message)) = end {
            return self.finish(
                now,
                handle,
                &span,
                Ending::idle(outcome, attempt, now, code, message),
                out,
            );
        }
        if lost || recorded {
            // What may have run has spent its number, for later owners too.
            scheduler.histories.insert(
                span.first,
                History {
                    attempt,
                    losses,
                    ..history
                },
            );
            let began = lost && recorded;
            let what = if began {
                AttemptEvent::Lost {
                    next_at: now,
                    error: None,
                }
            } else {
                AttemptEvent::HandedBack
            };
            out.records.attempts.push(AttemptRecord {
                handle,
                seq: span.first,
                attempt,
                what,
                at: now,
            });
        }
        scheduler.queue.put_back(span);
    }
}

impl Scheduler {
    /// A task that may still run somewhere. It counts as unfinished already.
    pub(crate) fn suspect(
        &mut self,
        now: Time,
        span: Span,
        attempt: Attempt,
        cancel: bool,
        recorded: bool,
    ) {
        self.queue.count_running(&span);
        self.hold(now, span, attempt, cancel, recorded);
    }

    /// Makes the first waiting tasks of a kind suspects: as many of the current order, and as many without order, as the
    /// earlier owners had slots. Tasks are handed out by their number, so one that ran is among them; what has a row, or
    /// waited for its time and therefore got one, is known anyway; what a halt or a release keeps from starting did not run.
    pub(crate) fn suspect_first(&mut self, now: Time, kind: KindId, most: u32) {
        let known = &self.histories;
        let plain = |span: &Span, seq: &Seq| {
            span.spec.options.not_before.is_none() && !known.contains_key(seq)
        };
        for (order, seq) in self.queue.first_of(kind, self.start_limit(), most, plain) {
            for span in self.queue.remove_of(order, seq, seq) {
                self.hold(now, span, Attempt(1), false, false);
            }
        }
    }

    fn hold(&mut self, now: Time, span: Span, attempt: Attempt, cancel: bool, recorded: bool) {
        self.running += span.count;
        self.suspects += span.count;
        let flight = InFlight {
            span,
            attempt,
            since: now,
            charged: 0,
            cancel,
            recorded,
            suspect: true,
        };
        self.in_flight.insert(flight.span.first, flight);
    }

    fn release_suspect(&mut self, first: Seq) -> Option<InFlight> {
        let flight = self.in_flight.remove(&first)?;
        self.running -= flight.span.count;
        self.suspects -= flight.span.count;
        Some(flight)
    }

    /// Makes a surviving assignment an ordinary one; `None` when its tasks have ended, or the attempt has.
    fn adopt(&mut self, now: Time, survivor: &Running) -> Option<()> {
        let suspect = self
            .in_flight
            .get(&survivor.first)
            .map(|flight| flight.suspect && flight.attempt == survivor.attempt);
        let (span, cancel, recorded) = match suspect {
            Some(true) => {
                let InFlight {
                    span,
                    cancel,
                    recorded,
                    ..
                } = self.release_suspect(survivor.first)?;
                (span, cancel, recorded)
            }
            Some(false) => return None,
            None => (self.take_survivor(survivor)?, false, false),
        };
        self.running += span.count;
        // As if charged every second until now: that time was charged to the core that is gone.
        let second = limits::CHARGE.as_micros() as i64;
        let charged = ((now.0 - survivor.since.0).max(0) / second + 1) * second;
        let (attempt, since) = (survivor.attempt, survivor.since);
        self.in_flight.insert(
            survivor.first,
            InFlight {
                span,
                attempt,
                since,
                charged,
                cancel,
                recorded,
                suspect: false,
            },
        );
        Some(())
    }

    /// Takes the waiting tasks of a surviving assignment, unless this attempt is known to be over.
    fn take_survivor(&mut self, survivor: &Running) -> Option<Span> {
        if self
            .histories
            .get(&survivor.first)
            .is_some_and(|history| survivor.attempt <= history.attempt)
        {
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
