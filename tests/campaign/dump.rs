//! Writes what the databases hold at the end, and what servers complain of, into the history.

mod jobs;

use crate::{
    fixture::Fixture,
    history::{Done, Entry, Logged, Mark},
    load::jobs::JOBS_CALLER,
    server::Server,
    stock_client::STOCK_CALLER,
};
use sqlx::{Connection, PgConnection};
use std::time::Duration;

/// How long unfinished work may take after the last fault.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(150);
/// A database that has crashed recovers within this many tries.
const MAX_TRIES: usize = 60;
const RETRY_DELAY: Duration = Duration::from_secs(1);

struct Row {
    handle: String,
    seq: i64,
    token: i64,
    kind: String,
    submitted: i64,
    task_order: Option<i64>,
    done_no: Option<i64>,
    outcome: Option<i32>,
    attempt: Option<i32>,
    started: Option<i64>,
    ended: Option<i64>,
    error: Option<String>,
    retry_of: Option<i64>,
    retried_as: Option<i64>,
}

rallypoint::from_row!(Row {
    handle,
    seq,
    token,
    kind,
    submitted,
    task_order,
    done_no,
    outcome,
    attempt,
    started,
    ended,
    error,
    retry_of,
    retried_as
});

/// Waits until every scheduler, every claim and every run has ended, and says whether they have.
/// Stock clients leave some open: they make no call twice.
pub(crate) async fn settled(fixture: &Fixture) -> bool {
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < SETTLE_TIMEOUT {
        let schedulers = until_read(async || unfinished(fixture).await).await;
        if schedulers == 0
            && until_read(async || open_claims(fixture).await).await == 0
            && until_read(async || jobs::open_runs(fixture).await).await == 0
        {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    false
}

async fn unfinished(fixture: &Fixture) -> sqlx::Result<i64> {
    let mut journal = fixture.journal.session().await?;
    let open = sqlx::query_scalar::<_, i64>(
        "select count(*)
        from scheduler
        where state = 2
           or state = 1 and caller <> $1",
    );
    let open = open.bind(STOCK_CALLER.as_bytes());
    open.fetch_one(&mut journal).await
}

async fn open_claims(fixture: &Fixture) -> sqlx::Result<i64> {
    let mut journal = fixture.journal.session().await?;
    let open = "select count(distinct claim_no)
        from claim
        where not exists (
            select from claim as ended where ended.claim_no = claim.claim_no and ended.kind = 3
        )";
    sqlx::query_scalar(open).fetch_one(&mut journal).await
}

/// Writes the log, the marks, and the numbers of the batches into the history.
pub(crate) async fn dump(fixture: &Fixture) {
    let read = [
        until_read(async || of_journal(fixture).await).await,
        until_read(async || idle_transactions(fixture).await).await,
        until_read(async || marks(fixture).await).await,
        until_read(async || jobs::of_journal(fixture).await).await,
        until_read(async || jobs::settled(fixture).await).await,
    ];
    for entry in read.iter().flatten() {
        fixture.history.write(entry);
    }
    let count = until_read(async || open_claims(fixture).await).await;
    fixture.history.write(&Entry::OpenClaims { count });
    dump_silenced(fixture);
    for server in &fixture.servers {
        fixture.history.write(&Entry::Complaints {
            server: server.number,
            complaints: server.complaints(),
        });
    }
}

/// Reads it again while the database fails: what it holds is judged, and not that it crashes once
/// more.
async fn until_read<T>(read: impl AsyncFn() -> sqlx::Result<T>) -> T {
    let mut tries = 0;
    loop {
        match read().await {
            Ok(read) => return read,
            Err(error) if tries == MAX_TRIES => panic!("a database cannot be read: {error}"),
            Err(error) => eprintln!("  a database is read again: {error}"),
        }
        tries += 1;
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn of_journal(fixture: &Fixture) -> sqlx::Result<Vec<Entry>> {
    let mut journal = fixture.journal.session().await?;
    // Compiling a query takes longer than running it for one scheduler of very many.
    sqlx::query("set jit = off").execute(&mut journal).await?;
    let handles = "select handle::text from scheduler where caller not in ($1, $2) order by handle";
    let handles: Vec<String> = sqlx::query_scalar(handles)
        .bind(STOCK_CALLER.as_bytes())
        .bind(JOBS_CALLER.as_bytes())
        .fetch_all(&mut journal)
        .await?;
    let mut entries = Vec::new();
    for handle in handles {
        let rows = log_of(&mut journal, &handle).await?.into_iter();
        entries.extend(rows.map(|row| Entry::Logged(row.into())));
    }
    let batches = "select min(batch_no), max(batch_no), count(*), epoch
        from batch
        group by epoch
        order by epoch";
    for (first, last, rows, epoch) in sqlx::query_as(batches).fetch_all(&mut journal).await? {
        entries.push(Entry::Batch {
            first,
            last,
            rows,
            epoch,
        });
    }
    let attempts = "select kind::int4, count(*) from attempt group by kind";
    for (kind, count) in sqlx::query_as(attempts).fetch_all(&mut journal).await? {
        entries.push(Entry::Attempts { kind, count });
    }
    journal.close().await?;
    Ok(entries)
}

async fn idle_transactions(fixture: &Fixture) -> sqlx::Result<Vec<Entry>> {
    let mut idle_in_transaction = 0;
    for database in fixture.databases() {
        let mut session = database.session().await?;
        let idle = "select count(*) from pg_stat_activity where state like 'idle in transaction%'";
        let idle = sqlx::query_scalar::<_, i64>(idle).fetch_one(&mut session);
        idle_in_transaction += idle.await?;
    }
    Ok(vec![Entry::Sessions {
        idle_in_transaction,
    }])
}

/// Connections that went silent, and what became of them.
fn dump_silenced(fixture: &Fixture) {
    let proxies = fixture.servers.iter().flat_map(Server::proxies);
    for silenced in proxies.flat_map(|proxy| proxy.half_opens().silenced()) {
        let (kept, open) = silenced.kept();
        fixture.history.write(&Entry::Silenced {
            purpose: silenced.purpose,
            kept: kept.as_micros() as i64,
            open,
        });
    }
}

async fn marks(fixture: &Fixture) -> sqlx::Result<Vec<Entry>> {
    let mut app = fixture.target.session().await?;
    let marks = "select token, seq, start, number, pid, server, hold from witness order by number";
    let marks: Vec<(i64, Option<i64>, bool, i64, i32, i32, Option<i64>)> =
        sqlx::query_as(marks).fetch_all(&mut app).await?;
    let mark = |(token, seq, start, number, pid, server, hold)| {
        Entry::Mark(Mark {
            token,
            seq,
            start,
            number,
            pid,
            server: server as usize,
            hold,
        })
    };
    Ok(marks.into_iter().map(mark).collect())
}

async fn log_of(journal: &mut PgConnection, handle: &str) -> sqlx::Result<Vec<Row>> {
    let query = "select handle::text, seq, kind, task_order, done_no, attempt, error_code as error,
            retry_of, retried_as,
            coalesce(substring(statement from 'values \\((\\d+),')::int8, 0) as token,
            (extract(epoch from submitted_at) * 1000000)::int8 as submitted,
            (extract(epoch from started_at) * 1000000)::int8 as started,
            (extract(epoch from ended_at) * 1000000)::int8 as ended,
            array_position(
                array['succeeded', 'failed', 'cancelled', 'timed out', 'exhausted'], outcome
            ) as outcome
        from rallypoint_log.execution_log
        where handle = $1::uuid
        order by seq, done_no";
    sqlx::query_as(query).bind(handle).fetch_all(journal).await
}

impl From<Row> for Logged {
    fn from(row: Row) -> Logged {
        let done = row.done_no.map(|done_no| Done {
            done_no,
            seq: row.seq,
            order: row.task_order,
            outcome: row.outcome.unwrap_or_default(),
            attempt: row.attempt.unwrap_or_default(),
            started: row.started.unwrap_or_default(),
            ended: row.ended.unwrap_or_default(),
            error: row.error.unwrap_or_default(),
            retry_of: row.retry_of,
        });
        Logged {
            handle: row.handle,
            seq: row.seq,
            token: row.token,
            kind: row.kind,
            submitted: row.submitted,
            retry_of: row.retry_of,
            retried_as: row.retried_as,
            done,
        }
    }
}
