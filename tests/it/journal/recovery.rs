//! What a new owner reads of the journal: everything that is unfinished, and no more than needed.

use super::{Owned, make::*};
use rallypoint::{
    core::{model::limits::REQUEST_MEMORY, *},
    journal::*,
};
use sqlx::Executor;
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

#[tokio::test]
async fn what_was_appended_is_recovered() {
    let mut owned = Owned::new().await;
    let (a, b, now) = (handle(), handle(), owned.now);
    let second = now + Duration::from_micros(1);
    let request = Request {
        id: Uuid::now_v7(),
        hash: i64::MIN,
    };
    let runs = [(2, None, None, sql()), (3, Some(5), Some(7), noop())];
    let submissions = vec![
        call(a, 1, now, Some(request), &runs),
        plain(b, 1, 4, Some(1), now),
        call(a, 6, second, None, &[(1, Some(9), Some(9), sql())]),
    ];
    let attempts = attempts(a, now);
    owned
        .write(Records {
            submissions,
            completions: vec![completion(b, 1, vec![done(3, 2, now), done(1, 1, now)])],
            attempts: attempts.clone(),
            schedulers: images([image(a, now), image(b, now)]),
            ..Records::default()
        })
        .await;

    let recovered = recover(&owned.journal, ENOUGH, since(owned.now))
        .await
        .unwrap()
        .schedulers;
    assert_eq!(recovered.len(), 2);
    assert_eq!(recovered[0].image, read_again(image(a, now)));
    assert_eq!(
        recovered[0].runs,
        [
            run(1, 2, None, sql(), now),
            run(3, 3, Some(7), noop(), now),
            run(6, 1, Some(9), sql(), second)
        ]
    );
    assert_eq!(recovered[0].attempts, attempts);
    let known = RecoveredRequest {
        request,
        first_seq: Seq(1),
        count: 5,
        done_no: DoneNo(0),
        at: now,
    };
    assert_eq!(recovered[0].requests, [known]);
    assert_eq!(recovered[1].runs, [run(1, 4, Some(1), sql(), now)]);
    assert_eq!(recovered[1].outcomes, [outcome(1, 3, 2), outcome(3, 1, 1)]);
    assert_eq!(owned.count("select count(*) from submission").await, 2);
}

#[tokio::test]
async fn the_last_change_of_each_target_says_whether_it_is_paused() {
    use PauseMode::{CancelRunning, Drain};
    let mut owned = Owned::new().await;
    let now = owned.now;
    let change = |target: Option<&str>, mode| PauseRecord {
        change: PauseChange {
            target: target.map(Into::into),
            mode,
            by: "operator \u{fc}".into(),
            reason: "once \0 more".into(),
        },
        at: now,
    };
    let mut write = async |pauses| {
        let records = Records {
            pauses,
            ..Records::default()
        };
        owned.write(records).await;
        let found = recover(&owned.journal, ENOUGH, since(now)).await.unwrap();
        found.pauses
    };
    let pause = |target: Option<&str>, mode| TargetPause {
        target: target.map(Into::into),
        mode,
        since: now,
        by: "operator \u{fc}".into(),
        reason: "once \0 more".into(),
    };
    let first = vec![change(Some("app"), Some(Drain)), change(None, Some(Drain))];
    let both = [pause(Some("app"), Drain), pause(None, Drain)];
    assert_eq!(write(first).await, both);
    let second = vec![change(Some("app"), None), change(None, Some(CancelRunning))];
    assert_eq!(write(second).await, [pause(None, CancelRunning)]);
    let third = vec![change(Some("app"), Some(Drain)), change(None, None)];
    assert_eq!(write(third).await, [pause(Some("app"), Drain)]);
    let newer = "update target_pause set mode = 7 where mode = 1";
    owned.psql().await.execute(newer).await.unwrap();
    let found = recover(&owned.journal, ENOUGH, since(now)).await.unwrap();
    assert_eq!(found.pauses, [pause(Some("app"), Drain)]);
}

