//! When windows open and close.

use super::*;

/// Opening and closing of windows from a moment on.
fn windows(settings: ScheduleSettings, from: &str, count: usize) -> Vec<(String, String)> {
    let schedule = checked(settings);
    let times = schedule.due_times(at(from)).take(count);
    let shown = |time: DueTime| {
        let closes = time.closes.expect("a window closes");
        (time.at.to_string(), closes.to_string())
    };
    times.map(shown).collect()
}

#[test]
fn a_window_opens_once_in_each_period_of_its_zone() {
    let berlin = "Europe/Berlin";
    let day = windows(window(Period::Day, "13:00", "23:00", berlin), SPRING, 2);
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        day,
        [
            pair("2027-03-13T12:00:00Z", "2027-03-13T22:00:00Z"),
            pair("2027-03-14T12:00:00Z", "2027-03-14T22:00:00Z")
        ]
    );
    let night = windows(window(Period::Day, "22:00", "02:00", "UTC"), SPRING, 1);
    assert_eq!(
        night,
        [pair("2027-03-13T22:00:00Z", "2027-03-14T02:00:00Z")]
    );
    let week = window(Period::Week, "MON 08:00", "fri 18:00", "UTC");
    let week = windows(week, SPRING, 1);
    assert_eq!(week, [pair("2027-03-15T08:00:00Z", "2027-03-19T18:00:00Z")]);
    let month = window(Period::Month, "31 00:00", "5 12:00", "UTC");
    let month = windows(month, "2027-02-01T00:00:00Z", 1);
    assert_eq!(
        month,
        [pair("2027-02-28T00:00:00Z", "2027-03-05T12:00:00Z")]
    );
    let whole = Window::parse(Period::Week, None, None).expect("a window");
    let whole = settings(Recurrence::OncePer(whole), berlin);
    let whole = windows(whole, SPRING, 1);
    assert_eq!(
        whole,
        [pair("2027-03-14T23:00:00Z", "2027-03-21T23:00:00Z")]
    );
}

#[test]
fn a_window_of_two_days_that_a_month_does_not_have_closes_with_the_month() {
    let month = window(Period::Month, "30 22:00", "31 06:00", "UTC");
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        windows(month, "2027-03-01T00:00:00Z", 2),
        [
            pair("2027-03-30T22:00:00Z", "2027-03-31T06:00:00Z"),
            pair("2027-04-30T22:00:00Z", "2027-05-01T00:00:00Z")
        ]
    );
}

#[test]
fn a_window_keeps_its_run_when_the_clocks_change() {
    let opens = |after, before, fold, from| {
        let settings = ScheduleSettings {
            dst_fold: fold,
            ..window(Period::Day, after, before, NEW_YORK)
        };
        windows(settings, from, 1).remove(0)
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    // It opens after the gap, and one that lies in the gap keeps its length.
    assert_eq!(
        opens("02:30", "04:00", None, SPRING),
        pair("2027-03-14T07:00:00Z", "2027-03-14T08:00:00Z")
    );
    assert_eq!(
        opens("02:10", "02:40", None, SPRING),
        pair("2027-03-14T07:00:00Z", "2027-03-14T07:30:00Z")
    );
    assert_eq!(
        opens("01:15", "01:45", None, AUTUMN),
        pair("2026-11-01T05:15:00Z", "2026-11-01T05:45:00Z")
    );
    assert_eq!(
        opens("01:15", "01:45", Some(DstFold::Second), AUTUMN),
        pair("2026-11-01T06:15:00Z", "2026-11-01T06:45:00Z")
    );
}

#[test]
fn a_point_that_does_not_fit_its_period_is_an_error() {
    for (period, text, fault) in [
        (Period::Day, "25:00", "like \"13:00\""),
        (Period::Day, "MON 13:00", "is not a time"),
        (Period::Day, "13:00:30", "like \"13:00\""),
        (Period::Week, "13:00", "a weekday and a time"),
        (Period::Week, "1 13:00", "like \"MON 13:00\""),
        (Period::Month, "0 13:00", "like \"15 13:00\""),
        (Period::Month, "32 13:00", "like \"15 13:00\""),
    ] {
        let faults = Window::parse(period, Some(text), Some(text)).expect_err(text);
        assert_eq!(faults.len(), 2, "{text}");
        let said = faults[0].to_string();
        assert!(
            said.starts_with("once_per.after") && said.contains(fault),
            "{said}"
        );
    }
}

#[test]
fn a_search_for_a_window_ends_though_every_date_is_excluded() {
    let first = "2026-01-01..9999-12-31".parse().expect("dates");
    let settings = ScheduleSettings {
        exclude: vec![first],
        ..window(Period::Day, "13:00", "14:00", "UTC")
    };
    let schedule = checked(settings);
    assert_eq!(schedule.next(at("2026-01-01T00:00:00Z")), None);
}

#[test]
fn each_due_time_is_in_a_period_of_its_own() {
    let start = at("2027-02-20T00:00:00Z");
    for (period, after, before) in [
        (Period::Day, "02:30", "02:45"),
        (Period::Week, "SUN 23:59", "MON 01:00"),
        (Period::Month, "31 00:00", "5 12:00"),
    ] {
        let mut settings = window(period, after, before, "Europe/Berlin");
        settings.exclude = vec!["03-29".parse().expect("a date")];
        let schedule = checked(settings);
        let times = schedule.due_times(start).take(60);
        let first_days: Vec<_> = times
            .map(|due| schedule.first_day_of_period(due.at))
            .collect();
        let rises = first_days.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(
            rises && first_days[0].is_some(),
            "{period:?}: {first_days:?}"
        );
    }
    let daily = checked(cron("0 0 * * *", "UTC"));
    assert_eq!(daily.first_day_of_period(start), None);
}
