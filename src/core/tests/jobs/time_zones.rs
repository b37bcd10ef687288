//! Another release of the time zones moves due times: none of them is lost, and none comes twice.

use super::*;

const HOUR: i64 = 3600;

/// A job that is due at 12:00 each day, while the release of before had it due so much later. The
/// world begins at 08:00.
fn moved_by(seconds: i64) -> World {
    let mut w = World::new(5);
    let rule = RuleText::Cron("0 12 * * *".to_owned());
    w.create("a", of(settings(rule), [order(1)]));
    let known = w.remembered.jobs.jobs.first_mut();
    let (_, state) = known.expect("it is remembered");
    let due = state.next_due.expect("it is due");
    assert_eq!(due, BEGIN + Duration::from_secs(4 * HOUR as u64));
    state.next_due = Some(Time(due.0 + seconds * 1_000_000));
    state.time_zones = "another".into();
    w
}

/// The replica of the new release takes over after so many hours.
fn taken_over_at(w: &mut World, hours: i64) {
    w.now = w.now + Duration::from_secs((hours * HOUR) as u64);
    w.take_over_with_changes();
    w.seconds(0.0);
}

fn days_on(w: &mut World) -> Vec<i64> {
    w.seconds(5.0 * HOUR as f64);
    w.succeed_all();
    w.seconds(24.0 * HOUR as f64);
    w.succeed_all();
    let ran = w.states().into_iter();
    let ran = ran.inspect(|(_, state)| assert_eq!(*state, Succeeded));
    ran.map(|(due, _)| due / HOUR).collect()
}

#[test]
fn what_is_due_earlier_by_the_new_release_runs_at_its_new_time() {
    let mut w = moved_by(HOUR);
    taken_over_at(&mut w, 1);
    assert_eq!(days_on(&mut w), [4, 28]);
}

#[test]
fn what_is_due_later_by_the_new_release_runs_at_its_new_time() {
    let mut w = moved_by(-HOUR);
    taken_over_at(&mut w, 1);
    assert_eq!(days_on(&mut w), [4, 28]);
}

#[test]
fn what_had_passed_by_the_new_release_only_runs_when_it_was_promised() {
    for took_over_before in [true, false] {
        let mut w = moved_by(2 * HOUR);
        match took_over_before {
            // Between the new time and the old one.
            true => taken_over_at(&mut w, 5),
            false => taken_over_at(&mut w, 6),
        }
        assert_eq!(days_on(&mut w), [6, 28], "{took_over_before}");
    }
}

#[test]
fn what_has_run_by_the_release_of_before_does_not_run_again() {
    // It has run at 11:00, and was due at 11:00 tomorrow.
    let mut w = moved_by(23 * HOUR);
    taken_over_at(&mut w, 3);
    assert_eq!(days_on(&mut w), [28]);
}

#[test]
fn a_crash_after_the_change_makes_no_difference() {
    let mut w = moved_by(2 * HOUR);
    taken_over_at(&mut w, 5);
    taken_over_at(&mut w, 0);
    assert_eq!(days_on(&mut w), [6, 28]);
}
