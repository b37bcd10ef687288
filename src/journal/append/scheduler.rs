//! Rows of `scheduler`: whole images, one upsert for all of a batch.

use crate::core::{Handle, ReleaseMode, SchedulerImage, Seq};
use crate::journal::{
    days::Days,
    encoding::{Blobs, Date, Flat, Stamp},
};
use bytes::Bytes;
use serde::Serialize;
use sqlx::{Arguments, error::BoxDynError, postgres::PgArguments};
use std::{collections::BTreeMap, fmt::Write};
use uuid::Uuid;

/// Puts the images in place. The numbers of the parameters are shifted to their place in the statement.
pub(super) const SQL: &str = "
insert into scheduler (shard, handle, namespace, caller, request_id, request_hash, settings, state, release_mode, paused, halt,
    cancel_rest, opened_at, released_at, first_day, highest_seq, done_no, unfinished,
    resting)
select g.shard, u.handle, u.namespace, u.caller, u.request_id, u.request_hash, u.settings, u.state, u.release_mode, u.paused,
    u.halt, u.cancel_rest, u.opened_at, u.released_at, u.first_day, u.highest_seq, u.done_no, u.unfinished::int8multirange,
    u.resting
from g
cross join unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::uuid[], $5::int8[], $6::bytea[], $7::int2[], $8::int2[], $9::bool[],
    $10::bytea[], $11::bytea[], $12::timestamptz[], $13::timestamptz[], $14::date[], $15::int8[], $16::int8[], $17::text[],
    $18::bool[])
    as u (handle, namespace, caller, request_id, request_hash, settings, state, release_mode, paused, halt, cancel_rest,
    opened_at, released_at, first_day, highest_seq, done_no, unfinished, resting)
on conflict on constraint scheduler_pkey do update
set settings = excluded.settings,
    state = excluded.state,
    release_mode = excluded.release_mode,
    paused = excluded.paused,
    halt = excluded.halt,
    cancel_rest = excluded.cancel_rest,
    released_at = excluded.released_at,
    -- an image without a checkpoint leaves the last one in force
    first_day = case when excluded.highest_seq >= 0 then excluded.first_day else scheduler.first_day end,
    highest_seq = greatest(excluded.highest_seq, scheduler.highest_seq),
    done_no = greatest(excluded.done_no, scheduler.done_no),
    unfinished = case when excluded.highest_seq >= 0 then excluded.unfinished else scheduler.unfinished end,
    resting = case when excluded.highest_seq >= 0 then excluded.resting else scheduler.resting end";

/// The columns of a batch's rows.
#[derive(Default)]
pub(super) struct Schedulers {
    handle: Vec<Uuid>,
    namespace: Blobs,
    caller: Blobs,
    request_id: Vec<Option<Uuid>>,
    request_hash: Vec<Option<i64>>,
    settings: Blobs,
    state: Vec<i16>,
    release_mode: Vec<Option<i16>>,
    paused: Vec<bool>,
    halt: Blobs,
    cancel_rest: Blobs,
    opened_at: Vec<Stamp>,
    released_at: Vec<Option<Stamp>>,
    first_day: Vec<Date>,
    highest_seq: Vec<i64>,
    done_no: Vec<i64>,
    unfinished: Vec<String>,
    resting: Vec<bool>,
}

impl Schedulers {
    /// Adds a row for each image. `days`: where rows are.
    pub(super) fn fill(
        &mut self,
        images: &BTreeMap<Handle, SchedulerImage>,
        days: &Days,
    ) -> Result<(), BoxDynError> {
        for image in images.values() {
            self.handle.push(image.handle.uuid());
            self.namespace
                .row(Some(Bytes::copy_from_slice(image.namespace.0.as_bytes())));
            self.caller
                .row(Some(Bytes::copy_from_slice(image.caller.as_bytes())));
            self.request_id
                .push(image.request.map(|request| request.id));
            self.request_hash
                .push(image.request.map(|request| request.hash));
            self.settings.row(Some(json(&image.settings)?));
            self.state.push(image.state as i16);
            self.release_mode
                .push(image.release_mode.map(release_mode_number));
            self.paused.push(image.paused);
            self.halt.row(image.halt.as_ref().map(json).transpose()?);
            self.cancel_rest
                .row(image.cancel_rest.as_ref().map(json).transpose()?);
            self.opened_at.push(Stamp(image.opened_at));
            self.released_at.push(image.released_at.map(Stamp));
            self.first_day
                .push(Date(days.lowest(image.checkpoint.first_day)));
            self.highest_seq.push(image.checkpoint.highest_seq.0);
            self.done_no.push(image.checkpoint.done_no.0);
            self.unfinished
                .push(multirange(&image.checkpoint.unfinished));
            self.resting.push(image.checkpoint.resting);
        }
        Ok(())
    }

    /// Binds the parameters of [`SQL`].
    pub(super) fn bind(&self, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        arguments.add(Flat(&self.handle))?;
        arguments.add(&self.namespace)?;
        arguments.add(&self.caller)?;
        arguments.add(&self.request_id)?;
        arguments.add(&self.request_hash)?;
        arguments.add(&self.settings)?;
        arguments.add(Flat(&self.state))?;
        arguments.add(&self.release_mode)?;
        arguments.add(&self.paused)?;
        arguments.add(&self.halt)?;
        arguments.add(&self.cancel_rest)?;
        arguments.add(Flat(&self.opened_at))?;
        arguments.add(&self.released_at)?;
        arguments.add(Flat(&self.first_day))?;
        arguments.add(Flat(&self.highest_seq))?;
        arguments.add(Flat(&self.done_no))?;
        arguments.add(&self.unfinished)?;
        arguments.add(&self.resting)
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.handle.clear();
        self.namespace.clear();
        self.caller.clear();
        self.request_id.clear();
        self.request_hash.clear();
        self.settings.clear();
        self.state.clear();
        self.release_mode.clear();
        self.paused.clear();
        self.halt.clear();
        self.cancel_rest.clear();
        self.opened_at.clear();
        self.released_at.clear();
        self.first_day.clear();
        self.highest_seq.clear();
        self.done_no.clear();
        self.unfinished.clear();
        self.resting.clear();
    }
}

fn release_mode_number(mode: ReleaseMode) -> i16 {
    match mode {
        ReleaseMode::Finish => 1,
        ReleaseMode::Cancel => 2,
    }
}

fn json(value: &impl Serialize) -> Result<Bytes, BoxDynError> {
    Ok(serde_json::to_vec(value)?.into())
}

/// Inclusive ranges as an `int8multirange` literal.
fn multirange(ranges: &[(Seq, Seq)]) -> String {
    let mut text = String::with_capacity(2 + ranges.len() * 12);
    text.push('{');
    for (index, (first, last)) in ranges.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(text, "{comma}[{},{}]", first.0, last.0);
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_a_literal() {
        assert_eq!(multirange(&[]), "{}");
        assert_eq!(
            multirange(&[(Seq(1), Seq(1)), (Seq(7), Seq(9))]),
            "{[1,1],[7,9]}"
        );
    }
}
