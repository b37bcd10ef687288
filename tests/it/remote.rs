//! Executors of all replicas work for the owner of the shard. What runs on a living replica goes on
//! whatever happens to the owner; what ran on a lost one runs again behind a fence.

use crate::harness::{
    cluster::Cluster,
    conversation::{Conversation, WAIT_TIMEOUT},
    gate::Gate,
    postgres::connect,
    work::{Work, sql},
};
use nix::sys::signal::Signal;
use rallypoint::postgres::{COORDINATION, TARGET};
use rallypoint_client::api::{
    AsyncDone, Outcome, SchedulerSettings,
    peer::{
        FromExecutor, Hello, executor_service_client::ExecutorServiceClient, from_executor::Message,
    },
};
use sqlx::postgres::PgConnectOptions;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::{sleep, timeout};
use tonic::Code;

/// Slots of each replica.
const SLOTS: usize = 4;

/// Two replicas or more, a scheduler, and tasks that record their start and then wait for the gate.
struct Scene {
    cluster: Cluster,
    owner: usize,
    app: PgConnectOptions,
    gate: Option<Gate>,
    conversation: Conversation,
}

impl Scene {
    async fn new(replicas: usize) -> Scene {
        let cluster = Cluster::start(replicas).await;
        let owner = cluster.owner().await;
        let app = cluster.postgres.options_for(TARGET, TARGET);
        let mut session = connect(&app).await;
        sqlx::raw_sql("create table run (task int)")
            .execute(&mut session)
            .await
            .expect("a table");
        let gate = Some(Gate::close(&app).await);
        let conversation = cluster
            .open(&cluster.client_of_all(), SchedulerSettings::default())
            .await;
        let scene = Scene {
            cluster,
            owner,
            app,
            gate,
            conversation,
        };
        scene
            .cluster
            .until(|status| {
                status
                    .slots
                    .iter()
                    .any(|row| row.total as usize == replicas * SLOTS)
            })
            .await;
        scene
    }

    fn tasks(&self) -> usize {
        self.cluster.count() * SLOTS - 1
    }

    /// Lets all tasks through.
    async fn open(&mut self) {
        self.gate.take().expect("closed").open().await;
    }

    fn task(&self, task: usize) -> Work {
        sql(format!(
            "begin; insert into run values ({task}); commit; select pg_advisory_xact_lock_shared(1)"
        ))
    }

