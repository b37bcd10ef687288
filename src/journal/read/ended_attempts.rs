//! Reads how long tasks have lasted: of a scheduler and the latest ones of its namespace, the last
//! tasks that ended. A bounded number of rows by their keys, whatever the log holds.

use crate::core::{Handle, Namespace, Outcome, SchedulerFilter, Seq, Spec, TaskId, Time};
use crate::journal::{
    JournalError, Reader,
    encoding::Stamp,
    read::{
        slot_gaps::{Stay, slot_gaps},
        task_pages::tasks_in,
    },
    rows::{completion::at, from_row},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};
use uuid::Uuid;

/// Other schedulers that are looked at.
const OTHERS: usize = 24;
/// Events of a row, and of the scheduler's own and of each other one.
const EVENTS_OF_ROW: i32 = 100;
const EVENTS: (usize, usize) = (800, 80);

/// A task that has ended, as far as its last attempt ran.
#[derive(Clone, Debug)]
pub struct EndedAttempt {
    /// What it was submitted with.
    pub spec: Arc<Spec>,
    /// A hash of its statement; `None`: it has none.
    pub text: Option<u64>,
    /// From its start to its end.
    pub lasted: Duration,
    /// It failed or ran out of time.
    pub failed: bool,
    /// Attempts before its last one.
    pub earlier: u32,
    /// For how long its slot had run nothing, although it was waiting.
    pub gap: Option<Duration>,
}

/// The last events of a row.
struct Row {
    handle: Uuid,
    min_seq: i64,
    count: i32,
    started_at: Option<Stamp>,
    ended_at: Stamp,
    seq: Option<Vec<i64>>,
    outcome: Option<Vec<i16>>,
    attempt: Option<Vec<i32>>,
    started: Option<Vec<i64>>,
    ended: Option<Vec<i64>>,
    slot: Option<Vec<i32>>,
}

from_row!(Row {
    handle,
    min_seq,
    count,
    started_at,
    ended_at,
    seq,
    outcome,
    attempt,
    started,
    ended,
    slot
});

/// When and where one task ran, in microseconds.
struct End {
    seq: Seq,
    slot: i32,
    started: i64,
    ended: i64,
    failed: bool,
    earlier: u32,
}

pub(super) const RECENT_ENDS: &str = "-- recent_ends
     select c.*
     from unnest($2::uuid[], $3::int4[]) with ordinality as w (handle, events, place)
     cross join lateral (
         select c.handle, c.first_done_no, c.min_seq + s.skipped as min_seq,
             c.count - s.skipped as count, c.started_at, c.ended_at,
             c.seq[s.skipped + 1 :] as seq,
             c.outcome[s.skipped + 1 :] as outcome,
             c.attempt[s.skipped + 1 :] as attempt,
             c.started[s.skipped + 1 :] as started,
             c.ended[s.skipped + 1 :] as ended,
             c.slot[s.skipped + 1 :] as slot
         from (
             select c.*,
                 sum(least(c.count, $4)) over (order by c.first_done_no desc)
                     - least(c.count, $4) as later
             from completion c
             where c.shard = $1 and c.handle = w.handle
             order by c.first_done_no desc
             limit w.events
         ) c
         cross join lateral (select greatest(c.count - $4, 0) as skipped) s
         where c.later < w.events
     ) c
     order by w.place, c.first_done_no desc";

/// Rows that are unpacked for hashes, those of the tasks that come first: of the others nothing is
/// said.
const TEXT_ROWS: i64 = 1_000;
/// A longer statement is hashed as far as that, and by its length.
const TEXT_BYTES: i32 = 8_192;

