//! Which due times of a range in the past have had no run, and what that makes of rows that stand
//! for many of them.

use super::{
    Jobs, convert, errors, mismatched,
    validate::{self, BackfillRange},
};
use crate::{
    coordinator::CallError,
    core::{
        Backfill, Caller, JobNo, JobReject, JobReply, JobVerb, Reject, RunCause, RunImage, RunKey,
        RunState, Time,
        schedule::{DueTime, Passed, Schedule, TimeZones},
    },
};
use jiff::Timestamp;
use rallypoint_client::api;
use std::time::Duration;
use tonic::Status;

/// Runs of one call.
const RUNS: usize = 1_000;
/// Due times that are looked at for them.
const DUE_TIMES: usize = 10_000;
/// Rows of what became of due times that are looked at: the job may have been due more often once.
const ROWS: usize = 20_000;
const PAGE: i64 = 1_000;

/// So much may the clock of this replica be behind that by which rows are deleted.
const CLOCKS_DIFFER: Duration = Duration::from_secs(3_600);

/// How often a call is repeated that others have made out of date.
const TRIES: u32 = 40;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// What a call asks for.
struct Plan {
    asked: Backfill,
    /// Due times of the range.
    found: usize,
}

impl Jobs {
    /// Repeats what others have made out of date meanwhile.
    pub(super) async fn backfill_job(
        &self,
        caller: Caller,
        request: &api::BackfillJobRequest,
    ) -> Result<api::BackfillJobResponse, Status> {
        let range = validate::backfill(request)?;
        let mut tries = 0;
        loop {
            let plan = self.plan(&caller, &range).await?;
            let found = plan.found;
            if request.dry_run {
                return Ok(answer(&plan.asked.due, found));
            }
            let name = range.name.clone();
            let asked = plan.asked;
            let verb = JobVerb::Backfill { name, asked };
            tries += 1;
            match self.coordinator.job(caller.clone(), verb).await {
                Ok(JobReply::Backfilled(due)) => return Ok(answer(&due, found)),
                Ok(other) => return Err(mismatched(other)),
                Err(CallError::Rejected(Reject::Job(JobReject::RunsChanged))) if tries < TRIES => {
                    tokio::time::sleep(BETWEEN_TRIES).await;
                }
                Err(error) => return Err(errors::job::call(error)),
            }
        }
    }

    /// What is to be asked for, as the journal is now.
    async fn plan(&self, caller: &Caller, range: &BackfillRange) -> Result<Plan, Status> {
        let (job, state) = self.stored(caller, &range.name).await?;
        let schedule = job.settings.schedule.check(&TimeZones::bundled()).ok();
        let now = self.coordinator.clock().now();
        let from = range.from;
        let undecided = state.next_due.filter(|_| state.paused.is_some());
        if let Some(due) =
            undecided.filter(|due| *due < range.until.map_or(now, |until| until.min(now)))
        {
            return Err(errors::job::backfill_paused(due));
        }
        let until = [range.until, state.next_due]
            .into_iter()
            .flatten()
            .fold(now, Time::min);
        let times = schedule.as_ref().map(|one| due_times(one, from, until));
        let times = times.unwrap_or_default();
        if times.len() > DUE_TIMES {
            return Err(errors::job::backfill_too_large(DUE_TIMES));
        }
        // A job that only follows another one, or runs when it is asked to, may have many rows.
        let rows = match times.is_empty() {
            true => Vec::new(),
            false => self.rows_of(job.no, from, until).await?,
        };
        let days = u64::from(self.reader.retention_days);
        let kept_since = now - Duration::from_secs(days * 86_400) + CLOCKS_DIFFER;
        let had_one = |due: &Time| match row_of(&rows, *due) {
            Some(row) => has_run(row),
            None => may_have_had_one(*due, job.created_at, kept_since),
        };
        let found = times.len();
        let due: Vec<Time> = times.into_iter().filter(|due| !had_one(due)).collect();
        if due.len() > RUNS {
            return Err(errors::job::backfill_too_large(RUNS));
        }
        let ranges = schedule.map(|schedule| remainders(&schedule, &rows, &due, (from, until)));
        let asked = Backfill {
            job: job.no,
            version: job.version,
            due,
            ranges: ranges.unwrap_or_default(),
            seen: state.last_unscheduled,
        };
        Ok(Plan { asked, found })
    }

