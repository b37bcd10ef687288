//! Several real servers, each a process of its own, on one durable Postgres: any of them can be killed, stopped in its
//! tracks, told to go, and started again.

use super::{
    conversation::{Conversation, PATIENCE},
    postgres::connect,
    process::durable_postgres,
    server::free_address,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rallypoint::postgres::{COORDINATION, PrivatePostgres, TARGET};
use rallypoint_client::{Client, api};
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// Servers named `r0`, `r1`, … with a short lease.
pub(crate) struct Cluster {
    pub postgres: PrivatePostgres,
    replicas: Vec<Replica>,
}

struct Replica {
    address: SocketAddr,
    peer: SocketAddr,
    child: Option<Child>,
}

/// How long a lease lasts here, in seconds.
const LEASE: &str = "2";

impl Cluster {
    /// So many, all of them ready.
    pub(crate) async fn start(count: usize) -> Cluster {
        let replica = |_| Replica {
            address: free_address(),
            peer: free_address(),
            child: None,
        };
        let mut cluster = Cluster {
            postgres: durable_postgres(),
            replicas: (0..count).map(replica).collect(),
        };
        for index in 0..count {
            cluster.restart(index);
            cluster.serves(index).await;
        }
        for index in 0..count {
            cluster.knows(index, count).await;
        }
        cluster
    }

    /// Waits until one of them knows of so many.
    async fn knows(&self, index: usize, count: usize) {
        let client = self.client(index);
        let names = async || {
            let rows = client.executions().await.expect("executions");
            rows.into_iter()
                .map(|row| row.replica)
                .collect::<BTreeSet<_>>()
                .len()
        };
        let wait = async {
            while names().await < count {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect("they find each other");
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.replicas.len()
    }

    /// Starts one, again or for the first time.
    pub(crate) fn restart(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let mut command = Command::new(env!("CARGO_BIN_EXE_rallypoint"));
        command.args([
            "serve",
            "--slots",
            "4",
            "--lease",
            LEASE,
            "--replica-name",
            &format!("r{index}"),
        ]);
        command.args([
            "--listen",
            &replica.address.to_string(),
            "--peer-listen",
            &replica.peer.to_string(),
        ]);
        command.args(["--database", &self.postgres.coordination_url()]);
        command.args([
            "--target",
            &format!("{TARGET}={}", self.postgres.target_url()),
        ]);
        // RALLYPOINT_TEST_LOG=1 shows what it says.
        let stderr = if std::env::var_os("RALLYPOINT_TEST_LOG").is_some() {
            Stdio::inherit()
        } else {
            Stdio::null()
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn();
        replica.child = Some(child.expect("the program starts"));
    }

    /// Waits until it answers.
    pub(crate) async fn serves(&self, index: usize) {
        self.client(index)
            .schedulers(api::ListSchedulersRequest::default())
            .await
            .expect("it serves");
    }

    /// A caller of one of them only.
    pub(crate) fn client(&self, index: usize) -> Client {
        Client::connect_lazy(&self.url(index))
            .expect("a URL")
            .with_patience(PATIENCE)
    }

    /// A caller who knows all of them.
    pub(crate) fn client_of_all(&self) -> Client {
        let urls: Vec<String> = (0..self.replicas.len())
            .map(|index| self.url(index))
            .collect();
        Client::connect_lazy(&urls.join(","))
            .expect("URLs")
            .with_patience(PATIENCE)
    }

    pub(crate) fn url(&self, index: usize) -> String {
        format!("http://{}", self.replicas[index].address)
    }

    pub(crate) async fn open(
        &self,
        client: &Client,
        settings: api::SchedulerSettings,
    ) -> Conversation {
        let scheduler = client.open(settings).await.expect("opened");
        self.conversation(client, scheduler.handle())
    }

    /// The same scheduler, as another caller speaks with it.
    pub(crate) fn conversation(&self, client: &Client, handle: &str) -> Conversation {
        Conversation {
            scheduler: client.scheduler(handle),
            journal: self.postgres.options_for(COORDINATION, COORDINATION),
        }
    }

    /// Who owns the shard, by the journal's word.
    pub(crate) async fn owner(&self) -> usize {
        let mut owner = None;
        self.until(|status| {
            let row = status.replicas.iter().find(|row| row.owner);
            owner = row.and_then(|row| row.name.strip_prefix('r')?.parse().ok());
            owner.is_some()
        })
        .await;
        owner.expect("an owner")
    }

    /// The same, as one of them tells it.
    pub(crate) async fn owner_by(&self, client: &Client) -> usize {
        let status = client.status().await.expect("a status");
        let row = status
            .replicas
            .iter()
            .find(|row| row.owner)
            .expect("an owner");
        row.name.trim_start_matches('r').parse().expect("a number")
    }

    /// How often the batches of the journal, in their order, change their epoch.
    pub(crate) async fn changes_of_epoch(&self) -> i64 {
        let query = "select count(*)
            from (select epoch, lag(epoch) over (order by batch_no) as before from batch where batch_no > 0) b
            where epoch <> before";
        let mut session = connect(&self.postgres.options_for(COORDINATION, COORDINATION)).await;
        sqlx::query_scalar(query)
            .fetch_one(&mut session)
            .await
            .expect("counted")
    }

    /// Waits for a state, as any of them tells it.
    pub(crate) async fn until(&self, mut wanted: impl FnMut(&api::GetStatusResponse) -> bool) {
        let client = self.client_of_all();
        let wait = async {
            while !client.status().await.is_ok_and(|status| wanted(&status)) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, wait)
            .await
            .expect("the state comes about");
    }

    /// Kills one as nothing else does.
    pub(crate) fn kill_9(&mut self, index: usize) {
        if let Some(mut child) = self.replicas[index].child.take() {
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, index: usize, signal: Signal) {
        let child = self.replicas[index].child.as_ref().expect("it runs");
        kill(Pid::from_raw(child.id() as i32), signal).expect("signalled");
    }

    /// Tells one to go, and waits until it has gone.
    pub(crate) async fn terminate(&mut self, index: usize) {
        self.signal(index, Signal::SIGTERM);
        let mut child = self.replicas[index].child.take().expect("it runs");
        let ended = async {
            loop {
                match child.try_wait().expect("a child") {
                    Some(status) => return status,
                    None => sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let status = timeout(PATIENCE, ended).await.expect("it goes");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for index in 0..self.replicas.len() {
            self.kill_9(index);
        }
    }
}
