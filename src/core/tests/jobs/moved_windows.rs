//! The window of a job that is due once in a period moves: the period has one due time all the
//! same.

use super::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Once a day between these times. A world begins at 08:00.
fn daily(after: &str, before: &str) -> Arc<NewJob> {
    daily_but(after, before, |_| ())
}

fn daily_but(after: &str, before: &str, set: impl FnOnce(&mut ScheduleText)) -> Arc<NewJob> {
    let mut settings = settings(RuleText::OncePer {
        period: Period::Day,
        after: after.to_owned(),
        before: before.to_owned(),
    });
    set(&mut settings.schedule);
    of(settings, [order(1)])
}

fn next_due(w: &World) -> Option<i64> {
    let (_, state) = &w.remembered.jobs.jobs[0];
    state.next_due.map(|due| (due.0 - BEGIN.0) / 1_000_000)
}

/// As if a program of before had written the row of the job.
fn forget_last_due(w: &mut World) -> Option<Time> {
    let (_, state) = &mut w.remembered.jobs.jobs[0];
    state.last_due.take()
}

#[test]
fn a_day_that_has_had_its_run_has_no_other_in_a_later_window() {
    for (after, before) in [
        ("10:00", "20:00"),
        ("08:30", "20:00"),
        // Before there was the job.
        ("07:30", "20:00"),
        ("19:00", "23:00"),
    ] {
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
    // And the other way round: what was due by that rule does not count.
    w.seconds(600.0);
    w.succeed_all();
    for (after, due) in [("12:00", 4 * HOUR), ("13:00", 5 * HOUR)] {
        w.update("a", daily(after, "20:00"));
        assert_eq!(next_due(&w), Some(due), "{after}");
    }
}

#[test]
fn a_window_at_the_same_moment_in_another_time_zone_is_the_same() {
    // In one the next day has begun at 23:30 of the other.
    let utc = || daily("23:30", "");
    let ahead = || daily_but("00:30", "", |text| text.time_zone = "Etc/GMT-1".to_owned());
    let opens = 15 * HOUR + HOUR / 2;
    for (before, after) in [(utc(), ahead()), (ahead(), utc())] {
        let mut w = World::new(5);
        w.create("a", before);
        w.seconds(16.0 * HOUR as f64);
        w.succeed_all();
        w.seconds(10.0 * HOUR as f64);
        w.update("a", after);
        w.seconds(60.0);
        assert_eq!(w.states(), [(opens, Succeeded)]);
        assert_eq!(next_due(&w), Some(DAY + opens));
    }
}

#[test]
fn a_window_that_is_put_right_before_it_opens_costs_no_run() {
    let mut w = World::new(5);
    w.create("a", daily("12:00", "20:00"));
    w.seconds(2.0 * HOUR as f64);
    w.update("a", daily("08:30", "09:00"));
    assert_eq!(next_due(&w), Some(DAY + HOUR / 2));
    w.update("a", daily("12:00", "20:00"));
    assert_eq!(next_due(&w), Some(4 * HOUR));
}

#[test]
fn a_day_that_was_left_out_after_its_run_has_no_other() {
    let mut w = World::new(5);
    w.create("a", daily("09:00", "20:00"));
    w.seconds(HOUR as f64);
    w.succeed_all();
    let today = jiff::Timestamp::from_microsecond(BEGIN.0).expect("a time");
    let today = today.to_string()[..10].to_owned();
    let left_out = daily_but("09:00", "20:00", |text| text.exclude.push(today));
    w.update("a", left_out);
    w.update("a", daily("19:30", "23:00"));
    assert_eq!(next_due(&w), Some(DAY + 11 * HOUR + HOUR / 2));
}

#[test]
fn a_job_made_before_its_window_has_its_first_day_in_one_that_opened_earlier() {
    let mut w = World::new(5);
    w.create("a", daily("12:00", "20:00"));
    w.seconds(60.0);
    w.update("a", daily("07:00", "20:00"));
    w.seconds(60.0);
    assert_eq!(w.states(), [(-HOUR, Running)]);
    assert_eq!(next_due(&w), Some(DAY - HOUR));
}

#[test]
fn a_due_time_that_was_served_is_not_repeated_by_another_rule_when_the_clock_is_set_back() {
    let mut w = World::new(5);
    w.create("a", daily("09:00", "20:00"));
    w.seconds(HOUR as f64);
    w.succeed_all();
    w.crash_and_set_back(Duration::from_secs(150));
    let cron = RuleText::Cron("0 9 * * *".to_owned());
    w.update("a", of(settings(cron), [order(1)]));
    assert_eq!(next_due(&w), Some(DAY + HOUR));
}

#[test]
fn a_run_that_a_program_of_before_has_not_remembered_counts() {
    let mut w = World::new(5);
    w.create("a", daily("09:00", "20:00"));
    w.seconds(HOUR as f64);
    w.succeed_all();
    let had = BEGIN + Duration::from_secs(HOUR as u64);
    assert_eq!(forget_last_due(&mut w), Some(had));
    w.rebuild();
    w.update("a", daily("19:30", "23:00"));
    assert_eq!(next_due(&w), Some(DAY + 11 * HOUR + HOUR / 2));
}

#[test]
fn a_window_that_a_program_of_before_has_passed_over_holds_no_other_rule_back() {
    let mut w = World::new(5);
    w.create("a", daily("09:00", "20:00"));
    w.seconds(HOUR as f64);
    w.succeed_all();
    w.update("a", daily("11:00", "20:00"));
    forget_last_due(&mut w);
    w.crash_and_set_back(Duration::ZERO);
    w.update("a", of(settings(every(600)), [order(1)]));
    assert_eq!(next_due(&w), Some(HOUR + 600));
}

#[test]
fn a_day_of_which_the_due_time_was_backfilled_has_no_other() {
    let mut w = World::new(5);
    w.create("a", daily("12:00", "20:00"));
    w.seconds(2.0 * HOUR as f64);
    w.update("a", daily("08:30", "09:00"));
    let opened = HOUR / 2;
    assert_eq!(w.backfill(&[opened as u64]), [opened as u64]);
    w.update("a", daily("09:00", "20:00"));
    w.seconds(60.0);
    assert_eq!(w.states(), [(opened, Running)]);
    assert_eq!(next_due(&w), Some(DAY + HOUR));
}

#[test]
fn a_window_from_before_the_rule_was_one_of_days_does_not_open() {
    let monthly = RuleText::Cron("0 0 1 * *".to_owned());
    let weekly = RuleText::OncePer {
        period: Period::Week,
        after: "SUN 07:00".to_owned(),
        before: String::new(),
    };
    for rule in [monthly, every(7 * DAY as u64), weekly] {
        let mut w = World::new(5);
        w.create("a", of(settings(rule.clone()), [order(1)]));
        w.seconds(2.0 * HOUR as f64);
        w.update("a", daily("08:30", "20:00"));
        assert_eq!(next_due(&w), Some(DAY + HOUR / 2), "{rule:?}");
        w.rebuild();
        w.update("a", daily("09:00", "20:00"));
        w.seconds(60.0);
        assert_eq!(w.states(), [], "{rule:?}");
        // As of a job that was made then.
        w.update("a", daily("11:00", "20:00"));
        assert_eq!(next_due(&w), Some(3 * HOUR), "{rule:?}");
        w.update("a", daily("10:00", "20:00"));
        w.seconds(60.0);
        assert_eq!(w.states(), [(2 * HOUR, Running)], "{rule:?}");
    }
}
