//! The audit is kept by day: rows go to their day or the last one before it, once each, and days
//! are dropped when their retention is over.

use super::{Owned, aged::at_work_ago};
use rallypoint::{core::Time, journal::AuditEntry};
use sqlx::Executor;
use uuid::Uuid;

fn entry(at: Time, object: &str) -> AuditEntry {
    AuditEntry {
        id: Uuid::now_v7(),
        at,
        caller: "token:olga".into(),
        address: "192.0.2.7".into(),
        namespace: "etl".into(),
        method: "JobService/PauseJob".into(),
        object: object.into(),
        reason: "the disk is full".into(),
        outcome: "OK".into(),
        left_out: 0,
    }
}

#[tokio::test]
async fn a_row_that_is_sent_twice_is_there_once_and_reads_in_words() {
    let owned = Owned::new().await;
    let reader = owned.journal.reader();
    let rows = [entry(owned.now, "job a"), entry(owned.now, "job b")];
    for _ in 0..2 {
        reader.write_audit("one", &rows).await.unwrap();
    }
    let mut psql = owned.psql().await;
    let shown =
        "select string_agg(concat_ws('|', caller, namespace, method, object, outcome, reason,
            address, replica), e'\\n' order by object)
        from rallypoint_log.audit";
    let shown: String = sqlx::query_scalar(shown)
        .fetch_one(&mut psql)
        .await
        .unwrap();
    let line =
        |job| format!("token:olga|etl|JobService/PauseJob|{job}|OK|the disk is full|192.0.2.7|one");
    assert_eq!(shown, [line("job a"), line("job b")].join("\n"));
}

#[tokio::test]
async fn a_row_without_a_day_of_its_own_goes_to_the_last_one_before_it() {
    let owned = Owned::new().await;
    let reader = owned.journal.reader();
    let later = Time(owned.now.0 + 30 * 86_400_000_000);
    reader
        .write_audit("one", &[entry(later, "job a")])
        .await
        .unwrap();
    let kept = "select count(*) from audit where day = (now() at time zone 'utc')::date + 7";
    assert_eq!(owned.count(kept).await, 1);
}

#[tokio::test]
async fn days_of_the_audit_are_dropped_after_the_retention() {
    let owned = at_work_ago(40).await;
    let old = Time(owned.now.0 - 40 * 86_400_000_000);
    let reader = owned.journal.reader();
    let rows = [entry(old, "job a")];
    reader.write_audit("one", &rows).await.unwrap();
    reader
        .write_audit("one", &[entry(owned.now, "job b")])
        .await
        .unwrap();
    assert_eq!(owned.count("select count(*) from audit").await, 2);
    let maintenance = owned.journal.maintenance();
    let calendar = maintenance.live(owned.now, None).await.unwrap();
    assert!(maintenance.drop_audit_days(&calendar).await.unwrap() >= 1);
    assert_eq!(owned.count("select count(*) from audit").await, 1);
    let mut psql = owned.psql().await;
    psql.execute("select * from rallypoint_log.audit")
        .await
        .unwrap();
}
