//! Rows of `scheduler`: whole images, one upsert for all images of a batch.

use super::{columns::columns, multirange::Multiranges};
use crate::core::{Handle, ReleaseMode, SchedulerImage};
use crate::journal::{
    day_partitions::Days,
    encoding::{Blobs, Date, Stamp},
    rows::{halt_failures, settings},
};
use bytes::Bytes;
use serde::Serialize;
use sqlx::error::BoxDynError;
use std::collections::BTreeMap;
use uuid::Uuid;

/// What the insert does with a scheduler that has a row.
pub(super) const ON_CONFLICT: &str = "
on conflict on constraint scheduler_pkey do update
set settings = excluded.settings,
    state = excluded.state,
    release_mode = excluded.release_mode,
    paused = excluded.paused,
    halt = excluded.halt,
    halt_failures = excluded.halt_failures,
    cancel_rest = excluded.cancel_rest,
    released_at = excluded.released_at,
    -- an image without a checkpoint keeps the last one
    first_day = case
        when excluded.highest_seq >= 0 then excluded.first_day
        else scheduler.first_day
    end,
    highest_seq = greatest(excluded.highest_seq, scheduler.highest_seq),
    done_no = greatest(excluded.done_no, scheduler.done_no),
    unfinished = case
        when excluded.highest_seq >= 0 then excluded.unfinished
        else scheduler.unfinished
    end,
    resting = case when excluded.highest_seq >= 0 then excluded.resting else scheduler.resting end";

columns! {
    /// The columns of a batch's rows.
    pub(super) struct Schedulers of "scheduler" {
        handle: Vec<Uuid>,
        name: Blobs,
        namespace: Blobs,
        caller: Blobs,
        request_id: Vec<Option<Uuid>>,
        request_hash: Vec<Option<i64>>,
        settings: Blobs,
        state: Vec<i16>,
        release_mode: Vec<Option<i16>>,
        paused: Vec<bool>,
        halt: Blobs,
        halt_failures: Blobs,
        cancel_rest: Blobs,
        opened_at: Vec<Stamp>,
        released_at: Vec<Option<Stamp>>,
        first_day: Vec<Date>,
        highest_seq: Vec<i64>,
        done_no: Vec<i64>,
        unfinished: Multiranges,
        resting: Vec<bool>,
    }
}

impl Schedulers {
    /// Adds a row for each image; `days` tell which is the first one with rows of a scheduler.
    pub(super) fn fill(
        &mut self,
        images: &BTreeMap<Handle, SchedulerImage>,
        days: &Days,
    ) -> Result<(), BoxDynError> {
        for image in images.values() {
            self.handle.push(image.handle.uuid());
            let name = image.name.as_deref().map(str::as_bytes);
            self.name.row(name.map(Bytes::copy_from_slice));
            self.namespace
                .row(Some(Bytes::copy_from_slice(image.namespace.0.as_bytes())));
            self.caller
                .row(Some(Bytes::copy_from_slice(image.caller.as_bytes())));
            self.request_id
                .push(image.request.map(|request| request.id));
            self.request_hash
                .push(image.request.map(|request| request.hash));
            self.settings
                .row(Some(settings::encode(&image.settings)?.into()));
            self.state.push(image.state as i16);
            self.release_mode
                .push(image.release_mode.map(release_mode_number));
            self.paused.push(image.paused);
            self.halt.row(image.halt.as_ref().map(json).transpose()?);
            let failures = image.halt.as_ref().and_then(halt_failures::of);
            self.halt_failures
                .row(failures.as_ref().map(json).transpose()?);
            self.cancel_rest
                .row(image.cancel_rest.as_ref().map(json).transpose()?);
            self.opened_at.push(Stamp(image.opened_at));
            self.released_at.push(image.released_at.map(Stamp));
            self.first_day
                .push(Date(days.lowest(image.checkpoint.first_day)));
            self.highest_seq.push(image.checkpoint.highest_seq.0);
            self.done_no.push(image.checkpoint.done_no.0);
            let unfinished = image.checkpoint.unfinished.iter();
            self.unfinished
                .push(unfinished.map(|(first, last)| (first.0, last.0)));
            self.resting.push(image.checkpoint.quiesced);
        }
        Ok(())
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
