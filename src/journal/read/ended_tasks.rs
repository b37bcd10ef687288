//! Reads pages of tasks that have ended, the last event first. Rows are looked through by what they
//! say of all their events, and only those that may hold what is asked for are unpacked. Rows of
//! events that did not succeed have an index; the others are looked at one after the other.

use super::task_search::TaskSearch;
use crate::core::{DoneNo, Handle, Order, Outcome, Seq, TaskFilter, Time, Window};
use crate::journal::{JournalError, Reader, StoredTask, encoding::Stamp, rows::from_row};
use std::collections::BTreeMap;

/// Rows looked at by the first statement, and by the last one when nothing is found.
const FIRST_ROWS: i64 = 64;
const MAX_ROWS: i64 = 4_096;
/// Rows unpacked by one page.
const MAX_UNPACKED: usize = 64;
/// Tasks read to see whether their submission is admitted.
const MAX_TASKS: usize = 256;
/// With at most so many tasks behind a label all of them are looked at.
const FEW_TASKS: usize = 2_000;

/// A page of tasks that have ended, the last event first.
#[derive(Clone, Debug, Default)]
pub struct EndedPage {
    /// Perhaps none, although there are more pages.
    pub tasks: Vec<StoredTask>,
    /// `before` of the next page; `None`: this is the last one.
    pub next: Option<DoneNo>,
}

/// What a row says about all its events.
#[derive(Debug)]
struct Looked {
    rows: i64,
    lowest: Option<i64>,
    /// The rows to unpack, newest first.
    hits: Option<Vec<i64>>,
}

from_row!(Looked { rows, lowest, hits });

/// A row of `completion` without what its events brought.
#[derive(Debug)]
struct EndsRow {
    first_done_no: i64,
    count: i32,
    min_seq: i64,
    ended_at: Stamp,
    seq: Option<Vec<i64>>,
    task_order: Option<Vec<i64>>,
    outcome: Option<Vec<i16>>,
    ended: Option<Vec<i64>>,
}

from_row!(EndsRow {
    first_done_no,
    count,
    min_seq,
    ended_at,
    seq,
    task_order,
    outcome,
    ended
});

/// Whether a row of `completion` may hold what is asked for.
macro_rules! hit {
    () => {
        "(
            ($6::int2[] is null or c.outcome && $6 or (c.outcome is null and 1 = any ($6)))
            and ($7::int8 is null or $7 = any (c.task_order))
            and c.max_seq >= $8
            and c.min_seq < $9
            and (c.ended is not null or $10::timestamptz is null or c.ended_at >= $10)
            and (c.ended is not null or $11::timestamptz is null or c.ended_at < $11)
        )"
    };
}

impl Reader {
    /// At most `limit` tasks that ended as the search asks, with events before `before`.
    pub async fn ended_tasks(
        &self,
        search: &TaskSearch,
        before: DoneNo,
        limit: usize,
    ) -> Result<EndedPage, JournalError> {
        if search.has_rare_label()
            && let Some(page) = self.few_ended_tasks(search, before, limit).await?
        {
            return Ok(page);
        }
        let (mut page, mut rows) = (EndedPage::default(), FIRST_ROWS);
        page.next = Some(before);
        while let Some(before) = page.next
            && page.tasks.is_empty()
            && rows <= MAX_ROWS
        {
            page = self.look_through(search, before, limit, rows).await?;
            rows *= 8;
        }
        Ok(page)
    }

    /// A page of what is found in the next `rows`.
    async fn look_through(
        &self,
        search: &TaskSearch,
        before: DoneNo,
        limit: usize,
        rows: i64,
    ) -> Result<EndedPage, JournalError> {
        let filter = &search.filter;
        let all_admitted = filter.labels.is_empty()
            && filter.error_codes.is_empty()
            && filter.submitted == Window::default();
        let most = if all_admitted {
            limit
        } else {
            limit.max(MAX_TASKS)
        };
        let (ends, next) = self.ends(search, before, most, rows).await?;
        let mut seqs: Vec<Seq> = ends.iter().map(|(_, seq)| *seq).collect();
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        let tasks = self.tasks_of(search.handle, &seqs).await?;
        let tasks = tasks.into_iter().map(|task| (task.seq, task));
        let mut tasks: BTreeMap<Seq, StoredTask> = tasks.collect();
        let mut page = EndedPage {
            tasks: Vec::new(),
            next,
        };
        for (done_no, seq) in ends {
            if page.tasks.len() == limit {
                page.next = Some(DoneNo(done_no.0 + 1));
                break;
            }
            let admitted = tasks.remove(&seq).filter(|task| admits(filter, task));
            page.tasks.extend(admitted);
        }
        Ok(page)
    }

