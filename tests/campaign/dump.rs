//! Writes what the databases hold at the end, and what servers complain of, into the history.

use crate::{
    fixture::Fixture,
    history::{Done, Entry, Logged, Mark},
    server::Server,
    stock_client::STOCK_CALLER,
};
use sqlx::{Connection, PgConnection};
use std::time::Duration;

/// How long unfinished work may take after the last fault.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(150);

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
    error
});

/// Waits until every scheduler has ended, and says whether they have. Stock clients leave some
/// open: they make no call twice.
pub(crate) async fn settled(fixture: &Fixture) -> bool {
    let mut journal = fixture.journal.session().await.expect("the journal");
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < SETTLE_TIMEOUT {
        let open = sqlx::query_scalar::<_, i64>(
            "select count(*)
            from scheduler
            where state = 2
               or state = 1 and caller <> $1",
        )
        .bind(STOCK_CALLER.as_bytes());
        if open.fetch_one(&mut journal).await.expect("a number") == 0 {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    false
}

/// Writes the log, the marks, and the numbers of the batches into the history.
pub(crate) async fn dump(fixture: &Fixture) {
    let mut journal = fixture.journal.session().await.expect("the journal");
    // Compiling a query takes longer than running it for one scheduler of very many.
    sqlx::query("set jit = off")
        .execute(&mut journal)
        .await
        .expect("set");
    let handles: Vec<String> =
        sqlx::query_scalar("select handle::text from scheduler where caller <> $1 order by handle")
            .bind(STOCK_CALLER.as_bytes())
            .fetch_all(&mut journal)
            .await
            .expect("the schedulers");
    for handle in handles {
        for row in log_of(&mut journal, &handle).await {
            fixture.history.write(&Entry::Logged(row.into()));
        }
    }
    let batches = "select min(batch_no), max(batch_no), count(*), epoch
        from batch
        group by epoch
        order by epoch";
    for (first, last, rows, epoch) in sqlx::query_as(batches)
        .fetch_all(&mut journal)
        .await
        .expect("the batches")
    {
        fixture.history.write(&Entry::Batch {
            first,
            last,
            rows,
            epoch,
        });
    }
    let attempts = "select kind::int4, count(*) from attempt group by kind";
    for (kind, count) in sqlx::query_as(attempts)
        .fetch_all(&mut journal)
        .await
        .expect("the attempts")
    {
        fixture.history.write(&Entry::Attempts { kind, count });
    }
    journal.close().await.expect("closed");
    dump_idle_transactions(fixture).await;
    dump_marks(fixture).await;
    dump_silenced(fixture);
    for server in &fixture.servers {
        fixture.history.write(&Entry::Complaints {
            server: server.number,
            complaints: server.complaints(),
        });
    }
}

async fn dump_idle_transactions(fixture: &Fixture) {
    let mut idle_in_transaction = 0;
    for database in fixture.databases() {
        let mut session = database.session().await.expect("a session");
        let idle = "select count(*) from pg_stat_activity where state like 'idle in transaction%'";
        let idle = sqlx::query_scalar::<_, i64>(idle).fetch_one(&mut session);
        idle_in_transaction += idle.await.expect("a number");
    }
    fixture.history.write(&Entry::Sessions {
        idle_in_transaction,
    });
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

async fn dump_marks(fixture: &Fixture) {
    let mut app = fixture.target.session().await.expect("the target");
    let marks = "select token, start, number, pid, server from witness order by number";
    let marks: Vec<(i64, bool, i64, i32, i32)> = sqlx::query_as(marks)
        .fetch_all(&mut app)
        .await
        .expect("the witnesses");
    for (token, start, number, pid, server) in marks {
        fixture.history.write(&Entry::Mark(Mark {
            token,
            start,
            number,
            pid,
            server: server as usize,
        }));
    }
}

async fn log_of(journal: &mut PgConnection, handle: &str) -> Vec<Row> {
    let query = "select handle::text, seq, kind, task_order, done_no, attempt, error_code as error,
            coalesce(substring(statement from 'values \\((\\d+),')::int8, 0) as token,
            (extract(epoch from submitted_at) * 1000000)::int8 as submitted,
            (extract(epoch from started_at) * 1000000)::int8 as started,
            (extract(epoch from ended_at) * 1000000)::int8 as ended,
            array_position(
                array['succeeded', 'failed', 'cancelled', 'timed out', 'exhausted'], outcome
            ) as outcome
        from execution_log
        where handle = $1::uuid
        order by seq, done_no";
    sqlx::query_as(query)
        .bind(handle)
        .fetch_all(journal)
        .await
        .expect("the log")
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
        });
        Logged {
            handle: row.handle,
            seq: row.seq,
            token: row.token,
            kind: row.kind,
            submitted: row.submitted,
            done,
        }
    }
}
