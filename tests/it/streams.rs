//! AsyncDone: every event once, numbered without a gap, for every reader and from any event on. A
//! stream ends when its goal is met.

mod messages;
mod resumed;

use crate::harness::{
    conversation::Conversation,
    server::Server,
    work::{failing, noop, sleep, sql},
};
use rallypoint_client::api::{
    OnFailure, Outcome, ReleaseMode, SchedulerSettings, end::Reason, until::Kind,
};

#[tokio::test]
async fn a_goal_that_makes_no_sense_is_refused_by_the_server() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await.scheduler;
    for count in [0, -1] {
        let opened = scheduler.synchronize(0, Some(Kind::Count(count))).await;
        let error = opened.expect_err("refused");
        assert!(error.is("COUNT_OUT_OF_RANGE"), "{error:?}");
    }
}

#[tokio::test]
async fn events_are_numbered_from_1_without_a_gap_each_task_once() {
    let server = Server::start().await;
    let scheduler = ten_done(&server).await;
    let received = scheduler.read_stream(0, None).await;
    assert_eq!(
        (received.numbers(), received.reason()),
        ((1..=10).collect(), Reason::Goal)
    );
    let mut tasks: Vec<i64> = received.done.iter().map(|done| done.seq).collect();
    tasks.sort_unstable();
    assert_eq!(tasks, (1..=10).collect::<Vec<_>>());
    assert!(
        received
            .done
            .iter()
            .all(|done| done.outcome() == Outcome::Succeeded && done.started_us <= done.ended_us)
    );
}

#[tokio::test]
async fn a_second_synchronization_with_nothing_left_to_wait_for_ends_at_once() {
    let server = Server::start().await;
    let scheduler = ten_done(&server).await;
    let received = scheduler.read_stream(10, None).await;
    assert_eq!(
        (received.numbers(), received.reason()),
        (vec![], Reason::Goal)
    );
    let empty = server.open(SchedulerSettings::default()).await;
    assert_eq!(empty.read_stream(0, None).await.reason(), Reason::Goal);
}

#[tokio::test]
async fn a_stream_resumed_after_4_brings_the_rest() {
    let server = Server::start().await;
    let scheduler = ten_done(&server).await;
    assert_eq!(
        scheduler.read_stream(4, None).await.numbers(),
        (5..=10).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn two_streams_on_one_handle_both_get_all() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler
        .submit(gate.task().times(4).into_iter().chain(noop().times(6)))
        .await;
    let opened = async {
        scheduler
            .until(|now| now.running == 4 && now.done == 6)
            .await;
        gate.open().await;
    };
    let (one, two, ()) = tokio::join!(
        scheduler.read_stream(0, None),
        scheduler.read_stream(0, None),
        opened
    );
    assert_eq!(
        (one.numbers(), two.numbers()),
        ((1..=10).collect(), (1..=10).collect())
    );
}

#[tokio::test]
async fn all_means_what_was_submitted_before_the_call() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit([sleep(100)]).await;
    let mut stream = scheduler
        .scheduler
        .synchronize(0, None)
        .await
        .expect("a stream");
    scheduler.submit([gate.task()]).await;
    let first = stream.next().await.expect("it goes on").expect("an event");
    assert_eq!((first.len(), first[0].seq), (1, 1));
    assert!(stream.next().await.expect("it goes on").is_none());
    assert_eq!(stream.end().map(|end| end.reason()), Some(Reason::Goal));
    gate.open().await;
}

#[tokio::test]
async fn count_ends_after_so_many_or_when_no_more_can_come() {
    let server = Server::start().await;
    let scheduler = ten_done(&server).await;
    assert_eq!(
        scheduler
            .read_stream(2, Some(Kind::Count(3)))
            .await
            .numbers(),
        [3, 4, 5]
    );
    let fewer = scheduler.read_stream(8, Some(Kind::Count(50))).await;
    assert_eq!(
        (fewer.numbers(), fewer.reason()),
        (vec![9, 10], Reason::Goal)
    );
}

#[tokio::test]
async fn order_ends_when_this_order_has_ended_though_later_ones_run() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler
        .submit([
            sleep(5).order(100),
            noop().order(200),
            gate.task().order(300),
            gate.task(),
        ])
        .await;
    let received = scheduler.read_stream(0, Some(Kind::Order(200))).await;
    assert_eq!(
        (received.numbers(), received.reason()),
        (vec![1, 2], Reason::Goal)
    );
    gate.open().await;
}

