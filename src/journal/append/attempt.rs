//! Rows of `attempt`: one per record.

use super::error_bytes::put_error;
use crate::core::{AttemptEvent, AttemptRecord, TaskError, Time};
use crate::journal::encoding::{Blobs, Flat, Stamp};
use bytes::Bytes;
use sqlx::{Arguments, error::BoxDynError, postgres::PgArguments};
use uuid::Uuid;

/// Inserts the rows. The numbers of the parameters are shifted to their place in the statement.
pub(super) const SQL: &str = "
insert into attempt (shard, handle, seq, attempt, kind, day, at, next_at, error)
select g.shard, u.handle, u.seq, u.attempt, u.kind, g.day, u.at, u.next_at, u.error
from g
cross join unnest($1::uuid[], $2::int8[], $3::int4[], $4::int2[], $5::timestamptz[], $6::timestamptz[], $7::bytea[])
    as u (handle, seq, attempt, kind, at, next_at, error)";

/// The columns of a batch's rows.
#[derive(Default)]
pub(super) struct Attempts {
    handle: Vec<Uuid>,
    seq: Vec<i64>,
    attempt: Vec<i32>,
    kind: Vec<i16>,
    at: Vec<Stamp>,
    next_at: Vec<Option<Stamp>>,
    error: Blobs,
}

impl Attempts {
    /// Adds a row for each record.
    pub(super) fn fill(&mut self, records: &[AttemptRecord]) {
        for record in records {
            let (next_at, error) = columns(&record.what);
            self.handle.push(record.handle.uuid());
            self.seq.push(record.seq.0);
            self.attempt.push(record.attempt.0);
            self.kind.push(record.what.number());
            self.at.push(Stamp(record.at));
            self.next_at.push(next_at.map(Stamp));
            self.error.row(error.map(|error| {
                let mut bytes = Vec::new();
                put_error(error, &mut bytes);
                Bytes::from(bytes)
            }));
        }
    }

    /// Binds the parameters of [`SQL`].
    pub(super) fn bind(&self, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        arguments.add(Flat(&self.handle))?;
        arguments.add(Flat(&self.seq))?;
        arguments.add(Flat(&self.attempt))?;
        arguments.add(Flat(&self.kind))?;
        arguments.add(Flat(&self.at))?;
        arguments.add(&self.next_at)?;
        arguments.add(&self.error)
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.handle.clear();
        self.seq.clear();
        self.attempt.clear();
        self.kind.clear();
        self.at.clear();
        self.next_at.clear();
        self.error.clear();
    }
}

fn columns(what: &AttemptEvent) -> (Option<Time>, Option<&TaskError>) {
    match what {
        AttemptEvent::Start | AttemptEvent::CancelRequested | AttemptEvent::HandedBack => {
            (None, None)
        }
        AttemptEvent::Lost { next_at, error } => (Some(*next_at), error.as_deref()),
        AttemptEvent::Failed { next_at, error } => (Some(*next_at), Some(error)),
    }
}