/// As the summaries of tasks are read: of many tasks of a row it is unpacked once.
pub(super) const TEXT_HASHES: &str = "-- text_hashes
with wanted as materialized (
    select w.handle, w.seq, w.place, (
        select max(b.first_seq)
        from submission b
        where b.shard = $1 and b.handle = w.handle and b.first_seq <= w.seq
    ) as first_seq
    from unnest($2::uuid[], $3::int8[]) with ordinality as w (handle, seq, place)
), rows as materialized (
    select w.handle, w.first_seq, array_agg(w.seq) as seqs
    from wanted w
    where w.first_seq is not null
    group by w.handle, w.first_seq
    order by min(w.place)
    limit $4
)
select r.handle, t.seq, md5(
    substring(s.bodies from b.start + 1 for least(b.length, $5))
        || case when b.length > $5 then convert_to(b.length::text, 'UTF8') else ''::bytea end
) as hash
from rows r
cross join lateral (
    select s.count, s.kind, s.body_ends,
        case when cardinality(r.seqs) > 4 then s.bodies || ''::bytea else s.bodies end as bodies
    from submission s
    where s.shard = $1 and s.handle = r.handle and s.first_seq = r.first_seq
    offset 0
) s
cross join lateral unnest(r.seqs) as t (seq)
cross join lateral (select (t.seq - r.first_seq + 1)::int4 as at) i
cross join lateral (
    select e.start, s.body_ends[i.at] - e.start as length
    from (select coalesce(s.body_ends[i.at - 1], 0) as start) e
) b
where i.at <= s.count and coalesce(s.kind[i.at], 1) = 1";

struct TextHash {
    handle: Uuid,
    seq: i64,
    hash: Option<String>,
}

from_row!(TextHash { handle, seq, hash });

impl Reader {
    /// The last tasks that ended of a scheduler and of the latest ones of its namespace. What was
    /// cancelled, never started or was lost says nothing of how long a task lasts.
    pub async fn ended_attempts(
        &self,
        namespace: &Namespace,
        handle: Handle,
    ) -> Result<Vec<EndedAttempt>, JournalError> {
        let filter = SchedulerFilter::default();
        let latest = self.schedulers(namespace, &filter, None, OTHERS).await?;
        let others = latest.images.iter().map(|image| image.handle);
        let others = others.filter(|other| *other != handle);
        let handles: Vec<Handle> = std::iter::once(handle).chain(others).collect();
        let ends = self.recent_ends(&handles).await?;
        let tasks = ends.iter().flat_map(|(handle, ends)| {
            let handle = *handle;
            ends.iter().map(move |end| TaskId {
                handle,
                seq: end.seq,
            })
        });
        let texts = self.text_hashes(&tasks.collect::<Vec<_>>()).await?;
        let (mut all, mut stays) = (Vec::new(), Vec::new());
        for (handle, ends) in ends {
            let tasks = self.submissions_of_ends(handle, &ends).await?;
            for end in ends {
                let seq = end.seq;
                if let Some((submitted_at, spec)) = tasks.get(&seq) {
                    let text = texts.get(&TaskId { handle, seq }).copied();
                    stays.push(end.stay(*submitted_at, spec));
                    all.push(end.attempt(spec.clone(), text));
                }
            }
        }
        let gaps = slot_gaps(&stays);
        for (attempt, gap) in all.iter_mut().zip(gaps) {
            attempt.gap = gap;
        }
        Ok(all)
    }

    async fn recent_ends(
        &self,
        handles: &[Handle],
    ) -> Result<Vec<(Handle, Vec<End>)>, JournalError> {
        let uuids: Vec<Uuid> = handles.iter().map(|handle| handle.uuid()).collect();
        let events = |at: usize| if at == 0 { EVENTS.0 } else { EVENTS.1 };
        let most: Vec<i32> = (0..handles.len()).map(|at| events(at) as i32).collect();
        let rows: Vec<Row> = self
            .read(|| {
                sqlx::query_as(RECENT_ENDS)
                    .bind(self.shard.0)
                    .bind(&uuids)
                    .bind(&most)
                    .bind(EVENTS_OF_ROW)
                    .fetch_all(&self.pool)
            })
            .await?;
        let mut ends: BTreeMap<Uuid, Vec<End>> = BTreeMap::new();
        for row in &rows {
            let of = ends.entry(row.handle).or_default();
            of.extend((0..row.count as usize).rev().filter_map(|at| row.end(at)));
        }
        let of = handles.iter().enumerate().filter_map(|(at, handle)| {
            let mut of = ends.remove(&handle.uuid())?;
            of.truncate(events(at));
            Some((*handle, of))
        });
        Ok(of.collect())
    }

