//! Reads the bodies of a few tasks of one scheduler.

use crate::core::{Handle, Seq};
use crate::journal::{
    JournalError, Reader,
    rows::{completion::item, from_row},
};
use bytes::Bytes;
use uuid::Uuid;

/// A task's body and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub seq: Seq,
    /// The statement or payload.
    pub body: Bytes,
    /// JSON array of text or null; `None`: no parameters.
    pub params: Option<Bytes>,
}

/// The columns of a row that hold bodies.
struct BodiesRow {
    handle: Uuid,
    first_seq: i64,
    count: i32,
    body_ends: Option<Vec<i32>>,
    bodies: Option<Vec<u8>>,
    params_ends: Option<Vec<i32>>,
    params: Option<Vec<u8>>,
}

from_row!(BodiesRow {
    handle,
    first_seq,
    count,
    body_ends,
    bodies,
    params_ends,
    params
});

impl Reader {
    /// Bodies of the tasks `first` to `last`, ascending, from at most `max_rows` rows of the
    /// journal (a row holds a megabyte or one call). Ask again after the last one when some are
    /// missing.
    pub async fn bodies(
        &self,
        handle: Handle,
        first: Seq,
        last: Seq,
        max_rows: u32,
    ) -> Result<Vec<Body>, JournalError> {
        let rows = self
            .read(|| {
                sqlx::query_as::<_, BodiesRow>(
                    "-- bodies
                     select handle, first_seq, count, body_ends, bodies, params_ends, params
                     from submission
                     where shard = $1
                         and handle = $2
                         and first_seq <= $4
                         and first_seq >= coalesce((
                             select first_seq
                             from submission
                             where shard = $1 and handle = $2 and first_seq <= $3
                             order by first_seq desc
                             limit 1
                         ), 0)
                     order by first_seq
                     limit $5",
                )
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(first.0)
                .bind(last.0)
                .bind(i64::from(max_rows))
                .fetch_all(&self.pool)
            })
            .await?;
        let mut bodies = Vec::new();
        for row in rows {
            for seq in
                row.first_seq.max(first.0)..=last.0.min(row.first_seq + i64::from(row.count) - 1)
            {
                bodies.push(row.body(Seq(seq))?);
            }
        }
        Ok(bodies)
    }
}

impl BodiesRow {
    fn body(&self, seq: Seq) -> Result<Body, JournalError> {
        let corrupt = |()| {
            JournalError::corrupt(format!(
                "submission {}/{}: bodies",
                self.handle, self.first_seq
            ))
        };
        let index = (seq.0 - self.first_seq) as usize;
        let body = item(&self.bodies, &self.body_ends, index).map_err(corrupt)?;
        let params = item(&self.params, &self.params_ends, index).map_err(corrupt)?;
        Ok(Body {
            seq,
            body: body.map(Bytes::copy_from_slice).unwrap_or_default(),
            params: params.map(Bytes::copy_from_slice),
        })
    }
}
