//! Real servers, each a process of its own, on one durable Postgres. Any of them can be killed,
//! paused, told to stop, and started again at the same address.

use super::{
    conversation::{Conversation, WAIT_TIMEOUT},
    postgres::{self, connect},
    process::{Process, free_address},
};
use nix::sys::signal::Signal;
use rallypoint::postgres::{COORDINATION, PrivatePostgres, TARGET};
use rallypoint_client::{Client, SecretString, api};
use std::{collections::BTreeSet, net::SocketAddr, ops::Range, sync::Mutex, time::Duration};
use tokio::time::{sleep, timeout};

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Slots of each replica, unless a test says otherwise.
const SLOTS: &str = "4";
/// A short lease, in seconds, so that a takeover does not take long; on a busy machine its owner
/// renews it all the same.
pub(crate) const LEASE: &str = "4";

/// Replicas named `r0`, `r1`, …
pub(crate) struct Cluster {
    pub postgres: PrivatePostgres,
    /// With which the tests call.
    token: Option<SecretString>,
    replicas: Vec<Replica>,
}

struct Replica {
    address: SocketAddr,
    process: Process,
}

impl Cluster {
    /// Starts `count` replicas of four slots and waits until they know each other.
    pub(crate) async fn start(count: usize) -> Cluster {
        Cluster::with_options(count, &[]).await
    }

    /// Starts `count` replicas of `slots` slots and waits until they know each other.
    pub(crate) async fn with_slots(count: usize, slots: u32) -> Cluster {
        Cluster::with_options(count, &["--slots", &slots.to_string()]).await
    }

    /// Starts `count` replicas with further options and waits until they know each other.
    pub(crate) async fn with_options(count: usize, options: &[&str]) -> Cluster {
        Cluster::on(postgres::durable(Vec::new()), count, options).await
    }

    /// The same of replicas that have to know who calls.
    pub(crate) async fn with_token(count: usize, options: &[&str], token: &str) -> Cluster {
        let token = Some(SecretString::from(token));
        Cluster::start_on(postgres::durable(Vec::new()), count, options, token).await
    }

    /// The same on a Postgres that a test has started.
    pub(crate) async fn on(postgres: PrivatePostgres, count: usize, options: &[&str]) -> Cluster {
        Cluster::start_on(postgres, count, options, None).await
    }

    async fn start_on(
        postgres: PrivatePostgres,
        count: usize,
        options: &[&str],
        token: Option<SecretString>,
    ) -> Cluster {
        let replica = |index| Replica::new(index, count > 1, options, &postgres);
        let mut cluster = Cluster {
            replicas: (0..count).map(replica).collect(),
            postgres,
            token,
        };
        for index in 0..count {
            cluster.restart(index);
            cluster.wait_until_ready(index).await;
        }
        for index in 0..count {
            cluster.wait_until_known(index, count).await;
        }
        cluster
    }