    /// When these tasks were submitted, and with what.
    async fn submissions_of_ends(
        &self,
        handle: Handle,
        ends: &[End],
    ) -> Result<HashMap<Seq, (Time, Arc<Spec>)>, JournalError> {
        let seqs: Vec<Seq> = ends.iter().map(|end| end.seq).collect();
        let rows = self.submissions_of(handle, &seqs).await?;
        let read = |row| tasks_in(std::slice::from_ref(row), &seqs);
        let tasks = rows.iter().filter_map(|row| {
            let tasks = read(row);
            let noted = tasks.inspect_err(|error| {
                tracing::warn!(%error, %handle, "a row is left out of a forecast");
            });
            noted.ok()
        });
        Ok(tasks
            .flatten()
            .map(|task| (task.seq, (task.submitted_at, task.spec)))
            .collect())
    }

    /// A hash of the statement of each of these tasks that has one.
    pub async fn text_hashes(
        &self,
        tasks: &[TaskId],
    ) -> Result<HashMap<TaskId, u64>, JournalError> {
        let handles: Vec<Uuid> = tasks.iter().map(|task| task.handle.uuid()).collect();
        let seqs: Vec<i64> = tasks.iter().map(|task| task.seq.0).collect();
        let rows: Vec<TextHash> = self
            .read(|| {
                sqlx::query_as(TEXT_HASHES)
                    .bind(self.shard.0)
                    .bind(&handles)
                    .bind(&seqs)
                    .bind(TEXT_ROWS)
                    .bind(TEXT_BYTES)
                    .fetch_all(&self.pool)
            })
            .await?;
        let hash = |row: TextHash| {
            let task = TaskId {
                handle: Handle::from_uuid(row.handle),
                seq: Seq(row.seq),
            };
            let digits = row.hash?;
            let hash = u64::from_str_radix(digits.get(..16)?, 16).ok()?;
            Some((task, hash))
        };
        Ok(rows.into_iter().filter_map(hash).collect())
    }
}

impl Row {
    /// The event at `index`, if it says how long a task lasts.
    fn end(&self, index: usize) -> Option<End> {
        let outcome = Outcome::from_number(at(&self.outcome, index).unwrap_or(1))?;
        let failed = match outcome {
            Outcome::Succeeded => false,
            Outcome::Failed | Outcome::TimedOut => true,
            Outcome::Cancelled | Outcome::Exhausted => return None,
        };
        let started = match &self.started {
            Some(started) => *started.get(index)?,
            None => self.started_at.map_or(0, |stamp| stamp.0.0),
        };
        let ended = at(&self.ended, index).unwrap_or(self.ended_at.0.0);
        Some(End {
            seq: Seq(at(&self.seq, index).unwrap_or(self.min_seq + index as i64)),
            slot: at(&self.slot, index).unwrap_or(0),
            started,
            ended,
            failed,
            earlier: at(&self.attempt, index).unwrap_or(1).max(1) as u32 - 1,
        })
        .filter(|_| started > 0 && ended >= started)
    }
}

impl End {
    fn stay(&self, submitted_at: Time, spec: &Spec) -> Stay {
        Stay {
            work: spec.work.clone(),
            slot: self.slot,
            submitted: submitted_at.0,
            started: self.started,
            ended: self.ended,
        }
    }

    /// Its gap is known when all are.
    fn attempt(self, spec: Arc<Spec>, text: Option<u64>) -> EndedAttempt {
        EndedAttempt {
            spec,
            text,
            lasted: micros(self.ended - self.started),
            failed: self.failed,
            earlier: self.earlier,
            gap: None,
        }
    }
}

fn micros(us: i64) -> Duration {
    Duration::from_micros(us.max(0) as u64)
}
