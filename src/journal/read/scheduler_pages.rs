//! Reads pages of schedulers, newest first, by the rarest of the labels and states asked for.

use super::schedulers::{SchedulerRow, scheduler_columns};
use crate::core::{
    Handle, Namespace, SchedulerFilter, SchedulerImage, SchedulerState, ShardId, Time,
};
use crate::journal::{JournalError, Reader, rows::label};
use bytes::Bytes;
use std::time::Duration;
use uuid::Uuid;

/// Rows of a label or of some states counted: with as many they are common.
const COMMON: i64 = 1_000;
/// Rows looked at for one page, beyond its size.
const MAX_ROWS: usize = 1_024;
/// A handle was made at most so long before or after its scheduler was opened.
const HANDLE_AGE: Duration = Duration::from_secs(60);

/// A page of schedulers, newest first.
#[derive(Clone, Debug, Default)]
pub struct SchedulerPage {
    /// Perhaps none, although there are more pages.
    pub images: Vec<SchedulerImage>,
    /// `before` of the next page; `None`: this is the last one.
    pub next: Option<Handle>,
}

/// The part of the index that leads to the fewest rows.
enum SchedulerRows {
    Labelled(Bytes),
    InStates,
}

impl Reader {
    /// At most `limit` schedulers of a namespace that the filter admits, older than `before`. One
    /// that cannot be read is left out.
    pub async fn schedulers(
        &self,
        namespace: &Namespace,
        filter: &SchedulerFilter,
        before: Option<Handle>,
        limit: usize,
    ) -> Result<SchedulerPage, JournalError> {
        let all = [
            SchedulerState::Open,
            SchedulerState::Releasing,
            SchedulerState::Released,
        ];
        let states = all
            .iter()
            .filter(|state| filter.states.is_empty() || filter.states.contains(state));
        let states: Vec<i16> = states.map(|state| *state as i16).collect();
        let from = filter
            .opened
            .from
            .map_or(Uuid::nil(), |at| of_time(at - HANDLE_AGE));
        let below = filter
            .opened
            .before
            .map_or(Uuid::max(), |at| of_time(at + HANDLE_AGE));
        let below = before.map_or(below, |before| below.min(before.uuid()));
        let rows = limit + 1;
        let admits_all = filter.labels.is_empty()
            && filter.display_name.is_none()
            && filter.name.is_none()
            && !filter.halted;
        let most = match admits_all {
            true => rows,
            false => rows.max(MAX_ROWS),
        };
        let (handles, rows) = match self.rarest(namespace, filter, &states).await? {
            SchedulerRows::Labelled(label) => {
                let handles = self.labelled(namespace, &label, from, below, most).await?;
                let rows = self.schedulers_of(&handles, &states).await?;
                (handles, rows)
            }
            SchedulerRows::InStates => {
                let rows = self
                    .in_states(namespace, &states, from, below, most)
                    .await?;
                (rows.iter().map(|row| row.handle).collect(), rows)
            }
        };
        let next = handles.last().filter(|_| handles.len() == most);
        page_of(rows, filter, limit, next.copied().map(Handle::from_uuid))
    }

    /// Which of the labels, and of the states together, has the fewest rows.
    async fn rarest(
        &self,
        namespace: &Namespace,
        filter: &SchedulerFilter,
        states: &[i16],
    ) -> Result<SchedulerRows, JournalError> {
        let labels = filter
            .labels
            .iter()
            .map(|(key, value)| label::of(key, value));
        let display_name = filter.display_name.as_deref().map(label::of_display_name);
        let name = filter.name.as_deref().map(label::of_name);
        let labels: Vec<Bytes> = labels.chain(display_name).chain(name).collect();
        let mut rarest = SchedulerRows::InStates;
        if labels.is_empty() {
            return Ok(rarest);
        }
        let mut fewest = match filter.states.is_empty() {
            true => i64::MAX,
            false => self.count_in_states(namespace, states).await?,
        };
        for label in labels {
            let rows = self.count_labelled(namespace, &label).await?;
            if rows < fewest || rows == fewest && matches!(rarest, SchedulerRows::InStates) {
                (fewest, rarest) = (rows, SchedulerRows::Labelled(label));
            }
        }
        Ok(rarest)
    }

    async fn count_in_states(
        &self,
        namespace: &Namespace,
        states: &[i16],
    ) -> Result<i64, JournalError> {
        self.read(|| {
            sqlx::query_scalar(
                "-- count_in_states
                 select count(*)
                 from (
                     select
                     from scheduler r
                     where r.shard = $1 and r.namespace = $2 and r.state = any ($3)
                     limit $4
                 ) r",
            )
            .bind(self.shard.0)
            .bind(namespace.0.as_bytes())
            .bind(states)
            .bind(COMMON)
            .fetch_one(&self.pool)
        })
        .await
    }