    /// What became of the due times of a range, with the row before, which may stand for some.
    pub(super) async fn rows_of(
        &self,
        job: JobNo,
        from: Time,
        until: Time,
    ) -> Result<Vec<RunImage>, Status> {
        let (mut rows, mut before) = (Vec::new(), until);
        loop {
            let page = self.reader.job_runs(job, before, PAGE).await;
            let page = page.map_err(errors::journal)?;
            let last = page.last().map(|run| run.key.due);
            let is_full = page.len() as i64 == PAGE;
            rows.extend(page);
            if rows.len() > ROWS {
                return Err(errors::job::backfill_too_large(ROWS));
            }
            match last {
                Some(last) if is_full && row_before(&rows, from).is_none() => before = last,
                _ => break,
            }
        }
        let at = row_before(&rows, from);
        rows.truncate(at.map_or(rows.len(), |at| at + 1));
        Ok(rows)
    }
}

/// Of rows with the latest first, that which may stand for due times before `from` and behind.
/// Runs that no schedule names may lie between the due times of one row.
fn row_before(rows: &[RunImage], from: Time) -> Option<usize> {
    let is_named = |run: &RunImage| matches!(run.cause, RunCause::Scheduled | RunCause::Backfilled);
    rows.iter()
        .position(|run| run.key.due <= from && is_named(run))
}

/// Of rows with the latest first, that which says what became of a due time. Runs that no schedule
/// names may lie between the due times of one row.
fn row_of(rows: &[RunImage], due: Time) -> Option<&RunImage> {
    let own = rows.binary_search_by(|run| due.cmp(&run.key.due));
    let at = match own {
        Ok(at) => return Some(&rows[at]),
        Err(at) => at,
    };
    let named = rows[at..].get(row_before(&rows[at..], due)?)?;
    named.last.is_some_and(|last| due <= last).then_some(named)
}

/// It has had a run, or has one.
fn has_run(run: &RunImage) -> bool {
    let had_none = matches!(run.state, RunState::Skipped | RunState::Missed);
    run.attempt > 0 || !had_none
}

/// The job was there, and a row of what became of it is past its retention.
fn may_have_had_one(due: Time, created_at: Time, kept_since: Time) -> bool {
    created_at <= due && due < kept_since
}

/// Due times from `from`, before `until`, one more than are looked at.
fn due_times(schedule: &Schedule, from: Time, until: Time) -> Vec<Time> {
    let times = schedule.due_times(timestamp(from)).filter(DueTime::is_due);
    let times = times.map(|due| Time(due.at.as_microsecond()));
    times
        .take_while(|due| *due < until)
        .take(DUE_TIMES + 1)
        .collect()
}

/// Of rows that stand for many due times, what is left on both sides of a range in which some have
/// runs now (`due`, ascending). Each row is written anew under its own first due time, whatever the
/// schedule names today: no later backfill finds it over those runs.
fn remainders(
    schedule: &Schedule,
    rows: &[RunImage],
    due: &[Time],
    (from, until): (Time, Time),
) -> Vec<RunImage> {
    let mut left = Vec::new();
    let ranges = rows
        .iter()
        .filter_map(|row| row.last.map(|last| (row, last)));
    for (row, last) in ranges.filter(|_| !due.is_empty()) {
        let own = row.key.due;
        if last < from || own >= until {
            continue;
        }
        if due.binary_search(&own).is_err() {
            let before = part(schedule, row, own, Time(from.0 - 1));
            let before = before.filter(|before| before.last.unwrap_or(before.key.due) > own);
            left.push(match before {
                Some(before) => RunImage {
                    key: row.key,
                    last: before.last.or(Some(before.key.due)),
                    count: before.count.max(2),
                    ..before
                },
                None => alone(row, own),
            });
        }
        if last >= until {
            let behind = part(schedule, row, until, last);
            left.push(behind.unwrap_or_else(|| alone(row, last)));
        }
    }
    left
}

/// One due time of a row.
fn alone(row: &RunImage, due: Time) -> RunImage {
    RunImage {
        key: RunKey { due, ..row.key },
        last: None,
        count: 1,
        ..row.clone()
    }
}

/// The due times of a row from one time to another, both included, as far as the schedule of today
/// names any.
fn part(schedule: &Schedule, row: &RunImage, from: Time, to: Time) -> Option<RunImage> {
    if from > to {
        return None;
    }
    let Passed { earlier, newest } = schedule.passed(timestamp(from), timestamp(to), 1);
    let last = newest.last()?.at;
    let first = earlier.map_or(last, |range| range.first);
    let count = earlier.map_or(0, |range| range.count) as i64 + 1;
    let (first, last) = (Time(first.as_microsecond()), Time(last.as_microsecond()));
    Some(RunImage {
        last: (last > first).then_some(last),
        count: count.min(row.count),
        ..alone(row, first)
    })
}

