//! Servers die, stand still, and are told to stop.

use super::{Bite, Faults};
use crate::{memory::Trap, plan::Fault, server::Server};
use futures_util::future::join_all;
use nix::sys::signal::Signal;
use rallypoint_client::api::{
    DescribeSchedulerRequest, scheduler_service_client::SchedulerServiceClient,
};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::time::{sleep, timeout};

/// At a time, for a server to keep in mind.
const LARGE_CALLS: usize = 16;

impl Faults {
    /// It bites when the server was at work: connections to Postgres end with it, whether or not a caller was hurt.
    pub(super) async fn kill(&self, fault: &Fault) -> Bite {
        let server = self.fixture.server(self.victim(fault).await);
        let connections = || server.proxy.counters().hung_up.load(Relaxed);
        let before = connections();
        let harm = self.harm_while(async {
            server.kill();
            sleep(fault.lasts).await;
            server.release();
        });
        let harm = harm.await;
        let what = format!(
            "killed server {}; {harm} calls or streams were broken off; connections ended",
            server.number
        );
        Bite::new(connections() - before, what).hurting([server.number])
    }

    /// Whatever it asks for beyond what it has is too much, and it is given reasons to ask.
    pub(super) async fn memory_limit(&self, fault: &Fault) -> Bite {
        let Some(trap) = Trap::set() else {
            return Bite::new(0, "no memory cgroup to be had");
        };
        let server = self.fixture.server(self.victim(fault).await);
        let harm = self.harm_while(async {
            tokio::select! {
                () = server.starve(&trap) => {}
                () = says_much_to(server) => {}
            }
            sleep(fault.lasts).await;
            server.release();
        });
        let harm = harm.await;
        let what = format!(
            "server {} ran out of memory; {harm} calls or streams were broken off; ended",
            server.number
        );
        Bite::new(trap.kills(), what).hurting([server.number])
    }

    pub(super) async fn pause(&self, fault: &Fault) -> Bite {
        let server = self.victim(fault).await;
        let answered = self.load.answered();
        let harm = self.harm_while(async {
            self.fixture.server(server).signal(Signal::SIGSTOP);
            sleep(fault.lasts).await;
            self.fixture.server(server).signal(Signal::SIGCONT);
        });
        let harm = harm.await;
        let what = format!(
            "server {server} stood still; {} calls were answered meanwhile",
            self.load.answered() - answered
        );
        Bite::new(harm, what).hurting([server])
    }

    pub(super) async fn rolling_restart(&self, fault: &Fault) -> Bite {
        let mut in_order = 0;
        let harm = self.harm_while(async {
            for server in &self.fixture.servers {
                in_order += u64::from(server.terminate().await);
                server.release();
                sleep(fault.lasts).await;
            }
        });
        let (harm, servers) = (harm.await, self.fixture.servers.len());
        Bite::new(
            in_order,
            format!(
                "{in_order} of {servers} stopped in good order; {harm} calls or streams were broken off"
            ),
        )
    }

    /// Mostly the owner of the shard, since the others have less to lose.
    pub(super) async fn victim(&self, fault: &Fault) -> usize {
        let any = fault.server % self.fixture.servers.len();
        if fault.variant.is_multiple_of(4) {
            return any;
        }
        self.owner().await.unwrap_or(any)
    }

    /// The number of the server that owns the shard.
    async fn owner(&self) -> Option<usize> {
        let mut session = self
            .fixture
            .session(rallypoint::postgres::COORDINATION)
            .await
            .ok()?;
        let owner: Option<String> = sqlx::query_scalar("select owner from shard")
            .fetch_optional(&mut session)
            .await
            .ok()??;
        owner?.strip_prefix('r')?.parse().ok()
    }
}

/// Calls that are all handle, which are refused, but must be held in memory before. For ever.
async fn says_much_to(server: &Server) {
    let call = async || {
        let mut client = SchedulerServiceClient::connect(server.url()).await.ok()?;
        client
            .describe_scheduler(DescribeSchedulerRequest {
                handle: "0".repeat(2 << 20),
            })
            .await
            .ok()
    };
    loop {
        join_all((0..LARGE_CALLS).map(|_| timeout(Duration::from_secs(1), call()))).await;
        sleep(Duration::from_millis(20)).await;
    }
}
