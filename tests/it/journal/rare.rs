//! What is rare is found by an index, however much else there is.

use super::{
    Owned,
    listing::{labelled, labels, list},
    make::*,
};
use rallypoint::{core::*, journal::indexed_statements};
use sqlx::{AssertSqlSafe, Executor};
use std::sync::Arc;

/// A scheduler of three thousand batches, with one task that timed out and has a label of its own,
/// among as many schedulers, of which one was released and has a label of its own.
async fn one_in_thousands() -> (Owned, Handle) {
    let mut owned = Owned::new().await;
    let now = owned.now;
    let mut target = handle();
    for number in 0..3_000 {
        let rare = number == 700;
        let of = labels(&[("is", if rare { "rare" } else { "common" })]);
        let mut opened = image(handle(), now);
        opened.settings = Arc::new(Settings {
            labels: of.clone(),
            ..Settings::default()
        });
        if rare {
            opened.state = SchedulerState::Released;
        }
        if number == 0 {
            target = opened.handle;
        }
        let first = number + 1;
        let submitted = call(target, first, now, None, &[(1, None, None, labelled(of))]);
        let mut ended = done(first, 1, now);
        if rare {
            ended.outcome = Outcome::TimedOut;
        }
        let ended = completion(target, first, vec![ended]);
        owned
            .write(Records {
                schedulers: images([opened]),
                ..records(vec![submitted], vec![ended])
            })
            .await;
    }
    (owned, target)
}

#[tokio::test]
async fn what_is_rare_is_found_by_an_index() {
    let (owned, handle) = one_in_thousands().await;
    let timed_out = TaskFilter {
        outcomes: vec![Outcome::TimedOut, Outcome::Exhausted],
        ..TaskFilter::default()
    };
    let rare = TaskFilter {
        labels: labels(&[("is", "rare")]),
        ..TaskFilter::default()
    };
    for filter in [timed_out, rare] {
        assert_eq!(list(&owned, handle, &filter, 10).await, [701]);
    }
    let below = "'ffffffff-ffff-ffff-ffff-ffffffffffff'";
    let from = "'00000000-0000-0000-0000-000000000000'";
    let arguments = [
        format!(
            "0, '{}', 9223372036854775807, 256, '{{is=rare}}'",
            handle.uuid()
        ),
        format!(
            "0, '{}', 9223372036854775807, 1, 4096, '{{4,5}}', null, 1, 9223372036854775807,
                null, null, '{{4,5,6,7,8,9,10,11,12,13,14,15}}'",
            handle.uuid()
        ),
        format!("0, 'default', 'is=rare', {from}, {below}, 100"),
        format!("0, 'default', {from}, {below}, 101, '{{3}}'"),
    ];
    for (statement, arguments) in indexed_statements().into_iter().zip(arguments) {
        let mut psql = owned.psql().await;
        let prepare = format!("prepare list as {statement}");
        psql.execute(AssertSqlSafe(prepare)).await.unwrap();
        psql.execute("set enable_sort = off").await.unwrap();
        let explain = format!(
            "explain (analyze, costs off, timing off, summary off) execute list({arguments})"
        );
        let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explain))
            .fetch_all(&mut psql)
            .await
            .unwrap();
        let plan = plan.join("\n");
        let scans = plan
            .lines()
            .filter(|line| line.contains("Scan") && !line.contains("rows=0"));
        let by_index = scans.filter(|line| line.contains(" on ")).all(|line| {
            line.contains("Index")
                || line.contains("Function")
                || line.contains("CTE")
                || line.contains("Subquery")
        });
        assert!(by_index && !plan.contains("Rows Removed"), "{plan}");
    }
}
