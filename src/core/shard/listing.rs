//! Where tasks stand, and the newest ones of a phase. However much waits, an answer costs little: a
//! task is found by its order and its number, and a search for the newest ones ends after
//! `Limits::listing_steps` steps, to be taken up again from there.

use crate::core::{
    Attempt, Handle, Order, Phase, Reply, Seq, Shard, TaskRef, TaskState,
    scheduler::{
        Scheduler,
        queue::{Queue, StartLimit, found_range::FoundRange},
    },
};
use std::iter::Peekable;

/// Ranges, newest first.
type Ranges<'a> = Box<dyn Iterator<Item = FoundRange> + 'a>;

impl Shard {
    /// Where tasks stand; `None` for those that have ended.
    pub(crate) fn locate(&mut self, handle: Handle, places: &[TaskRef]) -> Reply {
        let scheduler = self.schedulers.expect_mut(handle);
        let state_of = |place: &TaskRef| {
            Some((
                scheduler.state_of(*place)?,
                scheduler.attempts_begun(place.seq),
            ))
        };
        Reply::Located(places.iter().map(state_of).collect())
    }

    /// The newest tasks before `before` that are of one of these phases.
    pub(crate) fn select(
        &mut self,
        handle: Handle,
        before: Seq,
        phases: &[Phase],
        order: Option<Order>,
        limit: usize,
    ) -> Reply {
        let steps = self.limits.listing_steps;
        let scheduler = self.schedulers.expect_mut(handle);
        let newest = Seq(before.0.min(scheduler.highest_seq.0 + 1) - 1);
        let ranges = phases.iter().map(|phase| match (phase, order) {
            (Phase::Done, _) => minus(
                Box::new([FoundRange::new(Seq(1), newest)].into_iter()),
                scheduler.unfinished(newest),
            ),
            (Phase::Blocked, None) => {
                let others = [Phase::Queued, Phase::Running, Phase::Retrying]
                    .map(|phase| scheduler.of_phase(phase, None, newest));
                minus(scheduler.unfinished(newest), merged(others.into()))
            }
            _ => scheduler.of_phase(*phase, order, newest),
        });
        found(merged(ranges.collect()), limit, steps)
    }
}

/// The first `limit` tasks of `ranges`, and before which one to look on.
fn found(mut ranges: Ranges<'_>, limit: usize, steps: usize) -> Reply {
    let mut seqs = Vec::new();
    let mut looked_to = Seq(1);
    for _ in 0..steps {
        let Some(range) = ranges.next() else {
            return Reply::Selected { seqs, next: None };
        };
        seqs.extend(
            (range.first.0..=range.last.0)
                .rev()
                .map(Seq)
                .take(limit - seqs.len()),
        );
        looked_to = range.first;
        if seqs.len() >= limit {
            looked_to = seqs.last().copied().unwrap_or(looked_to);
            break;
        }
    }
    Reply::Selected {
        seqs,
        next: Some(looked_to).filter(|seq| seq.0 > 1),
    }
}

impl Scheduler {
    pub(crate) fn state_of(&self, place: TaskRef) -> Option<TaskState> {
        let TaskRef { seq, order } = place;
        if let Some(flight) = self.running.holding(seq) {
            return Some(TaskState::Running {
                since: flight.since,
            });
        }
        if let Some((at, delayed)) = self.queue.delayed_of(seq) {
            let waits = TaskState::Blocked { next_at: Some(at) };
            return Some(if delayed.retry {
                TaskState::Retrying { next_at: at }
            } else {
                waits
            });
        }
        let open = self.queue.opens(self.start_limit(), order);
        self.queue.waits(order, seq).then_some(if open {
            TaskState::Queued
        } else {
            TaskState::Blocked { next_at: None }
        })
    }

    /// Attempts of a task that have begun.
    pub(crate) fn attempts_begun(&self, seq: Seq) -> Attempt {
        let running = self.running.holding(seq).map(|flight| flight.attempt);
        running
            .or_else(|| self.histories.get(&seq).map(|history| history.attempt))
            .unwrap_or_default()
    }

