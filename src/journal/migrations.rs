//! Brings the schema up to date, from the files in `migrations/`, which the program carries.
//!
//! A database remembers number and checksum of every migration it has run, and a program that
//! carries another text under the same number is refused. So a migration once released never
//! changes, not even in a comment.
//!
//! Programs of two versions may run beside each other: one that does not know the newest migrations
//! goes on as long as the schema says that it may (`schema_version.compatible_since`).

pub(super) mod breaking;

use super::{
    JournalError,
    bounded_connection::{BoundedConnection, within},
};
use crate::backoff::Backoff;
use sqlx::{
    SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};
use std::time::Duration;

/// Number, description and text of each, as the name of its file has them.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (
        1,
        "journal",
        include_str!("../../migrations/0001_journal.sql"),
    ),
    (2, "views", include_str!("../../migrations/0002_views.sql")),
    (
        3,
        "maintenance",
        include_str!("../../migrations/0003_maintenance.sql"),
    ),
    (
        4,
        "fences",
        include_str!("../../migrations/0004_fences.sql"),
    ),
    (
        6,
        "labels",
        include_str!("../../migrations/0006_labels.sql"),
    ),
    (
        7,
        "diagnostics",
        include_str!("../../migrations/0007_diagnostics.sql"),
    ),
    (
        8,
        "leaner_batches",
        include_str!("../../migrations/0008_leaner_batches.sql"),
    ),
    (
        10,
        "request_memory",
        include_str!("../../migrations/0010_request_memory.sql"),
    ),
    (11, "log", include_str!("../../migrations/0011_log.sql")),
    (
        12,
        "comments",
        include_str!("../../migrations/0012_comments.sql"),
    ),
    (
        13,
        "retries",
        include_str!("../../migrations/0013_retries.sql"),
    ),
    (
        14,
        "target_pauses",
        include_str!("../../migrations/0014_target_pauses.sql"),
    ),
    (
        16,
        "requests_epoch",
        include_str!("../../migrations/0016_requests_epoch.sql"),
    ),
    (17, "lists", include_str!("../../migrations/0017_lists.sql")),
    (
        18,
        "attempts",
        include_str!("../../migrations/0018_attempts.sql"),
    ),
    (
        19,
        "scheduler_names",
        include_str!("../../migrations/0019_scheduler_names.sql"),
    ),
    (
        20,
        "who_and_what",
        include_str!("../../migrations/0020_who_and_what.sql"),
    ),
    (
        24,
        "resources",
        include_str!("../../migrations/0024_resources.sql"),
    ),
    (
        27,
        "refill",
        include_str!("../../migrations/0027_refill.sql"),
    ),
    (28, "jobs", include_str!("../../migrations/0028_jobs.sql")),
    (
        29,
        "job_claims",
        include_str!("../../migrations/0029_job_claims.sql"),
    ),
    (31, "audit", include_str!("../../migrations/0031_audit.sql")),
    (
        32,
        "whose_and_which",
        include_str!("../../migrations/0032_whose_and_which.sql"),
    ),
    (
        33,
        "claims_who_and_what",
        include_str!("../../migrations/0033_claims_who_and_what.sql"),
    ),
    (
        34,
        "fence_by_number",
        include_str!("../../migrations/0034_fence_by_number.sql"),
    ),
    (
        35,
        "what_runs",
        include_str!("../../migrations/0035_what_runs.sql"),
    ),
    (
        36,
        "set_aside",
        include_str!("../../migrations/0036_set_aside.sql"),
    ),
    (
        37,
        "last_due",
        include_str!("../../migrations/0037_last_due.sql"),
    ),
    (
        38,
        "periods_since",
        include_str!("../../migrations/0038_periods_since.sql"),
    ),
];

/// Attempts at migrating. Replicas that start together on an empty database conflict, and all but
/// one of them find at their next attempt that it is done.
const MAX_TRIES: u32 = 10;
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// Runs the migrations that this database has not seen yet. Each is a transaction, so replicas that
/// do it at the same time need no lock: one commits it, the others' is undone and tried again.
///
/// One that reads the log takes as long as the log is large: given up half-way it would only begin
/// again.
pub(super) async fn run(link: &mut BoundedConnection) -> Result<(), JournalError> {
    let without_limit = sqlx::query(
        "-- migrate_without_limit
         set statement_timeout = 0",
    );
    without_limit.execute(&mut *link).await?;
    migrate(link).await?;
    let with_limit = sqlx::query(
        "-- limit_after_migrations
         reset statement_timeout",
    );
    with_limit.execute(link).await?;
    Ok(())
}

async fn migrate(link: &mut BoundedConnection) -> Result<(), JournalError> {
    let mut failures = 0;
    loop {
        // Without anything to run it only compares checksums.
        let limit = match check(link).await? {
            true => Duration::MAX,
            false => link.limit,
        };
        // `Migrator::run` wants any lifetime of the connection, which makes the future not `Send`.
        let run = async { Ok(migrator().run_direct(None, link.unlimited(), false).await) };
        match within(limit, run).await? {
            Err(MigrateError::Execute(_) | MigrateError::ExecuteMigration(..))
                if failures + 1 < MAX_TRIES =>
            {
                tokio::time::sleep(RETRY_BACKOFF.delay(failures)).await;
                failures += 1;
            }
            run => return Ok(run?),
        }
    }
}

