//! Reads pages of tasks, the newest submission first.

use super::{
    task_search::{TaskRows, TaskSearch},
    tasks::{StoredTask, stored},
};
use crate::core::{Handle, Order, Seq, Spec};
use crate::journal::{
    JournalError, Reader,
    rows::{
        label::ANY,
        submission::{Specs, SubmissionRow, submission_columns},
    },
};
use std::{ops::Range, sync::Arc};

/// Rows searched for one page.
const MAX_ROWS: i64 = 1_000;
/// Tasks in the rows searched for one page.
pub(super) const MAX_TASKS: usize = 300_000;
/// Rows of the first read: few, because a row may hold thousands of tasks.
const FIRST_ROWS: i64 = 4;
/// Rows of a later read.
const MAX_ROWS_AT_ONCE: i64 = 256;

/// A page of tasks, newest first.
#[derive(Clone, Debug, Default)]
pub struct TaskPage {
    /// Perhaps none, although there are more pages.
    pub tasks: Vec<StoredTask>,
    /// `before` of the next page; `None`: this is the last one.
    pub next: Option<Seq>,
}

/// Rows in which to look, newest first.
struct FoundRows {
    rows: Vec<SubmissionRow>,
    /// Before which to look on; `None`: there are no more.
    next: Option<Seq>,
}

impl Reader {
    /// At most `limit` tasks before `before` that were submitted as the search asks, newest first.
    pub async fn tasks(
        &self,
        search: &TaskSearch,
        before: Seq,
        limit: usize,
    ) -> Result<TaskPage, JournalError> {
        let page = self.submitted(search, before, limit, MAX_TASKS).await?;
        self.with_outcomes(search.handle, page).await
    }

    /// The same, without outcomes; `max_tasks`: in the rows searched.
    pub(super) async fn submitted(
        &self,
        search: &TaskSearch,
        before: Seq,
        limit: usize,
        max_tasks: usize,
    ) -> Result<TaskPage, JournalError> {
        let mut before = before.min(search.below_seq());
        let mut specs = Specs::default();
        let mut page = TaskPage::default();
        let (mut searched, mut tasks, mut step) = (0, 0, FIRST_ROWS);
        while searched < MAX_ROWS && tasks < max_tasks {
            let found = self.rows_before(search, before, step).await?;
            for row in &found.rows {
                tasks += row.count as usize;
                if unpack(row, search, before, limit, &mut specs, &mut page)? {
                    return Ok(page);
                }
            }
            page.next = found.next.filter(|next| next.0 > search.seqs.start);
            let Some(next) = page.next else {
                break;
            };
            before = next;
            searched += step;
            step = (step * 4).min(MAX_ROWS_AT_ONCE);
        }
        Ok(page)
    }

    /// These tasks, which must be given newest first; those whose rows are gone are left out.
    pub async fn tasks_of(
        &self,
        handle: Handle,
        seqs: &[Seq],
    ) -> Result<Vec<StoredTask>, JournalError> {
        let rows = self.submissions_of(handle, seqs).await?;
        let page = TaskPage {
            tasks: tasks_in(&rows, seqs)?,
            next: None,
        };
        Ok(self.with_outcomes(handle, page).await?.tasks)
    }

    /// Results are without their rows.
    pub(super) async fn with_outcomes(
        &self,
        handle: Handle,
        mut page: TaskPage,
    ) -> Result<TaskPage, JournalError> {
        self.note_outcomes(handle, &mut page.tasks).await?;
        self.note_retries(handle, &mut page.tasks).await?;
        Ok(page)
    }

    /// Rows in which to look, newest first.
    async fn rows_before(
        &self,
        search: &TaskSearch,
        before: Seq,
        limit: i64,
    ) -> Result<FoundRows, JournalError> {
        let handle = search.handle;
        let (rows, floor) = match &search.rows {
            TaskRows::All => (self.submissions(handle, before, limit).await?, None),
            TaskRows::OfOrder { order, .. } => {
                let floor = self.floor_of_order(handle, before, *order, limit).await?;
                let from = floor.unwrap_or(Seq(0));
                let rows = self.submissions_of_order(handle, from..before, *order, limit);
                (rows.await?, floor)
            }
            TaskRows::Labelled { label, .. } => {
                return self
                    .submissions_labelled(handle, before, label, limit)
                    .await;
            }
        };
        let last = rows.last().filter(|_| rows.len() == limit as usize);
        Ok(FoundRows {
            next: last.map(|row| Seq(row.first_seq)).or(floor),
            rows,
        })
    }

