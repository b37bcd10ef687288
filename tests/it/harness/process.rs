//! A real `rallypoint serve` in a process of its own that can be killed and started again at the same address.

use super::{
    conversation::{Conversation, PATIENCE},
    server::free_address,
};
use rallypoint::postgres::{COORDINATION, Options, PrivatePostgres, TARGET};
use rallypoint_client::{Client, api};
use std::{
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

/// A server process, running or not.
pub(crate) struct Process {
    address: SocketAddr,
    pub postgres: PrivatePostgres,
    child: Option<Child>,
    pub client: Client,
}

/// A Postgres that keeps what it has acknowledged.
pub(crate) fn durable_postgres() -> PrivatePostgres {
    PrivatePostgres::start(Options::default()).expect("a private Postgres")
}

impl Process {
    /// Starts one on a durable Postgres of its own.
    pub(crate) async fn start() -> Process {
        let address = free_address();
        let client = Client::connect_lazy(&format!("http://{address}"))
            .expect("a URL")
            .with_patience(PATIENCE);
        let mut process = Process {
            address,
            postgres: durable_postgres(),
            child: None,
            client,
        };
        process.restart();
        process
            .client
            .schedulers(api::ListSchedulersRequest::default())
            .await
            .expect("it serves");
        process
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rallypoint"));
        command.args([
            "serve",
            "--replica-name",
            "test",
            "--listen",
            &self.address.to_string(),
            "--slots",
            "8",
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
        self.child = Some(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(stderr)
                .spawn()
                .expect("the program starts"),
        );
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Kills it as nothing else does: it gets no chance to say or write anything.
    pub(crate) fn kill_9(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
    }

    pub(crate) async fn open(&self, settings: api::SchedulerSettings) -> Conversation {
        let scheduler = self.client.open(settings).await.expect("opened");
        Conversation {
            scheduler,
            journal: self.postgres.options_for(COORDINATION, COORDINATION),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_9();
    }
}
