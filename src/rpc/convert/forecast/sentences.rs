//! What a forecast says, in English. Pure.

use crate::{
    core::{Time, Work},
    forecast::{Forecast, Omission, Reason},
};
use jiff::{SignedDuration, Timestamp};

/// There is nothing to forecast.
pub(super) const NOTHING: &str = "nothing is unfinished";

/// When all of it ends.
pub(super) fn summary(made: &Forecast) -> String {
    if made.unfinished == 0 {
        return NOTHING.into();
    }
    let (all, now) = (&made.all, made.at);
    let reasons = all
        .reasons
        .iter()
        .map(reason)
        .collect::<Vec<_>>()
        .join("; ");
    match (all.p50, all.p90) {
        (Some(p50), Some(p90)) => format!(
            "ends about {}, in nine of ten cases before {}",
            moment(p50, now),
            moment(p90, now)
        ),
        (Some(p50), None) => format!(
            "may end about {}, but nobody knows: {reasons}",
            moment(p50, now)
        ),
        _ => format!("nobody knows when it ends: {reasons}"),
    }
}

/// Why nobody knows.
pub(super) fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Paused => "the scheduler is paused".into(),
        Reason::Halted => "a failure has halted the scheduler".into(),
        Reason::MayHalt(percent) => format!("in {percent} of 100 cases a failure halts it"),
        Reason::TargetPaused(work) => format!("an operator has paused {}", place(work)),
        Reason::NoSlots { work, away: true } => format!("{} is away", place(work)),
        Reason::NoSlots { work, away: false } => {
            format!("no executor has slots for {}", place(work))
        }
        Reason::Claimed(name) => {
            format!(
                "resource {name} is held or waited for by somebody who may keep it for any time"
            )
        }
        Reason::TooFewSeen { work, labels, seen } => {
            let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
            let labels = labels.collect::<Vec<_>>().join(",");
            let labelled = match labels.is_empty() {
                true => String::new(),
                false => format!(" labelled {labels}"),
            };
            format!(
                "too few tasks like some of those on {}{labelled} have ended of late to say how \
                 long one lasts ({seen} others there have)",
                place(work)
            )
        }
        Reason::TooManyTasks => "more tasks are unfinished than can be looked at".into(),
        Reason::TooManyOthers => "more schedulers want the same slots than can be looked at".into(),
        Reason::TooLong => "it takes too long to run so much forward".into(),
        Reason::Never => "as it stands it does not end, or not within a year".into(),
    }
}

/// What is left out.
pub(super) fn omission(omission: &Omission) -> String {
    match omission {
        Omission::Assumed(tasks) => {
            format!(
                "{tasks} waiting tasks were not looked at: they are taken to be like those before them"
            )
        }
        Omission::Beyond(tasks) => format!("{tasks} tasks are left out"),
        Omission::InDoubt(tasks) => format!(
            "of {tasks} tasks nobody knows since a restart whether they still run: they are taken to"
        ),
        Omission::Grouped(tasks) => format!("up to {tasks} tasks in a row were run as one"),
        Omission::AtOnce => "noops are taken to need no time".into(),
        Omission::OthersByAverage(others) => format!(
            "{others} other schedulers want the same slots: they count with what they have submitted so \
             far, and with how long their tasks last on average"
        ),
        Omission::OthersGuessed(others) => format!(
            "of {others} other schedulers in the same slots no task has ended of late: theirs are \
             taken to last as long as its own"
        ),
    }
}

fn place(work: &Work) -> String {
    match work {
        Work::Noop => "noops".into(),
        Work::Sql { target } => format!("target {target}"),
    }
}

/// A time of the day, with the date when it is another one, and how far off it is.
fn moment(at: Time, now: Time) -> String {
    let stamp = Timestamp::from_microsecond(at.0).unwrap_or(Timestamp::MAX);
    let format = match at.day() == now.day() {
        true => "%H:%M:%S",
        false => "%Y-%m-%d %H:%M:%S",
    };
    let seconds = at.since(now).as_secs_f64().ceil() as i64;
    let off = SignedDuration::from_secs(seconds);
    format!("{} UTC (in {off:#})", stamp.strftime(format))
}
