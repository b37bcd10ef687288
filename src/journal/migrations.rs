//! Brings the schema up to date, from the files in `migrations/`, which the program carries.
//!
//! A database remembers number and checksum of every migration it has run, and a program that
//! carries another text under the same number is refused. So a migration once released never
//! changes, not even in a comment.

use super::JournalError;
use sqlx::{
    PgConnection, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

/// Number, description and text of each, as the name of its file has them.
const MIGRATIONS: [(i64, &str, &str); 2] = [
    (
        1,
        "journal",
        include_str!("../../migrations/0001_journal.sql"),
    ),
    (2, "views", include_str!("../../migrations/0002_views.sql")),
];

/// Runs the migrations that this database has not seen yet, one replica at a time.
pub(super) async fn run(connection: &mut PgConnection) -> Result<(), JournalError> {
    // `Migrator::run` wants any lifetime of the connection, which makes the future not `Send`.
    Ok(migrator().run_direct(None, connection, false).await?)
}

fn migrator() -> Migrator {
    let migration = |(version, description, sql): (i64, &'static str, &'static str)| {
        let kind = MigrationType::Simple;
        Migration::new(version, description.into(), kind, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(MIGRATIONS.map(migration).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::rows::completion::narrow_row;
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
        let names = MIGRATIONS.map(|(version, description, _)| {
            format!("{version:04}_{}.sql", description.replace(' ', "_"))
        });
        assert_eq!(files, names);
    }

    #[test]
    fn the_index_of_wide_rows_and_the_statements_say_the_same_number() {
        let wide = concat!("where max_seq - min_seq > ", narrow_row!(), ";");
        assert!(MIGRATIONS[0].2.contains(wide));
    }

    #[test]
    fn databases_that_ran_the_same_files_before_are_accepted() {
        let checksums: Vec<String> = migrator()
            .iter()
            .map(|migration| hexadecimal(&migration.checksum[..8]))
            .collect();
        assert_eq!(checksums, ["512650d06a7b4323", "20fbc2503250174f"]);
    }

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