    /// Unfinished tasks up to `newest` of a phase and of an order (`None`: of any; not for blocked
    /// ones).
    fn of_phase(&self, phase: Phase, order: Option<Order>, newest: Seq) -> Ranges<'_> {
        let of_order = move |of: Option<Order>| order.is_none() || of == order;
        match phase {
            Phase::Queued => self
                .queue
                .newest_startable(self.start_limit(), order, newest),
            Phase::Running => {
                let flights = self
                    .running
                    .by_first
                    .range(..=newest)
                    .rev()
                    .filter(move |(_, flight)| of_order(flight.span.order));
                Box::new(flights.map(move |(first, flight)| {
                    FoundRange::new(*first, flight.span.last().min(newest))
                }))
            }
            Phase::Retrying => Box::new(
                self.queue
                    .newest_delayed(newest, move |d| d.retry && of_order(d.span.order)),
            ),
            Phase::Blocked => {
                let waiting = self
                    .queue
                    .newest_of(order, newest)
                    .filter(move |_| !self.queue.opens(self.start_limit(), order));
                let delayed: Ranges = Box::new(
                    self.queue
                        .newest_delayed(newest, move |d| !d.retry && of_order(d.span.order)),
                );
                merged(
                    waiting
                        .map(|ranges| Box::new(ranges) as Ranges)
                        .chain([delayed])
                        .collect(),
                )
            }
            Phase::Done => Box::new(std::iter::empty()),
        }
    }

    fn unfinished(&self, newest: Seq) -> Ranges<'_> {
        Box::new(
            self.ledger
                .ranges
                .up_to(newest)
                .map(|(first, last)| FoundRange::new(first, last)),
        )
    }
}

impl Queue {
    /// Tasks up to `newest` that may start within `start_limit`, of an order or all.
    fn newest_startable(
        &self,
        start_limit: StartLimit,
        order: Option<Order>,
        newest: Seq,
    ) -> Ranges<'_> {
        let groups = [Some(None), self.current_order().map(Some)]
            .into_iter()
            .flatten();
        let open =
            groups.filter(|of| (order.is_none() || *of == order) && self.opens(start_limit, *of));
        merged(
            open.flat_map(|of| self.newest_of(of, newest))
                .map(|ranges| Box::new(ranges) as Ranges)
                .collect(),
        )
    }
}

/// Ranges of several sources that have no task in common.
fn merged<'a>(sources: Vec<Ranges<'a>>) -> Ranges<'a> {
    let mut sources: Vec<Peekable<Ranges<'a>>> =
        sources.into_iter().map(Iterator::peekable).collect();
    Box::new(std::iter::from_fn(move || {
        let at = (0..sources.len()).max_by_key(|at| sources[*at].peek().map(|range| range.last))?;
        sources[at].next()
    }))
}

/// The tasks of `all` that are not in `others`.
fn minus<'a>(mut all: Ranges<'a>, others: Ranges<'a>) -> Ranges<'a> {
    let mut others = others.peekable();
    let mut rest: Option<FoundRange> = None;
    Box::new(std::iter::from_fn(move || {
        let range = rest.take().or_else(|| all.next())?;
        let Some(cut) = others.peek().copied().filter(|cut| cut.last >= range.first) else {
            return Some(range);
        };
        // One that reaches below this range may also hide a part of the next one.
        if cut.first > range.first {
            others.next();
            rest = Some(FoundRange::new(
                range.first,
                range.last.min(Seq(cut.first.0 - 1)),
            ));
        }
        Some(FoundRange::new(
            cut.last.min(range.last).plus(1),
            range.last,
        ))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(of: &'static [(i64, i64)]) -> Ranges<'static> {
        Box::new(
            of.iter()
                .map(|(last, first)| FoundRange::new(Seq(*first), Seq(*last))),
        )
    }

    fn done(unfinished: &'static [(i64, i64)], newest: i64) -> Vec<i64> {
        let all = Box::new([FoundRange::new(Seq(1), Seq(newest))].into_iter());
        minus(all, ranges(unfinished))
            .flat_map(|range| (range.first.0..=range.last.0).rev())
            .collect()
    }

    #[test]
    fn what_is_done_lies_between_what_is_not() {
        assert_eq!(done(&[], 3), [3, 2, 1]);
        assert_eq!(done(&[(9, 8), (4, 4)], 9), [7, 6, 5, 3, 2, 1]);
        assert_eq!(
            done(&[(9, 9), (3, 4), (2, 1)], 9),
            [8, 7, 6, 5, 4, 3],
            "the place of nothing takes nothing away"
        );
        assert!(done(&[(9, 1)], 9).is_empty());
    }

    #[test]
    fn what_is_taken_away_may_reach_over_several_pieces() {
        let left = minus(
            ranges(&[(20, 16), (12, 10), (7, 5), (3, 3)]),
            ranges(&[(18, 11), (9, 9), (6, 1)]),
        );
        let left: Vec<i64> = left
            .flat_map(|range| (range.first.0..=range.last.0).rev())
            .collect();
        assert_eq!(left, [20, 19, 10, 7]);
    }
}
