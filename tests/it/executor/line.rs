//! What stands in line for a slot begins when one becomes free, or is given back.

use super::fixture::{Fixture, Task, sql};
use rallypoint::core::{Report, Seq};
use std::time::Duration;

/// A task that stands in line, and leaves so many slots free.
fn in_line(text: &str, leaves_free: u32) -> Task {
    Task {
        leaves_free: Some(leaves_free),
        ..sql(text)
    }
}

async fn report(fixture: &mut Fixture, seq: Seq) -> Report {
    fixture.ended(seq).await.report
}

#[tokio::test]
async fn a_task_in_line_begins_when_another_one_ends() {
    let mut fixture = Fixture::new(1).await;
    loop {
        let first = fixture.start(sql("select 1"));
        let next = [1, 2].map(|_| fixture.start(in_line("select 1", 0)));
        assert!(matches!(
            report(&mut fixture, first).await,
            Report::Succeeded(_)
        ));
        let [second, third] = next;
        match (
            report(&mut fixture, second).await,
            report(&mut fixture, third).await,
        ) {
            (Report::Succeeded(_), Report::Succeeded(_)) => break,
            // They had to wait for too long, and are handed out again.
            (_, Report::NotStarted) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(fixture.executor.is_idle());
}

#[tokio::test]
async fn a_slot_that_the_owner_does_not_know_to_be_free_is_taken_at_once() {
    let mut fixture = Fixture::new(2).await;
    for leaves_free in [0, 1] {
        let report = fixture.run(in_line("select 1", leaves_free)).await;
        assert!(matches!(report, Report::Succeeded(_)), "{report:?}");
    }
}

#[tokio::test]
async fn a_slot_that_belongs_to_others_stays_free() {
    let mut fixture = Fixture::new(2).await;
    let report = fixture.run(in_line("select 1", 2)).await;
    assert_eq!(report, Report::NotStarted);
}

#[tokio::test]
async fn who_stands_in_line_behind_a_long_task_is_given_back() {
    let mut fixture = Fixture::new(1).await;
    let long = fixture.start(sql("select pg_sleep(3600)"));
    let next = fixture.start(in_line("select 1", 0));
    assert_eq!(report(&mut fixture, next).await, Report::NotStarted);
    fixture.silent(long).await;
    fixture.executor.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn who_stands_in_line_at_the_end_of_an_executor_is_given_back() {
    let mut fixture = Fixture::new(1).await;
    let long = fixture.start(sql("select pg_sleep(3600)"));
    fixture.asleep().await;
    let next = fixture.start(in_line("select 1", 0));
    let executor = fixture.executor.clone();
    let ending = tokio::spawn(async move { executor.shutdown(Duration::ZERO).await });
    assert_eq!(report(&mut fixture, next).await, Report::NotStarted);
    assert_eq!(report(&mut fixture, long).await, Report::Stopped);
    ending.await.expect("it ends");
}
