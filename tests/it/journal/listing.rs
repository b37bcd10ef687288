//! Whatever was submitted and ended in whatever order, a list finds what its filter admits, each
//! task once, in pages of any size.

use super::{Owned, aged::at_work_ago, make::*};
use crate::rng::Rng;
use rallypoint::{core::*, journal::StoredTask};
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

pub(super) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

pub(super) fn labelled(labels: BTreeMap<String, String>) -> Arc<Spec> {
    Arc::new(Spec {
        work: Work::Noop,
        options: TaskOptions {
            labels,
            ..TaskOptions::default()
        },
        trace: None,
    })
}

/// Tasks of the last `span` with labels common and rare, most of them ended, somewhat out of order,
/// and in no order of time within a minute.
async fn history(owned: &mut Owned, rng: &mut Rng, calls: u32, span: Duration) -> Handle {
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    let (mut first, mut done_no) = (1, 1);
    let mut open: Vec<(i64, Option<i64>)> = Vec::new();
    for number in 0..calls {
        let at = now - span + span * number / calls;
        let days = now.day().0 - at.day().0;
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
fn filter(rng: &mut Rng, now: Time, span: Duration) -> TaskFilter {
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
        let (one, other) = (rng.up_to(span), rng.up_to(span));
        Window {
            from: rng.percent(60).then(|| now - one.max(other)),
            before: rng.percent(60).then(|| now - one.min(other)),
        }
    };
    if rng.percent(30) {
        filter.submitted = window(rng);
    }
    // In a short span the order of ends matters.
    if rng.percent(if span < DAY { 90 } else { 30 }) {
        filter.ended = window(rng);
    }
    filter
}

/// The list of a filter, read in pages.
pub(super) async fn list(
    owned: &Owned,
    handle: Handle,
    filter: &TaskFilter,
    size: usize,
) -> Vec<i64> {
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
    for (calls, span) in [
        (3, DAY * 2),
        (40, DAY * 2),
        (150, DAY * 2),
        (60, MINUTE * 10),
    ] {
        let handle = history(&mut owned, &mut rng, calls, span).await;
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
            let filter = filter(&mut rng, owned.now, span);
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