    /// The last of `limit` rows that begin before `before` and may have tasks of `order` beside
    /// others; `None`: there are fewer. Which of them have the order is not known before they are
    /// unpacked.
    async fn floor_of_order(
        &self,
        handle: Handle,
        before: Seq,
        order: Order,
        limit: i64,
    ) -> Result<Option<Seq>, JournalError> {
        let floor: Option<i64> = self
            .read(|| {
                sqlx::query_scalar(FLOOR_OF_ORDER)
                    .bind(self.shard.0)
                    .bind(handle.uuid())
                    .bind(before.0)
                    .bind(limit - 1)
                    .bind(order.0)
                    .fetch_optional(&self.pool)
            })
            .await?;
        Ok(floor.map(Seq))
    }

    /// Rows that begin before `before` and may have tasks with a label, newest first. A label may
    /// stay longer than its row: where labels end, not where rows are missing, the search does.
    async fn submissions_labelled(
        &self,
        handle: Handle,
        before: Seq,
        label: &[u8],
        limit: i64,
    ) -> Result<FoundRows, JournalError> {
        let first_seqs = self.rows_labelled(handle, before, label, limit).await?;
        let last = first_seqs
            .last()
            .filter(|_| first_seqs.len() == limit as usize);
        let mut rows = self.submissions_of(handle, &first_seqs).await?;
        rows.retain(|row| first_seqs.contains(&Seq(row.first_seq)));
        rows.reverse();
        Ok(FoundRows {
            next: last.copied(),
            rows,
        })
    }

    /// Rows that begin within `first_seqs` and have tasks of `order`, newest first.
    async fn submissions_of_order(
        &self,
        handle: Handle,
        first_seqs: Range<Seq>,
        order: Order,
        limit: i64,
    ) -> Result<Vec<SubmissionRow>, JournalError> {
        self.read(|| {
            sqlx::query_as::<_, SubmissionRow>(concat!(
                "-- submissions_of_order
                 select s.*
                 from (
                     (
                         select ",
                submission_columns!(),
                " from submission s
                         where s.shard = $1
                             and s.handle = $2
                             and (s.lowest_order, s.first_seq) >= ($5, $6)
                             and (s.lowest_order, s.first_seq) < ($5, $3)
                             and s.lowest_order = s.highest_order
                         order by s.lowest_order desc, s.first_seq desc
                         limit $4
                     )
                     union all
                     (
                         select ",
                submission_columns!(),
                " from submission s
                         where s.shard = $1
                             and s.handle = $2
                             and s.first_seq >= $6
                             and s.first_seq < $3
                             and s.lowest_order < s.highest_order
                             and s.lowest_order <= $5
                             and s.highest_order >= $5
                             and $5 = any (coalesce(s.effective_order, s.asked_order))
                         order by s.first_seq desc
                         limit $4
                     )
                 ) s
                 order by s.first_seq desc
                 limit $4"
            ))
            .bind(self.shard.0)
            .bind(handle.uuid())
            .bind(first_seqs.end.0)
            .bind(limit)
            .bind(order.0)
            .bind(first_seqs.start.0)
            .fetch_all(&self.pool)
        })
        .await
    }

