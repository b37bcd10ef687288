//! Reads which tasks of a scheduler a filter means, as ranges: what they were submitted with, and
//! nothing of how they ended.

use super::{
    task_pages::{MAX_TASKS, tasks_in},
    task_search::TaskSearch,
    tasks::StoredTask,
};
use crate::core::{Handle, Seq, TaskRange};
use crate::journal::{
    JournalError, Reader,
    rows::submission::{SubmissionRow, submission_columns},
};

/// Ranges of tasks, newest first.
#[derive(Clone, Debug, Default)]
pub struct RangePage {
    pub ranges: Vec<TaskRange>,
    /// Before which task to look on; `None`: there are no more.
    pub next: Option<Seq>,
}

impl Reader {
    /// Those of these tasks, given newest first, that were submitted as the search asks. Reads the
    /// rows of consecutive tasks together: what it costs rises with the rows.
    pub async fn ranges_of(
        &self,
        search: &TaskSearch,
        seqs: &[Seq],
    ) -> Result<Vec<TaskRange>, JournalError> {
        let rows = self.submissions_among(search.handle, seqs).await?;
        let mut tasks = tasks_in(&rows, seqs)?;
        tasks.retain(|task| {
            let filter = &search.filter;
            filter.admits_submission(task.effective, &task.spec, task.submitted_at)
        });
        Ok(ranges(&tasks))
    }

    /// At most `limit` tasks before `before` that were submitted as the search asks, whether they
    /// have ended or not.
    pub async fn ranges_before(
        &self,
        search: &TaskSearch,
        before: Seq,
        limit: usize,
    ) -> Result<RangePage, JournalError> {
        let page = self.submitted(search, before, limit, MAX_TASKS).await?;
        Ok(RangePage {
            ranges: ranges(&page.tasks),
            next: page.next,
        })
    }

    /// The rows that hold these tasks, given newest first; oldest first.
    async fn submissions_among(
        &self,
        handle: Handle,
        seqs: &[Seq],
    ) -> Result<Vec<SubmissionRow>, JournalError> {
        let of_one_row = seqs.chunk_by(|later, earlier| later.0 == earlier.0 + 1);
        let ends = of_one_row.filter_map(|part| Some((part.last()?.0, part.first()?.0)));
        let (firsts, lasts): (Vec<i64>, Vec<i64>) = ends.unzip();
        self.read(|| {
            sqlx::query_as::<_, SubmissionRow>(concat!(
                "-- submissions_among
                 with rows as materialized (
                     select distinct s.first_seq
                     from unnest($3::int8[], $4::int8[]) as w (first, last)
                     cross join lateral (
                         select s.first_seq
                         from submission s
                         where s.shard = $1
                             and s.handle = $2
                             and s.first_seq <= w.last
                             and s.first_seq >= coalesce(
                                 (
                                     select max(b.first_seq)
                                     from submission b
                                     where b.shard = $1
                                         and b.handle = $2
                                         and b.first_seq <= w.first
                                 ),
                                 w.first
                             )
                         offset 0
                     ) s
                 )
                 select s.*
                 from rows
                 cross join lateral (
                     select ",
                submission_columns!(),
                " from submission s
                     where s.shard = $1 and s.handle = $2 and s.first_seq = rows.first_seq
                     offset 0
                 ) s
                 order by s.first_seq"
            ))
            .bind(self.shard.0)
            .bind(handle.uuid())
            .bind(&firsts)
            .bind(&lasts)
            .fetch_all(&self.pool)
        })
        .await
    }
}

/// Tasks, newest first, as ranges of one order.
fn ranges(tasks: &[StoredTask]) -> Vec<TaskRange> {
    let continues = |later: &StoredTask, earlier: &StoredTask| {
        later.seq.0 == earlier.seq.0 + 1 && later.effective == earlier.effective
    };
    let range = |part: &[StoredTask]| {
        let (last, first) = (part.first()?, part.last()?);
        Some(TaskRange {
            first: first.seq,
            last: last.seq,
            order: first.effective,
        })
    };
    tasks.chunk_by(continues).filter_map(range).collect()
}
