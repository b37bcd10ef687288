//! The schedule of a job in a file.

use super::rules::choice;
use crate::{
    cli::time_text,
    core::schedule::{
        DstFold, DstGap, Period, RuleText, Schedule, ScheduleText, TimeZones, Window,
    },
    toml_file::{Length, Lines, Table},
};
use rallypoint_client::api::{self, schedule::Rule};
use std::time::Duration;

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
/// What else a schedule has.
const KEYS: [&str; 7] = [
    "time_zone",
    "dst_gap",
    "dst_fold",
    "jitter",
    "start",
    "end",
    "exclude",
];

/// The schedule that a table describes, as it is written and as it is meant, and the lines of its
/// keys; its own is that of its rule.
pub(super) fn read(
    mut table: Table<'_, '_>,
    zones: &TimeZones,
) -> Option<(ScheduleText, Schedule, Lines)> {
    let named = RULES.into_iter().find(|rule| table.has(rule));
    let lines = table.lines().led_by(named.unwrap_or_default());
    let rule = rule(&mut table);
    let is_whole = rule.is_some();
    // With a rule that makes no sense, the rest is checked as if it were this one.
    let every_minute = || RuleText::Cron("* * * * *".to_owned());
    let text = ScheduleText {
        rule: rule.unwrap_or_else(every_minute),
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
    let schedule = text.check(zones);
    let schedule = schedule.map_err(|faults| {
        for fault in faults {
            table.fault(fault.field, fault.what);
        }
    });
    table.finish();
    let schedule = schedule.ok().filter(|_| is_whole)?;
    Some((text, schedule, lines))
}

/// Takes what stands in a job and belongs into its schedule. Returns whether there is any.
pub(super) fn take_misplaced(job: &mut Table<'_, '_>) -> bool {
    let keys = RULES.into_iter().chain(KEYS);
    let misplaced: Vec<&str> = keys.filter(|key| job.has(key)).collect();
    for key in &misplaced {
        let what = format!("unknown key: did you mean `schedule.{key}`?");
        job.fault(key, what);
        job.forget(key);
    }
    !misplaced.is_empty()
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

/// A schedule as the API has it.
pub(super) fn message(text: &ScheduleText) -> api::Schedule {
    let rule = match &text.rule {
        RuleText::Cron(text) => Rule::Cron(text.clone()),
        RuleText::Interval { every, phase } => Rule::Interval(api::Interval {
            every: Some(time_text::message(*every)),
            phase: Some(time_text::message(*phase)),
        }),
        RuleText::OncePer {
            period,
            after,
            before,
        } => Rule::OncePer(api::OncePer {
            period: match period {
                Period::Day => api::Period::Day,
                Period::Week => api::Period::Week,
                Period::Month => api::Period::Month,
            }
            .into(),
            after: after.clone(),
            before: before.clone(),
        }),
        RuleText::After(job) => Rule::After(job.clone()),
    };
    let gap = text.dst_gap.map(|gap| match gap {
        DstGap::NextValid => api::DstGap::NextValid,
        DstGap::Skip => api::DstGap::Skip,
    });
    let fold = text.dst_fold.map(|fold| match fold {
        DstFold::First => api::DstFold::First,
        DstFold::Second => api::DstFold::Second,
        DstFold::Both => api::DstFold::Both,
    });
    api::Schedule {
        rule: Some(rule),
        time_zone: text.time_zone.clone(),
        dst_gap: gap.unwrap_or(api::DstGap::Unspecified).into(),
        dst_fold: fold.unwrap_or(api::DstFold::Unspecified).into(),
        jitter: (!text.jitter.is_zero()).then(|| time_text::message(text.jitter)),
        start: text.start.clone(),
        end: text.end.clone(),
        exclude: text.exclude.clone(),
    }
}

fn rule(table: &mut Table<'_, '_>) -> Option<RuleText> {
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
    let cron = table.take("cron").map(RuleText::Cron);
    let interval = interval(table);
    let once_per = once_per(table);
    let after = table.take("after").map(RuleText::After);
    cron.or(interval).or(once_per).or(after)
}

fn interval(table: &mut Table<'_, '_>) -> Option<RuleText> {
    let mut interval = table.table_like("interval", "{ every = \"15m\" }")?;
    let every = interval.take("every");
    let phase = interval.take("phase");
    if !interval.has("every") {
        interval.fault("every", "missing: write it like \"15m\"");
    }
    interval.finish();
    let Length(every) = every?;
    let phase = phase.map_or(Duration::ZERO, |Length(phase)| phase);
    Some(RuleText::Interval { every, phase })
}

fn once_per(table: &mut Table<'_, '_>) -> Option<RuleText> {
    let mut window = table.table_like(
        "once_per",
        "{ period = \"DAY\", after = \"13:00\", before = \"23:00\" }",
    )?;
    let period = choice(&mut window, "period", PERIODS);
    let after: Option<String> = window.take("after");
    let before: Option<String> = window.take("before");
    if !window.has("period") {
        window.fault("period", "missing: it is DAY, WEEK or MONTH");
    }
    if period.is_none() {
        let points = [("after", &after), ("before", &before)];
        for (key, text) in points {
            check_point(&mut window, key, text.as_deref());
        }
    }
    window.finish();
    Some(RuleText::OncePer {
        period: period?,
        after: after.unwrap_or_default(),
        before: before.unwrap_or_default(),
    })
}

/// Finds fault with a point of a window that is none of any period, where the period is not known.
fn check_point(window: &mut Table<'_, '_>, key: &str, text: Option<&str>) {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return;
    };
    let is_of = |(_, period): &(_, Period)| Window::parse(*period, Some(text), None).is_ok();
    if !PERIODS.iter().any(is_of) {
        let what = format!(
            "`{text}` is no point of a day, a week or a month: write it like \"13:00\", \
             \"MON 13:00\" or \"15 13:00\""
        );
        window.fault(key, what);
    }
}

fn exclude(table: &mut Table<'_, '_>) -> Vec<String> {
    let values: Vec<toml::Value> = table.take("exclude").unwrap_or_default();
    values.iter().map(text).collect()
}

/// A value that TOML may have as a time. Empty: there is none.
fn text_or_time(table: &mut Table<'_, '_>, key: &'static str) -> String {
    let value: Option<toml::Value> = table.take(key);
    value.as_ref().map(text).unwrap_or_default()
}

fn text(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Datetime(time) => time.to_string(),
        // It is no time in any form.
        _ => "?".to_owned(),
    }
}
