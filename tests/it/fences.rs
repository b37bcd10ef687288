//! Tasks whose session cannot be shown to have ended wait, the status says for what, and an
//! operator's word lets them go on.

use crate::harness::{
    cluster::LEASE,
    conversation::{Conversation, WAIT_TIMEOUT},
    postgres::{connect, durable, on_port, value},
    process::{PROGRAM, Process, free_address},
    work::{Work, slots_of, sql},
};
use nix::sys::signal::Signal;
use rallypoint::postgres::{COORDINATION, PrivatePostgres, TARGET};
use rallypoint_client::{
    Client,
    api::{Blocker, Execution, Outcome, PendingFence, SchedulerSettings, blocker::Kind},
};
use std::{
    net::SocketAddr,
    process::{Command, Output},
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// One replica with a target `far` on a server of its own, which can be changed between two runs.
struct Scene {
    home: PrivatePostgres,
    far: (PrivatePostgres, u16),
    address: SocketAddr,
    client: Client,
    running: Process,
}

impl Scene {
    fn start() -> Scene {
        let (home, far, address) = (durable(Vec::new()), on_port(), free_address());
        let client = Client::connect_lazy(&format!("http://{address}")).expect("a URL");
        let client = client.with_retry_timeout(WAIT_TIMEOUT);
        let mut running = serve(&home, address, Some(far.1));
        running.start();
        Scene {
            home,
            far,
            address,
            client,
            running,
        }
    }

    /// Kills the replica and starts it again with another idea of the target.
    fn restart(&mut self, far: Option<u16>) {
        self.running.kill();
        self.running = serve(&self.home, self.address, far);
        self.running.start();
    }

    async fn open(&self) -> Conversation {
        let opened = self.client.open(SchedulerSettings::default()).await;
        Conversation {
            scheduler: opened.expect("opened"),
            journal: self.home.options_for(COORDINATION, COORDINATION),
        }
    }

    /// Waits until the sleeping task of a scheduler has its session.
    async fn runs(&self, conversation: &Conversation) {
        conversation.until(|now| now.running == 1).await;
        let wait = async {
            let sleeps =
                |row: &Execution| row.kind == slots_of("far") && row.seq > 0 && row.backend_pid > 0;
            while !self
                .client
                .executions()
                .await
                .is_ok_and(|rows| rows.executions.iter().any(sleeps))
            {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(WAIT_TIMEOUT, wait).await.expect("it runs in time");
    }

    /// Waits until the end of so many sessions is awaited.
    async fn pending(&self, count: usize) -> Vec<PendingFence> {
        let wait = async {
            loop {
                let status = self.client.status().await;
                let pending = status.map(|status| status.pending_fences);
                match pending {
                    Ok(pending) if pending.len() == count => return pending,
                    _ => sleep(Duration::from_millis(20)).await,
                }
            }
        };
        timeout(WAIT_TIMEOUT, wait)
            .await
            .expect("the status says so in time")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let url = format!("http://{}", self.address);
        let mut command = Command::new(PROGRAM);
        let command = command.args(["--server", &url]).args(arguments);
        command.output().expect("the program runs")
    }

    /// Who declared what dead, and why, as the journal keeps it.
    async fn declared(&self) -> Vec<(String, String, String)> {
        let mut journal = connect(&self.home.options_for(COORDINATION, COORDINATION)).await;
        let query = "select target, replica_name, reason from declared_dead";
        sqlx::query_as(query)
            .fetch_all(&mut journal)
            .await
            .expect("rows")
    }
}

fn serve(home: &PrivatePostgres, address: SocketAddr, far: Option<u16>) -> Process {
    let url = |port| format!("far:1=postgres://{TARGET}@127.0.0.1:{port}/{TARGET}?sslmode=disable");
    let mut options = vec![
        "--listen".to_owned(),
        address.to_string(),
        "--replica-name".to_owned(),
        "r0".to_owned(),
        "--lease".to_owned(),
        LEASE.to_owned(),
        "--database".to_owned(),
        home.coordination_url(),
        "--target".to_owned(),
        format!("{TARGET}:1={}", home.target_url()),
    ];
    if let Some(port) = far {
        options.extend(["--target".to_owned(), url(port)]);
    }
    Process::serve(options)
}

fn asleep() -> Work {
    sql("select pg_sleep(600)").on("far")
}

#[tokio::test]
async fn a_removed_target_holds_its_tasks_until_an_operator_says_that_they_ended() {
    let mut scene = Scene::start();
    let conversation = scene.open().await;
    conversation.submit([asleep()]).await;
    scene.runs(&conversation).await;
    scene.restart(None);
    let pending = scene.pending(1).await;
    assert_eq!((&*pending[0].target, &*pending[0].replica), ("far", "r0"));
    assert!(pending[0].since.is_some());
    assert!(pending[0].why.contains("no target `far`"), "{pending:?}");
    let explained = conversation.scheduler.explain(1).await.expect("explained");
    let reasons = explained.blockers.iter().map(|one| one.kind.clone());
    let [Some(Kind::InDoubt(_)), Some(Kind::FencePending(fence))] =
        &reasons.collect::<Vec<_>>()[..]
    else {
        panic!("{explained:?}")
    };
    assert_eq!(
        (&fence.target, &fence.why),
        (&pending[0].target, &pending[0].why)
    );
    assert!(explained.text.contains(&fence.why), "{}", explained.text);
    // Other targets are not concerned.
    conversation.submit([sql("select 1")]).await;
    conversation.until(|now| now.done == 1).await;
    let status = scene.run(&["status"]);
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(shown.contains("FENCE_PENDING"), "{shown}");

    let nobody = ["declare-dead", "app", "--all-replicas", "--reason", "none"];
    let nothing = scene.run(&nobody);
    assert!(nothing.status.success(), "{nothing:?}");
    let reason = "its server was switched off";
    let declared = scene.run(&["declare-dead", "far", "--replica", "r0", "--reason", reason]);
    assert!(declared.status.success(), "{declared:?}");
    scene.pending(0).await;
    let row = ["far", "r0", reason].map(str::to_owned);
    assert_eq!(scene.declared().await, [row.into()]);
    // The task may start again, once there is such a target.
    conversation.until(|now| now.running == 0).await;
    let explained = conversation.scheduler.explain(1).await.expect("explained");
    assert!(
        matches!(
            explained.blockers[..],
            [Blocker {
                kind: Some(Kind::NoExecutor(_)),
                ..
            }]
        ),
        "{explained:?}"
    );
    scene.restart(Some(scene.far.1));
    scene.runs(&conversation).await;
    assert_eq!(conversation.task(1).await.attempt, 2);
    conversation.cancel_everything().await;
}

#[tokio::test]
async fn a_target_whose_url_leads_elsewhere_holds_its_tasks_until_it_leads_back() {
    let mut scene = Scene::start();
    let conversation = scene.open().await;
    conversation.submit([asleep().at_most_once()]).await;
    scene.runs(&conversation).await;
    let other = on_port();
    scene.restart(Some(other.1));
    let pending = scene.pending(1).await;
    assert!(pending[0].why.contains("answers now"), "{pending:?}");
    assert_eq!(
        conversation
            .scheduler
            .describe()
            .await
            .expect("described")
            .done,
        0
    );
    scene.restart(Some(scene.far.1));
    let done = conversation.all_done().await;
    assert_eq!(done[0].outcome(), Outcome::Exhausted, "{done:?}");
    scene.pending(0).await;
}

#[tokio::test]
async fn a_session_that_the_register_has_lost_is_waited_for_all_the_same() {
    let scene = Scene::start();
    let conversation = scene.open().await;
    conversation.submit([asleep()]).await;
    scene.runs(&conversation).await;
    scene.far.0.immediate_stop();
    scene.pending(1).await;
    // As after a failover to a standby that lacks commits.
    let mut journal = connect(&conversation.journal).await;
    let lost = sqlx::query("delete from session where target = 'far'").execute(&mut journal);
    assert_eq!(lost.await.expect("deleted").rows_affected(), 1);
    let pending = scene.pending(1).await;
    assert_eq!((&*pending[0].target, &*pending[0].replica), ("far", "r0"));
    conversation.until(|now| now.running == 1).await;
    let reason = "its server was switched off";
    let declared = scene.run(&["declare-dead", "far", "--replica", "r0", "--reason", reason]);
    assert!(declared.status.success(), "{declared:?}");
    conversation.until(|now| now.running == 0).await;
}

#[tokio::test]
async fn a_lost_session_that_is_entered_again_outlives_the_owner_that_waits_for_it() {
    let mut scene = Scene::start();
    let conversation = scene.open().await;
    conversation.submit([asleep()]).await;
    scene.runs(&conversation).await;
    scene.restart(None);
    scene.pending(1).await;
    let mut journal = connect(&conversation.journal).await;
    let whose =
        "select replica::text || ' ' || incarnation::text from session where target = 'far'";
    let opened_by = value(&mut journal, whose).await;
    // As after a failover to a standby that lacks commits.
    let lost = sqlx::query("delete from session where target = 'far'").execute(&mut journal);
    assert_eq!(lost.await.expect("deleted").rows_affected(), 1);
    scene.pending(1).await;
    assert_eq!(value(&mut journal, whose).await, opened_by);
    // Whoever waits leaves, and the next owner waits as well.
    scene.running.signal(Signal::SIGTERM);
    let ended = async {
        while scene.running.exited().is_none() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, ended).await.expect("it ends in time");
    scene.restart(None);
    scene.pending(1).await;
    conversation.until(|now| now.running == 1).await;
    assert_eq!(value(&mut journal, whose).await, opened_by);
}

#[tokio::test]
async fn a_session_that_is_over_leaves_the_register_when_another_one_comes() {
    let scene = Scene::start();
    let conversation = scene.open().await;
    // Of a session that ends in the middle of its text, and of one after it.
    let ending = sql("select pg_terminate_backend(pg_backend_pid())").at_most_once();
    for (number, task) in [ending, sql("select 1")].into_iter().enumerate() {
        conversation.submit([task.on("far")]).await;
        conversation
            .until(|now| now.done == number as i64 + 1)
            .await;
    }
    let mut journal = connect(&conversation.journal).await;
    let rows = "select count(*)::text from session where target = 'far'";
    let alone = async {
        // Else a fence of this replica would ask for the end of the other one, wherever that ran.
        while value(&mut journal, rows).await != "1" {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, alone).await.expect("one row");
}
