//! What may surprise in jobs that make sense: changes of the clocks, windows and runs that do not
//! fit, many jobs at one minute.

use super::{
    clock_note,
    job::Job,
    rules::Overlap,
    schedule::{name_of_fold, name_of_gap},
};
use crate::core::schedule::{DstEffect, DueTime};
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Something that may surprise.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Its name in JSON.
    pub(super) kind: &'static str,
    /// The job that it is about, with its line; `None`: several.
    pub(super) job: Option<(String, usize)>,
    pub(super) text: String,
}

/// How far ahead changes of the clocks and windows are looked at.
const YEAR: SignedDuration = SignedDuration::from_hours(366 * 24);
/// How far ahead jobs are counted by the minute.
const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Due times that are compared with the time a run may take.
const COMPARED: usize = 400;
/// So many jobs that start in one minute are worth a word.
const CROWD: usize = 20;
/// Minutes of the day that are named.
const NAMED: usize = 5;

impl Finding {
    pub(super) fn of(job: &Job, kind: &'static str, text: String) -> Finding {
        let job = Some((job.name.clone(), job.line()));
        Finding { kind, job, text }
    }

    pub(super) fn json(&self) -> Value {
        let (job, line) = self.job.clone().unzip();
        json!({ "finding": self.kind, "job": job, "line": line, "text": self.text })
    }
}

/// What may surprise in these jobs from a moment on.
pub(super) fn findings(jobs: &[Job], from: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    for job in jobs.iter().filter(|job| job.follows().is_none()) {
        findings.extend(not_due(job, from));
        findings.extend(clock_changes(job, from));
        findings.extend(narrow_window(job, from));
        findings.extend(long_run(job, from));
    }
    findings.extend(crowds(jobs, from));
    findings
}

fn later(at: Timestamp, duration: SignedDuration) -> Timestamp {
    at.checked_add(duration).unwrap_or(Timestamp::MAX)
}

fn not_due(job: &Job, from: Timestamp) -> Option<Finding> {
    let text = format!("is not due any more from {from} on: look at `schedule.end`");
    let is_due = job.schedule.next(from).is_some();
    (!is_due).then(|| Finding::of(job, "NOT_DUE", text))
}

/// The first due time that falls into a gap, and the first that comes twice.
fn clock_changes(job: &Job, from: Timestamp) -> Vec<Finding> {
    let schedule = &job.schedule;
    if !schedule.names_hours() {
        return Vec::new();
    }
    let (mut gap, mut fold) = (None, None);
    for (at, jump) in schedule.zone().changes(from, later(from, YEAR)) {
        let twice = SignedDuration::from_secs(i64::from(jump.min(0)));
        let around = schedule.due_times(later(at, twice));
        let around = around.take_while(|time| time.at < later(at, -twice) || time.at == at);
        for time in around {
            match time.dst {
                Some(DstEffect::Shifted(_) | DstEffect::Skipped(_)) => gap.get_or_insert(time),
                Some(_) => fold.get_or_insert(time),
                None => continue,
            };
        }
    }
    let said = |time: DueTime, kind, choice: String| {
        let note = clock_note::text(&time, schedule).unwrap_or_default();
        let text = format!("{}: {note} ({choice})", time.local.date());
        Finding::of(job, kind, text)
    };
    let gap_choice = format!("dst_gap = {}", name_of_gap(schedule.dst_gap()));
    let fold_choice = format!("dst_fold = {}", name_of_fold(schedule.dst_fold()));
    let gap = gap.map(|time| said(time, "DST_GAP", gap_choice));
    let fold = fold.map(|time| said(time, "DST_FOLD", fold_choice));
    gap.into_iter().chain(fold).collect()
}

/// The due times of the next year, or the first of them.
pub(super) fn due_times(job: &Job, from: Timestamp) -> impl Iterator<Item = DueTime> {
    let times = job.schedule.due_times(from);
    times
        .filter(DueTime::is_due)
        .take_while(move |time| time.at < later(from, YEAR))
        .take(COMPARED)
}

/// A window that is shorter than a run may take, or closes before the job starts.
fn narrow_window(job: &Job, from: Timestamp) -> Option<Finding> {
    let delay = SignedDuration::try_from(job.schedule.delay(&job.name)).ok()?;
    let open = |time: DueTime| Some((time.closes?.duration_since(time.at) - delay, time.at));
    let (open, at) = due_times(job, from).filter_map(open).min()?;
    let at = clock_note::local(at, &job.schedule);
    let text = match SignedDuration::try_from(job.max_runtime.unwrap_or_default()).ok()? {
        _ if open <= SignedDuration::ZERO => {
            format!("{at}: its window closes before it starts, because of `schedule.jitter`")
        }
        most if open < most => format!(
            "{at}: its window is open for {open:#}, less than `max_runtime` ({most:#}): a run \
             that fails cannot be repeated in it"
        ),
        _ => return None,
    };
    Some(Finding::of(job, "NARROW_WINDOW", text))
}

/// Runs that may take longer than until the next due time.
fn long_run(job: &Job, from: Timestamp) -> Option<Finding> {
    let most = SignedDuration::try_from(job.max_runtime?).ok()?;
    if job.overlap == Overlap::Allow {
        return None;
    }
    let times: Vec<Timestamp> = due_times(job, from).map(|time| time.at).collect();
    let apart = times.windows(2).map(|pair| pair[1].duration_since(pair[0]));
    let least = apart.min().filter(|least| *least < most)?;
    let text = format!(
        "a run may take {most:#} (`max_runtime`), and the next one is due after {least:#}: \
         `overlap = {}` decides",
        job.overlap.name()
    );
    Some(Finding::of(job, "LONG_RUN", text))
}

/// Minutes of the day at which many jobs start.
fn crowds(jobs: &[Job], from: Timestamp) -> Vec<Finding> {
    let mut minutes: BTreeMap<i64, usize> = BTreeMap::new();
    for job in jobs {
        let delay = SignedDuration::try_from(job.schedule.delay(&job.name));
        let delay = delay.unwrap_or(SignedDuration::ZERO);
        let times = job.schedule.due_times(from).filter(DueTime::is_due);
        let times = times.take_while(|time| time.at < later(from, WEEK));
        let mut started: Vec<i64> = times
            .map(|time| later(time.at, delay).as_second().div_euclid(60))
            .collect();
        // A job that starts several times in a minute is one of those that start in it.
        started.dedup();
        for minute in started {
            *minutes.entry(minute).or_default() += 1;
        }
    }
    // A minute of the day stands for those of all days.
    let mut of_day: BTreeMap<i64, (usize, i64)> = BTreeMap::new();
    for (minute, count) in minutes.into_iter().filter(|(_, count)| *count >= CROWD) {
        let most = of_day.entry(minute.rem_euclid(24 * 60)).or_default();
        if count > most.0 {
            *most = (count, minute);
        }
    }
    let mut most: Vec<(usize, i64)> = of_day.into_values().collect();
    most.sort_by_key(|(count, minute)| (std::cmp::Reverse(*count), *minute));
    most.into_iter().take(NAMED).map(crowd).collect()
}

fn crowd((count, minute): (usize, i64)) -> Finding {
    let at = Timestamp::UNIX_EPOCH.checked_add(minute.minutes());
    let at = at.unwrap_or(Timestamp::MAX);
    let text =
        format!("{count} jobs start in the minute of {at}: spread them by `schedule.jitter`");
    Finding {
        kind: "CROWD",
        job: None,
        text,
    }
}