/// Refuses a schema that a newer program has made, unless it says that this one can live with it.
/// Returns whether migrations are still to be run.
pub(super) async fn check(link: &mut BoundedConnection) -> Result<bool, JournalError> {
    let knows = MIGRATIONS.iter().map(|(version, ..)| *version).max();
    let knows = knows.unwrap_or_default();
    let Some(newest) = newest(link).await? else {
        return Ok(true);
    };
    if newest <= knows {
        return Ok(newest < knows);
    }
    let needs = if exists(link, "schema_version").await? {
        sqlx::query_scalar(
            "-- compatible_since
             select compatible_since
             from schema_version",
        )
        .fetch_one(link)
        .await?
    } else {
        newest
    };
    if needs > knows {
        return Err(JournalError::TooNew { needs, knows });
    }
    Ok(false)
}

/// The newest migration of the schema; `None`: there is none.
async fn newest(link: &mut BoundedConnection) -> Result<Option<i64>, JournalError> {
    if !exists(link, "_sqlx_migrations").await? {
        return Ok(None);
    }
    let newest: Option<i64> = sqlx::query_scalar(
        "-- newest_migration
         select max(version)
         from _sqlx_migrations",
    )
    .fetch_one(link)
    .await?;
    Ok(Some(newest.unwrap_or_default()))
}

async fn exists(link: &mut BoundedConnection, table: &str) -> Result<bool, JournalError> {
    let query = sqlx::query_scalar(
        "-- table_exists
         select to_regclass($1) is not null",
    );
    Ok(query.bind(table).fetch_one(link).await?)
}

fn migrator() -> Migrator {
    let migration = |(version, description, sql): &(i64, &'static str, &'static str)| {
        let kind = MigrationType::Simple;
        let sql = (*sql).into_sql_str();
        Migration::new(*version, (*description).into(), kind, sql, false)
    };
    let migrations = MIGRATIONS.iter().map(migration);
    let mut migrator = Migrator::with_migrations(migrations.collect());
    // Advisory locks do not pass every pooler, and which migrations may be unknown is checked.
    migrator.set_locking(false).set_ignore_missing(true);
    migrator
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{day_partitions::LATE_DAYS, rows::completion::narrow_row};
    use std::{fs, path::Path};

    #[test]
    fn every_file_of_the_migrations_is_carried_under_its_own_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut files: Vec<String> = fs::read_dir(folder)
            .expect("the folder")
            .map(|file| {
                file.expect("a file")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        files.sort();
        let name = |(version, description, _): &(i64, &str, &str)| {
            format!("{version:04}_{}.sql", description.replace(' ', "_"))
        };
        let names: Vec<String> = MIGRATIONS.iter().map(name).collect();
        assert_eq!(files, names);
    }

    #[test]
    fn the_index_of_wide_rows_the_log_and_the_statements_say_the_same_number() {
        let wide = concat!("where max_seq - min_seq > ", narrow_row!(), ";");
        assert!(text_of(1).contains(wide));
        assert!(text_of(11).contains(concat!("c.max_seq - c.min_seq <= ", narrow_row!())));
        for searched in [
            concat!("o.row_max_seq - o.row_min_seq <= ", narrow_row!()),
            concat!("o.row_max_seq - o.row_min_seq > ", narrow_row!()),
            concat!(
                "least(executions_between.last_seq, 1::int8 << 62) + ",
                narrow_row!()
            ),
        ] {
            assert!(text_of(20).contains(searched), "{searched}");
        }
    }

    #[test]
    fn the_log_looks_as_many_days_back_as_a_row_may_lie_before_its_own() {
        let back = format!("at time zone 'UTC')::date - {LATE_DAYS} as day");
        assert!(text_of(11).contains(&back));
    }

    fn text_of(version: i64) -> &'static str {
        let found = MIGRATIONS.iter().find(|(number, ..)| *number == version);
        found.expect("a migration").2
    }

    #[test]
    fn databases_that_ran_the_same_files_before_are_accepted() {
        let checksums: Vec<String> = migrator()
            .iter()
            .map(|migration| hexadecimal(&migration.checksum[..8]))
            .collect();
        assert_eq!(
            checksums,
            [
                "512650d06a7b4323",
                "20fbc2503250174f",
                "a3b1b58a16abd63d",
                "a597d5dc8438ba27",
                "c97d1b3bbce301fe",
                "f4fff05b0ace5437",
                "44575afc1b78204d",
                "628de51025b62dee",
                "a112a3c09d151409",
                "dcbc0679ab7881c1",
                "c78dd6f7468f594c",
                "1a7609093a46b1a4",
                "1286df032da5e3cd",
                "5b9b71e127242b53",
                "dc43e8614910e607",
                "13401a684692a06d",
                "3aa552d1da1a1046",
                "8835a3ec32ddffb5",
                "fe36490d2de1310d",
                "27589923d2263d18",
                "c2955d2900967f88",
                "42fc54bfba578dfc",
                "4e87849267d036e6",
                "d2221f76aaadde43",
                "317b0467e5cf32b5",
                "6a759e2e47bc532e",
                "a26e1109b6322bff",
                "599778d546608d74",
                "f05fbc1355369bf1"
            ]
        );
    }

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
