//! When a job is due, day by day and minute by minute, for the few forms that are simulated: in
//! UTC, without a line of what ships.

use super::SECOND;
use rallypoint::core::{
    JobImage, Time,
    schedule::{Period, RuleText, ScheduleText},
};

const DAY: i64 = 86_400;
const MINUTE: i64 = 60;
/// Every rule here is due within so many days.
const DAYS: i64 = 70;

/// The first due time behind that time. A job that follows another one has none.
pub(super) fn after(job: &JobImage, time: Time) -> Time {
    let schedule = &job.settings.schedule;
    let limit = |text: &str, none: i64| match text.is_empty() {
        true => none,
        false => seconds(text),
    };
    let from = time.0.div_euclid(SECOND) + 1;
    let from = from.max(limit(&schedule.start, i64::MIN));
    let end = limit(&schedule.end, i64::MAX);
    let due = first(schedule, from).filter(|due| *due < end);
    due.map_or(Time::NEVER, |due| Time(due * SECOND))
}

/// Whether a job is due once in a period.
pub(super) fn has_windows(job: &JobImage) -> bool {
    period(job).is_some()
}

/// Whether both are due once in periods of the same kind.
pub(super) fn have_same_periods(one: &JobImage, other: &JobImage) -> bool {
    has_windows(one) && period(one) == period(other)
}

/// The first due time after a job has changed, which has had a rule of the kind before since then.
/// `last` has had its fate, whatever the definition was, and `next` was to come by the one before.
/// Where both have the same periods, one that has had its due time has no other.
pub(super) fn after_change(
    before: &JobImage,
    job: &JobImage,
    since: Time,
    (last, next): (Option<Time>, Time),
) -> Time {
    let changed_at = job.changed_at;
    if !have_same_periods(before, job) {
        return after(job, last.map_or(changed_at, |last| last.max(changed_at)));
    }
    let next = first_day(job, next);
    // If the same period has one to come, it had the last one by a rule of another kind.
    let had = last.and_then(|last| first_day(job, last));
    let had = had.filter(|had| next != Some(*had));
    let mut due = after(job, Time(changed_at.0 - DAYS * DAY * SECOND));
    while due != Time::NEVER {
        let period = first_day(job, due);
        let may_be_past = due >= since || period == next;
        let is_open = closes(job, due).is_some_and(|closes| closes > changed_at);
        let is_in_time = due > changed_at || (is_open && may_be_past);
        if Some(due) > last && period > had && is_in_time {
            break;
        }
        due = after(job, due);
    }
    due
}

/// The first day of the period that holds a due time; `None`: the job has no windows, or there is
/// no such time.
pub(super) fn first_day(job: &JobImage, due: Time) -> Option<i64> {
    let period = period(job).filter(|_| due != Time::NEVER)?;
    let day = due.0.div_euclid(DAY * SECOND);
    Some(match period {
        Period::Day => day,
        // From Monday on.
        Period::Week => day - (weekday(day) + 6).rem_euclid(7),
        Period::Month => day - of_month(day) + 1,
    })
}

fn period(job: &JobImage) -> Option<Period> {
    match job.settings.schedule.rule {
        RuleText::OncePer { period, .. } => Some(period),
        _ => None,
    }
}

/// When the window of a due time closes, if the job has windows.
pub(super) fn closes(job: &JobImage, due: Time) -> Option<Time> {
    let RuleText::OncePer { period, before, .. } = &job.settings.schedule.rule else {
        return None;
    };
    // Without a point it closes with its period, as the next one begins.
    let (day, minute) = point(*period, before);
    let later = due.0 / SECOND + 1;
    let days = later.div_euclid(DAY)..later.div_euclid(DAY) + DAYS;
    let mut ends = days
        .filter(|at| is_of(*period, day, *at))
        .map(|at| at * DAY + minute * MINUTE);
    let end = ends.find(|end| *end >= later).expect("each period ends");
    Some(Time(end * SECOND))
}

/// The first due time from then on, by the rule and the dates on which nothing is due.
fn first(schedule: &ScheduleText, from: i64) -> Option<i64> {
    let mut days = from.div_euclid(DAY)..from.div_euclid(DAY) + DAYS;
    days.find_map(|day| {
        let from = from.max(day * DAY);
        let due = match &schedule.rule {
            RuleText::Interval { every, phase } => {
                let (every, phase) = (every.as_secs() as i64, phase.as_secs() as i64);
                Some(from + (phase - from).rem_euclid(every)).filter(|at| *at < (day + 1) * DAY)
            }
            rule => {
                let minutes = minutes(rule, day).into_iter();
                let mut times = minutes.map(|minute| day * DAY + minute * MINUTE);
                times.find(|at| *at >= from)
            }
        };
        due.filter(|_| !is_excluded(schedule, day))
    })
}

/// The minutes of a day at which a rule is due.
fn minutes(rule: &RuleText, day: i64) -> Vec<i64> {
    match rule {
        RuleText::Cron(text) => {
            let fields: Vec<&str> = text.split(' ').collect();
            let is_day = holds(fields[2], of_month(day)) && holds(fields[4], weekday(day));
            let all =
                (0..24 * 60).filter(|at| holds(fields[1], at / 60) && holds(fields[0], at % 60));
            all.filter(|_| is_day).collect()
        }
        RuleText::OncePer { period, after, .. } => {
            let (of, minute) = point(*period, after);
            let opens = is_of(*period, of, day);
            opens.then_some(minute).into_iter().collect()
        }
        RuleText::Interval { .. } | RuleText::After(_) => Vec::new(),
    }
}

/// Whether a field of cron names this number.
fn holds(field: &str, number: i64) -> bool {
    let of = |text: &str| text.parse::<i64>().expect("a number");
    match field.split_once('/') {
        Some((_, step)) => number % of(step) == 0,
        None => field == "*" || field.split(',').any(|one| of(one) == number),
    }
}

/// A point of a period: its day, and the minute of that. Without a text it is the first one.
fn point(period: Period, text: &str) -> (i64, i64) {
    let (day, time) = match (period, text.split_once(' ')) {
        (Period::Week, None) => (1, text),
        (Period::Week, Some(("FRI", time))) => (5, time),
        (Period::Day | Period::Month, None) => (1, text),
        (Period::Month, Some((day, time))) => (day.parse().expect("a number"), time),
        (_, Some(_)) => panic!("no window here has the point {text}"),
    };
    let minute = time.rsplit(':').next().filter(|minute| !minute.is_empty());
    assert!(time.is_empty() || time.starts_with("00:"), "{text}");
    (
        day,
        minute.map_or(0, |minute| minute.parse().expect("a number")),
    )
}

fn is_of(period: Period, of: i64, day: i64) -> bool {
    match period {
        Period::Day => true,
        Period::Week => weekday(day) == of,
        Period::Month => of_month(day) == of,
    }
}

fn is_excluded(schedule: &ScheduleText, day: i64) -> bool {
    let is_it = |excluded: &String| date(day).ends_with(&excluded[..]);
    !schedule.exclude.is_empty() && schedule.exclude.iter().any(is_it)
}

/// From Sunday on. The first day of all was a Thursday.
fn weekday(day: i64) -> i64 {
    (day + 4).rem_euclid(7)
}

fn of_month(day: i64) -> i64 {
    date(day)[8..].parse().expect("a number")
}

fn date(day: i64) -> String {
    let midnight = jiff::Timestamp::from_second(day * DAY).expect("a time");
    midnight.to_string()[..10].to_owned()
}

fn seconds(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().expect("a time").as_second()
}
