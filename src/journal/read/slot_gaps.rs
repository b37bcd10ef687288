//! How long a slot takes from one task to the next. Only where the next one could have begun at
//! once: what a slot is free because there is nothing to do says nothing of the slot.

use crate::core::Work;
use std::time::Duration;

/// A longer gap is not the slot's own, but a wait for a turn, a resource or a host: it counts as
/// much.
const LONGEST_US: i64 = 50_000;

/// Where and when one task ran, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Stay {
    pub work: Work,
    pub slot: i32,
    pub submitted: i64,
    pub started: i64,
    pub ended: i64,
}

/// For each of them how long its slot was free before it, if it was already waiting when the one
/// before it ended, whoever's that was. Slots of other replicas have the same numbers: what
/// overlaps was not in the same one.
pub(super) fn slot_gaps(stays: &[Stay]) -> Vec<Option<Duration>> {
    let mut by_slot: Vec<usize> = (0..stays.len()).filter(|at| stays[*at].slot > 0).collect();
    by_slot.sort_by_key(|at| {
        let stay = &stays[*at];
        (&stay.work, stay.slot, stay.started)
    });
    let mut gaps = vec![None; stays.len()];
    for pair in by_slot.windows(2) {
        let (before, after) = (&stays[pair[0]], &stays[pair[1]]);
        let same_slot = before.work == after.work && before.slot == after.slot;
        if same_slot && before.ended <= after.started && after.submitted < before.ended {
            let gap = (after.started - before.ended).min(LONGEST_US);
            gaps[pair[1]] = Some(Duration::from_micros(gap as u64));
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(slot: i32, submitted: i64, started: i64, ended: i64) -> Stay {
        let target = "app".into();
        Stay {
            work: Work::Sql { target },
            slot,
            submitted,
            started,
            ended,
        }
    }

    fn micros(gaps: Vec<Option<Duration>>) -> Vec<Option<u128>> {
        let micros = gaps.into_iter().map(|gap| gap.map(|gap| gap.as_micros()));
        micros.collect()
    }

    #[test]
    fn a_backlog_has_the_gaps_between_its_tasks() {
        let stays = [
            stay(1, 0, 1_000, 5_000),
            stay(2, 0, 1_000, 4_000),
            stay(1, 0, 5_300, 9_000),
            stay(2, 0, 4_200, 8_000),
        ];
        assert_eq!(
            micros(slot_gaps(&stays)),
            [None, None, Some(300), Some(200)]
        );
    }

    #[test]
    fn the_time_in_which_a_sporadic_scheduler_has_nothing_to_do_is_no_gap() {
        let second = 1_000_000;
        let sporadic = |at: i64| {
            stay(
                1,
                at * 10 * second,
                at * 10 * second + 700,
                at * 10 * second + 9_000,
            )
        };
        let stays: Vec<Stay> = (0..20).map(sporadic).collect();
        assert!(slot_gaps(&stays).iter().all(Option::is_none));
    }

    #[test]
    fn of_schedulers_that_take_turns_in_a_slot_none_has_the_others_time_as_a_gap() {
        let turn = |at: i64| stay(1, 0, at * 1_000_000, at * 1_000_000 + 999_600);
        // Those of one scheduler are read before those of the other one.
        let stays: Vec<Stay> = (0..20)
            .step_by(2)
            .chain((1..20).step_by(2))
            .map(turn)
            .collect();
        let gaps = micros(slot_gaps(&stays));
        assert_eq!(gaps.iter().flatten().count(), 19);
        assert!(gaps.iter().flatten().all(|gap| *gap == 400), "{gaps:?}");
    }

    #[test]
    fn a_long_wait_for_a_turn_counts_as_fifty_milliseconds_at_most() {
        let stays = [stay(1, 0, 0, 1_000), stay(1, 0, 8_000_000, 9_000_000)];
        assert_eq!(micros(slot_gaps(&stays)), [None, Some(50_000)]);
    }

    #[test]
    fn what_overlaps_or_ran_for_another_target_was_not_in_the_same_slot() {
        let mut elsewhere = stay(1, 0, 6_000, 7_000);
        elsewhere.work = Work::Sql {
            target: "other".into(),
        };
        let stays = [stay(1, 0, 0, 5_000), stay(1, 0, 4_000, 8_000), elsewhere];
        assert!(slot_gaps(&stays).iter().all(Option::is_none));
    }
}