/// An event of every kind about the attempts of two tasks.
fn attempts(handle: Handle, now: Time) -> Vec<AttemptRecord> {
    let attempt = |seq, attempt, what| AttemptRecord {
        handle,
        seq: Seq(seq),
        attempt: Attempt(attempt),
        what,
        at: now,
        ran: None,
    };
    let error = Arc::new(TaskError {
        code: "40001".into(),
        message: "once \0 more".into(),
    });
    let lost = AttemptEvent::Lost {
        next_at: now + Duration::from_secs(1),
        error: Some(error.clone()),
    };
    let failed = AttemptEvent::Failed {
        next_at: now + Duration::from_secs(2),
        error,
    };
    let cancelled = AttemptEvent::CancelRequested {
        why: Some(Arc::new(TaskError::cancelled(
            "cancelled by ann while it ran",
        ))),
    };
    vec![
        attempt(1, 1, AttemptEvent::Start),
        attempt(1, 1, lost),
        attempt(1, 2, failed),
        attempt(2, 1, cancelled),
    ]
}

fn run(
    first: i64,
    count: u32,
    order: Option<i64>,
    spec: Arc<Spec>,
    submitted_at: Time,
) -> RecoveredRun {
    RecoveredRun {
        first: Seq(first),
        count,
        order: order.map(Order),
        spec,
        submitted_at,
        blocks: 1,
    }
}

fn outcome(done_no: i64, first: i64, count: u32) -> RecoveredOutcome {
    RecoveredOutcome {
        done_no: DoneNo(done_no),
        first: Seq(first),
        count,
        outcome: Outcome::Succeeded,
    }
}

#[tokio::test]
async fn recovery_reads_only_what_the_checkpoint_leaves_open() {
    let mut owned = Owned::new().await;
    let (a, b, now) = (handle(), handle(), owned.now);
    let checked = forty_tasks(&mut owned, a).await;
    let released = released_long_ago(b, now);
    owned.write_images([image(b, now)]).await;
    owned
        .write_images([checked.clone(), released.clone()])
        .await;

    let recovered = recover(&owned.journal, ENOUGH, since(owned.now))
        .await
        .unwrap()
        .schedulers;
    assert_eq!(recovered.len(), 1);
    assert_eq!(recovered[0].image, read_again(checked));
    let firsts: Vec<i64> = recovered[0].runs.iter().map(|run| run.first.0).collect();
    assert_eq!(firsts, [11, 21, 31]);
    assert_eq!(recovered[0].outcomes, [outcome(18, 19, 4)]);
    assert_eq!(
        owned
            .journal
            .reader()
            .scheduler(&namespace(), b)
            .await
            .unwrap(),
        Some(read_again(released))
    );
}

#[tokio::test]
async fn an_image_without_a_checkpoint_leaves_the_last_one_in_force() {
    let mut owned = Owned::new().await;
    let a = handle();
    let checked = forty_tasks(&mut owned, a).await;
    owned.write_images([checked.clone()]).await;
    let paused = SchedulerImage {
        paused: true,
        checkpoint: Checkpoint::NONE,
        ..checked.clone()
    };
    owned.write_images([paused]).await;
    let expected = SchedulerImage {
        paused: true,
        ..read_again(checked)
    };
    let row = owned
        .journal
        .reader()
        .scheduler(&namespace(), a)
        .await
        .unwrap();
    assert_eq!(row, Some(expected));
}

#[tokio::test]
async fn recovery_looks_for_nothing_of_a_scheduler_whose_checkpoint_says_that_it_rests() {
    let mut owned = Owned::new().await;
    let mut checked = forty_tasks(&mut owned, handle()).await;
    checked.checkpoint.quiesced = true;
    owned.write_images([checked]).await;
    let recovered = recover(&owned.journal, ENOUGH, since(owned.now))
        .await
        .unwrap()
        .schedulers;
    assert_eq!(
        (recovered[0].runs.len(), recovered[0].outcomes.len()),
        (0, 0)
    );
}