    /// The same by way of a label that few tasks have; `None`: too many have it.
    async fn few_ended_tasks(
        &self,
        search: &TaskSearch,
        before: DoneNo,
        limit: usize,
    ) -> Result<Option<EndedPage>, JournalError> {
        let page = self.submitted(search, Seq(i64::MAX), FEW_TASKS).await?;
        if page.next.is_some() {
            return Ok(None);
        }
        let page = self.with_outcomes(search.handle, page).await?;
        let of_page = |task: &StoredTask| {
            task.done.as_ref().is_some_and(|(no, _)| *no < before) && admits(&search.filter, task)
        };
        let mut tasks: Vec<StoredTask> = page.tasks.into_iter().filter(of_page).collect();
        let number = |task: &StoredTask| task.done.as_ref().map(|(done_no, _)| *done_no);
        tasks.sort_unstable_by_key(|task| std::cmp::Reverse(number(task)));
        let more = tasks.len() > limit;
        tasks.truncate(limit);
        let next = tasks.last().and_then(number).filter(|_| more);
        Ok(Some(EndedPage { tasks, next }))
    }

    /// Events before `before` that are as the search asks, newest first, and before which one to
    /// look on.
    async fn ends(
        &self,
        search: &TaskSearch,
        before: DoneNo,
        most: usize,
        rows: i64,
    ) -> Result<(Vec<(DoneNo, Seq)>, Option<DoneNo>), JournalError> {
        let before = before.0.min(search.done_nos.end);
        let looked = self.look(search, before, rows).await?;
        let mut hits = looked.hits.unwrap_or_default();
        let mut next = looked.lowest.filter(|_| looked.rows == rows);
        if hits.len() > MAX_UNPACKED {
            hits.truncate(MAX_UNPACKED);
            next = hits.last().copied();
        }
        let mut ends = Vec::new();
        for row in self.ends_of(search.handle, &hits).await? {
            for index in (0..row.count as usize).rev() {
                let done_no = row.first_done_no + index as i64;
                if done_no >= before || !row.admits(index, search) {
                    continue;
                }
                if ends.len() == most {
                    return Ok((ends, Some(DoneNo(done_no + 1))));
                }
                ends.push((DoneNo(done_no), row.seq(index)));
            }
        }
        Ok((ends, next.map(DoneNo)))
    }

    /// Looks at the next rows, newest first.
    async fn look(
        &self,
        search: &TaskSearch,
        before: i64,
        rows: i64,
    ) -> Result<Looked, JournalError> {
        let filter = &search.filter;
        let wanted: Vec<i16> = filter.outcomes.iter().map(|one| *one as i16).collect();
        let outcomes = Some(&wanted).filter(|wanted| !wanted.is_empty());
        let indexed = index_values(filter);
        self.read(|| {
            let query = match &indexed {
                None => sqlx::query_as(LOOK_BACK),
                Some(_) => sqlx::query_as(LOOK_BACK_BY_OUTCOME),
            };
            let query = query
                .bind(self.shard.0)
                .bind(search.handle.uuid())
                .bind(before)
                .bind(search.done_nos.start)
                .bind(rows)
                .bind(outcomes)
                .bind(filter.order.map(|order| order.0))
                .bind(search.seqs.start)
                .bind(search.seqs.end)
                .bind(filter.ended.from.map(Stamp))
                .bind(filter.ended.before.map(Stamp));
            let query = match &indexed {
                None => query,
                Some(values) => query.bind(values),
            };
            query.fetch_one(&self.pool)
        })
        .await
    }

    async fn ends_of(
        &self,
        handle: Handle,
        first_done_nos: &[i64],
    ) -> Result<Vec<EndsRow>, JournalError> {
        self.read(|| {
            sqlx::query_as(
                "-- ends_of
                 select c.*
                 from unnest($3::int8[]) as w (first_done_no)
                 cross join lateral (
                     select c.first_done_no, c.count, c.min_seq, c.ended_at, c.seq, c.task_order,
                         c.outcome, c.ended
                     from completion c
                     where c.shard = $1 and c.handle = $2 and c.first_done_no = w.first_done_no
                     offset 0
                 ) c
                 order by c.first_done_no desc",
            )
            .bind(self.shard.0)
            .bind(handle.uuid())
            .bind(first_done_nos)
            .fetch_all(&self.pool)
        })
        .await
    }
}

