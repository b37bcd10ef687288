//! The rules of a job besides its schedule: what becomes of due times that meet a run, or nobody.

use crate::{
    core::model::limits::{RUN_DELAY, length_text},
    likeness::closest,
    toml_file::{Length, Table},
};
use serde_json::{Value, json};
use std::{ops::RangeInclusive, time::Duration};

/// What becomes of a due time while the run before it still goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// There is no run.
    Skip,
    /// One run waits; further due times are skipped.
    QueueOne,
    /// A run per due time waits.
    QueueAll,
    /// One run waits: that of the newest due time.
    KeepNewest,
    /// The run before is cancelled.
    CancelRunning,
    /// They run side by side.
    Allow,
}

/// What becomes of due times at which no server was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfire {
    /// They are missed.
    Skip,
    /// There is one run for all of them.
    RunOnce,
    /// The last of them, so many at most, have a run each.
    CatchUp(u32),
}

/// Whether a run that failed, or was lost, is repeated under its due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rerun {
    /// Only while its window is open.
    pub(super) within_window: bool,
    /// Further attempts at most.
    pub(super) max: Option<u32>,
    pub(super) delay: Duration,
}

const OVERLAPS: &[(&str, Overlap)] = &[
    ("SKIP", Overlap::Skip),
    ("QUEUE_ONE", Overlap::QueueOne),
    ("QUEUE_ALL", Overlap::QueueAll),
    ("KEEP_NEWEST", Overlap::KeepNewest),
    ("CANCEL_RUNNING", Overlap::CancelRunning),
    ("ALLOW", Overlap::Allow),
];
/// Due times that are caught up at most.
const MOST_CAUGHT_UP: u32 = 1_000;
const MOST_ATTEMPTS: u32 = 1_000;
/// Between a failed run and its repetition, unless the job says otherwise.
const RERUN_DELAY: Duration = Duration::from_secs(60);

impl Overlap {
    pub(super) fn read(job: &mut Table<'_, '_>) -> Overlap {
        choice(job, "overlap", OVERLAPS).unwrap_or(Overlap::Skip)
    }

    pub(super) fn name(self) -> &'static str {
        let known = OVERLAPS.iter().find(|(_, overlap)| *overlap == self);
        known.map_or("", |(name, _)| name)
    }
}

impl Misfire {
    pub(super) fn read(job: &mut Table<'_, '_>) -> Misfire {
        // The number stands beside it.
        let rules = [
            ("SKIP", Misfire::Skip),
            ("RUN_ONCE", Misfire::RunOnce),
            ("CATCH_UP", Misfire::CatchUp(0)),
        ];
        let rule = choice(job, "misfire", &rules).unwrap_or(Misfire::RunOnce);
        let most = number(job, "catch_up_max", MOST_CAUGHT_UP);
        match (rule, most) {
            (Misfire::CatchUp(_), Some(most)) => return Misfire::CatchUp(most),
            (Misfire::CatchUp(_), None) if !job.has("catch_up_max") => {
                let what = "CATCH_UP needs a limit: add `catch_up_max = 10`";
                job.fault("misfire", what);
            }
            (_, Some(_)) => {
                let what = "only `misfire = \"CATCH_UP\"` has a limit: leave it out";
                job.fault("catch_up_max", what);
            }
            _ => {}
        }
        rule
    }

    pub(super) fn json(self) -> Value {
        match self {
            Misfire::Skip => json!({ "rule": "SKIP" }),
            Misfire::RunOnce => json!({ "rule": "RUN_ONCE" }),
            Misfire::CatchUp(most) => json!({ "rule": "CATCH_UP", "catch_up_max": most }),
        }
    }
}

impl Rerun {
    /// `None`: never. `has_window`: the schedule has windows.
    pub(super) fn read(job: &mut Table<'_, '_>, has_window: bool) -> Option<Rerun> {
        let mut table = job.table_like("rerun", "{ max = 3, delay = \"5m\" }")?;
        let within_window = table.take("within_window").unwrap_or(false);
        let max = number(&mut table, "max", MOST_ATTEMPTS);
        let delay = length(&mut table, "delay", RUN_DELAY).unwrap_or(RERUN_DELAY);
        if within_window && !has_window {
            let what = "the schedule has no window: use `schedule.once_per`, or `rerun.max`";
            table.fault("within_window", what);
        }
        if !within_window && !table.has("max") {
            table.fault("", "say how often: add `max = 3` or `within_window = true`");
        }
        table.finish();
        Some(Rerun {
            within_window,
            max,
            delay,
        })
    }

    pub(super) fn json(self) -> Value {
        json!({
            "within_window": self.within_window,
            "max": self.max,
            "delay_s": self.delay.as_secs_f64(),
        })
    }
}

/// One of some names, in large or small letters.
pub(super) fn choice<T: Copy>(
    table: &mut Table<'_, '_>,
    key: &'static str,
    known: &[(&str, T)],
) -> Option<T> {
    let text: String = table.take(key)?;
    let found = known
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(&text));
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let meant = closest(&text, &names);
        let meant = meant.map(|name| format!(": did you mean \"{name}\"?"));
        let meant = meant.unwrap_or_default();
        table.fault(key, format!("must be one of {}{meant}", names.join(", ")));
    }
    found.map(|(_, value)| *value)
}

/// A number from 1.
pub(super) fn number(table: &mut Table<'_, '_>, key: &'static str, most: u32) -> Option<u32> {
    let number = table.take::<i64>(key)?;
    let fitting = u32::try_from(number).ok();
    let fitting = fitting.filter(|number| (1..=most).contains(number));
    if fitting.is_none() {
        table.fault(key, format!("must be 1 to {most}"));
    }
    fitting
}

/// A length of time of this range.
pub(super) fn length(
    table: &mut Table<'_, '_>,
    key: &'static str,
    range: RangeInclusive<Duration>,
) -> Option<Duration> {
    let Length(length) = table.take(key)?;
    if range.contains(&length) {
        return Some(length);
    }
    let (least, most) = (length_text(*range.start()), length_text(*range.end()));
    table.fault(key, format!("must be {least} to {most}, like \"5m\""));
    None
}