fn timestamp(time: Time) -> Timestamp {
    Timestamp::from_microsecond(time.0).unwrap_or(Timestamp::MAX)
}

fn answer(due: &[Time], found: usize) -> api::BackfillJobResponse {
    api::BackfillJobResponse {
        due: due.iter().copied().map(convert::timestamp).collect(),
        left_out: (found - due.len()) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::schedule::{RuleText, ScheduleText};

    #[test]
    fn a_row_for_many_due_times_is_found_behind_runs_that_were_asked_for() {
        let run = |due, last: Option<i64>, cause| RunImage {
            last: last.map(Time),
            ..RunImage::new(
                RunKey {
                    job: JobNo(1),
                    due: Time(due),
                },
                cause,
            )
        };
        let rows = [
            run(90, None, RunCause::Scheduled),
            run(45, None, RunCause::Asked),
            run(35, None, RunCause::Followed),
            run(10, Some(80), RunCause::Scheduled),
            run(5, None, RunCause::Scheduled),
        ];
        assert_eq!(row_before(&rows, Time(50)), Some(3));
        assert_eq!(
            row_before(&rows[..3], Time(50)),
            None,
            "the next page has it"
        );
    }

    #[test]
    fn what_became_of_a_due_time_is_said_by_its_row_or_by_that_of_many() {
        let row = |due, last: Option<i64>| RunImage {
            last: last.map(Time),
            ..RunImage::new(
                RunKey {
                    job: JobNo(1),
                    due: Time(due),
                },
                RunCause::Scheduled,
            )
        };
        let rows = [row(90, None), row(50, Some(80)), row(45, None)];
        let of = |due| row_of(&rows, Time(due)).map(|row| row.key.due.0);
        let all = [100, 90, 85, 80, 60, 50, 47, 45, 40].map(of);
        let (ninety, many) = (Some(90), Some(50));
        assert_eq!(
            all,
            [None, ninety, None, many, many, many, None, Some(45), None]
        );
    }

    #[test]
    fn what_is_past_the_retention_may_have_run_if_the_job_was_there() {
        let (created_at, kept_since) = (Time(10), Time(20));
        let may = |due| may_have_had_one(Time(due), created_at, kept_since);
        assert_eq!([9, 10, 19, 20].map(may), [false, true, true, false]);
        assert!(!may_have_had_one(Time(25), Time(30), kept_since));
    }

    #[test]
    fn what_has_had_a_run_is_never_covered_by_what_is_left_of_a_row() {
        let schedule = |cron: &str| {
            let text = ScheduleText {
                rule: RuleText::Cron(cron.to_owned()),
                time_zone: "UTC".to_owned(),
                dst_gap: None,
                dst_fold: None,
                jitter: Duration::ZERO,
                start: String::new(),
                end: String::new(),
                exclude: Vec::new(),
            };
            text.check(&TimeZones::bundled()).expect("it is a schedule")
        };
        let minute = |minutes: i64| Time(minutes * 60_000_000);
        let key = RunKey {
            job: JobNo(1),
            due: minute(10),
        };
        let row = RunImage {
            last: Some(minute(600)),
            count: 60,
            ..RunImage::new(key, RunCause::Scheduled)
        };
        let left = |cron, from, until| {
            let due = due_times(&schedule(cron), minute(from), minute(until));
            let range = (minute(from), minute(until));
            let left = remainders(&schedule(cron), std::slice::from_ref(&row), &due, range);
            let minutes = |time: Time| time.0 / 60_000_000;
            let ends = left.iter().map(|row| {
                let ends = (minutes(row.key.due), row.last.map(minutes));
                (ends, row.count)
            });
            ends.collect::<Vec<_>>()
        };
        let every_ten = left("*/10 * * * *", 100, 200);
        assert_eq!(every_ten, [((10, Some(90)), 9), ((200, Some(600)), 41)]);
        // Its first due time is named by no schedule of today.
        let hourly = left("5 * * * *", 100, 200);
        assert_eq!(hourly, [((10, Some(65)), 2), ((245, Some(545)), 6)]);
        let from_the_first = left("5 * * * *", 5, 200);
        assert_eq!(from_the_first, [((10, None), 1), ((245, Some(545)), 6)]);
        let to_the_end = left("5 * * * *", 100, 580);
        assert_eq!(to_the_end, [((10, Some(65)), 2), ((600, None), 1)]);
        let once = left("45 1 * * *", 100, 200);
        assert_eq!(once, [((10, None), 1), ((600, None), 1)]);
        assert!(left("0 0 * * *", 100, 200).is_empty(), "nothing is due");
    }
}
