//! The window of a job that is due once in a period moves: the period has one due time all the
//! same.

use super::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Once a day between these times. A world begins at 08:00.
fn daily(after: &str, before: &str) -> Arc<NewJob> {
    let rule = RuleText::OncePer {
        period: Period::Day,
        after: after.to_owned(),
        before: before.to_owned(),
    };
    of(settings(rule), [order(1)])
}

fn next_due(w: &World) -> Option<i64> {
    let (_, state) = &w.remembered.jobs.jobs[0];
    state.next_due.map(|due| (due.0 - BEGIN.0) / 1_000_000)
}

#[test]
fn a_day_that_has_had_its_run_has_no_other_in_a_later_window() {
    for (after, before) in [("10:00", "20:00"), ("08:30", "20:00"), ("19:00", "23:00")] {
        let mut w = World::new(5);
        w.create("a", daily("09:00", "20:00"));
        w.seconds(HOUR as f64);
        w.succeed_all();
        w.update("a", daily(after, before));
        w.update("a", daily("19:30", "23:00"));
        w.seconds(12.0 * HOUR as f64);
        assert_eq!(w.states(), [(HOUR, Succeeded)], "{after}");
        assert_eq!(next_due(&w), Some(DAY + 11 * HOUR + HOUR / 2), "{after}");
    }
}

#[test]
fn a_day_that_has_had_no_run_has_it_in_the_new_window() {
    for (after, before, due) in [
        ("09:00", "20:00", HOUR),
        ("11:00", "20:00", 3 * HOUR),
        // It has closed already.
        ("08:30", "09:30", DAY + HOUR / 2),
    ] {
        let mut w = World::new(5);
        w.create("a", daily("12:00", "20:00"));
        w.seconds(2.0 * HOUR as f64);
        w.update("a", daily(after, before));
        w.rebuild();
        w.seconds((DAY - HOUR - HOUR / 4) as f64);
        assert_eq!(w.states(), [(due, Running)], "{after}");
    }
}

#[test]
fn a_job_that_was_made_while_its_window_was_open_waits_for_one_that_opens() {
    for (after, due) in [("07:30", DAY - HOUR / 2), ("09:00", HOUR)] {
        let mut w = World::new(5);
        w.create("a", daily("07:00", "20:00"));
        w.seconds(60.0);
        w.update("a", daily(after, "20:00"));
        assert_eq!(next_due(&w), Some(due), "{after}");
    }
}

#[test]
fn another_rule_waits_for_no_window_that_was_passed_over() {
    let mut w = World::new(5);
    w.create("a", daily("09:00", "20:00"));
    w.seconds(HOUR as f64);
    w.succeed_all();
    w.update("a", daily("11:00", "20:00"));
    w.update("a", of(settings(every(600)), [order(1)]));
    assert_eq!(next_due(&w), Some(HOUR + 600));
}