    /// The rows that hold these tasks, oldest first.
    pub(super) async fn submissions_of(
        &self,
        handle: Handle,
        seqs: &[Seq],
    ) -> Result<Vec<SubmissionRow>, JournalError> {
        let seqs: Vec<i64> = seqs.iter().map(|seq| seq.0).collect();
        self.read(|| {
            sqlx::query_as::<_, SubmissionRow>(concat!(
                "-- submissions_of
                 with rows as materialized (
                     select distinct (
                         select max(b.first_seq)
                         from submission b
                         where b.shard = $1 and b.handle = $2 and b.first_seq <= w.seq
                     ) as first_seq
                     from unnest($3::int8[]) as w (seq)
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
            .bind(&seqs)
            .fetch_all(&self.pool)
        })
        .await
    }

    /// The first tasks of these rows, newest first.
    async fn rows_labelled(
        &self,
        handle: Handle,
        before: Seq,
        label: &[u8],
        limit: i64,
    ) -> Result<Vec<Seq>, JournalError> {
        let first_seqs: Vec<i64> = self
            .read(|| {
                sqlx::query_scalar(ROWS_LABELLED)
                    .bind(self.shard.0)
                    .bind(handle.uuid())
                    .bind(before.0)
                    .bind(limit)
                    .bind(vec![label, ANY])
                    .fetch_all(&self.pool)
            })
            .await?;
        Ok(first_seqs.into_iter().map(Seq).collect())
    }
}

/// The row `$4` places before the last one of several orders that may have tasks of the order `$5`.
pub(super) const FLOOR_OF_ORDER: &str = "-- floor_of_order
     select s.first_seq
     from submission s
     where s.shard = $1
         and s.handle = $2
         and s.first_seq < $3
         and s.lowest_order < s.highest_order
         and s.lowest_order <= $5
         and s.highest_order >= $5
     order by s.first_seq desc
     offset $4
     limit 1";

/// Rows that may have tasks with one of the labels `$5`, newest first.
pub(super) const ROWS_LABELLED: &str = "-- rows_labelled
     select distinct l.first_seq
     from unnest($5::bytea[]) as w (label)
     cross join lateral (
         select l.first_seq
         from task_label l
         where l.shard = $1
             and l.handle = $2
             and l.label = w.label
             and l.first_seq < $3
         order by l.first_seq desc
         limit $4
     ) l
     order by l.first_seq desc
     limit $4";

/// Adds the tasks of a row below `before` that the filter admits, newest first. True: the page is
/// full.
fn unpack(
    row: &SubmissionRow,
    search: &TaskSearch,
    before: Seq,
    limit: usize,
    specs: &mut Specs,
    page: &mut TaskPage,
) -> Result<bool, JournalError> {
    let dictionary = row.dictionary(specs)?;
    let admits = |spec: &Arc<Spec>| search.filter.admits_labels(spec);
    let admitted: Vec<bool> = dictionary.iter().map(admits).collect();
    if !admitted.contains(&true) {
        return Ok(false);
    }
    let times = row.times()?;
    let below = (before.0 - row.first_seq).clamp(0, times.len() as i64) as usize;
    for index in (0..below).rev() {
        if !*row.spec(index, &admitted)? {
            continue;
        }
        let spec = row.spec(index, &dictionary)?;
        let order = row.effective(index);
        if !search.filter.admits_submission(order, spec, times[index]) {
            continue;
        }
        if page.tasks.len() == limit {
            page.next = Some(Seq(row.first_seq + index as i64 + 1));
            return Ok(true);
        }
        page.tasks.push(stored(row, index, times[index], spec));
    }
    Ok(false)
}

/// These tasks, given newest first, as far as the rows, oldest first, hold them.
pub(super) fn tasks_in(
    rows: &[SubmissionRow],
    seqs: &[Seq],
) -> Result<Vec<StoredTask>, JournalError> {
    let mut specs = Specs::default();
    let known = |row: &SubmissionRow| Ok((row.times()?, row.dictionary(&mut specs)?));
    let known: Vec<_> = rows
        .iter()
        .map(known)
        .collect::<Result<_, JournalError>>()?;
    let mut tasks = Vec::with_capacity(seqs.len());
    for seq in seqs {
        let at = rows.partition_point(|row| row.first_seq <= seq.0);
        let Some(at) = at.checked_sub(1) else {
            continue;
        };
        let index = (seq.0 - rows[at].first_seq) as usize;
        let (times, dictionary) = &known[at];
        if let Some(time) = times.get(index) {
            let spec = rows[at].spec(index, dictionary)?;
            tasks.push(stored(&rows[at], index, *time, spec));
        }
    }
    Ok(tasks)
}
