//! Reads schedulers for handlers of RPCs, and defines the [`Reader`], the small pool that all such
//! reads share.

use crate::core::{
    Checkpoint, DoneNo, Handle, Namespace, ReleaseMode, Request, SchedulerImage, SchedulerState,
    Seq, ShardId,
};
use crate::journal::{
    JournalError,
    encoding::{Date, Stamp},
    error::connection_lost,
    pool::Pool,
    read::recovered::Unreadable,
    rows::{from_row, halt_failures, settings},
};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use uuid::Uuid;

/// The columns of a [`SchedulerRow`], of a table called `r`.
macro_rules! scheduler_columns {
    () => {
        "r.handle, r.name, r.namespace, r.caller, r.request_id, r.request_hash, r.settings, r.state,
        r.release_mode, r.paused, r.halt, r.halt_failures,
        r.cancel_rest, r.opened_at, r.released_at, r.first_day, r.resting, r.set_aside,
        r.highest_seq, r.done_no,
        array(select lower(part) from unnest(r.unfinished) as part) as unfinished_from,
        array(select upper(part) - 1 from unnest(r.unfinished) as part) as unfinished_to"
    };
}
pub(crate) use scheduler_columns;

/// Reads of the journal for handlers of RPCs. Cheap to clone; every read is one statement in
/// autocommit and may be dropped at any point.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(crate) pool: Pool,
    pub(crate) shard: ShardId,
    pub(crate) retention_days: u32,
}

/// A whole row.
#[derive(Debug)]
pub(crate) struct SchedulerRow {
    pub handle: Uuid,
    name: Option<Vec<u8>>,
    namespace: Vec<u8>,
    caller: Vec<u8>,
    request_id: Option<Uuid>,
    request_hash: Option<i64>,
    settings: Vec<u8>,
    state: i16,
    release_mode: Option<i16>,
    paused: bool,
    halt: Option<Vec<u8>>,
    halt_failures: Option<Vec<u8>>,
    cancel_rest: Option<Vec<u8>>,
    opened_at: Stamp,
    released_at: Option<Stamp>,
    first_day: Date,
    resting: bool,
    pub set_aside: bool,
    highest_seq: i64,
    done_no: i64,
    unfinished_from: Vec<i64>,
    unfinished_to: Vec<i64>,
}

from_row!(SchedulerRow {
    handle,
    name,
    namespace,
    caller,
    request_id,
    request_hash,
    settings,
    state,
    release_mode,
    paused,
    halt,
    halt_failures,
    cancel_rest,
    opened_at,
    released_at,
    first_day,
    resting,
    set_aside,
    highest_seq,
    done_no,
    unfinished_from,
    unfinished_to
});

impl Reader {
    pub(crate) fn new(pool: Pool, shard: ShardId, retention_days: u32) -> Self {
        Reader {
            pool,
            shard,
            retention_days,
        }
    }

    /// Runs a read, and repeats it once, on a connection of its own making, when the one it got
    /// turns out to be dead or silent.
    pub(crate) async fn read<T, F: Future<Output = Result<T, sqlx::Error>>>(
        &self,
        read: impl Fn() -> F,
    ) -> Result<T, JournalError> {
        match read().await {
            Err(error) if connection_lost(&error) => {
                self.pool.renew();
                Ok(read().await?)
            }
            answer => Ok(answer?),
        }
    }

    /// The scheduler as of its last image, if it is one of the namespace: of others nothing is
    /// read.
    pub async fn scheduler(
        &self,
        namespace: &Namespace,
        handle: Handle,
    ) -> Result<Option<SchedulerImage>, JournalError> {
        let row = self
            .read(|| {
                sqlx::query_as::<_, SchedulerRow>(concat!(
                    "-- scheduler
                     select ",
                    scheduler_columns!(),
                    " from scheduler r
                     where r.shard = $1 and r.handle = $2 and r.namespace = $3"
                ))
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(namespace.0.as_bytes())
                .fetch_optional(&self.pool)
            })
            .await?;
        row.map(SchedulerRow::image).transpose()
    }

    /// The scheduler that the newest call with this id opened. Whether the call may still be
    /// repeated is the core's to say.
    pub async fn find_request(
        &self,
        namespace: &Namespace,
        id: Uuid,
    ) -> Result<Option<SchedulerImage>, JournalError> {
        let row = self
            .read(|| {
                sqlx::query_as::<_, SchedulerRow>(concat!(
                    "-- find_request
                     select ",
                    scheduler_columns!(),
                    " from scheduler r
                     where r.shard = $1
                         and r.namespace = $2
                         and r.request_id = $3
                     order by r.handle desc
                     limit 1"
                ))
                .bind(self.shard.0)
                .bind(namespace.0.as_bytes())
                .bind(id)
                .fetch_optional(&self.pool)
            })
            .await?;
        row.map(SchedulerRow::image).transpose()
    }
}

impl SchedulerRow {
    /// What is said of it when the rest cannot be read.
    pub(crate) fn unreadable(&self) -> Unreadable {
        let released = [SchedulerState::Releasing, SchedulerState::Released];
        let is_open = released.iter().all(|state| *state as i16 != self.state);
        Unreadable {
            handle: Handle::from_uuid(self.handle),
            namespace: Namespace(text(&self.namespace)),
            opened: self.request_id.map(|id| (id, self.opened_at.0)),
            name: self.name.as_deref().filter(|_| is_open).map(text),
            why: String::new(),
        }
    }

    /// As the core wrote it.
    pub(crate) fn image(self) -> Result<SchedulerImage, JournalError> {
        let corrupt =
            |column: &str| JournalError::corrupt(format!("scheduler {}: {column}", self.handle));
        let state = [
            SchedulerState::Open,
            SchedulerState::Releasing,
            SchedulerState::Released,
        ]
        .into_iter()
        .find(|state| *state as i16 == self.state)
        .ok_or_else(|| corrupt("state"))?;
        let release_mode = match self.release_mode {
            None => None,
            Some(1) => Some(ReleaseMode::Finish),
            Some(2) => Some(ReleaseMode::Cancel),
            Some(_) => return Err(corrupt("release_mode")),
        };
        let unfinished = self
            .unfinished_from
            .iter()
            .zip(&self.unfinished_to)
            .map(|(from, to)| (Seq(*from), Seq(*to)));
        Ok(SchedulerImage {
            handle: Handle::from_uuid(self.handle),
            name: self.name.as_deref().map(text),
            namespace: Namespace(text(&self.namespace)),
            caller: text(&self.caller),
            request: self
                .request_id
                .zip(self.request_hash)
                .map(|(id, hash)| Request { id, hash }),
            settings: settings::decode(&self.settings)
                .map(Arc::new)
                .map_err(|_| corrupt("settings"))?,
            state,
            release_mode,
            paused: self.paused,
            halt: self
                .halt
                .map(|halt| json(&halt).ok_or_else(|| corrupt("halt")))
                .transpose()?
                .map(|halt| halt_failures::with(halt, self.halt_failures.as_deref())),
            cancel_rest: self
                .cancel_rest
                .map(|rest| json(&rest).ok_or_else(|| corrupt("cancel_rest")))
                .transpose()?,
            opened_at: self.opened_at.0,
            released_at: self.released_at.map(|stamp| stamp.0),
            checkpoint: Checkpoint {
                highest_seq: Seq(self.highest_seq),
                done_no: DoneNo(self.done_no),
                unfinished: unfinished.collect(),
                first_day: self.first_day.0,
                quiesced: self.resting,
            },
        })
    }
}

fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}
