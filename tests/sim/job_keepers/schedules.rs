//! When the jobs of the keepers are due: by every rule that a job can have, some with jitter, a
//! start, an end, or a date on which nothing is due. Scenarios begin around midnight, so what is
//! due once a day, a week or a month is due in many of them.

use super::NAMES;
use crate::rng::Rng;
use rallypoint::core::{
    Time,
    schedule::{Period, RuleText, ScheduleText},
};
use std::time::Duration;

const SECOND: i64 = 1_000_000;

pub(super) fn schedule(rng: &mut Rng, now: Time) -> ScheduleText {
    let rule = match rng.below(10) {
        0..=1 => return text(RuleText::After((*rng.one_of(&NAMES)).to_owned())),
        2..=5 => interval(rng),
        6..=7 => RuleText::Cron(cron(rng)),
        _ => once_per(rng),
    };
    let longest = match &rule {
        RuleText::Interval { every, .. } => *every / 2,
        _ => Duration::from_secs(20),
    };
    let mut schedule = text(rule);
    if rng.percent(30) {
        schedule.jitter = longest;
    }
    match rng.below(20) {
        0..=1 => schedule.start = moment(now, rng.below(90) as i64),
        2..=3 => schedule.end = moment(now, 1 + rng.below(180) as i64),
        4 => schedule.exclude = vec![moment(now, 0)[..10].to_owned()],
        // Tomorrow, perhaps, and in every year.
        5 => schedule.exclude = vec![moment(now, 20)[5..10].to_owned()],
        _ => {}
    }
    schedule
}

fn text(rule: RuleText) -> ScheduleText {
    ScheduleText {
        rule,
        time_zone: "UTC".to_owned(),
        dst_gap: None,
        dst_fold: None,
        jitter: Duration::ZERO,
        start: String::new(),
        end: String::new(),
        exclude: Vec::new(),
    }
}

/// So many seconds from now.
fn moment(now: Time, seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(now.0 / SECOND + seconds);
    at.expect("a time").to_string()
}

fn interval(rng: &mut Rng) -> RuleText {
    let every = 1 + rng.below(40);
    let phase = match rng.percent(30) {
        true => rng.below(every),
        false => 0,
    };
    RuleText::Interval {
        every: Duration::from_secs(every),
        phase: Duration::from_secs(phase),
    }
}

fn cron(rng: &mut Rng) -> String {
    let minute = match rng.below(4) {
        0..=1 => "*".to_owned(),
        2 => format!("*/{}", 2 + rng.below(3)),
        _ => format!("{},{}", rng.below(3), 3 + rng.below(3)),
    };
    let hour = *rng.one_of(&["*", "*", "0"]);
    // The first days of scenarios are a Thursday, the 3rd, and the day after.
    let days = *rng.one_of(&["* * *", "* * *", "4 * *", "* * 5"]);
    format!("{minute} {hour} {days}")
}

fn once_per(rng: &mut Rng) -> RuleText {
    let (period, day) = *rng.one_of(&[
        (Period::Day, ""),
        (Period::Day, ""),
        (Period::Week, "FRI "),
        (Period::Month, "4 "),
    ]);
    let mut point = |minutes: u64| match rng.percent(20) {
        true => String::new(),
        false => format!("{day}00:0{}", rng.below(minutes)),
    };
    let (after, before) = (point(2), point(4));
    RuleText::OncePer {
        period,
        after,
        before,
    }
}
