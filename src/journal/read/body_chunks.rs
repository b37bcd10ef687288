//! Reads bodies ahead of dispatch: those of many tasks of many schedulers in one statement.

use crate::core::{Handle, Packed, Seq, SeqRange};
use crate::journal::{JournalError, Reader, rows::from_row};
use uuid::Uuid;

/// About how many bytes of bodies one chunk holds: what is evicted at once when memory is short.
const CHUNK_BYTES: usize = 64 << 10;
/// Rows of the journal searched for one range.
const MAX_ROWS: i64 = 512;

/// The bodies of consecutive tasks, in their own memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyChunk {
    pub handle: Handle,
    pub first: Seq,
    /// One per task: the statement or payload.
    pub bodies: Packed,
    /// One per task, JSON arrays of text or null, empty for none; empty when no task has any.
    pub params: Packed,
}

/// The columns of a row that hold bodies.
struct Row {
    handle: Uuid,
    first_seq: i64,
    count: i32,
    body_ends: Vec<i32>,
    bodies: Vec<u8>,
    params_ends: Option<Vec<i32>>,
    params: Option<Vec<u8>>,
}

from_row!(Row {
    handle,
    first_seq,
    count,
    body_ends,
    bodies,
    params_ends,
    params
});

/// The rows of some ranges of tasks: the first row of every range, then the second, and so on.
const BODY_CHUNKS: &str = "-- body_chunks
with asked as (
    select a.handle, a.first_seq, a.last_seq, a.place
    from unnest($2::uuid[], $3::int8[], $4::int8[]) 
        with ordinality as a (handle, first_seq, last_seq, place)
), found as (
    select a.handle, s.first_seq, s.day, min(a.place) as place, min(s.bytes) as bytes
    from asked a
    cross join lateral (
        select b.first_seq
        from submission b
        where b.shard = $1 and b.handle = a.handle and b.first_seq <= a.first_seq
        order by b.first_seq desc
        limit 1
    ) b
    cross join lateral (
        select s.first_seq, s.day,
            octet_length(s.bodies) + coalesce(octet_length(s.params), 0) as bytes
        from submission s
        where s.shard = $1
            and s.handle = a.handle
            and s.first_seq between b.first_seq and a.last_seq
        order by s.first_seq
        limit $6
    ) s
    group by a.handle, s.first_seq, s.day
), turns as (
    select f.*, row_number() over (partition by f.place order by f.first_seq) as turn
    from found f
), within as (
    select t.*,
        sum(t.bytes) over (order by t.turn, t.place rows unbounded preceding) - t.bytes as before
    from turns t
)
select s.handle, s.first_seq, s.count, s.body_ends, s.bodies, s.params_ends, s.params
from within w
cross join lateral (
    select s.handle, s.first_seq, s.count, s.body_ends, s.bodies, s.params_ends, s.params
    from submission s
    where s.shard = $1 and s.handle = w.handle and s.day = w.day and s.first_seq = w.first_seq
    offset 0
) s
where w.before < $5
order by w.turn, w.place";

impl Reader {
    /// Bodies of these tasks, the first rows of every range first, until about `max_bytes` have
    /// been read; at least one row. Ask again for what is missing.
    pub async fn body_chunks(
        &self,
        ranges: &[SeqRange],
        max_bytes: usize,
    ) -> Result<Vec<BodyChunk>, JournalError> {
        let rows = self.read(|| self.rows_in(ranges, max_bytes)).await?;
        let mut chunks = Vec::new();
        for row in &rows {
            for range in ranges
                .iter()
                .filter(|range| range.handle.uuid() == row.handle)
            {
                row.add_chunks(range, &mut chunks)?;
            }
        }
        Ok(chunks)
    }

    async fn rows_in(
        &self,
        ranges: &[SeqRange],
        max_bytes: usize,
    ) -> Result<Vec<Row>, sqlx::Error> {
        let handles: Vec<Uuid> = ranges.iter().map(|range| range.handle.uuid()).collect();
        let firsts: Vec<i64> = ranges.iter().map(|range| range.first.0).collect();
        let lasts: Vec<i64> = ranges.iter().map(|range| range.last.0).collect();
        sqlx::query_as::<_, Row>(BODY_CHUNKS)
            .bind(self.shard.0)
            .bind(handles)
            .bind(firsts)
            .bind(lasts)
            .bind(max_bytes as i64)
            .bind(MAX_ROWS)
            .fetch_all(&self.pool)
            .await
    }
}

impl Row {
    /// Adds the bodies of a range that are in this row, cut into chunks.
    fn add_chunks(
        &self,
        range: &SeqRange,
        chunks: &mut Vec<BodyChunk>,
    ) -> Result<(), JournalError> {
        let all_ends = [Some(&self.body_ends), self.params_ends.as_ref()];
        if !all_ends.into_iter().flatten().all(|ends| ends.is_sorted()) {
            return Err(self.corrupt());
        }
        let row_end = self.first_seq + i64::from(self.count);
        let (mut next, end) = (
            range.first.0.max(self.first_seq),
            (range.last.0 + 1).min(row_end),
        );
        let index = |seq: i64| (seq - self.first_seq) as usize;
        while next < end {
            let start = self.body_start(index(next))?;
            let mut last = next + 1;
            while last < end && self.body_start(index(last) + 1)? - start <= CHUNK_BYTES {
                last += 1;
            }
            let bodies = cut(&self.bodies, &self.body_ends, index(next), index(last));
            let params = match (&self.params, &self.params_ends) {
                (Some(params), Some(ends)) => cut(params, ends, index(next), index(last)),
                _ => Some(Packed::default()),
            };
            let (Some(bodies), Some(params)) = (bodies, params) else {
                return Err(self.corrupt());
            };
            chunks.push(BodyChunk {
                handle: range.handle,
                first: Seq(next),
                bodies,
                params,
            });
            next = last;
        }
        Ok(())
    }

    fn body_start(&self, index: usize) -> Result<usize, JournalError> {
        start(&self.body_ends, index).ok_or_else(|| self.corrupt())
    }

    fn corrupt(&self) -> JournalError {
        JournalError::corrupt(format!(
            "submission {}/{}: bodies",
            self.handle, self.first_seq
        ))
    }
}

/// Where the item at `index` starts.
fn start(ends: &[i32], index: usize) -> Option<usize> {
    if index == 0 {
        Some(0)
    } else {
        ends.get(index - 1).map(|end| *end as usize)
    }
}

/// The items `from..to` of a packed value.
fn cut(packed: &[u8], ends: &[i32], from: usize, to: usize) -> Option<Packed> {
    let start = start(ends, from)?;
    let ends = ends.get(from..to)?;
    let bytes = packed.get(start..*ends.last()? as usize)?;
    Some(Packed {
        bytes: bytes.to_vec().into(),
        ends: ends
            .iter()
            .map(|end| (*end as usize - start) as u32)
            .collect(),
    })
}
