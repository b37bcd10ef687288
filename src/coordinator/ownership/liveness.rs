//! Who is there: runs whose heartbeats are seen to go on.
//!
//! The time in a row is that of a clock that may jump, so it says how long ago a heartbeat was only
//! at first sight. From then on a run is there while that time changes, as often as this process
//! measures by its own monotonic clock. Pure: it is told what each poll has read and when.

use crate::journal::{HeartbeatReading, Member, Membership, SeenRun};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// What this process has seen of the others.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// How long a run counts as there after a heartbeat.
    lease: Duration,
    runs: BTreeMap<Uuid, Observed>,
}

#[derive(Debug)]
struct Observed {
    run: SeenRun,
    /// When its last heartbeat was, at the latest.
    heartbeat: Instant,
    /// It has had a heartbeat between the last two polls: it is not a row that a process left.
    goes_on: bool,
}

impl Liveness {
    pub(crate) fn new(lease: Duration) -> Liveness {
        Liveness {
            lease,
            runs: BTreeMap::new(),
        }
    }

    /// Takes in what a poll that was sent `at` has read, and says who is there.
    pub(crate) fn observe(&mut self, at: Instant, reading: &HeartbeatReading) -> Membership {
        // Of a clock that has gone back the rows of the dead tell the future: they are kept in mind
        // as long as they are read, or they would be seen for the first time again and again.
        let is_read = |id: &Uuid| reading.seen.iter().any(|run| run.member.id == *id);
        let lease = self.lease;
        let is_there = |one: &Observed| at.duration_since(one.heartbeat) < lease;
        self.runs.retain(|id, one| is_there(one) || is_read(id));
        for run in &reading.seen {
            let (heartbeat, goes_on) = match self.runs.get_mut(&run.member.id) {
                Some(known) if known.run.seen_at == run.seen_at => {
                    known.goes_on = false;
                    continue;
                }
                Some(_) => (at, true),
                None => {
                    let age = reading.now.since(run.seen_at);
                    (at.checked_sub(age).unwrap_or(at), false)
                }
            };
            let observed = Observed {
                run: run.clone(),
                heartbeat,
                goes_on,
            };
            self.runs.insert(run.member.id, observed);
        }
        let mut there: Vec<&SeenRun> = self
            .runs
            .values()
            .filter(|one| is_there(one))
            .map(|one| &one.run)
            .collect();
        there.sort_by_key(|run| Reverse((run.started_at, run.member.id)));
        let members: Vec<Member> = there.into_iter().map(|run| run.member.clone()).collect();
        Membership {
            epoch: reading.epoch,
            owner: reading.owner,
            members,
        }
    }

