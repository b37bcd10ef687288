//! Reads pages of tasks that have ended, the last event first.

use super::{
    ends::{Direction, EndedTask, Look},
    task_search::TaskSearch,
};
use crate::core::{DoneNo, Seq, Window};
use crate::journal::{JournalError, Reader, StoredTask};
use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

/// Rows looked at by the first statement.
const FIRST_ROWS: i64 = 64;
/// Rows looked at by a later one, when nothing was found and rows are small.
const MAX_ROWS: i64 = 65_536;
/// Time that a statement is to take.
const STATEMENT_TIME: Duration = Duration::from_millis(10);
/// Time after which no further statement is tried.
const MAX_TIME: Duration = Duration::from_millis(20);
/// Tasks read to see whether their submission is admitted.
const TASKS_PER_READ: usize = 256;
/// With at most so many tasks behind a label or an order all of them are looked at,
const FEW_TASKS: usize = 2_000;
/// and with at most so many in the rows that may have them.
const MAX_TASKS: usize = 1_000_000;

/// A page of tasks that have ended, the last event first.
#[derive(Clone, Debug, Default)]
pub struct EndedPage {
    /// Perhaps none, although there are more pages.
    pub tasks: Vec<StoredTask>,
    /// `before` of the next page; `None`: this is the last one.
    pub next: Option<DoneNo>,
}

impl Reader {
    /// At most `limit` tasks that ended as the search asks, with events before `before`.
    pub async fn ended_tasks(
        &self,
        search: &TaskSearch,
        before: DoneNo,
        limit: usize,
    ) -> Result<EndedPage, JournalError> {
        if search.leads_to_few()
            && let Some(page) = self.few_ended_tasks(search, before, limit).await?
        {
            return Ok(page);
        }
        let (mut page, mut rows, begun) = (EndedPage::default(), FIRST_ROWS, Instant::now());
        page.next = Some(before);
        while let Some(before) = page.next
            && page.tasks.is_empty()
            && begun.elapsed() < MAX_TIME
        {
            let start = Instant::now();
            page = self.look_through(search, before, limit, rows).await?;
            rows = rows_after(rows, start.elapsed());
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
        let all_admitted = filter.labels.is_empty() && filter.submitted == Window::default();
        let most = if all_admitted {
            limit
        } else {
            limit.max(TASKS_PER_READ)
        };
        let look = Look {
            handle: search.handle,
            filter,
            seqs: search.seqs.clone(),
            done_nos: search.done_nos.start..before.0.min(search.done_nos.end),
            direction: Direction::Back,
            rows,
        };
        let found = self.ends(&look, most).await?;
        let tasks = self.tasks_by_event(search, &found.ends).await?;
        let mut page = EndedPage {
            tasks: Vec::new(),
            next: found.next,
        };
        for task in tasks {
            if page.tasks.len() == limit {
                page.next = page.tasks.last().and_then(done_no);
                break;
            }
            page.tasks.push(task);
        }
        Ok(page)
    }

    /// The same by way of a label or an order that few tasks have; `None`: too many have it.
    async fn few_ended_tasks(
        &self,
        search: &TaskSearch,
        before: DoneNo,
        limit: usize,
    ) -> Result<Option<EndedPage>, JournalError> {
        let all = Seq(i64::MAX);
        let submitted = self.submitted(search, all, FEW_TASKS, MAX_TASKS);
        let submitted = submitted.await?;
        if submitted.next.is_some() {
            return Ok(None);
        }
        let seqs: Vec<Seq> = submitted.tasks.iter().map(|task| task.seq).collect();
        let mut ends = self.ends_of_tasks(search, &seqs).await?;
        ends.retain(|end| end.done_no < before);
        ends.sort_unstable_by_key(|end| std::cmp::Reverse(end.done_no));
        let more = ends.len() > limit;
        ends.truncate(limit);
        let last = ends.last().map(|end| end.done_no);
        Ok(Some(EndedPage {
            tasks: self.tasks_by_event(search, &ends).await?,
            next: last.filter(|_| more),
        }))
    }

    /// Those of these tasks that have ended as the search asks.
    async fn ends_of_tasks(
        &self,
        search: &TaskSearch,
        seqs: &[Seq],
    ) -> Result<Vec<EndedTask>, JournalError> {
        let (handle, filter) = (search.handle, &search.filter);
        let rows = self.rows_of_tasks(handle, seqs).await?;
        let wanted: HashSet<Seq> = seqs.iter().copied().collect();
        let mut ends = Vec::new();
        for row in self.ends_of(handle, &rows, filter).await? {
            for index in 0..row.len() {
                if wanted.contains(&row.seq(index)) && row.admits(index, filter)? {
                    ends.push(EndedTask::of(&row, index)?);
                }
            }
        }
        Ok(ends)
    }

    /// The tasks of these events, in this order, that were submitted as the search asks.
    async fn tasks_by_event(
        &self,
        search: &TaskSearch,
        ends: &[EndedTask],
    ) -> Result<Vec<StoredTask>, JournalError> {
        let mut seqs: Vec<Seq> = ends.iter().map(|end| end.seq).collect();
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        let tasks = self.tasks_of(search.handle, &seqs).await?;
        let by_seq = tasks.into_iter().map(|task| (task.seq, task));
        let mut by_seq: BTreeMap<Seq, StoredTask> = by_seq.collect();
        let in_order = ends.iter().filter_map(|end| by_seq.remove(&end.seq));
        let admitted = |task: &StoredTask| {
            let (order, at) = (task.effective, task.submitted_at);
            search.filter.admits_submission(order, &task.spec, at)
        };
        Ok(in_order.filter(admitted).collect())
    }
}

/// Rows for the next statement, when one of `rows` took so long.
fn rows_after(rows: i64, took: Duration) -> i64 {
    let fits = STATEMENT_TIME.as_micros() / took.as_micros().max(1);
    let times = i64::try_from(fits).unwrap_or(8).clamp(1, 8);
    (rows * times).min(MAX_ROWS)
}

fn done_no(task: &StoredTask) -> Option<DoneNo> {
    task.done.as_ref().map(|(done_no, _)| *done_no)
}
