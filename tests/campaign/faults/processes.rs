//! Servers are killed, paused, stopped, and run out of memory.

use super::{Bite, Faults};
use crate::{memory::MemoryCgroup, plan::Fault, server::Server};
use futures_util::future::join_all;
use nix::sys::signal::Signal;
use rallypoint_client::api::{
    DescribeSchedulerRequest, scheduler_service_client::SchedulerServiceClient,
};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::time::{sleep, timeout};

/// Large calls at a time, which a server must hold in memory.
const LARGE_CALLS: usize = 16;

impl Faults {
    /// It bites if the server had connections to Postgres, whether or not a caller noticed.
    pub(super) async fn kill(&self, fault: &Fault) -> Bite {
        let server = self.fixture.server(self.victim(fault).await);
        let connections = || server.journal.counters().hung_up.load(Relaxed);
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

    /// The server gets no more memory, and large calls make it ask for more.
    pub(super) async fn memory_limit(&self, fault: &Fault) -> Bite {
        let Some(cgroup) = MemoryCgroup::create() else {
            return Bite::new(0, "no memory cgroup to be had");
        };
        let server = self.fixture.server(self.victim(fault).await);
        let harm = self.harm_while(async {
            tokio::select! {
                () = server.starve(&cgroup) => {}
                () = send_large_calls(server) => {}
            }
            sleep(fault.lasts).await;
            server.release();
        });
        let harm = harm.await;
        let what = format!(
            "server {} ran out of memory; {harm} calls or streams were broken off; ended",
            server.number
        );
        Bite::new(cgroup.kills(), what).hurting([server.number])
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

    /// The server to attack: mostly the owner of the shard, since the others have less to lose.
    pub(super) async fn victim(&self, fault: &Fault) -> usize {
        let any = fault.server % self.fixture.servers.len();
        if fault.variant.is_multiple_of(4) {
            return any;
        }
        self.fixture.owner().await.unwrap_or(any)
    }
}

/// Makes calls with a huge handle for ever: they are refused, but are in memory before.
async fn send_large_calls(server: &Server) {
    let call = async || {
        let mut client = SchedulerServiceClient::connect(server.url()).await.ok()?;
        client
            .describe_scheduler(DescribeSchedulerRequest {
                handle: "0".repeat(2 << 20),
                ..Default::default()
            })
            .await
            .ok()
    };
    loop {
        join_all((0..LARGE_CALLS).map(|_| timeout(Duration::from_secs(1), call()))).await;
        sleep(Duration::from_millis(20)).await;
    }
}