    /// An older process of the same name as `me` that goes on, and is not about to end.
    pub(crate) fn namesake(&self, me: Uuid) -> Option<&Member> {
        let own = &self.runs.get(&me)?.run;
        let is_older = |run: &SeenRun| (run.started_at, run.member.id) < (own.started_at, me);
        let mut going_on = self.runs.values().filter(|one| one.goes_on);
        let found = going_on.find(|Observed { run, .. }| {
            run.member.name == own.member.name && !run.member.stopping && is_older(run)
        });
        found.map(|one| &one.run.member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Epoch, Time};

    const LEASE: Duration = Duration::from_secs(5);
    const DAY: i64 = 24 * 3600;

    /// A process that polls, and a clock of the database that may be set.
    struct Observer {
        start: Instant,
        liveness: Liveness,
        /// Time of the database at the start, in seconds.
        base: i64,
    }

    impl Observer {
        fn new() -> Observer {
            Observer {
                start: Instant::now(),
                liveness: Liveness::new(LEASE),
                base: 100 * DAY,
            }
        }

        /// Polls after so many seconds and reads of these runs, each with the time of its last
        /// heartbeat; returns who is there.
        fn polls(&mut self, after: u64, rows: &[(u128, i64)]) -> Vec<u128> {
            let now = Time((self.base + after as i64) * 1_000_000);
            let run = |(id, seen): &(u128, i64)| SeenRun {
                member: Member {
                    id: Uuid::from_u128(*id),
                    name: "one".into(),
                    address: None,
                    stopping: false,
                },
                started_at: Time(*id as i64),
                seen_at: Time(seen * 1_000_000),
            };
            // As the statement does.
            let fresh = |run: &SeenRun| run.seen_at + LEASE > now;
            let reading = HeartbeatReading {
                now,
                lease_until: None,
                owned_until: None,
                handover_to: None,
                epoch: Epoch(1),
                heard: Epoch(1),
                owner: None,
                seen: rows.iter().map(run).filter(fresh).collect(),
            };
            let at = self.start + Duration::from_secs(after);
            let members = self.liveness.observe(at, &reading).members;
            members.iter().map(|member| member.id.as_u128()).collect()
        }
    }

    #[test]
    fn a_run_is_there_until_a_lease_after_its_last_heartbeat_the_youngest_first() {
        let mut observer = Observer::new();
        let base = observer.base;
        assert_eq!(observer.polls(0, &[(1, base), (2, base)]), [2, 1]);
        assert_eq!(observer.polls(4, &[(1, base + 3), (2, base)]), [2, 1]);
        assert_eq!(observer.polls(6, &[(1, base + 5), (2, base)]), [1]);
        assert_eq!(observer.polls(7, &[(1, base + 5), (2, base + 7)]), [2, 1]);
    }

    #[test]
    fn a_step_back_of_the_clock_does_not_keep_the_dead_alive() {
        let mut observer = Observer::new();
        let died = observer.base;
        assert_eq!(observer.polls(0, &[(1, died), (2, died)]), [2, 1]);
        observer.base -= DAY;
        for after in 1..20 {
            let there = observer.polls(after, &[(1, observer.base + after as i64), (2, died)]);
            let expected: &[u128] = if after < 5 { &[2, 1] } else { &[1] };
            assert_eq!(there, expected, "after {after} s");
        }
    }

    #[test]
    fn who_first_looks_after_the_step_back_believes_a_dead_row_for_a_lease_only() {
        let mut observer = Observer::new();
        let died = observer.base + DAY;
        for after in 0..20 {
            let there = observer.polls(after, &[(2, died)]);
            assert_eq!(there.is_empty(), after >= 5, "after {after} s");
        }
    }

    #[test]
    fn a_younger_process_learns_of_one_of_its_name_that_goes_on_and_of_no_other() {
        let mut observer = Observer::new();
        let base = observer.base;
        let namesake = |observer: &Observer, me| {
            let found = observer.liveness.namesake(Uuid::from_u128(me));
            found.map(|member| member.id.as_u128())
        };
        observer.polls(0, &[(1, base), (2, base)]);
        assert_eq!(namesake(&observer, 2), None, "it may have ended");
        observer.polls(1, &[(1, base), (2, base + 1)]);
        assert_eq!(namesake(&observer, 2), None);
        observer.polls(2, &[(1, base + 2), (2, base + 2)]);
        assert_eq!(namesake(&observer, 2), Some(1));
        assert_eq!(namesake(&observer, 1), None, "the younger one is told");
        observer.polls(3, &[(1, base + 2), (2, base + 3)]);
        assert_eq!(namesake(&observer, 2), None);
    }

    #[test]
    fn a_step_forward_lets_nobody_disappear_who_goes_on() {
        let mut observer = Observer::new();
        let base = observer.base;
        assert_eq!(observer.polls(0, &[(1, base)]), [1]);
        observer.base += DAY;
        assert_eq!(
            observer.polls(1, &[(1, base)]),
            [1],
            "its heartbeat comes yet"
        );
        assert_eq!(observer.polls(2, &[(1, observer.base + 1)]), [1]);
    }
}
