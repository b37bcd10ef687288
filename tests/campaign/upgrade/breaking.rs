//! A schema that no older program may live with: none of them starts, and none that runs owns the
//! shard or writes anything. Those that run pass calls on to the program that can.

use super::{START_TIMEOUT, Upgrade, Version};
use crate::{
    check::Verdict,
    server::{LEASE, Server},
};
use rallypoint_client::{
    Client,
    api::{NoopTask, ReleaseMode, SchedulerSettings, Task, task::Kind},
};
use std::{path::Path, time::Duration};
use tokio::time::sleep;

const PROMISE: &str = "older programs keep off a schema that is too new";
/// The migration that the breaking program brings.
const MIGRATION: &str = "migration 9002";
/// So long no older server may own the shard.
const WATCH_TIME: Duration = LEASE.saturating_mul(4);
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

impl Upgrade {
    /// Starts the breaking program in place of one server. At least two others go on.
    pub(crate) async fn break_with_older(&self, verdict: &mut Verdict) {
        let servers = &self.fixture.servers;
        let (breaking, restarted, running) = (&servers[0], &servers[1], &servers[2]);
        restart(breaking, &self.programs.breaking).await;
        self.every_server_answers(verdict).await;
        let owner = self.fixture.owner().await;
        verdict.expect(PROMISE, owner == Some(breaking.number), || {
            format!("server {owner:?} owns the shard")
        });
        for version in [Version::Older, Version::Newer] {
            let (status, log) = refused(restarted, self.programs.of(version)).await;
            let clear = log.contains("too new for this program")
                && log.contains(MIGRATION)
                && log.contains("run a newer version");
            verdict.expect(PROMISE, status && clear, || {
                format!("the {version:?} version starts, or says: {log}")
            });
            println!("  the {version:?} version does not start: {}", log.trim());
        }
        breaking.kill();
        // What it had sent is written by then, or lost.
        sleep(LEASE).await;
        let before = self.written().await;
        sleep(WATCH_TIME).await;
        let after = self.written().await;
        verdict.expect(PROMISE, before == after, || {
            format!(
                "server {} went from epoch and batch {before:?} to {after:?}",
                running.number
            )
        });
        breaking.release();
        let answered = answers(running).await;
        verdict.expect(PROMISE, answered.is_ok(), || format!("{answered:?}"));
    }

    async fn every_server_answers(&self, verdict: &mut Verdict) {
        for server in &self.fixture.servers {
            let answered = answers(server).await;
            verdict.expect(PROMISE, answered.is_ok(), || {
                format!("server {}: {answered:?}", server.number)
            });
        }
    }

    /// The epoch and the last batch.
    async fn written(&self) -> (i64, i64) {
        let session = self.fixture.journal.session();
        let mut session = session.await.expect("the journal");
        let query = sqlx::query_as(
            "select s.epoch, max(b.batch_no)
            from shard s
            join batch b on b.shard = s.shard
            group by s.epoch",
        );
        query.fetch_one(&mut session).await.expect("a row")
    }
}

async fn restart(server: &Server, program: &Path) {
    server.terminate().await;
    server.install(program);
    server.release();
}

/// Whether the program does not start in place of a server, and what it says then. The server stays
/// down.
async fn refused(server: &Server, program: &Path) -> (bool, String) {
    server.terminate().await;
    server.install(program);
    let before = server.log().len();
    server.release();
    let status = server.ends_within(START_TIMEOUT).await;
    let failed = status.is_some_and(|status| !status.success());
    (failed, server.log()[before..].to_owned())
}

/// Has a task run through this server alone.
async fn answers(server: &Server) -> rallypoint_client::Result<()> {
    let client = Client::connect_lazy(&server.url())?.with_retry_timeout(CALL_TIMEOUT);
    let scheduler = client.open(SchedulerSettings::default()).await?;
    let task = Task {
        kind: Some(Kind::Noop(NoopTask::default())),
        ..Default::default()
    };
    scheduler.exec(vec![task]).await?;
    let mut events = scheduler.synchronize(0, None).await?;
    while events.next().await?.is_some() {}
    scheduler.release(ReleaseMode::Finish, true).await?;
    Ok(())
}
