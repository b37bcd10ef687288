//! Promises of the journal, on a real Postgres.

mod aged;
mod appending;
mod audit;
mod bodies;
mod claims;
mod clocks;
mod events;
mod jobs;
mod known_claims;
mod label_rows;
mod last_due;
mod listing;
mod log;
mod log_documents;
mod log_search;
mod log_views;
mod make;
mod migrations;
mod newer_settings;
mod ownership;
mod partitions;
mod pooler;
mod rare;
mod reading;
mod recovery;
mod retention;
mod retention_pin;
mod scene;
mod sessions;
mod set_aside;
mod silence;
mod statements;
mod torn_runs;
mod who_and_what;

use crate::harness::postgres;
use rallypoint::{
    core::{BatchNo, Day, Epoch, Records, SchedulerImage, ShardId, Time},
    journal::{
        Batch, Claim, Commit, Journal, JournalConfig, JournalError, Ownership, Replica, TakeOver,
        Writer,
    },
    postgres::COORDINATION,
};
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::time::Duration;
use uuid::Uuid;

/// A journal on a database of its own, owned by this test.
pub(crate) struct Owned {
    pub options: PgConnectOptions,
    pub journal: Journal,
    pub writer: Writer,
    pub replica: Replica,
    pub epoch: Epoch,
    pub next: BatchNo,
    pub now: Time,
}

/// A new, empty database.
pub(crate) fn database() -> PgConnectOptions {
    let name = postgres::database(COORDINATION);
    postgres::POSTGRES.options_for(&name, COORDINATION)
}

pub(crate) fn config(options: &PgConnectOptions) -> JournalConfig {
    JournalConfig {
        options: options.clone(),
        shard: ShardId(0),
        allow_unsafe: true,
        readers: 2,
        retention_days: 30,
    }
}

pub(crate) fn replica(name: &str) -> Replica {
    Replica {
        id: Uuid::now_v7(),
        name: name.into(),
        address: None,
    }
}

/// A replica with its row in the register of executors.
pub(crate) async fn enrolled(journal: &Journal, name: &str) -> Replica {
    let replica = replica(name);
    journal.sessions(replica.clone()).enrol(&[]).await.unwrap();
    replica
}

pub(crate) async fn take_over(journal: &Journal, replica: &Replica) -> Ownership {
    match journal
        .take_over(
            replica,
            Claim::Start,
            Duration::from_secs(5),
            None,
            Epoch(0),
        )
        .await
        .unwrap()
    {
        TakeOver::Owned(ownership) => ownership,
        TakeOver::Refused => panic!("owned by another one"),
    }
}

impl Owned {
    pub(crate) async fn new() -> Self {
        Owned::on(database()).await
    }

    pub(crate) async fn on(options: PgConnectOptions) -> Self {
        let journal = Journal::open(config(&options)).await.unwrap();
        let replica = enrolled(&journal, "one").await;
        let Ownership {
            epoch,
            last_batch,
            now,
            ..
        } = take_over(&journal, &replica).await;
        assert_eq!(last_batch, BatchNo(1));
        let writer = journal.writer(&replica);
        Owned {
            options,
            journal,
            writer,
            replica,
            epoch,
            next: BatchNo(last_batch.0 + 1),
            now,
        }
    }

    pub(crate) fn batch(&self, records: Records) -> Batch {
        Batch {
            shard: ShardId(0),
            epoch: self.epoch,
            no: self.next,
            day: self.now.day(),
            records,
        }
    }

    /// Appends a batch as if `days` ago.
    pub(crate) async fn write_ago(&mut self, days: i32, records: Records) {
        let batch = Batch {
            day: self.days_ago(days),
            ..self.batch(records)
        };
        assert_eq!(self.writer.append(&batch).await, Commit::Durable);
        self.next.0 += 1;
    }

    pub(crate) fn days_ago(&self, days: i32) -> Day {
        Day(self.now.day().0 - days)
    }

    /// Deletes claims past their retention; returns how many rows.
    pub(crate) async fn drop_ended_claims(&self) -> u64 {
        let maintenance = self.journal.maintenance();
        let calendar = maintenance.live(self.now, None).await.expect("a calendar");
        let dropped = maintenance.drop_ended_claims(&calendar).await;
        dropped.expect("dropped")
    }

    /// Drops the days that are over, as the owner does.
    pub(crate) async fn drop_days(&self) -> Result<u64, JournalError> {
        let maintenance = self.journal.maintenance();
        let calendar = maintenance.live(self.now, None).await?;
        maintenance.drop_days(&calendar).await
    }

    /// Appends a batch, and goes on to the next number when it is durable.
    pub(crate) async fn append(&mut self, records: Records) -> Commit {
        let commit = self.writer.append(&self.batch(records)).await;
        if commit == Commit::Durable {
            self.next.0 += 1;
        }
        commit
    }

    pub(crate) async fn write_images<const N: usize>(&mut self, images: [SchedulerImage; N]) {
        self.write(Records {
            schedulers: make::images(images),
            ..Records::default()
        })
        .await;
    }

    pub(crate) async fn write(&mut self, records: Records) {
        assert_eq!(self.append(records).await, Commit::Durable);
    }

    pub(crate) async fn psql(&self) -> PgConnection {
        PgConnection::connect_with(&self.options).await.unwrap()
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql)
            .fetch_one(&mut self.psql().await)
            .await
            .unwrap()
    }
}