    async fn count_labelled(
        &self,
        namespace: &Namespace,
        label: &[u8],
    ) -> Result<i64, JournalError> {
        self.read(|| {
            sqlx::query_scalar(
                "-- count_labelled
                 select count(*)
                 from (
                     select
                     from scheduler_label l
                     where l.shard = $1 and l.namespace = $2 and l.label = $3
                     limit $4
                 ) l",
            )
            .bind(self.shard.0)
            .bind(namespace.0.as_bytes())
            .bind(label)
            .bind(COMMON)
            .fetch_one(&self.pool)
        })
        .await
    }

    async fn in_states(
        &self,
        namespace: &Namespace,
        states: &[i16],
        from: Uuid,
        below: Uuid,
        limit: usize,
    ) -> Result<Vec<SchedulerRow>, JournalError> {
        self.read(|| {
            sqlx::query_as(SCHEDULERS_IN_STATES)
                .bind(self.shard.0)
                .bind(namespace.0.as_bytes())
                .bind(from)
                .bind(below)
                .bind(limit as i64)
                .bind(states)
                .fetch_all(&self.pool)
        })
        .await
    }

    /// Handles of schedulers that have or had a label, newest first.
    async fn labelled(
        &self,
        namespace: &Namespace,
        label: &[u8],
        from: Uuid,
        below: Uuid,
        limit: usize,
    ) -> Result<Vec<Uuid>, JournalError> {
        self.read(|| {
            sqlx::query_scalar(SCHEDULERS_LABELLED)
                .bind(self.shard.0)
                .bind(namespace.0.as_bytes())
                .bind(label)
                .bind(from)
                .bind(below)
                .bind(limit as i64)
                .fetch_all(&self.pool)
        })
        .await
    }

    /// Those of these schedulers that are in one of the states, newest first.
    async fn schedulers_of(
        &self,
        handles: &[Uuid],
        states: &[i16],
    ) -> Result<Vec<SchedulerRow>, JournalError> {
        self.read(|| {
            sqlx::query_as(concat!(
                "-- schedulers_of
                 select r.*
                 from unnest($2::uuid[]) as w (handle)
                 cross join lateral (
                     select ",
                scheduler_columns!(),
                " from scheduler r
                     where r.shard = $1 and r.handle = w.handle and r.state = any ($3)
                     offset 0
                 ) r
                 order by r.handle desc"
            ))
            .bind(self.shard.0)
            .bind(handles)
            .bind(states)
            .fetch_all(&self.pool)
        })
        .await
    }
}

/// The first `limit` of these rows that the filter admits; `next`: where to look on behind them.
fn page_of(
    rows: Vec<SchedulerRow>,
    filter: &SchedulerFilter,
    limit: usize,
    next: Option<Handle>,
) -> Result<SchedulerPage, JournalError> {
    let mut page = SchedulerPage {
        images: Vec::new(),
        next,
    };
    for row in rows {
        let image = match row.image() {
            Err(JournalError::Corrupt(why)) => {
                tracing::warn!(why, "left out of a list");
                continue;
            }
            image => image?,
        };
        if !filter.admits(&image) {
            continue;
        }
        if page.images.len() == limit {
            page.next = page.images.last().map(|last| last.handle);
            break;
        }
        page.images.push(image);
    }
    Ok(page)
}

/// A handle below those made at that time or later.
fn of_time(at: Time) -> Uuid {
    let ms = (at.0 / 1_000).max(0) as u64;
    Handle::new(ShardId(0), ms, [0; 10]).uuid()
}

/// Schedulers in the states `$6`, newest first. Whole keys are compared, since for the order of
/// handles alone the planner would rather go through all schedulers.
pub(super) const SCHEDULERS_IN_STATES: &str = concat!(
    "-- schedulers_in_states
                 select r.*
                 from unnest($6::int2[]) as w (state)
                 cross join lateral (
                     select ",
    scheduler_columns!(),
    " from scheduler r
                     where r.shard = $1
                         and (r.namespace, r.state, r.handle) >= ($2, w.state, $3)
                         and (r.namespace, r.state, r.handle) < ($2, w.state, $4)
                     order by r.namespace desc, r.state desc, r.handle desc
                     limit $5
                 ) r
                 order by r.handle desc
                 limit $5"
);

/// Handles of schedulers that have or had a label, newest first; likewise.
pub(super) const SCHEDULERS_LABELLED: &str = "-- schedulers_labelled
                 select l.handle
                 from scheduler_label l
                 where l.shard = $1
                     and (l.namespace, l.label, l.handle) >= ($2, $3, $4)
                     and (l.namespace, l.label, l.handle) < ($2, $3, $5)
                 order by l.namespace desc, l.label desc, l.handle desc
                 limit $6";