    /// Waits until replica `index` knows of `count` replicas.
    async fn wait_until_known(&self, index: usize, count: usize) {
        let client = self.client(index);
        let known = Mutex::new(BTreeSet::new());
        let wait = async {
            loop {
                let rows = client.executions().await.expect("executions").executions;
                let names: BTreeSet<String> = rows.into_iter().map(|row| row.replica).collect();
                let all = names.len() >= count;
                *known.lock().expect("names") = names;
                if all {
                    return;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let all = 0..self.replicas.len();
        let found = timeout(WAIT_TIMEOUT, self.while_running(all, wait)).await;
        assert!(
            found.is_ok(),
            "replica r{index} knows of {:?} only, not of {count}; its log ends with:\n{}",
            known.lock().expect("names"),
            self.replicas[index].process.log_tail()
        );
    }

    /// The end of the log of a replica.
    pub(crate) fn log_tail(&self, index: usize) -> String {
        self.replicas[index].process.log_tail()
    }

    /// Waits for something, and fails the test when one of these replicas ends meanwhile.
    async fn while_running<T>(&self, those: Range<usize>, wait: impl Future<Output = T>) -> T {
        tokio::pin!(wait);
        loop {
            if let Ok(result) = timeout(POLL_INTERVAL, &mut wait).await {
                return result;
            }
            for index in those.clone() {
                let process = &self.replicas[index].process;
                assert!(
                    !process.has_ended(),
                    "replica r{index} at {} has ended; its log ends with:\n{}",
                    self.url(index),
                    process.log_tail()
                );
            }
        }
    }

    /// The number of replicas.
    pub(crate) fn count(&self) -> usize {
        self.replicas.len()
    }

    /// Starts a replica, for the first time or again.
    pub(crate) fn restart(&mut self, index: usize) {
        self.replicas[index].process.start();
    }

    /// Starts a replica that reaches the journal by another URL.
    pub(crate) fn restart_on(&mut self, index: usize, journal: &str) {
        let process = &mut self.replicas[index].process;
        process.command().env("RALLYPOINT_DATABASE", journal);
        process.start();
    }

    /// The replica that owns the shard, as the journal has it.
    pub(crate) async fn owner_in_the_journal(&self) -> Option<String> {
        let mut session = connect(&self.postgres.options_for(COORDINATION, COORDINATION)).await;
        sqlx::query_scalar("select owner from lease")
            .fetch_one(&mut session)
            .await
            .expect("a shard")
    }

    /// Waits until a replica answers.
    pub(crate) async fn wait_until_ready(&self, index: usize) {
        let client = self.client(index);
        let answer = client.schedulers(api::ListSchedulersRequest::default());
        let answer = self.while_running(index..index + 1, answer).await;
        answer.expect("it serves");
    }

    /// A caller that knows one replica only.
    pub(crate) fn client(&self, index: usize) -> Client {
        self.client_of(&self.url(index))
    }

    fn client_of(&self, urls: &str) -> Client {
        let client = Client::connect_lazy(urls).expect("URLs");
        let client = client.with_retry_timeout(WAIT_TIMEOUT);
        match &self.token {
            Some(token) => client.with_token(token).expect("a token"),
            None => client,
        }
    }

    /// A caller that knows all replicas.
    pub(crate) fn client_of_all(&self) -> Client {
        let urls: Vec<String> = (0..self.replicas.len())
            .map(|index| self.url(index))
            .collect();
        self.client_of(&urls.join(","))
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

    /// The scheduler `handle` as `client` sees it.
    pub(crate) fn conversation(&self, client: &Client, handle: &str) -> Conversation {
        Conversation {
            scheduler: client.scheduler(handle),
            journal: self.postgres.options_for(COORDINATION, COORDINATION),
        }
    }

    /// The owner of the shard, as the journal has it; waits until there is one.
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

    /// The owner of the shard, as the status that `client` gets names it.
    pub(crate) async fn owner_by(&self, client: &Client) -> usize {
        let status = client.status().await.expect("a status");
        let row = status
            .replicas
            .iter()
            .find(|row| row.owner)
            .expect("an owner");
        row.name.trim_start_matches('r').parse().expect("a number")
    }

    /// The number of changes of epoch from one batch of the journal to the next.
    pub(crate) async fn changes_of_epoch(&self) -> i64 {
        let query = "select count(*)
            from (
                select epoch, lag(epoch) over (order by batch_no) as before
                from batch
                where batch_no > 0
            ) b
            where epoch <> before";
        let mut session = connect(&self.postgres.options_for(COORDINATION, COORDINATION)).await;
        sqlx::query_scalar(query)
            .fetch_one(&mut session)
            .await
            .expect("counted")
    }

    /// Waits until the status that any replica gives is as wanted.
    pub(crate) async fn until(&self, mut wanted: impl FnMut(&api::GetStatusResponse) -> bool) {
        let client = self.client_of_all();
        let wait = async {
            while !client.status().await.is_ok_and(|status| wanted(&status)) {
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(WAIT_TIMEOUT, wait)
            .await
            .expect("the status is as wanted in time");
    }

    /// The process of a replica, which runs.
    pub(crate) fn pid(&self, index: usize) -> i32 {
        let pid = self.replicas[index].process.pid();
        pid.expect("it runs").as_raw()
    }

    /// Kills a replica with SIGKILL.
    pub(crate) fn kill_9(&mut self, index: usize) {
        self.replicas[index].process.kill();
    }

    pub(crate) fn signal(&self, index: usize, signal: Signal) {
        assert!(self.replicas[index].process.pid().is_some(), "it runs");
        self.replicas[index].process.signal(signal);
    }

    /// Tells a replica to stop, and waits until it has ended well.
    pub(crate) async fn terminate(&mut self, index: usize) {
        self.signal(index, Signal::SIGTERM);
        let process = &mut self.replicas[index].process;
        let ended = async {
            loop {
                match process.exited() {
                    Some(status) => return status,
                    None => sleep(POLL_INTERVAL).await,
                }
            }
        };
        let status = timeout(WAIT_TIMEOUT, ended).await.expect("it stops");
        assert!(status.success(), "{status}");
    }
}

impl Replica {
    /// A replica that is not started yet; with a port for other replicas if it has `peers`.
    fn new(index: usize, peers: bool, further: &[&str], postgres: &PrivatePostgres) -> Replica {
        let address = free_address();
        let mut options = vec![
            "--listen".to_owned(),
            address.to_string(),
            "--replica-name".to_owned(),
            format!("r{index}"),
            "--target".to_owned(),
            format!("{TARGET}={}", postgres.target_url()),
        ];
        for (option, usual) in [("--slots", SLOTS), ("--lease", LEASE)] {
            if !further.contains(&option) {
                options.extend([option.to_owned(), usual.to_owned()]);
            }
        }
        options.extend(further.iter().map(|option| option.to_string()));
        if peers {
            options.extend(["--peer-listen".to_owned(), free_address().to_string()]);
        }
        let mut process = Process::serve(options);
        let journal = postgres.coordination_url();
        process.command().env("RALLYPOINT_DATABASE", journal);
        Replica { address, process }
    }
}

#[tokio::test]
#[should_panic(expected = "has ended; its log ends with")]
async fn a_replica_that_ends_at_its_start_is_not_waited_for() {
    Cluster::with_options(2, &["--target", "no target"]).await;
}
