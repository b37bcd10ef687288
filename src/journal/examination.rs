//! What `rallypoint doctor` finds out about a coordination database. It changes nothing there: what
//! it writes is a message in the log of Postgres, to see how long a commit takes.

use super::{
    JournalError,
    bounded_connection::BoundedConnection,
    connection_limits::Duty,
    login_remedy::{PASSWORD, login_remedy},
    migrations,
    preflight::{
        CONNECT_DIRECTLY, Preflight, of_first_connection, refuse_dropped_options,
        refuse_shared_sessions,
    },
    rows::from_row,
};
use crate::core::Time;
use sqlx::{migrate::MigrateError, postgres::PgConnectOptions};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Commits that are timed; the one in the middle counts.
const COMMITS: usize = 9;
/// A commit that takes longer makes every call slow.
const SLOW_COMMIT: Duration = Duration::from_millis(20);
/// Clocks that differ by more are wrong.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

/// What its connections are for.
const LOOKS: Duty = Duty::Reader;

/// What lets a login that does not own the database make the schema of the log.
const CREATE_SCHEMAS: &str = "`grant create on database NAME to LOGIN`";

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it is to be.
    Good,
    /// The service works, and may work badly.
    Doubtful,
    /// The service does not work like this, or loses what it acknowledged.
    Bad,
}

/// Something that was looked at.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub check: String,
    /// How it is.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do; empty: nothing.
    pub remedy: String,
}

impl Finding {
    /// All is well with it.
    pub fn good(check: &str, found: impl Into<String>) -> Finding {
        Finding {
            check: check.to_owned(),
            verdict: Verdict::Good,
            found: found.into(),
            remedy: String::new(),
        }
    }

    /// Something is to be done.
    pub fn wrong(
        check: &str,
        verdict: Verdict,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            verdict,
            remedy: remedy.into(),
            ..Finding::good(check, found)
        }
    }
}

/// What a session says.
#[derive(Clone, Debug, Default)]
struct Session {
    version: String,
    synchronous_commit: String,
    standbys: String,
    /// It may create schemas in the database.
    may_create_schemas: bool,
    /// It may create tables in the schema that its search path begins with. There is none without
    /// the right to use it.
    may_create_tables: bool,
    /// As SQL has the name of the schema where its tables are made, or would be with the right to
    /// use it; empty: its search path names none that is there.
    schema: String,
    now_us: i64,
}

from_row!(Session {
    version,
    synchronous_commit,
    standbys,
    may_create_schemas,
    may_create_tables,
    schema,
    now_us,
});

/// Looks at a coordination database. The first finding says whether it can be reached; without
/// that there are no others.
pub async fn examine(options: &PgConnectOptions) -> Vec<Finding> {
    let (mut link, mut other) = match connect(options).await {
        Ok(links) => links,
        Err(error) => {
            let found = error.to_string();
            let known = login_remedy(error.sqlstate().as_deref(), &found, PASSWORD);
            let remedy = known.unwrap_or_else(|| {
                "start it, or correct --database (RALLYPOINT_DATABASE): the log of Postgres says \
                 whom it refused"
                    .to_owned()
            });
            let wrong = Finding::wrong("journal", Verdict::Bad, found, remedy);
            return vec![wrong];
        }
    };
    let mut findings = Vec::new();
    findings.push(match pooler(&mut link, &mut other).await {
        Ok(()) => Finding::good("pooler", "sessions are not shared between transactions"),
        Err(error) => Finding::wrong("pooler", Verdict::Bad, error.to_string(), CONNECT_DIRECTLY),
    });
    findings.push(match server(&mut link).await {
        Ok(()) => Finding::good(
            "settings",
            "fsync, full_page_writes, lz4 and UTF8 are there",
        ),
        Err(error) => {
            let remedy = match error {
                JournalError::ReadOnly => {
                    "connect to the primary, or make this one it; else set \
                     default_transaction_read_only to off for the database and the login"
                }
                _ => "change it in postgresql.conf and restart, or use another database or server",
            };
            Finding::wrong("settings", Verdict::Bad, error.to_string(), remedy)
        }
    });
    let schema = migrations::check(&mut link).await;
    let is_to_be_made = matches!(schema, Ok(true));
    findings.push(of_schema(schema));
    match session(&mut link).await {
        Ok((session, offset)) => findings.extend(of_session(&session, offset, is_to_be_made)),
        Err(error) => findings.push(unknown("session", &error)),
    }
    findings.push(match commit_time(&mut link).await {
        Ok(took) => of_commits(took),
        Err(error) => unknown("commit", &error),
    });
    // They were only looked at.
    let _ = (link.close().await, other.close().await);
    findings
}

