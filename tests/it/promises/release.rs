//! Ending and stopping work: release, cancel, pause, halt, deadlines, and cancelling the rest.

use crate::harness::{
    conversation::Conversation,
    server::Server,
    work::{failing, noop, sleep},
};
use rallypoint_client::api::{
    AsyncDone, OnFailure, Outcome, ReleaseMode, SchedulerSettings, SchedulerState, TaskState,
    end::Reason,
};

#[tokio::test]
async fn release_finish_takes_nothing_more_and_lets_the_rest_finish() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler
        .submit([gate.task().order(1), noop().order(2)])
        .await;
    let released = scheduler
        .scheduler
        .release(ReleaseMode::Finish, false)
        .await
        .expect("released");
    assert_eq!((released.already_released, released.pending), (false, 2));
    assert!(
        scheduler
            .try_submit([noop()])
            .await
            .expect_err("released")
            .is("HANDLE_RELEASED")
    );
    gate.open().await;
    let last = scheduler
        .scheduler
        .release(ReleaseMode::Finish, true)
        .await
        .expect("released");
    assert_eq!((last.already_released, last.pending), (true, 0));
    assert_eq!(
        outcomes(&scheduler).await,
        [Outcome::Succeeded, Outcome::Succeeded]
    );
}

#[tokio::test]
async fn release_cancel_stops_what_runs_and_starts_nothing_that_waits() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    scheduler
        .submit([gate.task().order(1), noop().order(2), noop().order(3)])
        .await;
    gate.reached_by(1).await;
    scheduler.cancel_everything().await;
    let log = scheduler.log().await;
    assert_eq!(log.outcomes()["cancelled"], 3);
    assert!(
        log.entry(1).started.is_some()
            && log.entry(2).started.is_none()
            && log.entry(3).started.is_none()
    );
    assert_eq!(
        scheduler
            .scheduler
            .describe()
            .await
            .expect("it is there")
            .state(),
        SchedulerState::Released
    );
}

#[tokio::test]
async fn cancel_may_follow_finish_and_finish_changes_no_cancel() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit([gate.task()]).await;
    scheduler.until(|now| now.running == 1).await;
    scheduler
        .scheduler
        .release(ReleaseMode::Finish, false)
        .await
        .expect("released");
    scheduler.cancel_everything().await;
    scheduler
        .scheduler
        .release(ReleaseMode::Finish, true)
        .await
        .expect("released");
    assert_eq!(outcomes(&scheduler).await, [Outcome::Cancelled]);
    gate.open().await;
}

#[tokio::test]
async fn a_backlog_of_ten_thousand_is_cancelled_to_the_last_task() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit([gate.task().order(1)]).await;
    scheduler.submit(noop().order(2).times(10_000)).await;
    scheduler.cancel_everything().await;
    let done = scheduler.all_done().await;
    assert_eq!(done.len(), 10_001);
    assert!(done.iter().all(|done| done.outcome() == Outcome::Cancelled));
    gate.open().await;
}

#[tokio::test]
async fn a_cancelled_task_that_waits_never_starts_and_one_that_runs_is_stopped() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler
        .submit([gate.task().order(1), sleep(1).order(2), noop().order(3)])
        .await;
    scheduler.until(|now| now.running == 1).await;
    let waiting = scheduler.scheduler.cancel(2).await.expect("cancelled");
    assert_eq!(
        (waiting.state(), waiting.outcome()),
        (TaskState::Done, Outcome::Cancelled)
    );
    assert_eq!(
        scheduler
            .scheduler
            .cancel(1)
            .await
            .expect("cancelled")
            .state(),
        TaskState::Running
    );
    assert_eq!(
        outcomes(&scheduler).await,
        [Outcome::Cancelled, Outcome::Cancelled, Outcome::Succeeded]
    );
    assert_eq!(scheduler.log().await.entry(2).started, None);
    let ended = scheduler.scheduler.cancel(3).await.expect("no error");
    assert_eq!(
        (ended.state(), ended.outcome()),
        (TaskState::Done, Outcome::Succeeded)
    );
    gate.open().await;
}