/// Rows in the order of their events.
const LOOK_BACK: &str = concat!(
    "-- look_back
     select
         count(*) as rows,
         min(c.first_done_no) as lowest,
         (array_agg(c.first_done_no order by c.first_done_no desc) filter (where c.hit))[:65] as hits
     from (
         select c.first_done_no, ",
    hit!(),
    " as hit
         from completion c
         where c.shard = $1
             and c.handle = $2
             and c.first_done_no < $3
             and c.first_done_no >= $4
         order by c.first_done_no desc
         limit $5
     ) c"
);

/// The same of rows that have outcomes other than success, by the index of these.
pub(super) const LOOK_BACK_BY_OUTCOME: &str = concat!(
    "-- look_back_by_outcome
     select
         count(*) as rows,
         min(c.first_done_no) as lowest,
         (array_agg(c.first_done_no order by c.first_done_no desc) filter (where c.hit))[:65] as hits
     from (
         select c.first_done_no, c.hit
         from unnest($12::int4[]) as w (outcomes)
         cross join lateral (
             select c.first_done_no, ",
    hit!(),
    " as hit
             from completion c
             where c.shard = $1
                 and c.handle = $2
                 and c.outcome is not null
                 and (2 = any (c.outcome))::int4 + 2 * (3 = any (c.outcome))::int4
                     + 4 * (4 = any (c.outcome))::int4 + 8 * (5 = any (c.outcome))::int4
                     = w.outcomes
                 and c.first_done_no < $3
                 and c.first_done_no >= $4
             order by c.first_done_no desc
             limit $5
         ) c
         order by c.first_done_no desc
         limit $5
     ) c"
);

/// The values of the index of outcomes that are looked for; `None`: it does not have all rows.
fn index_values(filter: &TaskFilter) -> Option<Vec<i32>> {
    let has_succeeded = match filter.outcomes.is_empty() {
        // What has succeeded has no error.
        true => filter.error_codes.is_empty(),
        false => filter.outcomes.contains(&Outcome::Succeeded),
    };
    if has_succeeded {
        return None;
    }
    let bits = filter.outcomes.iter().map(|one| 1 << (*one as i16 - 2));
    let wanted: i32 = bits.fold(0, |all, one| all | one);
    let any = filter.outcomes.is_empty();
    let values = (1..16).filter(|value| any || value & wanted != 0);
    Some(values.collect())
}

fn admits(filter: &TaskFilter, task: &StoredTask) -> bool {
    let submitted = filter.admits_submission(task.effective, &task.spec, task.submitted_at);
    submitted
        && task
            .done
            .as_ref()
            .is_some_and(|(_, done)| filter.admits_end(done))
}

impl EndsRow {
    fn seq(&self, index: usize) -> Seq {
        Seq(at(&self.seq, index).unwrap_or(self.min_seq + index as i64))
    }

    fn admits(&self, index: usize, search: &TaskSearch) -> bool {
        let filter = &search.filter;
        let order = at(&self.task_order, index).filter(|order| *order >= 0);
        let outcome = Outcome::from_number(at(&self.outcome, index).unwrap_or(1));
        let ended = at(&self.ended, index).map_or(self.ended_at.0, Time);
        search.seqs.contains(&self.seq(index).0)
            && (filter.order.is_none() || filter.order == order.map(Order))
            && (filter.outcomes.is_empty()
                || outcome.is_some_and(|outcome| filter.outcomes.contains(&outcome)))
            && filter.ended.contains(ended)
    }
}

fn at<T: Copy>(values: &Option<Vec<T>>, index: usize) -> Option<T> {
    values
        .as_ref()
        .and_then(|values| values.get(index))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_looked_for_wherever_it_stands_among_others() {
        let values = |outcomes: &[Outcome], codes: &[&str]| {
            index_values(&TaskFilter {
                outcomes: outcomes.to_vec(),
                error_codes: codes.iter().map(|code| (*code).to_owned()).collect(),
                ..TaskFilter::default()
            })
        };
        let failed = values(&[Outcome::Failed], &["22012"]);
        assert_eq!(failed, Some(vec![1, 3, 5, 7, 9, 11, 13, 15]));
        let rare = values(&[Outcome::Exhausted, Outcome::TimedOut], &[]);
        assert_eq!(rare, Some((4..16).collect()));
        assert_eq!(values(&[Outcome::Succeeded, Outcome::Failed], &[]), None);
        assert_eq!(values(&[], &["LOST"]), Some((1..16).collect()));
        assert_eq!(values(&[], &[]), None);
    }
}
