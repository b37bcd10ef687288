//! Due times against an independent expansion: minute by minute, in Python, with its own reader of
//! cron and the time zones of the same release. The short version runs with all tests, the whole
//! with `make calendar`.

mod cases;
mod oracle;

use cases::{WINDOWS, ZONES, expressions};
use jiff::{Timestamp, civil::date, tz::TimeZone};
use oracle::{Digest, Oracle, Request};
use rallypoint::core::schedule::{
    DstFold, DstGap, Period, Recurrence, Schedule, ScheduleSettings, TimeZones, Window,
};

#[test]
fn due_times_are_those_of_an_expansion_minute_by_minute() {
    let crons = expressions(80);
    let sparse: Vec<String> = crons
        .into_iter()
        .filter(|text| text != "* * * * *")
        .collect();
    compare(&ZONES[..4], (2026, 2026), &sparse);
}

#[test]
#[ignore = "minutes: `make calendar`"]
fn due_times_of_30_zones_in_5_years_are_those_of_an_expansion_minute_by_minute() {
    let compared = compare(&ZONES, (2024, 2028), &expressions(200));
    println!("{compared}");
}

/// What is made of local times that are left out or come twice: mostly the defaults.
const CHOICES: [(Option<&str>, Option<&str>); 9] = [
    (None, None),
    (Some("NEXT_VALID"), Some("FIRST")),
    (None, None),
    (Some("SKIP"), Some("SECOND")),
    (None, Some("BOTH")),
    (Some("SKIP"), Some("FIRST")),
    (None, None),
    (Some("NEXT_VALID"), Some("SECOND")),
    (Some("SKIP"), Some("BOTH")),
];

/// Fails at the first difference; says how much was compared.
fn compare(zones: &[&str], years: (i16, i16), crons: &[String]) -> String {
    let release = TimeZones::bundled().release();
    let mut oracle = Oracle::start(release);
    let (mut schedules, mut times) = (0, 0);
    for (index, zone) in zones.iter().enumerate() {
        let choice = |place: usize| CHOICES[(index + place) % CHOICES.len()];
        let request = Request {
            zone,
            years,
            crons: (crons.iter().enumerate())
                .map(|(place, text)| (text.as_str(), choice(place).0, choice(place).1))
                .collect(),
            windows: (WINDOWS.iter().enumerate())
                .map(|(place, [period, opens, closes])| {
                    let fold = ["FIRST", "SECOND"][(index + place) % 2];
                    (*period, *opens, *closes, fold)
                })
                .collect(),
        };
        oracle.ask(&request);
        let ours = expand(&request);
        let theirs = oracle.digests();
        assert_eq!(ours.len(), theirs.len());
        for (place, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            if Digest::of(ours) != theirs {
                differs(&mut oracle, &request, place, ours);
            }
            (schedules, times) = (schedules + 1, times + ours.len());
        }
        println!("{zone}: {schedules} schedules, {times} moments so far");
    }
    let (zones, (first, last)) = (zones.len(), years);
    format!(
        "release {release}: {zones} zones, {first} to {last}, {} expressions and {} windows: \
         {schedules} schedules with {times} moments, no difference",
        crons.len(),
        WINDOWS.len()
    )
}

/// The minutes at which each expression, then each window of a request is due.
fn expand(request: &Request<'_>) -> Vec<Vec<i64>> {
    let crons = request.crons.iter().map(|(text, gap, fold)| {
        let rule = Recurrence::Cron(text.parse().expect(text));
        let settings = ScheduleSettings {
            dst_gap: gap.map(gap_named),
            dst_fold: fold.map(fold_named),
            ..ScheduleSettings::of(rule)
        };
        minutes(settings, request)
    });
    let windows = request.windows.iter().map(|(period, opens, closes, fold)| {
        let period = match *period {
            "DAY" => Period::Day,
            "WEEK" => Period::Week,
            _ => Period::Month,
        };
        let window = Window::parse(period, Some(opens), Some(closes)).expect("a window");
        let settings = ScheduleSettings {
            dst_fold: Some(fold_named(fold)),
            ..ScheduleSettings::of(Recurrence::OncePer(window))
        };
        minutes(settings, request)
    });
    crons.chain(windows).collect()
}

/// When a schedule is due, with when its windows close.
fn minutes(settings: ScheduleSettings, request: &Request<'_>) -> Vec<i64> {
    let settings = ScheduleSettings {
        time_zone: request.zone.to_owned(),
        ..settings
    };
    let schedule: Schedule = settings.check(&TimeZones::bundled()).expect("it is good");
    let (from, before) = (start_of(request.years.0), start_of(request.years.1 + 1));
    let times = schedule.due_times(from).take_while(|time| time.at < before);
    let mut minutes = Vec::new();
    let mut last = Timestamp::MIN;
    for time in times.filter(|time| time.is_due()) {
        assert!(time.at > last, "{} comes after {last}", time.at);
        last = time.at;
        let moments = [Some(time.at), time.closes].into_iter().flatten();
        minutes.extend(moments.map(|moment| moment.as_second() / 60));
    }
    minutes
}

fn start_of(year: i16) -> Timestamp {
    let start = date(year, 1, 1).to_zoned(TimeZone::UTC);
    start.expect("a date").timestamp()
}

fn gap_named(name: &str) -> DstGap {
    match name {
        "SKIP" => DstGap::Skip,
        _ => DstGap::NextValid,
    }
}

fn fold_named(name: &str) -> DstFold {
    match name {
        "FIRST" => DstFold::First,
        "SECOND" => DstFold::Second,
        _ => DstFold::Both,
    }
}

/// Says which minute only one of both has.
fn differs(oracle: &mut Oracle, request: &Request<'_>, place: usize, ours: &[i64]) -> ! {
    let cron = request.crons.get(place);
    let window = place.checked_sub(request.crons.len());
    let window = window.and_then(|place| request.windows.get(place));
    let only = Request {
        crons: cron.copied().into_iter().collect(),
        windows: window.copied().into_iter().collect(),
        ..*request
    };
    let theirs = oracle.minutes(&only);
    let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
    let shown = |minutes: &[i64]| {
        let minute = minutes.get(same)?;
        Timestamp::from_second(minute * 60).ok()
    };
    panic!(
        "{} {cron:?}{window:?}: number {same} is {:?} here and {:?} in Python",
        request.zone,
        shown(ours),
        shown(&theirs)
    );
}
