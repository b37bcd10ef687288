//! What people can see: the log in the database with psql, and the status of the service.

use crate::harness::{
    postgres::connect,
    server::{Server, Setup},
    work::{failing, noop, sleep, slots_of, sql},
};
use rallypoint_client::api::{ExecutionState, GetStatusResponse, ReleaseMode, SchedulerSettings};
use sqlx::Row;

#[tokio::test]
async fn the_execution_log_shows_every_task_in_plain_sql() {
    let server = Server::start().await;
    let client = server
        .client
        .clone()
        .with_caller("night shift")
        .expect("a caller");
    let scheduler = server.open_as(&client, SchedulerSettings::default()).await;
    scheduler
        .submit([
            sql("select 'ä' from generate_series(1, 3)").order(1),
            failing().order(2),
            noop(),
        ])
        .await;
    scheduler.all_done().await;
    let query = "select concat_ws('|', seq, caller, namespace, coalesce(task_order, -1), kind,
            statement, outcome, attempt, error_code, rows_affected,
            ended_at >= started_at and started_at >= submitted_at, backend_pid > 0) as line
        from rallypoint_log.execution_log
        where handle = $1::uuid
        order by seq";
    let rows = sqlx::query_scalar::<_, String>(query).bind(scheduler.handle());
    let lines = rows
        .fetch_all(&mut connect(&server.journal).await)
        .await
        .expect("the view can be read");
    let expected = [
        "1|night shift|default|1|sql|select 'ä' from generate_series(1, 3)|succeeded|1|3|t|t",
        "2|night shift|default|2|sql|select 1/0|failed|1|22012|t|t",
        "3|night shift|default|-1|noop|succeeded|1|t",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn the_execution_status_shows_what_runs_on_which_backend() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler
        .submit([gate.task().order(7), noop().order(8)])
        .await;
    scheduler.until(|now| now.running == 1).await;
    let query = "select replica, target, handle::text as handle, seq, attempt,
            backend_pid > 0 as has_backend, namespace,
            statement = rallypoint_log.statement(handle, seq) as has_statement
        from rallypoint_log.execution_status
        where handle = $1::uuid and attempt is not null and replica is not null";
    let mut session = connect(&server.journal).await;
    let row = loop {
        // The row of a long attempt is written after 100 ms.
        let row = sqlx::query(query)
            .bind(scheduler.handle())
            .fetch_optional(&mut session)
            .await
            .expect("the view can be read");
        if let Some(row) = row {
            break row;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(
        (row.get::<&str, _>("replica"), row.get::<&str, _>("target")),
        ("test", "app")
    );
    assert_eq!(
        (
            row.get::<i64, _>("seq"),
            row.get::<i32, _>("attempt"),
            row.get("has_backend")
        ),
        (1, 1, true)
    );
    assert_eq!(
        (row.get::<&str, _>("namespace"), row.get("has_statement")),
        ("default", true)
    );
    gate.open().await;
    scheduler.all_done().await;
}

#[tokio::test]
async fn list_executions_has_a_row_for_every_slot_idle_ones_included() {
    let server = Server::with(Setup {
        slots: 3,
        ..Setup::default()
    })
    .await;
    let client = server
        .client
        .clone()
        .with_caller("auditor")
        .expect("a caller");
    let scheduler = server.open_as(&client, SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit([gate.task().order(7)]).await;
    scheduler.until(|now| now.running == 1).await;
    let mut rows = server.client.executions().await.expect("rows").executions;
    while rows
        .iter()
        .all(|row| row.handle.is_empty() || row.backend_pid == 0)
    {
        rows = server.client.executions().await.expect("rows").executions;
    }
    let sql: Vec<_> = rows
        .iter()
        .filter(|row| row.kind == slots_of("app"))
        .collect();
    let busy: Vec<_> = sql.iter().filter(|row| !row.handle.is_empty()).collect();
    assert_eq!((sql.len(), busy.len()), (3, 1));
    let row = busy[0];
    assert_eq!(
        (
            row.handle.as_str(),
            row.seq,
            row.effective_order,
            row.attempt
        ),
        (scheduler.handle(), 1, Some(7), 1)
    );
    assert_eq!(row.namespace, "default");
    assert_eq!(
        (row.submitted_by.as_deref(), row.state()),
        (Some("auditor"), ExecutionState::Running)
    );
    let gate_statement = "select pg_advisory_xact_lock_shared(1)";
    assert_eq!(row.statement_preview, gate_statement);
    let idle = sql.iter().filter(|row| row.state() == ExecutionState::Idle);
    assert_eq!(idle.count(), 2);
    assert_eq!(
        (
            row.caller.as_str(),
            row.replica.as_str(),
            row.started_at.is_some()
        ),
        ("auditor", "test", true)
    );
    gate.open().await;
    scheduler.all_done().await;
}

#[tokio::test]
async fn get_status_shows_slots_backlog_targets_and_journal() {
    let server = Server::start().await;
    let settings = SchedulerSettings {
        max_parallelism: Some(2),
        ..Default::default()
    };
    let scheduler = server.open(settings).await;
    let gate = server.gate().await;
    let first = gate.task().order(1).times(3);
    let second = sleep(1).order(2).times(4);
    scheduler.submit(first.into_iter().chain(second)).await;
    scheduler.until(|now| now.running == 2).await;
    let status = with_sessions(&server, 2).await;
    let backlog = status.backlog.expect("a backlog");
    let counts = (backlog.running, backlog.queued, backlog.blocked);
    assert_eq!((counts, backlog.retrying), ((2, 1, 4), 0));
    assert!(backlog.schedulers == 1 && backlog.oldest_queued_at.is_some());
    assert_app_has_five_slots(&status);
    let journal = status.journal.as_ref().expect("a journal");
    assert!(
        journal.available && journal.batch_no > 0 && !journal.oldest_day.is_empty(),
        "{journal:?}"
    );
    assert!(status.unreachable.is_empty(), "{status:?}");
    let replicas = &status.replicas;
    assert!(replicas.iter().any(|row| row.owner && row.name == "test"));
    gate.open().await;
    scheduler.all_done().await;
    scheduler
        .scheduler
        .release(ReleaseMode::Finish, true)
        .await
        .expect("released");
    let status = server.client.status().await.expect("a status");
    let backlog = status.backlog.expect("a backlog");
    assert_eq!((backlog.schedulers, backlog.running), (0, 0));
}

fn assert_app_has_five_slots(status: &GetStatusResponse) {
    let mut slots = status.slots.iter();
    let slots = slots.find(|slots| slots.kind == slots_of("app"));
    let slots = slots.expect("the slots of app");
    assert_eq!((slots.total, slots.busy, slots.reserved), (5, 2, 1));
    let mut targets = status.targets.iter();
    assert!(targets.any(|target| target.name == "app" && target.available));
}

/// The status, once `sessions` sessions are open.
async fn with_sessions(server: &Server, sessions: i32) -> GetStatusResponse {
    loop {
        let status = server.client.status().await.expect("a status");
        if status
            .targets
            .iter()
            .any(|target| target.sessions == sessions)
        {
            return status;
        }
    }
}
