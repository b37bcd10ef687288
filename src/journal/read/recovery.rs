//! Reads what a new owner needs: checkpoints and what came later, never bodies.
//!
//! A handful of statements, however many schedulers there are, with streamed results. Call it after
//! a take-over, while nobody can write.

use super::{
    jobs::jobs,
    recovered::{Recovered, Schedulers},
    resources::resources,
    schedulers::{SchedulerRow, scheduler_columns},
    set_aside,
    target_pauses::target_pauses,
};
use crate::core::{DoneNo, Outcome, RecoveredJobs, RecoveredOutcome, Seq, ShardId, Time};
use crate::journal::{
    Journal, JournalError,
    bounded_connection::BoundedConnection,
    day_partitions::Days,
    encoding::{Date, Stamp},
    migrations,
    rows::{
        attempt::{AttemptRow, attempt_columns},
        from_row,
        submission::{Specs, SubmissionRow, submission_columns},
    },
};
use futures_util::TryStreamExt;
use std::time::Duration;
use uuid::Uuid;

/// Reads all schedulers, with about the latest `requests` of the calls since then, which may be
/// repeated.
pub async fn recover(
    journal: &Journal,
    requests: usize,
    since: Time,
) -> Result<Recovered, JournalError> {
    let shard = journal.shard();
    let read = journal.recovery(async |link| {
        // Another program may have migrated since this one took the shard over.
        migrations::check(link).await?;
        let mut recovery = Recovery::default();
        recovery.schedulers(link, shard, requests, since).await?;
        recovery.runs(link, shard).await?;
        recovery.outcomes(link, shard).await?;
        recovery.attempts(link, shard).await?;
        recovery.requests(link, shard, requests, since).await?;
        let unnoted = set_aside::note(link, shard, recovery.read.set_aside()).await?;
        let pauses = target_pauses(link, shard).await?;
        let resources = resources(link, shard).await?;
        let jobs = jobs(link, shard, since).await?;
        let read = recovery.read.finish();
        let set_aside = read.unreadable.iter().map(|one| one.handle).collect();
        Ok(Recovered {
            unnoted,
            pauses,
            resources,
            jobs: RecoveredJobs { set_aside, ..jobs },
            ..read
        })
    });
    read.await
}

/// How much younger the later calls of a row may be than its first one, by which the row is found.
const ROW_WIDTH: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Recovery {
    read: Schedulers,
    specs: Specs,
}

/// The outcome columns that recovery needs.
struct OutcomeRow {
    handle: Uuid,
    first_done_no: i64,
    count: i32,
    min_seq: i64,
    seq: Option<Vec<i64>>,
    outcome: Option<Vec<i16>>,
}

from_row!(OutcomeRow {
    handle,
    first_done_no,
    count,
    min_seq,
    seq,
    outcome
});

impl Recovery {
    async fn schedulers(
        &mut self,
        connection: &mut BoundedConnection,
        shard: ShardId,
        most: usize,
        since: Time,
    ) -> Result<(), JournalError> {
        let query = sqlx::query_as::<_, SchedulerRow>(concat!(
            "-- recover_schedulers
             select ",
            scheduler_columns!(),
            " from scheduler r
             where r.shard = $1
                 and (
                     r.state <> 3
                     or r.state = 3 and r.released_at >= $2 and r.released_at >= coalesce(
                         (
                             select e.released_at
                             from scheduler e
                             where e.shard = $1 and e.state = 3 and e.released_at >= $2
                             order by e.released_at desc
                             offset $3 - 1
                             limit 1
                         ),
                         $2
                     )
                 )
             order by r.handle"
        ));
        // Ended schedulers too, as long as their calls may be repeated; of many the last ones, by
        // the time of the first of these: a list would be searched from its beginning for each. By
        // `$2` alone the planner knows that they are few.
        let query = query.bind(shard.0).bind(Stamp(since)).bind(most as i64);
        let mut rows = query.fetch(connection);
        while let Some(row) = rows.try_next().await? {
            let was_set_aside = row.set_aside;
            self.read
                .insert(row.unreadable(), was_set_aside, row.image())?;
        }
        Ok(())
    }

