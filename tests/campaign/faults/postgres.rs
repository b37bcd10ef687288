//! Postgres crashes, loses backends and sessions, and runs out of disk space and connections.

use super::{Bite, Faults};
use crate::{disk::Disk, plan::Fault};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rallypoint::postgres::TARGET;
use sqlx::{Connection, PgConnection};
use std::sync::atomic::Ordering::Relaxed;
use tokio::{task::spawn_blocking, time::sleep};

impl Faults {
    pub(super) async fn postgres_crash(&self, fault: &Fault) -> Bite {
        let before = self.lost();
        let fixture = self.fixture.clone();
        spawn_blocking(move || fixture.postgres.immediate_stop())
            .await
            .expect("it stops");
        sleep(fault.lasts).await;
        self.fixture.revive_postgres().await;
        Bite::new(self.lost() - before, "Postgres crashed; connections lost")
    }

    pub(super) async fn backend_killed(&self, fault: &Fault) -> Bite {
        let before = self.lost();
        let backends = self.backends().await;
        let Some(pid) = backends.get((fault.variant as usize) % backends.len().max(1)) else {
            return Bite::new(0, "no backend");
        };
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        sleep(fault.lasts).await;
        self.fixture.revive_postgres().await;
        Bite::new(
            self.lost() - before,
            "a backend was killed; connections lost",
        )
    }

    pub(super) async fn sessions_ended(&self, fault: &Fault) -> Bite {
        let before = self.lost();
        let half = (fault.variant % 2) as i32;
        for pid in self
            .backends()
            .await
            .into_iter()
            .filter(|pid| pid % 2 == half)
        {
            self.end_session(pid).await;
        }
        sleep(fault.lasts).await;
        Bite::new(self.lost() - before, "half of the sessions were ended")
    }

    /// Every append fails until there is space again.
    pub(super) async fn disk_full(&self, fault: &Fault) -> Bite {
        if self.fixture.disk.is_none() {
            return Bite::new(0, "no disk of our own: be root");
        }
        let (mut bytes, refused) = (0, self.refusals_of_the_disk());
        let harm = self.harm_while(async {
            bytes = self.fill_disk().await;
            sleep(fault.lasts).await;
            // Postgres has some space in reserve: calls hang or fail once it is used up.
            for _ in 0..40 {
                bytes += self.fill_disk().await;
                sleep(std::time::Duration::from_millis(50)).await;
            }
        });
        let harm = harm.await + self.refusals_of_the_disk() - refused;
        self.fixture.disk.iter().for_each(Disk::free);
        self.fixture.revive_postgres().await;
        Bite::new(harm, format!("{} MiB were taken", bytes >> 20))
    }

    async fn fill_disk(&self) -> u64 {
        let fixture = self.fixture.clone();
        let fill = move || fixture.disk.as_ref().map_or(0, Disk::fill);
        spawn_blocking(fill).await.expect("it is filled")
    }

    pub(super) async fn no_connections(&self, fault: &Fault) -> Bite {
        let mut taken = Vec::new();
        let mut refused = 0;
        while taken.len() < 1_000 {
            match PgConnection::connect_with(&self.fixture.postgres.options_for(TARGET, TARGET))
                .await
            {
                Ok(connection) => taken.push(connection),
                Err(_) => {
                    refused += 1;
                    // The service does not get back a connection that it loses now.
                    let service = self.backends().await;
                    for pid in service.iter().take(3) {
                        self.end_session(*pid).await;
                    }
                    if refused == 3 {
                        break;
                    }
                }
            }
        }
        sleep(fault.lasts).await;
        let many = taken.len();
        for connection in taken {
            let _ = connection.close().await;
        }
        Bite::new(refused, format!("{many} connections were taken"))
    }

    /// Backends of the service, without our own.
    async fn backends(&self) -> Vec<i32> {
        let Ok(mut session) = self.fixture.session("postgres").await else {
            return Vec::new();
        };
        let query = "select pid
            from pg_stat_activity
            where usename in ('rallypoint', 'app')
              and client_addr is null
              and application_name like 'rallypoint%'
            order by pid";
        sqlx::query_scalar(query)
            .fetch_all(&mut session)
            .await
            .unwrap_or_default()
    }

    async fn end_session(&self, pid: i32) {
        if let Ok(mut session) = self.fixture.session("postgres").await {
            let _ = sqlx::query("select pg_terminate_backend($1)")
                .bind(pid)
                .execute(&mut session)
                .await;
        }
    }

    /// The number of connections that Postgres has closed so far.
    fn lost(&self) -> u64 {
        self.fixture
            .servers
            .iter()
            .map(|server| server.proxy.counters().lost.load(Relaxed))
            .sum()
    }

    /// How often the servers have logged that the disk is full.
    fn refusals_of_the_disk(&self) -> u64 {
        self.fixture
            .servers
            .iter()
            .map(|server| server.lines_with("No space left on device"))
            .sum()
    }
}