#[tokio::test]
async fn a_pause_starts_nothing_lets_run_what_runs_and_ends_with_resume() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit([gate.task()]).await;
    scheduler.until(|now| now.running == 1).await;
    assert!(scheduler.scheduler.pause().await.expect("paused").paused);
    scheduler.submit([sleep(1), noop()]).await;
    gate.open().await;
    scheduler
        .until(|now| now.done == 1 && now.running == 0)
        .await;
    let one = server.open(SchedulerSettings::default()).await;
    one.submit([sleep(1)]).await;
    one.all_done().await;
    assert_eq!(
        scheduler
            .scheduler
            .describe()
            .await
            .expect("described")
            .done,
        1
    );
    let resumed = server
        .client
        .scheduler(scheduler.handle())
        .resume(false)
        .await
        .expect("resumed");
    assert!(!resumed.paused);
    assert_eq!(scheduler.all_done().await.len(), 3);
}

#[tokio::test]
async fn a_halt_blocks_later_orders_until_it_is_lifted() {
    let server = Server::start().await;
    let scheduler = server.open(on_failure(OnFailure::Halt)).await;
    scheduler
        .submit([failing().order(1), noop().order(1), noop().order(2), noop()])
        .await;
    assert_eq!(
        scheduler.read_stream(0, None).await.reason(),
        Reason::Halted
    );
    let halted = scheduler.scheduler.describe().await.expect("described");
    assert_eq!(
        (halted.blocked, halted.halt.map(|halt| halt.failed_seqs)),
        (1, Some(vec![1]))
    );
    scheduler.scheduler.resume(true).await.expect("resumed");
    let (failed, fine) = (Outcome::Failed, Outcome::Succeeded);
    assert_eq!(outcomes(&scheduler).await, [failed, fine, fine, fine]);
}

#[tokio::test]
async fn a_release_cancels_what_a_halt_blocks() {
    let server = Server::start().await;
    let scheduler = server.open(on_failure(OnFailure::Halt)).await;
    scheduler
        .submit([failing().order(1), noop().order(2), noop().order(3)])
        .await;
    assert_eq!(
        scheduler.read_stream(0, None).await.reason(),
        Reason::Halted
    );
    scheduler
        .scheduler
        .release(ReleaseMode::Finish, true)
        .await
        .expect("released");
    assert_eq!(
        outcomes(&scheduler).await,
        [Outcome::Failed, Outcome::Cancelled, Outcome::Cancelled]
    );
}

#[tokio::test]
async fn a_failure_cancels_the_rest_where_that_is_asked_for() {
    let server = Server::start().await;
    let scheduler = server.open(on_failure(OnFailure::CancelRest)).await;
    scheduler
        .submit([
            failing().order(1),
            sleep(30).order(1),
            noop().order(2),
            noop().order(3),
            noop(),
        ])
        .await;
    let (fine, cancelled) = (Outcome::Succeeded, Outcome::Cancelled);
    assert_eq!(
        outcomes(&scheduler).await,
        [Outcome::Failed, fine, cancelled, cancelled, fine]
    );
    scheduler.submit([noop().order(4)]).await;
    assert_eq!(
        scheduler.all_done().await.last().map(AsyncDone::outcome),
        Some(fine)
    );
}

#[tokio::test]
async fn a_task_without_order_that_fails_halts_nothing() {
    let server = Server::start().await;
    let scheduler = server.open(on_failure(OnFailure::Halt)).await;
    let gate = server.gate().await;
    scheduler
        .submit([failing(), gate.task().order(1), noop().order(2)])
        .await;
    scheduler.until(|now| now.done == 1).await;
    gate.open().await;
    assert_eq!(
        outcomes(&scheduler).await,
        [Outcome::Failed, Outcome::Succeeded, Outcome::Succeeded]
    );
}

#[tokio::test]
async fn a_deadline_ends_a_task_that_still_waits() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler
        .submit([gate.task().order(1), sleep(1).order(2).deadline(100)])
        .await;
    scheduler.until(|now| now.done == 1).await;
    gate.open().await;
    assert_eq!(
        outcomes(&scheduler).await,
        [Outcome::Succeeded, Outcome::TimedOut]
    );
    assert_eq!(
        scheduler.log().await.entry(2).error_code.as_deref(),
        Some("DEADLINE")
    );
}

/// Outcomes in order of the tasks.
async fn outcomes(scheduler: &Conversation) -> Vec<Outcome> {
    let mut done = scheduler.all_done().await;
    done.sort_by_key(|done| done.seq);
    done.iter().map(AsyncDone::outcome).collect()
}

fn on_failure(on_failure: OnFailure) -> SchedulerSettings {
    SchedulerSettings {
        on_failure: on_failure.into(),
        ..Default::default()
    }
}
