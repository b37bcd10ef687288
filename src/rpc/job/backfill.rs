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
use std::{collections::BTreeMap, time::Duration};
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
        let ranges = schedule.map(|schedule| remainders(&schedule, &rows, from, until));
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

/// Of rows that stand for many due times, what is left on both sides of the range. The row of its
/// first due time is that of the whole, so it is written anew.
fn remainders(schedule: &Schedule, rows: &[RunImage], from: Time, until: Time) -> Vec<RunImage> {
    let mut left = BTreeMap::new();
    for (row, last) in rows
        .iter()
        .filter_map(|row| row.last.map(|last| (row, last)))
    {
        if last < from || row.key.due >= until {
            continue;
        }
        let before = part(schedule, row, row.key.due, Time(from.0 - 1).min(last));
        let behind = part(schedule, row, until.max(row.key.due), last);
        left.extend(
            [before, behind]
                .into_iter()
                .flatten()
                .map(|row| (row.key, row)),
        );
    }
    left.into_values().collect()
}

/// The part of a row from one time to another, both included.
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
        key: RunKey {
            due: first,
            ..row.key
        },
        last: (last > first).then_some(last),
        count: count.min(row.count),
        ..row.clone()
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
}