    /// Submissions with a task that was unfinished at the checkpoint, and later ones. The first row
    /// of each range is the last one that begins at or before it.
    async fn runs(
        &mut self,
        connection: &mut BoundedConnection,
        shard: ShardId,
    ) -> Result<(), JournalError> {
        let query = sqlx::query_as::<_, SubmissionRow>(concat!(
            "-- recover_runs
             with wanted as materialized (
                 select distinct r.handle, s.first_seq, s.day
                 from scheduler r
                 cross join lateral
                     unnest(r.unfinished + int8multirange(int8range(r.highest_seq + 1, null))) as part
                 cross join lateral (
                     select b.first_seq
                     from submission b
                     where b.shard = $1
                         and b.handle = r.handle
                         and b.day >= r.first_day
                         and b.first_seq <= lower(part)
                     order by b.first_seq desc
                     limit 1
                 ) b
                 cross join lateral (
                     select s.first_seq, s.day
                     from submission s
                     where s.shard = $1
                         and s.handle = r.handle
                         and s.day >= r.first_day
                         and s.first_seq >= b.first_seq
                         and s.first_seq < coalesce(upper(part), 9223372036854775807)
                         and s.first_seq + s.count > lower(part)
                     offset 0
                 ) s
                 where r.shard = $1 and r.state <> 3 and not r.resting
             )
             select s.*
             from wanted w
             cross join lateral (
                 select ",
            submission_columns!(),
            ", s.body_ends, s.params_ends
                 from submission s
                 where s.shard = $1
                     and s.handle = w.handle
                     and s.first_seq = w.first_seq
                     and s.day = w.day
                 offset 0
             ) s
             order by s.handle, s.first_seq"
        ));
        let mut rows = query.bind(shard.0).fetch(connection);
        while let Some(row) = rows.try_next().await? {
            let specs = &mut self.specs;
            self.read.add(row.handle, |one| row.add_to(one, specs))?;
        }
        Ok(())
    }

    async fn outcomes(
        &mut self,
        connection: &mut BoundedConnection,
        shard: ShardId,
    ) -> Result<(), JournalError> {
        let query = sqlx::query_as::<_, OutcomeRow>(
            "-- recover_outcomes
             select c.handle, c.first_done_no, c.count, c.min_seq, c.seq, c.outcome
             from scheduler r
             cross join lateral (
                 select b.first_done_no
                 from completion b
                 where b.shard = $1
                     and b.handle = r.handle
                     and b.day >= r.first_day
                     and b.first_done_no <= r.done_no + 1
                 order by b.first_done_no desc
                 limit 1
             ) b
             cross join lateral (
                 select c.handle, c.first_done_no, c.count, c.min_seq, c.seq, c.outcome
                 from completion c
                 where c.shard = $1
                     and c.handle = r.handle
                     and c.day >= r.first_day
                     and c.first_done_no >= b.first_done_no
                     and c.first_done_no + c.count > r.done_no + 1
                 offset 0
             ) c
             where r.shard = $1 and r.state <> 3 and not r.resting
             order by c.handle, c.first_done_no",
        );
        let mut rows = query.bind(shard.0).fetch(connection);
        while let Some(row) = rows.try_next().await? {
            self.read.add(row.handle, |one| {
                row.add_to(&mut one.outcomes, one.image.checkpoint.done_no)
            })?;
        }
        Ok(())
    }