/// Writes forty tasks in four calls; returns an image whose checkpoint leaves 15 and 19 to 30 open.
async fn forty_tasks(owned: &mut Owned, handle: Handle) -> SchedulerImage {
    let now = owned.now;
    owned.write_images([image(handle, now)]).await;
    for first in [1, 11, 21, 31] {
        owned
            .write(records(vec![plain(handle, first, 10, None, now)], vec![]))
            .await;
    }
    for (done_no, first, count) in [(1, 1, 14), (15, 16, 7)] {
        let ended = completion(handle, done_no, vec![done(first, count, now)]);
        owned.write(records(vec![], vec![ended])).await;
    }
    let mut checked = image(handle, now);
    checked.checkpoint = Checkpoint {
        highest_seq: Seq(30),
        done_no: DoneNo(17),
        unfinished: vec![(Seq(15), Seq(15)), (Seq(19), Seq(30))],
        first_day: now.day(),
        quiesced: false,
    };
    checked
}

/// Released longer ago than its calls may be repeated.
fn released_long_ago(handle: Handle, now: Time) -> SchedulerImage {
    SchedulerImage {
        state: SchedulerState::Released,
        release_mode: Some(ReleaseMode::Cancel),
        released_at: Some(now - REQUEST_MEMORY - Duration::from_secs(1)),
        halt: Some(Halt {
            order: Order(1),
            failed: vec![Seq(4)],
            failures: Some(Box::new(HaltFailures {
                since: DoneNo(2),
                by_order: [(Order(1), 1)].into(),
                until: DoneNo(2),
            })),
        }),
        cancel_rest: Some(CancelRest {
            above: None,
            up_to: Seq(9),
        }),
        ..image(handle, now)
    }
}

#[tokio::test]
async fn recovery_reads_no_more_calls_that_may_be_repeated_than_are_remembered() {
    let mut owned = Owned::new().await;
    let (a, now) = (handle(), owned.now);
    owned
        .write(Records {
            schedulers: images([image(a, now)]),
            ..Records::default()
        })
        .await;
    let request = || {
        Some(Request {
            id: Uuid::now_v7(),
            hash: 0,
        })
    };
    for second in 0..10 {
        let at = now - Duration::from_secs(10 - second);
        let first = 1 + 2 * second as i64;
        let calls =
            [0, 1].map(|more| call(a, first + more, at, request(), &[(1, None, None, sql())]));
        owned.write(records(calls.into(), vec![])).await;
    }
    let mut firsts: Vec<i64> = recover(&owned.journal, 5, since(owned.now))
        .await
        .unwrap()
        .schedulers[0]
        .requests
        .iter()
        .map(|request| request.first_seq.0)
        .collect();
    firsts.sort_unstable();
    assert_eq!(
        firsts,
        [15, 16, 17, 18, 19, 20],
        "the latest ones, to the second"
    );
    assert_eq!(
        recover(&owned.journal, 100, since(owned.now))
            .await
            .unwrap()
            .schedulers[0]
            .requests
            .len(),
        20
    );
}

#[tokio::test]
async fn a_call_that_may_be_repeated_is_found_on_the_day_before_when_its_own_was_missing() {
    let mut owned = Owned::new().await;
    let (a, now) = (handle(), owned.now);
    owned.write_images([image(a, now)]).await;
    let remove = "do $$ declare p text; begin
            for p in select inhrelid::regclass::text from pg_inherits
                where inhparent = any (array['submission', 'completion', 'attempt', 'task_label']::regclass[])
                    and right(inhrelid::regclass::text, 10) >= to_char(now(), 'YYYY_MM_DD') loop
                execute 'drop table ' || p;
            end loop;
        end $$";
    owned.psql().await.execute(remove).await.unwrap();
    owned.writer = owned.journal.writer(&owned.replica);
    let request = Request {
        id: Uuid::now_v7(),
        hash: 1,
    };
    let call = call(a, 1, now, Some(request), &[(1, None, None, sql())]);
    owned.write(records(vec![call], vec![])).await;
    let recovered = recover(&owned.journal, ENOUGH, since(now)).await.unwrap();
    assert_eq!(recovered.schedulers[0].requests.len(), 1);
}
