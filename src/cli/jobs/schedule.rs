//! The schedule of a job in a file.

use super::rules::choice;
use crate::{
    core::schedule::{
        DstFold, DstGap, Exclusion, Interval, Period, Recurrence, Schedule, ScheduleSettings,
        TimeZones, Window,
    },
    toml_file::{Length, Table},
};
use std::{str::FromStr, time::Duration};

const GAPS: &[(&str, DstGap)] = &[("NEXT_VALID", DstGap::NextValid), ("SKIP", DstGap::Skip)];
const FOLDS: &[(&str, DstFold)] = &[
    ("FIRST", DstFold::First),
    ("SECOND", DstFold::Second),
    ("BOTH", DstFold::Both),
];
const PERIODS: &[(&str, Period)] = &[
    ("DAY", Period::Day),
    ("WEEK", Period::Week),
    ("MONTH", Period::Month),
];
/// The rules, of which a schedule has one.
const RULES: [&str; 4] = ["cron", "interval", "once_per", "after"];

/// The schedule that a table describes.
pub(super) fn read(mut table: Table<'_, '_>, zones: &TimeZones) -> Option<Schedule> {
    let recurrence = recurrence(&mut table);
    let is_whole = recurrence.is_some();
    // With a rule that makes no sense, the rest is checked as if it were this one.
    let every_minute = || Recurrence::Cron("* * * * *".parse().expect("it is good"));
    let settings = ScheduleSettings {
        recurrence: recurrence.unwrap_or_else(every_minute),
        time_zone: table.take("time_zone").unwrap_or_else(|| "UTC".to_owned()),
        dst_gap: choice(&mut table, "dst_gap", GAPS),
        dst_fold: choice(&mut table, "dst_fold", FOLDS),
        jitter: table
            .take("jitter")
            .map_or(Duration::ZERO, |Length(jitter)| jitter),
        start: text_or_time(&mut table, "start"),
        end: text_or_time(&mut table, "end"),
        exclude: exclude(&mut table),
    };
    let schedule = settings.check(zones);
    let schedule = schedule.map_err(|faults| {
        for fault in faults {
            table.fault(fault.field, fault.what);
        }
    });
    table.finish();
    schedule.ok().filter(|_| is_whole)
}

/// The name of a choice.
pub(super) fn name_of_gap(gap: DstGap) -> &'static str {
    let known = GAPS.iter().find(|(_, known)| *known == gap);
    known.map_or("", |(name, _)| name)
}

/// The name of a choice.
pub(super) fn name_of_fold(fold: DstFold) -> &'static str {
    let known = FOLDS.iter().find(|(_, known)| *known == fold);
    known.map_or("", |(name, _)| name)
}

fn recurrence(table: &mut Table<'_, '_>) -> Option<Recurrence> {
    let given: Vec<&str> = RULES.into_iter().filter(|rule| table.has(rule)).collect();
    match *given {
        [] => {
            let what = "it has no rule: add `cron`, `interval`, `once_per` or `after`";
            table.fault("", what);
        }
        [_] => {}
        [_, second, ..] => {
            let what = format!("a schedule has one rule: keep one of {}", given.join(", "));
            table.fault(second, what);
        }
    }
    // All are read, so that none is called unknown.
    let cron = cron(table);
    let interval = interval(table);
    let once_per = once_per(table);
    let after = table.take("after").map(Recurrence::After);
    cron.or(interval).or(once_per).or(after)
}

fn cron(table: &mut Table<'_, '_>) -> Option<Recurrence> {
    let text: String = table.take("cron")?;
    let cron = text
        .parse()
        .map_err(|what: String| table.fault("cron", what));
    cron.ok().map(Recurrence::Cron)
}

fn interval(table: &mut Table<'_, '_>) -> Option<Recurrence> {
    let mut interval = table.table("interval")?;
    let every = interval.take("every");
    let phase = interval.take("phase");
    if !interval.has("every") {
        interval.fault("every", "missing: write it like \"15m\"");
    }
    interval.finish();
    let Length(every) = every?;
    let phase = phase.map_or(Duration::ZERO, |Length(phase)| phase);
    Some(Recurrence::Interval(Interval { every, phase }))
}

fn once_per(table: &mut Table<'_, '_>) -> Option<Recurrence> {
    let mut window = table.table("once_per")?;
    let period = choice(&mut window, "period", PERIODS);
    let after: Option<String> = window.take("after");
    let before: Option<String> = window.take("before");
    if !window.has("period") {
        window.fault("period", "missing: it is DAY, WEEK or MONTH");
    }
    window.finish();
    let parsed = Window::parse(period?, after.as_deref(), before.as_deref());
    let parsed = parsed.map_err(|faults| {
        for fault in faults {
            table.fault(fault.field, fault.what);
        }
    });
    parsed.ok().map(Recurrence::OncePer)
}

fn exclude(table: &mut Table<'_, '_>) -> Vec<Exclusion> {
    let values: Vec<toml::Value> = table.take("exclude").unwrap_or_default();
    let mut excluded = Vec::new();
    for value in values {
        let parsed = text(&value).parse::<Exclusion>();
        let parsed = parsed.map_err(|what| table.fault("exclude", what));
        excluded.extend(parsed);
    }
    excluded
}

/// A value that TOML may have as a time.
fn text_or_time<T: FromStr<Err = String>>(
    table: &mut Table<'_, '_>,
    key: &'static str,
) -> Option<T> {
    let value: toml::Value = table.take(key)?;
    let parsed = text(&value).parse();
    parsed.map_err(|what: String| table.fault(key, what)).ok()
}

fn text(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Datetime(time) => time.to_string(),
        // It is no time in any form.
        _ => String::new(),
    }
}