    async fn attempts(
        &mut self,
        connection: &mut BoundedConnection,
        shard: ShardId,
    ) -> Result<(), JournalError> {
        let query = sqlx::query_as::<_, AttemptRow>(concat!(
            "-- recover_attempts
             select ",
            attempt_columns!(),
            " from scheduler r
             cross join lateral
                     unnest(r.unfinished + int8multirange(int8range(r.highest_seq + 1, null))) as part
             cross join lateral (
                 select ",
            attempt_columns!(),
            " from attempt a
                 where a.shard = $1
                     and a.handle = r.handle
                     and a.day >= r.first_day
                     and a.seq >= lower(part)
                     and a.seq < coalesce(upper(part), 9223372036854775807)
                 offset 0
             ) a
             where r.shard = $1 and r.state <> 3 and not r.resting
             order by a.handle, a.seq, a.attempt, a.kind"
        ));
        let mut rows = query.bind(shard.0).fetch(connection);
        while let Some(row) = rows.try_next().await? {
            let (handle, record) = (row.handle, row.record());
            self.read.add(handle, |one| {
                one.attempts.extend(record?);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The latest calls that may be repeated, also those whose tasks have all ended.
    async fn requests(
        &mut self,
        connection: &mut BoundedConnection,
        shard: ShardId,
        most: usize,
        since: Time,
    ) -> Result<(), JournalError> {
        let earliest = since - ROW_WIDTH;
        // Where a row of that time lies, if its own day was missing when it was written.
        let day = Date(Days::read(connection).await?.lowest(earliest.day()));
        let rows_since = requests_since(connection, shard, (earliest, day), most).await?;
        let query = sqlx::query_as::<_, SubmissionRow>(concat!(
            "-- recover_requests
             select ",
            submission_columns!(),
            " from submission s
             where s.shard = $1
                 and s.request_ids is not null
                 and s.submitted_at >= $2
                 and s.day >= $3"
        ));
        let mut rows = query
            .bind(shard.0)
            .bind(Stamp(rows_since))
            .bind(day)
            .fetch(connection);
        while let Some(row) = rows.try_next().await? {
            self.read.add(row.handle, |one| {
                one.requests.extend(row.requests(since)?);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The second from which on rows hold at least `most` calls that may be repeated; `since` when
/// there are fewer.
async fn requests_since(
    connection: &mut BoundedConnection,
    shard: ShardId,
    (since, day): (Time, Date),
    most: usize,
) -> Result<Time, JournalError> {
    let seconds: Vec<(Stamp, i64)> = sqlx::query_as(
        "-- requests_by_second
         select date_trunc('second', s.submitted_at) as second,
             sum(coalesce(cardinality(s.call_counts), 1))
         from submission s
         where s.shard = $1
             and s.request_ids is not null
             and s.submitted_at >= $2
             and s.day >= $3
         group by second
         order by second desc",
    )
    .bind(shard.0)
    .bind(Stamp(since))
    .bind(day)
    .fetch_all(connection)
    .await?;
    let mut calls = 0;
    let enough = seconds.into_iter().find(|(_, more)| {
        calls += more;
        calls >= i64::try_from(most).unwrap_or(i64::MAX)
    });
    Ok(enough.map_or(since, |(second, _)| second.0))
}

impl OutcomeRow {
    /// Adds the outcomes after `after`, joined to runs of tasks with equal outcomes.
    fn add_to(
        &self,
        outcomes: &mut Vec<RecoveredOutcome>,
        after: DoneNo,
    ) -> Result<(), JournalError> {
        let skipped = (after.0 + 1 - self.first_done_no).max(0) as usize;
        for index in skipped..self.count as usize {
            let seq = self
                .seq
                .as_ref()
                .map_or(Some(self.min_seq + index as i64), |seqs| {
                    seqs.get(index).copied()
                });
            let number = self
                .outcome
                .as_ref()
                .map_or(Some(1), |outcomes| outcomes.get(index).copied());
            let (Some(seq), Some(outcome)) = (seq, number.and_then(Outcome::from_number)) else {
                return Err(JournalError::corrupt(format!(
                    "completion {}/{}",
                    self.handle, self.first_done_no
                )));
            };
            let done_no = DoneNo(self.first_done_no + index as i64);
            match outcomes.last_mut() {
                Some(last)
                    if last.outcome == outcome && seq == last.first.0 + i64::from(last.count) =>
                {
                    last.count += 1
                }
                _ => outcomes.push(RecoveredOutcome {
                    done_no,
                    first: Seq(seq),
                    count: 1,
                    outcome,
                }),
            }
        }
        Ok(())
    }
}
