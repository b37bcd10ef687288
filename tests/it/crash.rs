//! Crashes at random moments of a run of 2000 tasks in five orders under a limit: nothing
//! acknowledged is lost, nothing ends twice, no orders overlap, no event is missing. And crashes
//! during a cancellation.
//!
//! The moments follow from SEED (default: a fixed one); CRASHES is their number (default: 5).

use crate::harness::{
    cluster::Cluster,
    conversation::{Conversation, WAIT_TIMEOUT},
    log::Log,
    postgres::durable,
    server::{Server, Setup},
    work::{Work, noop, sleep as sleep_for, sql},
};
use crate::rng::Rng;
use rallypoint::postgres::PrivatePostgres;
use rallypoint_client::{
    Client,
    api::{
        ExecAsyncRequest, ExecAsyncResponse, ReleaseMode, SchedulerSettings, SchedulerState, Task,
        scheduler_service_client::SchedulerServiceClient,
    },
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tonic::{Code, transport::Channel};
use uuid::Uuid;

const TASKS: usize = 2000;
const CALL: usize = 50;
const LIMIT: i32 = 6;
/// Tasks to cancel.
const BACKLOG: usize = 20_000;

#[tokio::test]
async fn a_server_killed_at_any_moment_loses_nothing_and_repeats_nothing() {
    let (mut cluster, client) = one_server().await;
    for seed in seeds() {
        let run = Run::begin(cluster.open(&client, settings()).await, &cluster.url(0));
        let submitting = tokio::spawn(run.clone().submit_all());
        run.until(seed).await;
        cluster.kill_9(0);
        cluster.restart(0);
        let accepted = submitting.await.expect("every call is accepted at last");
        run.check(seed, accepted).await;
    }
}

#[tokio::test]
async fn a_database_stopped_at_any_moment_loses_nothing_and_the_server_lives_on() {
    let postgres = Arc::new(durable(Vec::new()));
    let server = Server::with(Setup {
        slots: 8,
        postgres: Some(&postgres),
        ..Setup::default()
    })
    .await;
    for seed in seeds() {
        let run = Run::begin(server.open(settings()).await, &server.url);
        let submitting = tokio::spawn(run.clone().submit_all());
        run.until(seed).await;
        crash(&postgres).await;
        let accepted = submitting.await.expect("every call is accepted at last");
        run.check(seed, accepted).await;
    }
}

#[tokio::test]
async fn a_backlog_that_is_being_cancelled_when_the_server_is_killed_is_cancelled_to_the_last_task()
{
    let (mut cluster, client) = one_server().await;
    for seed in seeds().take(2) {
        let scheduler = cluster.open(&client, SchedulerSettings::default()).await;
        // One task runs, the others wait for it in orders after its own.
        let first = scheduler.submit([sleep_for(600_000).order(0)]).await;
        scheduler.until(|now| now.running == 1).await;
        for _ in 0..BACKLOG / TASKS {
            scheduler.submit((0..TASKS).map(task)).await;
        }
        scheduler
            .scheduler
            .release(ReleaseMode::Cancel, false)
            .await
            .expect("released");
        let kill = Rng::new(seed).below(BACKLOG as u64 / 2);
        let done = scheduler.until(|now| now.done > kill as i64).await.done;
        cluster.kill_9(0);
        println!("seed {seed}: killed when {done} of {BACKLOG} tasks were cancelled");
        cluster.restart(0);
        let numbers: Vec<i64> = scheduler
            .all_done()
            .await
            .iter()
            .map(|done| done.done_no)
            .collect();
        assert_eq!(
            numbers,
            (1..=BACKLOG as i64 + 1).collect::<Vec<_>>(),
            "seed {seed}: every done_no once"
        );
        let log = scheduler.log().await;
        assert_eq!(
            log.outcomes(),
            [("cancelled", BACKLOG + 1)].into(),
            "seed {seed}"
        );
        let started: Vec<i64> = log
            .0
            .iter()
            .filter(|entry| entry.started.is_some())
            .map(|entry| entry.seq)
            .collect();
        assert!(
            started.iter().all(|seq| *seq == first),
            "seed {seed}: {started:?} were started"
        );
        scheduler
            .until(|now| now.state() == SchedulerState::Released)
            .await;
    }
}

/// Two thousand tasks submitted in calls that can be repeated, and what must hold afterwards.
#[derive(Clone)]
struct Run {
    conversation: Conversation,
    calls: SchedulerServiceClient<Channel>,
    requests: Arc<Vec<ExecAsyncRequest>>,
}

impl Run {
    fn begin(conversation: Conversation, url: &str) -> Run {
        let channel = Channel::from_shared(url.to_owned())
            .expect("a URL")
            .connect_lazy();
        let tasks: Vec<Task> = (0..TASKS).map(|n| task(n).into()).collect();
        let request = |tasks: &[Task]| ExecAsyncRequest {
            handle: conversation.handle().to_owned(),
            request_id: Uuid::now_v7().to_string(),
            tasks: tasks.to_vec(),
        };
        let requests = Arc::new(tasks.chunks(CALL).map(request).collect());
        Run {
            conversation,
            calls: SchedulerServiceClient::new(channel),
            requests,
        }
    }

    /// Waits for the moment of the crash.
    async fn until(&self, seed: u64) {
        let progress = Rng::new(seed).below(TASKS as u64 * 95 / 100);
        let done = self
            .conversation
            .until(|now| now.done >= progress as i64)
            .await
            .done;
        println!("seed {seed}: a crash when {done} of {TASKS} tasks have ended");
    }

    async fn submit_all(self) -> Vec<ExecAsyncResponse> {
        let mut accepted = Vec::new();
        for request in self.requests.iter() {
            accepted.push(self.submit(request).await);
        }
        accepted
    }

    /// Repeats a call until its outcome is known.
    async fn submit(&self, request: &ExecAsyncRequest) -> ExecAsyncResponse {
        let begun = Instant::now();
        loop {
            match self.calls.clone().exec_async(request.clone()).await {
                Ok(accepted) => return accepted.into_inner(),
                Err(status) => {
                    let unknown = matches!(
                        status.code(),
                        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal
                    );
                    assert!(unknown && begun.elapsed() < WAIT_TIMEOUT, "{status:?}");
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    async fn check(&self, seed: u64, accepted: Vec<ExecAsyncResponse>) {
        let done = self.conversation.all_done().await;
        let numbers: Vec<i64> = done.iter().map(|done| done.done_no).collect();
        assert_eq!(
            numbers,
            (1..=TASKS as i64).collect::<Vec<_>>(),
            "seed {seed}: every done_no once"
        );
        let firsts: Vec<i64> = accepted.iter().map(|accepted| accepted.first_seq).collect();
        assert_eq!(
            firsts,
            (0..TASKS / CALL)
                .map(|n| (n * CALL) as i64 + 1)
                .collect::<Vec<_>>(),
            "seed {seed}: ids"
        );
        for (request, accepted) in self.requests.iter().zip(&accepted) {
            assert_eq!(
                self.submit(request).await,
                *accepted,
                "seed {seed}: the same request gives the same ids"
            );
        }
        check_log(seed, &self.conversation.log().await);
        let mut received: Vec<(i64, i64)> =
            done.iter().map(|done| (done.seq, done.done_no)).collect();
        received.sort_unstable();
        let log = self.conversation.log().await.0;
        let logged: Vec<(i64, i64)> = log
            .iter()
            .map(|entry| (entry.seq, entry.done_no.unwrap_or(0)))
            .collect();
        assert_eq!(
            received, logged,
            "seed {seed}: the stream has what the log has"
        );
    }
}

fn check_log(seed: u64, log: &Log) {
    let tasks: Vec<i64> = log.0.iter().map(|entry| entry.seq).collect();
    assert_eq!(
        tasks,
        (1..=TASKS as i64).collect::<Vec<_>>(),
        "seed {seed}: every task has one row and one outcome"
    );
    assert_eq!(
        log.outcomes().get("succeeded"),
        Some(&TASKS),
        "seed {seed}: {:?}",
        log.outcomes()
    );
    assert_eq!(log.overlaps(), [], "seed {seed}");
    let sql = Log(log
        .0
        .iter()
        .filter(|entry| entry.kind == "sql")
        .cloned()
        .collect());
    assert!(
        sql.most_running() <= i64::from(LIMIT),
        "seed {seed}: {} ran at a time",
        sql.most_running()
    );
    let again = log.0.iter().filter(|entry| entry.attempt > Some(1)).count();
    println!("seed {seed}: {again} tasks ended in a later attempt than the first");
}

/// One server with more slots than [`LIMIT`], and a caller of it.
async fn one_server() -> (Cluster, Client) {
    let cluster = Cluster::with_slots(1, 8).await;
    let client = cluster.client(0);
    (cluster, client)
}

/// Five orders; every third task does nothing.
fn task(n: usize) -> Work {
    let work = if n.is_multiple_of(3) {
        noop()
    } else {
        sql("select 1")
    };
    work.order(100 * (1 + n * 5 / TASKS) as i64)
}

fn settings() -> SchedulerSettings {
    SchedulerSettings {
        max_parallelism: Some(LIMIT),
        ..Default::default()
    }
}

async fn crash(postgres: &Arc<PrivatePostgres>) {
    let postgres = postgres.clone();
    let crash = tokio::task::spawn_blocking(move || {
        postgres.immediate_stop();
        postgres.restart()
    });
    crash.await.expect("no panic").expect("it starts again");
}

fn seeds() -> impl Iterator<Item = u64> {
    let number = |name, default| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    };
    let first: u64 = number("SEED", 20_261_121);
    first..first + number("CRASHES", 5)
}
