//! Whatever was submitted and ended in whatever order, a list finds what its filter admits, each
//! task once, in pages of any size; and what is rare is found by an index.

use super::{
    Owned,
    aged::{at_work_ago, make_day},
    make::*,
};
use crate::rng::Rng;
use rallypoint::{
    core::*,
    journal::{StoredTask, indexed_statements},
};
use sqlx::{AssertSqlSafe, Executor};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);
const OUTCOMES: [Outcome; 5] = [
    Outcome::Succeeded,
    Outcome::Failed,
    Outcome::Cancelled,
    Outcome::TimedOut,
    Outcome::Exhausted,
];

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn labelled(labels: BTreeMap<String, String>) -> Arc<Spec> {
    Arc::new(Spec {
        work: Work::Noop,
        options: TaskOptions {
            labels,
            ..TaskOptions::default()
        },
    })
}

/// Three days of tasks with labels common and rare, most of them ended, somewhat out of order.
async fn history(owned: &mut Owned, rng: &mut Rng, calls: u32) -> Handle {
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    let (mut first, mut done_no) = (1, 1);
    let mut open: Vec<(i64, Option<i64>)> = Vec::new();
    for number in 0..calls {
        let days = 2 - (number * 3 / calls) as i32;
        let at = now - DAY * 2 + DAY * 2 * number / calls;
        let mut runs: Vec<Tasks> = Vec::new();
        for _ in 0..1 + rng.below(4) {
            let order = rng.percent(60).then(|| 1 + rng.below(5) as i64);
            let mut of_run = labels(&[("common", "yes")]);
            if rng.percent(30) {
                of_run.insert("some".into(), rng.below(3).to_string());
            }
            if rng.percent(2) {
                of_run.insert("rare".into(), "a=b".into());
            }
            if rng.percent(20) {
                of_run.clear();
            }
            runs.push((1 + rng.below(6) as u32, order, order, labelled(of_run)));
        }
        let submitted = call(handle, first, at, None, &runs);
        owned
            .write_ago(days, records(vec![submitted], vec![]))
            .await;
        for (count, order, ..) in &runs {
            open.extend((first..first + i64::from(*count)).map(|seq| (seq, *order)));
            first += i64::from(*count);
        }
        let mut done = Vec::new();
        while open.len() > 3 && rng.percent(92) {
            let reach = if rng.percent(2) { open.len() } else { 3 };
            let (seq, order) = open.remove(rng.place(reach));
            let outcome = match rng.percent(85) {
                true => Outcome::Succeeded,
                false => *rng.one_of(&OUTCOMES),
            };
            let ended = at + rng.up_to(MINUTE);
            done.push(Done {
                order: order.map(Order),
                outcome,
                ..super::make::done(seq, 1, ended)
            });
        }
        if !done.is_empty() {
            let events = done.len() as i64;
            let ended = completion(handle, done_no, done);
            owned.write_ago(days, records(vec![], vec![ended])).await;
            done_no += events;
        }
    }
    handle
}

/// A filter of some conditions, which mostly admits something.
fn filter(rng: &mut Rng, now: Time) -> TaskFilter {
    let mut filter = TaskFilter::default();
    if rng.percent(40) {
        let count = 1 + rng.place(2);
        filter.outcomes = (0..count).map(|_| *rng.one_of(&OUTCOMES)).collect();
    }
    if rng.percent(30) {
        filter.order = Some(Order(1 + rng.below(6) as i64));
    }
    if rng.percent(50) {
        let (key, value) = *rng.one_of(&[
            ("common", "yes"),
            ("some", "1"),
            ("rare", "a=b"),
            ("rare=a", "b"),
            ("never", ""),
        ]);
        filter.labels = labels(&[(key, value)]);
        if rng.percent(20) {
            filter.labels.insert("common".into(), "yes".into());
        }
    }
    let window = |rng: &mut Rng| {
        let (one, other) = (rng.up_to(DAY * 2), rng.up_to(DAY * 2));
        Window {
            from: rng.percent(60).then(|| now - one.max(other)),
            before: rng.percent(60).then(|| now - one.min(other)),
        }
    };
    if rng.percent(30) {
        filter.submitted = window(rng);
    }
    if rng.percent(30) {
        filter.ended = window(rng);
    }
    filter
}

/// The list of a filter, read in pages.
async fn list(owned: &Owned, handle: Handle, filter: &TaskFilter, size: usize) -> Vec<i64> {
    let reader = owned.journal.reader();
    let search = reader.search(handle, filter.clone()).await.unwrap();
    let (mut found, mut before) = (Vec::new(), Some(i64::MAX));
    while let Some(below) = before {
        let tasks: Vec<StoredTask>;
        if filter.asks_for_ends() {
            let page = reader.ended_tasks(&search, DoneNo(below), size).await;
            let page = page.unwrap();
            (tasks, before) = (page.tasks, page.next.map(|next| next.0));
        } else {
            let page = reader.tasks(&search, Seq(below), size).await.unwrap();
            (tasks, before) = (page.tasks, page.next.map(|next| next.0));
        }
        assert!(tasks.len() <= size && before.is_none_or(|next| next < below));
        found.extend(tasks.iter().map(|task| task.seq.0));
    }
    found
}