async fn connect(
    options: &PgConnectOptions,
) -> Result<(BoundedConnection, BoundedConnection), JournalError> {
    let first = BoundedConnection::open(options, LOOKS).await;
    let first = first.map_err(|error| of_first_connection(error, options))?;
    let second = BoundedConnection::open(options, LOOKS).await?;
    Ok((first, second))
}

async fn pooler(
    link: &mut BoundedConnection,
    other: &mut BoundedConnection,
) -> Result<(), JournalError> {
    refuse_shared_sessions(link, other).await?;
    refuse_dropped_options(link, LOOKS).await
}

async fn server(link: &mut BoundedConnection) -> Result<(), JournalError> {
    Preflight::default().run(link).await
}

/// What the session says, and by how many seconds its clock is ahead of that of this machine.
async fn session(link: &mut BoundedConnection) -> Result<(Session, f64), JournalError> {
    let asked = Instant::now();
    let session: Session = sqlx::query_as(
        r#"-- examined_session
         select current_setting('server_version') as version,
             current_setting('synchronous_commit') as synchronous_commit,
             current_setting('synchronous_standby_names') as standbys,
             has_database_privilege(current_database(), 'create') as may_create_schemas,
             coalesce(has_schema_privilege(current_schema(), 'create'), false)
                 as may_create_tables,
             coalesce(quote_ident(coalesce(current_schema()::text, (
                 select n.nspname::text
                 from unnest(string_to_array(current_setting('search_path'), ','))
                     with ordinality as path (name, place)
                 join pg_namespace n
                     on n.nspname = replace(btrim(path.name, ' "'), '$user', current_user::text)
                 order by path.place
                 limit 1
             ))), '') as schema,
             (extract(epoch from clock_timestamp()) * 1000000)::int8 as now_us"#,
    )
    .fetch_one(link)
    .await?;
    let half = asked.elapsed() / 2;
    let here = SystemTime::now().duration_since(UNIX_EPOCH);
    let here = here.unwrap_or_default().saturating_sub(half);
    let offset = Time(session.now_us).0 - here.as_micros() as i64;
    Ok((session, offset as f64 / 1e6))
}

/// What the check of the schema says; `Ok(true)`: there is something to be done.
fn of_schema(schema: Result<bool, JournalError>) -> Finding {
    match schema {
        Ok(false) => Finding::good("schema", "this version can work with it"),
        Ok(true) => Finding::good("schema", "the next start makes it, or brings it up to date"),
        Err(error) => {
            let remedy = match &error {
                JournalError::Database(_) | JournalError::Schema(MigrateError::Execute(_)) => {
                    "use the login that owns its tables, or make this one their owner"
                }
                _ => "use the newer version that has migrated it",
            };
            Finding::wrong("schema", Verdict::Bad, error.to_string(), remedy)
        }
    }
}

fn of_session(session: &Session, offset: f64, is_to_be_made: bool) -> [Finding; 4] {
    let Session {
        version,
        synchronous_commit,
        standbys,
        ..
    } = session;
    let commits = match synchronous_commit.as_str() {
        "off" => {
            let remedy = "let the session set it, without a pooler between";
            Finding::wrong("synchronous_commit", Verdict::Bad, "off", remedy)
        }
        "local" if !standbys.is_empty() => {
            let remedy = "set it to on: a failover to a standby would lose acknowledged tasks";
            Finding::wrong("synchronous_commit", Verdict::Doubtful, "local", remedy)
        }
        other => Finding::good("synchronous_commit", other),
    };
    let rights = of_rights(session, is_to_be_made);
    let shown = format!("{offset:+.3} s from the clock of this machine");
    let clock = match offset.abs() > CLOCK_TOLERANCE.as_secs_f64() {
        false => Finding::good("clock", shown),
        true => {
            let remedy = "synchronise both by NTP: times are those of the database";
            Finding::wrong("clock", Verdict::Doubtful, shown, remedy)
        }
    };
    let journal = Finding::good("journal", format!("PostgreSQL {version} answers"));
    [journal, commits, rights, clock]
}

