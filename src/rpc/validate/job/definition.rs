//! What a job is: its schedule and its rules.

use super::{
    super::{Targets, scalar},
    tasks,
};
use crate::{
    core::{
        JobSettings, Misfire, NewJob, Overlap, Rerun,
        model::limits::{MAX_RUNTIME, RUN_DELAY},
        schedule::{DstFold, DstGap, Period, RuleText, Schedule, ScheduleText, TimeZones},
    },
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api::{self, schedule::Rule};
use std::{ops::RangeInclusive, sync::Arc, time::Duration};

const CATCH_UP: RangeInclusive<i32> = 1..=1_000;
const ATTEMPTS: RangeInclusive<i32> = 0..=1_000;
const FAILURES: RangeInclusive<i32> = 0..=10_000;
const RERUN_DELAY: Duration = Duration::from_secs(60);
/// So often is a run repeated at most that is repeated any number of times.
const LEAST_ENDLESS_DELAY: Duration = Duration::from_secs(1);

/// A definition.
pub(super) fn job(
    v: &mut Violations,
    given: Option<&api::JobSettings>,
    targets: &Targets,
) -> Arc<NewJob> {
    let path = Path::Root.field("settings");
    let none = api::JobSettings::default();
    let given = given.unwrap_or(&none);
    let schedule = match &given.schedule {
        Some(schedule) => checked(v, path.field("schedule"), schedule),
        None => {
            let missing = "missing: say when the job is due";
            v.add(path.field("schedule"), Reason::ScheduleInvalid, missing);
            None
        }
    };
    let rule = schedule.as_ref().map(|(text, _)| &text.rule);
    let has_window = rule.is_none_or(|rule| matches!(rule, RuleText::OncePer { .. }));
    let rerun = given.rerun.as_ref();
    let rerun = rerun.map(|given| rerun_of(v, path.field("rerun"), given, has_window));
    let most = path.field("max_runtime");
    let failures = number(
        v,
        path.field("pause_after_failures"),
        given.pause_after_failures,
        FAILURES,
    );
    let settings = JobSettings {
        schedule: schedule.map_or_else(any_schedule, |(text, _)| text),
        overlap: overlap(v, path.field("overlap"), given.overlap),
        misfire: misfire(v, path, given),
        rerun,
        max_runtime: scalar::optional_duration(v, most, &given.max_runtime, MAX_RUNTIME),
        pause_after_failures: (failures > 0).then_some(failures as u32),
        scheduler: Arc::new(tasks::scheduler(v, path, given, targets)),
        claimed: given.claims.is_some(),
    };
    let (steps, on_failure) = tasks::tasks(v, path, given, targets);
    Arc::new(NewJob {
        settings: Arc::new(settings),
        steps: Arc::new(steps),
        on_failure: Arc::new(on_failure),
    })
}

/// The text of a schedule that makes sense, and the schedule.
pub(super) fn checked(
    v: &mut Violations,
    path: Path<'_>,
    given: &api::Schedule,
) -> Option<(ScheduleText, Schedule)> {
    let text = schedule_text(v, path, given)?;
    match text.check(&TimeZones::bundled()) {
        Ok(schedule) => Some((text, schedule)),
        Err(faults) => {
            for fault in faults {
                v.add(path.field(fault.field), Reason::ScheduleInvalid, fault.what);
            }
            None
        }
    }
}

fn schedule_text(
    v: &mut Violations,
    path: Path<'_>,
    given: &api::Schedule,
) -> Option<ScheduleText> {
    let gap = scalar::enumeration(v, path.field("dst_gap"), given.dst_gap);
    let fold = scalar::enumeration(v, path.field("dst_fold"), given.dst_fold);
    let jitter = scalar::optional_duration(v, path.field("jitter"), &given.jitter, RUN_DELAY);
    let time_zone = match &*given.time_zone {
        "" => "UTC",
        name => name,
    };
    Some(ScheduleText {
        rule: rule(v, path, given.rule.as_ref())?,
        time_zone: time_zone.to_owned(),
        dst_gap: match gap.unwrap_or(api::DstGap::Unspecified) {
            api::DstGap::Unspecified => None,
            api::DstGap::NextValid => Some(DstGap::NextValid),
            api::DstGap::Skip => Some(DstGap::Skip),
        },
        dst_fold: match fold.unwrap_or(api::DstFold::Unspecified) {
            api::DstFold::Unspecified => None,
            api::DstFold::First => Some(DstFold::First),
            api::DstFold::Second => Some(DstFold::Second),
            api::DstFold::Both => Some(DstFold::Both),
        },
        jitter: jitter.unwrap_or_default(),
        start: given.start.clone(),
        end: given.end.clone(),
        exclude: given.exclude.clone(),
    })
}

fn rule(v: &mut Violations, path: Path<'_>, given: Option<&Rule>) -> Option<RuleText> {
    match given {
        Some(Rule::Cron(text)) => Some(RuleText::Cron(text.clone())),
        Some(Rule::Interval(interval)) => {
            let at = path.field("interval");
            let every = interval.every.unwrap_or_default();
            let phase = interval.phase.unwrap_or_default();
            let every = scalar::duration(v, at.field("every"), &every, MAX_RUNTIME);
            let phase = scalar::duration(v, at.field("phase"), &phase, RUN_DELAY);
            Some(RuleText::Interval {
                every: every?,
                phase: phase?,
            })
        }
        Some(Rule::OncePer(window)) => {
            let at = path.field("once_per");
            let period = scalar::enumeration(v, at.field("period"), window.period)?;
            let period = match period {
                api::Period::Day => Period::Day,
                api::Period::Week => Period::Week,
                api::Period::Month => Period::Month,
                api::Period::Unspecified => {
                    let missing = "missing: it is DAY, WEEK or MONTH";
                    v.add(at.field("period"), Reason::ScheduleInvalid, missing);
                    return None;
                }
            };
            Some(RuleText::OncePer {
                period,
                after: window.after.clone(),
                before: window.before.clone(),
            })
        }
        Some(Rule::After(job)) => Some(RuleText::After(job.clone())),
        None => {
            let missing = "it has no rule: set `cron`, `interval`, `once_per` or `after`";
            v.add(path.field("rule"), Reason::ScheduleInvalid, missing);
            None
        }
    }
}

/// In place of one that makes no sense.
fn any_schedule() -> ScheduleText {
    ScheduleText {
        rule: RuleText::Cron("* * * * *".to_owned()),
        time_zone: "UTC".to_owned(),
        dst_gap: None,
        dst_fold: None,
        jitter: Duration::ZERO,
        start: String::new(),
        end: String::new(),
        exclude: Vec::new(),
    }
}

fn overlap(v: &mut Violations, path: Path<'_>, number: i32) -> Overlap {
    let given = scalar::enumeration(v, path, number);
    match given.unwrap_or(api::Overlap::Unspecified) {
        api::Overlap::Unspecified | api::Overlap::Skip => Overlap::Skip,
        api::Overlap::QueueOne => Overlap::QueueOne,
        api::Overlap::QueueAll => Overlap::QueueAll,
        api::Overlap::KeepNewest => Overlap::KeepNewest,
        api::Overlap::CancelRunning => Overlap::CancelRunning,
        api::Overlap::Allow => Overlap::Allow,
    }
}

fn misfire(v: &mut Violations, path: Path<'_>, given: &api::JobSettings) -> Misfire {
    let rule = scalar::enumeration(v, path.field("misfire"), given.misfire);
    let at = path.field("catch_up_max");
    let catches_up = rule == Some(api::Misfire::CatchUp);
    if !catches_up && given.catch_up_max != 0 {
        let what = "only CATCH_UP has a limit: leave it out";
        v.add(at, Reason::JobInvalid, what);
    }
    match rule.unwrap_or(api::Misfire::Unspecified) {
        api::Misfire::Unspecified | api::Misfire::RunOnce => Misfire::RunOnce,
        api::Misfire::Skip => Misfire::Skip,
        api::Misfire::CatchUp => {
            Misfire::CatchUp(number(v, at, given.catch_up_max, CATCH_UP) as u32)
        }
    }
}

fn rerun_of(v: &mut Violations, path: Path<'_>, given: &api::Rerun, has_window: bool) -> Rerun {
    let max = number(v, path.field("max"), given.max, ATTEMPTS);
    if given.within_window && !has_window {
        let what = "the schedule has no window: use `once_per`, or `max`";
        v.add(path.field("within_window"), Reason::JobInvalid, what);
    }
    if !given.within_window && max == 0 {
        let what = "say how often: set `max`, or `within_window`";
        v.add(path.field("max"), Reason::JobInvalid, what);
    }
    let delay = scalar::optional_duration(v, path.field("delay"), &given.delay, RUN_DELAY);
    if max == 0 && delay.is_some_and(|delay| delay < LEAST_ENDLESS_DELAY) {
        let what = "must be 1 s or more where `max` is not set";
        v.add(path.field("delay"), Reason::JobInvalid, what);
    }
    Rerun {
        within_window: given.within_window,
        max: (max > 0).then_some(max as u32),
        delay: delay.unwrap_or(RERUN_DELAY),
    }
}

/// A number of this range.
pub(super) fn number(
    v: &mut Violations,
    path: Path<'_>,
    given: i32,
    range: RangeInclusive<i32>,
) -> i32 {
    if !range.contains(&given) {
        let what = format!("must be {} to {}", range.start(), range.end());
        v.add(path, Reason::JobInvalid, what);
    }
    given
}