#[tokio::test]
async fn every_list_holds_what_its_filter_admits_once_and_in_order() {
    let mut owned = at_work_ago(2).await;
    let mut rng = Rng::new(11);
    let (mut hits, mut kinds) = (0, 0);
    for calls in [3, 40, 150] {
        let handle = history(&mut owned, &mut rng, calls).await;
        let reader = owned.journal.reader();
        let any = reader.search(handle, TaskFilter::default()).await.unwrap();
        let mut all = Vec::new();
        let mut before = Some(Seq(i64::MAX));
        while let Some(next) = before {
            let page = reader.tasks(&any, next, 1_000).await.unwrap();
            all.extend(page.tasks);
            before = page.next;
        }
        for _ in 0..40 {
            let filter = filter(&mut rng, owned.now);
            let admits = |task: &&StoredTask| {
                let done = task.done.as_ref().map(|(_, done)| done);
                filter.admits_submission(task.effective, &task.spec, task.submitted_at)
                    && match filter.asks_for_ends() {
                        true => done.is_some_and(|done| filter.admits_end(done)),
                        false => true,
                    }
            };
            let mut expected: Vec<&StoredTask> = all.iter().filter(admits).collect();
            if filter.asks_for_ends() {
                let number = |task: &&StoredTask| task.done.as_ref().map(|(no, _)| *no);
                expected.sort_by_key(|task| std::cmp::Reverse(number(task)));
            }
            let expected: Vec<i64> = expected.iter().map(|task| task.seq.0).collect();
            let size = if calls < 10 {
                1
            } else {
                *rng.one_of(&[5, 7, 100])
            };
            let found = list(&owned, handle, &filter, size).await;
            assert_eq!(found, expected, "{filter:?} in pages of {size}");
            hits += usize::from(!found.is_empty());
            kinds += 1;
        }
    }
    assert!(hits > kinds / 3, "{hits} of {kinds} lists have something");
}

#[tokio::test]
async fn labels_beyond_what_is_indexed_are_found_all_the_same() {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    let many = |from: u32| {
        let label = |number| (format!("k{number}"), String::new());
        labelled((from..from + 60).map(label).collect())
    };
    let runs: Vec<Tasks> = (0..5).map(|run| (1, None, None, many(run * 60))).collect();
    let submitted = call(handle, 1, now, None, &runs);
    owned.write(records(vec![submitted], vec![])).await;
    assert_eq!(owned.count("select count(*) from task_label").await, 1);
    for (key, seq) in [("k0", 1), ("k299", 5)] {
        let filter = TaskFilter {
            labels: labels(&[(key, "")]),
            ..TaskFilter::default()
        };
        assert_eq!(list(&owned, handle, &filter, 10).await, [seq]);
    }
}

/// Labels go with their day, but for those of tasks that are needed longer.
#[tokio::test]
async fn labels_of_an_unfinished_task_outlive_their_day() {
    let mut owned = at_work_ago(40).await;
    make_day(&owned, 35).await;
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    let of = |label: &str| labelled(labels(&[("is", label)]));
    let runs = |label: &str| [(1, None, None, of(label))];
    let long_ago = now - DAY * 40;
    let kept = call(handle, 1, long_ago, None, &runs("kept"));
    owned.write_ago(40, records(vec![kept], vec![])).await;
    let over = call(handle, 2, long_ago, None, &runs("over"));
    owned.write_ago(40, records(vec![over], vec![])).await;
    let ended = completion(handle, 1, vec![done(2, 1, long_ago)]);
    owned.write_ago(40, records(vec![], vec![ended])).await;
    let mut checkpointed = image(handle, now);
    checkpointed.checkpoint = Checkpoint {
        highest_seq: Seq(2),
        done_no: DoneNo(1),
        unfinished: vec![(Seq(1), Seq(1))],
        first_day: now.day(),
        quiesced: false,
    };
    owned.write_images([checkpointed]).await;
    owned.drop_days().await.unwrap();
    assert_eq!(owned.count("select count(*) from task_label").await, 1);
    for (label, found) in [("kept", vec![1]), ("over", vec![])] {
        let filter = TaskFilter {
            labels: labels(&[("is", label)]),
            ..TaskFilter::default()
        };
        assert_eq!(list(&owned, handle, &filter, 10).await, found, "{label}");
    }
}

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
