//! Schedules that make no sense, and what is said of them.

use super::*;

#[test]
fn a_moment_or_a_date_that_says_too_much_or_too_little_is_an_error() {
    for text in [
        "",
        "tomorrow",
        "2026-12-01T08:00[Europe/Berlin]",
        "2026-02-30",
        "08:00",
    ] {
        assert!(text.parse::<Moment>().is_err(), "{text}");
    }
    for text in [
        "",
        "2026-12-24T12:00",
        "2026-12-24..",
        "02-30",
        "2026-12-25..2026-12-24",
    ] {
        assert!(text.parse::<Exclusion>().is_err(), "{text}");
    }
    let absolute = "2026-12-01T08:00:00+01:00".parse::<Moment>();
    assert_eq!(absolute, Ok(Moment::Absolute(at("2026-12-01T07:00:00Z"))));
}

#[test]
fn a_schedule_that_can_never_be_due_is_an_error() {
    let moment = |text: &str| Some(text.parse().expect("a moment"));
    let leap = cron("0 0 29 2 *", "UTC");
    let between = ScheduleSettings {
        start: moment("2025-01-01"),
        end: moment("2027-01-01"),
        ..leap.clone()
    };
    assert!(said(between).contains("end: never fires: nothing is due between"));
    let excluded = ScheduleSettings {
        exclude: vec![Exclusion::Yearly(2, 29)],
        ..leap.clone()
    };
    assert!(said(excluded).contains("exclude: never fires: every due time is excluded"));
    let backwards = ScheduleSettings {
        start: moment("2027-01-01"),
        end: moment("2027-01-01"),
        ..leap
    };
    assert!(said(backwards).contains("end: must be later than `start`"));
}

#[test]
fn a_setting_without_effect_is_an_error_and_all_are_said_at_once() {
    let both = (Some(DstGap::Skip), Some(DstFold::Both));
    let with = |settings| ScheduleSettings {
        dst_gap: both.0,
        dst_fold: both.1,
        jitter: Duration::from_secs(86_401),
        time_zone: "Europe/Berlni".to_owned(),
        ..settings
    };
    let of_interval = said(with(settings(interval(60, 0), "UTC")));
    for fault in [
        "jitter: must be at most",
        "dst_gap: an interval counts",
        "dst_fold: an interval counts",
        "time_zone: no time zone is called `Europe/Berlni`: did you mean `Europe/Berlin`?",
    ] {
        assert!(of_interval.contains(fault), "{of_interval}");
    }
    let of_window = said(with(window(Period::Day, "13:00", "14:00", "UTC")));
    assert!(
        of_window.contains("dst_gap: once per period"),
        "{of_window}"
    );
    let follows = said(with(settings(Recurrence::After("load".into()), "UTC")));
    assert!(follows.contains("jitter: a job that follows"), "{follows}");
    for zone in ["", "../../etc/passwd", "Mars/Olympus"] {
        assert!(said(cron("@daily", zone)).contains("time_zone: no time zone is called"));
    }
}