fn of_rights(session: &Session, is_to_be_made: bool) -> Finding {
    let no_table = match session.schema.as_str() {
        "" => "no table, as no schema of its search_path is there for it".to_owned(),
        schema => format!("no table in the schema {schema}"),
    };
    let tables = create_tables(&session.schema);
    let (found, grant) = match (session.may_create_schemas, session.may_create_tables) {
        (true, true) => {
            return Finding::good("rights", "the login may create what migrations need");
        }
        (true, false) => (no_table, tables),
        (false, true) => (
            "no schema in the database".to_owned(),
            CREATE_SCHEMAS.to_owned(),
        ),
        (false, false) => (
            "nothing".to_owned(),
            format!("{CREATE_SCHEMAS} and {tables}"),
        ),
    };
    let so = match (is_to_be_made, session.may_create_tables) {
        (true, _) => "and the schema is not there or not up to date",
        (false, false) => "and so no table for the next day",
        (false, true) => "which a newer version may need",
    };
    let owned = match session.schema.as_str() {
        "" => String::new(),
        schema => format!(" and of the schema {schema}"),
    };
    let remedy = format!(
        "make the login the owner of the database{owned}, or run {grant}; in both cases it must \
         own the tables that are there"
    );
    let found = format!("it may create {found}, {so}");
    Finding::wrong("rights", Verdict::Bad, found, remedy)
}

/// What lets a login make the other tables. Since Postgres 15 that of the schema public is for the
/// owner of the database.
fn create_tables(schema: &str) -> String {
    match schema {
        "" => "`create schema NAME authorization LOGIN`, of a name in its search_path".to_owned(),
        schema => format!("`grant usage, create on schema {schema} to LOGIN`"),
    }
}

/// How long a commit takes that is flushed to disk.
async fn commit_time(link: &mut BoundedConnection) -> Result<Duration, JournalError> {
    let mut times = Vec::with_capacity(COMMITS);
    for _ in 0..COMMITS {
        let begun = Instant::now();
        sqlx::query(
            "-- timed_commit
             select pg_logical_emit_message(true, 'rallypoint doctor', '')",
        )
        .execute(&mut *link)
        .await?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[COMMITS / 2])
}

fn of_commits(took: Duration) -> Finding {
    let shown = format!(
        "{:.1} ms from here to the disk and back",
        took.as_secs_f64() * 1e3
    );
    match took > SLOW_COMMIT {
        false => Finding::good("commit", shown),
        true => {
            let remedy = "put the database on a faster disk, or nearer: every call waits for one";
            Finding::wrong("commit", Verdict::Doubtful, shown, remedy)
        }
    }
}

fn unknown(check: &str, error: &JournalError) -> Finding {
    let remedy = "see what the log of Postgres says";
    Finding::wrong(check, Verdict::Bad, error.to_string(), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_that_is_missing_is_named() {
        for (may_create_schemas, may_create_tables, schema, found) in [
            (false, false, "public", "nothing"),
            (true, false, "public", "no table in the schema public"),
            (true, false, "\"Own\"", "no table in the schema \"Own\""),
            (false, true, "public", "no schema in the database"),
        ] {
            let session = Session {
                may_create_schemas,
                may_create_tables,
                schema: schema.to_owned(),
                ..Session::default()
            };
            let wrong = of_rights(&session, true);
            let begin = format!("it may create {found}, and");
            assert!(wrong.found.starts_with(&begin), "{wrong:?}");
            let grants = |right: &str| wrong.remedy.contains(right);
            assert_eq!(grants("create on database"), !may_create_schemas);
            let on_schema = format!("create on schema {schema} to");
            assert_eq!(grants(&on_schema), !may_create_tables);
        }
    }

    #[test]
    fn who_has_no_schema_is_told_to_make_one() {
        let session = Session {
            may_create_schemas: true,
            ..Session::default()
        };
        let wrong = of_rights(&session, true);
        assert!(wrong.found.contains("no schema of its search_path"));
        assert!(wrong.remedy.contains("create schema NAME"), "{wrong:?}");
    }
}