#[tokio::test]
async fn first_failure_ends_at_the_first_failure_though_others_run() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler
        .submit([noop().order(1), failing().order(2), gate.task()])
        .await;
    let received = scheduler.read_stream(0, Some(Kind::FirstFailure(()))).await;
    assert_eq!(
        (received.done.last().map(|done| done.seq), received.reason()),
        (Some(2), Reason::Failure)
    );
    gate.open().await;
    let fine = ten_done(&server)
        .await
        .read_stream(0, Some(Kind::FirstFailure(())))
        .await;
    assert_eq!((fine.done.len(), fine.reason()), (10, Reason::Goal));
}

#[tokio::test]
async fn forever_goes_on_until_the_scheduler_is_released_and_empty() {
    let server = Server::start().await;
    let scheduler = ten_done(&server).await;
    let mut stream = scheduler
        .scheduler
        .synchronize(8, Some(Kind::Forever(())))
        .await
        .expect("a stream");
    assert_eq!(
        stream
            .next()
            .await
            .expect("it goes on")
            .expect("events")
            .len(),
        2
    );
    scheduler.submit([noop()]).await;
    assert_eq!(
        stream.next().await.expect("it goes on").expect("an event")[0].done_no,
        11
    );
    scheduler
        .scheduler
        .release(ReleaseMode::Finish, true)
        .await
        .expect("released");
    assert!(stream.next().await.expect("it goes on").is_none());
    assert_eq!(stream.end().map(|end| end.reason()), Some(Reason::Released));
}

#[tokio::test]
async fn a_halt_ends_a_stream_and_says_what_it_blocks() {
    let server = Server::start().await;
    let settings = SchedulerSettings {
        on_failure: OnFailure::Halt.into(),
        ..Default::default()
    };
    let scheduler = server.open(settings).await;
    scheduler
        .submit([
            noop().order(1),
            failing().order(2),
            noop().order(3),
            noop().order(4),
        ])
        .await;
    let received = scheduler.read_stream(0, None).await;
    assert_eq!(
        (received.numbers(), received.reason(), received.end.blocked),
        (vec![1, 2], Reason::Halted, 2)
    );
    let halt = received.end.halt.expect("what failed");
    assert_eq!((halt.order, halt.failed_seqs), (2, vec![2]));
}

#[tokio::test]
async fn a_released_scheduler_can_still_be_read_from_the_first_event() {
    let server = Server::start().await;
    let scheduler = ten_done(&server).await;
    scheduler
        .scheduler
        .release(ReleaseMode::Finish, true)
        .await
        .expect("released");
    assert_eq!(
        scheduler.read_stream(0, None).await.numbers(),
        (1..=10).collect::<Vec<_>>()
    );
    assert_eq!(
        scheduler
            .read_stream(0, Some(Kind::Forever(())))
            .await
            .reason(),
        Reason::Released
    );
}

#[tokio::test]
async fn a_cursor_beyond_the_last_event_is_refused() {
    let server = Server::start().await;
    let scheduler = ten_done(&server).await;
    let error = scheduler
        .scheduler
        .synchronize(11, None)
        .await
        .expect_err("there is no event 11");
    assert!(error.is("CURSOR_AHEAD"), "{error}");
}

#[tokio::test]
async fn a_backlog_of_twenty_thousand_events_is_read_whole_from_memory_and_journal() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    for _ in 0..4 {
        scheduler.submit(noop().times(5_000)).await;
    }
    assert_eq!(
        scheduler.read_stream(0, None).await.numbers(),
        (1..=20_000).collect::<Vec<_>>()
    );
    assert_eq!(
        scheduler.read_stream(0, None).await.numbers(),
        (1..=20_000).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_result_too_large_for_an_event_is_read_with_get_task() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler
        .submit([sql("select repeat('x', 100000) as x").rows(1)])
        .await;
    let done = scheduler.all_done().await.remove(0);
    let result = done.result.expect("what is left of it");
    assert!(done.rows_omitted && result.rows_json.is_empty());
    assert_eq!((result.rows_affected, result.truncated), (1, false));
    let result = scheduler
        .task(1)
        .await
        .done
        .and_then(|done| done.result)
        .expect("the result");
    assert!(result.rows_json.len() > 100_000 && !result.truncated);
}

/// A scheduler whose ten tasks have ended.
async fn ten_done(server: &Server) -> Conversation {
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler
        .submit((0..10).map(|n| if n % 2 == 0 { sleep(2) } else { noop() }.order(n / 3)))
        .await;
    scheduler.all_done().await;
    scheduler
}