    /// Fills every slot of every replica but the one in reserve; returns which replica runs what.
    async fn fill(&self, change: impl Fn(Work) -> Work) -> BTreeMap<usize, BTreeSet<i64>> {
        let slots = self.tasks();
        self.conversation
            .submit((1..=slots).map(|n| change(self.task(n))))
            .await;
        let client = self.cluster.client_of_all();
        let wait = async {
            loop {
                let mut runs: BTreeMap<usize, BTreeSet<i64>> = BTreeMap::new();
                for row in client
                    .executions()
                    .await
                    .expect("executions")
                    .executions
                    .into_iter()
                    .filter(|row| row.seq > 0)
                {
                    runs.entry(row.replica[1..].parse().expect("a number"))
                        .or_default()
                        .insert(row.seq);
                }
                if runs.values().map(BTreeSet::len).sum::<usize>() == slots
                    && self.starts().await.len() == slots
                {
                    return runs;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(WAIT_TIMEOUT, wait)
            .await
            .expect("every slot is taken")
    }

    /// Waits for `times` starts in all; returns the number of starts of each task.
    async fn wait_for_starts(&self, times: usize) -> BTreeMap<i64, i64> {
        let wait = async {
            loop {
                let begun = self.starts().await;
                if begun.values().sum::<i64>() >= times as i64 {
                    return begun;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(WAIT_TIMEOUT, wait).await.expect("they begin")
    }

    /// The number of starts of each task.
    async fn starts(&self) -> BTreeMap<i64, i64> {
        let query = "select task::int8, count(*) from run group by task";
        let rows: Vec<(i64, i64)> = sqlx::query_as(query)
            .fetch_all(&mut connect(&self.app).await)
            .await
            .expect("counted");
        rows.into_iter().collect()
    }

    /// Opens a session with the owner in its own name and without any task, as a replica does that
    /// comes back to the address of the owner it was; returns the error.
    async fn report_in_the_name_of_the_owner(&self) -> Option<Code> {
        let query = "select replica::text, address, shard.epoch, incarnation
            from shard join lease using (shard) join replica using (shard)
            where replica = owner_id";
        let mut journal = connect(
            &self
                .cluster
                .postgres
                .options_for(COORDINATION, COORDINATION),
        )
        .await;
        let (replica, address, epoch, incarnation): (String, String, i64, i32) =
            sqlx::query_as(query)
                .fetch_one(&mut journal)
                .await
                .expect("an owner");
        let hello = Hello {
            replica,
            incarnation,
            name: "r".into(),
            epoch,
            ..Hello::default()
        };
        let messages = tokio_stream::iter([FromExecutor {
            message: Some(Message::Hello(hello)),
        }]);
        let mut client = ExecutorServiceClient::connect(format!("http://{address}"))
            .await
            .expect("its port");
        client
            .session(messages)
            .await
            .err()
            .map(|status| status.code())
    }
}

fn with(done: &[AsyncDone], outcome: Outcome) -> BTreeSet<i64> {
    done.iter()
        .filter(|done| done.outcome() == outcome)
        .map(|done| done.seq)
        .collect()
}

/// The attempts in which some tasks ended.
fn attempts(done: &[AsyncDone], tasks: &BTreeSet<i64>) -> Vec<i32> {
    let attempts: BTreeSet<i32> = done
        .iter()
        .filter(|done| tasks.contains(&done.seq))
        .map(|done| done.attempt)
        .collect();
    attempts.into_iter().collect()
}

fn same(work: Work) -> Work {
    work
}

#[tokio::test]
async fn the_tasks_of_one_scheduler_run_on_all_replicas() {
    let mut scene = Scene::new(3).await;
    let runs = scene.fill(same).await;
    assert_eq!(runs.len(), 3, "{runs:?}");
    scene.open().await;
    let done = scene.conversation.all_done().await;
    assert_eq!(with(&done, Outcome::Succeeded).len(), scene.tasks());
    assert!(done.iter().all(|done| done.attempt == 1), "{done:?}");
}

#[tokio::test]
async fn what_runs_elsewhere_goes_on_when_the_owner_is_killed_and_begins_once() {
    let mut scene = Scene::new(2).await;
    let runs = scene.fill(same).await;
    let (owner, survivor) = (scene.owner, 1 - scene.owner);
    scene.cluster.kill_9(owner);
    scene.open().await;
    let done = scene.conversation.all_done().await;
    assert_eq!(
        with(&done, Outcome::Succeeded).len(),
        scene.tasks(),
        "{done:?}"
    );
    assert_eq!(attempts(&done, &runs[&survivor]), [1]);
    assert_eq!(attempts(&done, &runs[&owner]), [2]);
    let begun = scene.starts().await;
    assert!(
        runs[&survivor].iter().all(|task| begun[task] == 1),
        "{begun:?}"
    );
    assert!(
        runs[&owner].iter().all(|task| begun[task] == 2),
        "{begun:?}"
    );
}

#[tokio::test]
async fn a_completion_reported_while_the_owner_dies_is_not_lost() {
    let mut scene = Scene::new(2).await;
    let runs = scene.fill(Work::at_most_once).await;
    let (owner, survivor) = (scene.owner, 1 - scene.owner);
    scene.cluster.signal(owner, Signal::SIGSTOP);
    scene.open().await;
    scene.cluster.kill_9(owner);
    let done = scene.conversation.all_done().await;
    assert_eq!(with(&done, Outcome::Succeeded), runs[&survivor], "{done:?}");
    assert_eq!(
        with(&done, Outcome::Exhausted),
        runs[&owner],
        "nobody knows what became of them, and they never start again"
    );
    assert!(scene.starts().await.values().all(|times| *times == 1));
}

#[tokio::test]
async fn what_ran_on_a_replica_that_is_killed_runs_again_behind_a_fence() {
    let mut scene = Scene::new(2).await;
    let runs = scene.fill(same).await;
    let (owner, killed) = (scene.owner, 1 - scene.owner);
    scene.cluster.kill_9(killed);
    scene
        .cluster
        .until(|status| status.slots.iter().any(|row| row.total as usize == SLOTS))
        .await;
    scene.open().await;
    let done = scene.conversation.all_done().await;
    assert_eq!(
        with(&done, Outcome::Succeeded).len(),
        scene.tasks(),
        "{done:?}"
    );
    assert_eq!(attempts(&done, &runs[&owner]), [1]);
    assert_eq!(attempts(&done, &runs[&killed]), [2]);
    assert!(
        scene
            .starts()
            .await
            .iter()
            .all(|(task, times)| *times == 1 + i64::from(runs[&killed].contains(task)))
    );
}

#[tokio::test]
async fn a_replica_that_slept_too_long_is_fenced_and_begins_afresh() {
    let mut scene = Scene::new(2).await;
    let runs = scene.fill(same).await;
    let sleeper = 1 - scene.owner;
    scene.cluster.signal(sleeper, Signal::SIGSTOP);
    scene
        .cluster
        .until(|status| status.slots.iter().any(|row| row.total as usize == SLOTS))
        .await;
    let elsewhere = runs[&scene.owner].len() as i64;
    scene
        .conversation
        .until(|now| now.running == elsewhere)
        .await;
    scene.cluster.signal(sleeper, Signal::SIGCONT);
    let begun = scene
        .wait_for_starts(scene.tasks() + runs[&sleeper].len())
        .await;
    assert!(
        runs[&sleeper].iter().all(|task| begun[task] == 2),
        "it works again: {begun:?}"
    );
    scene.open().await;
    let done = scene.conversation.all_done().await;
    assert_eq!(
        with(&done, Outcome::Succeeded).len(),
        scene.tasks(),
        "{done:?}"
    );
    assert_eq!(attempts(&done, &runs[&sleeper]), [2]);
}

#[tokio::test]
async fn cancel_and_time_limits_reach_attempts_elsewhere() {
    let scene = Scene::new(2).await;
    let runs = scene.fill(same).await;
    let elsewhere = &runs[&(1 - scene.owner)];
    for task in elsewhere {
        scene
            .conversation
            .scheduler
            .cancel(*task)
            .await
            .expect("cancelled");
    }
    let ended = elsewhere.len() as i64;
    scene.conversation.until(|now| now.done == ended).await;
    scene
        .conversation
        .submit(sql("select pg_sleep(60)").timeout(100).times(2 * SLOTS))
        .await;
    scene
        .conversation
        .until(|now| now.done == ended + 2 * SLOTS as i64)
        .await;
    scene.conversation.cancel_everything().await;
    let done = scene.conversation.all_done().await;
    assert!(
        elsewhere.is_subset(&with(&done, Outcome::Cancelled)),
        "{done:?}"
    );
    assert_eq!(with(&done, Outcome::TimedOut).len(), 2 * SLOTS, "{done:?}");
}

#[tokio::test]
async fn a_replica_that_is_stopped_finishes_what_it_runs() {
    let mut scene = Scene::new(2).await;
    let runs = scene.fill(same).await;
    let leaving = 1 - scene.owner;
    scene.cluster.signal(leaving, Signal::SIGTERM);
    scene
        .cluster
        .until(|status| status.slots.iter().any(|row| row.total as usize == SLOTS))
        .await;
    scene.open().await;
    let done = scene.conversation.all_done().await;
    assert_eq!(
        with(&done, Outcome::Succeeded).len(),
        scene.tasks(),
        "{done:?}"
    );
    assert_eq!(attempts(&done, &runs[&leaving]), [1]);
    assert!(scene.starts().await.values().all(|times| *times == 1));
}

#[tokio::test]
async fn an_owner_that_reports_to_itself_is_turned_away_and_begins_nothing_again() {
    let mut scene = Scene::new(2).await;
    scene.fill(same).await;
    assert_eq!(
        scene.report_in_the_name_of_the_owner().await,
        Some(Code::Unavailable)
    );
    scene.open().await;
    let done = scene.conversation.all_done().await;
    assert_eq!(
        with(&done, Outcome::Succeeded).len(),
        scene.tasks(),
        "{done:?}"
    );
    let begun = scene.starts().await;
    assert!(begun.values().all(|times| *times == 1), "{begun:?}");
}
