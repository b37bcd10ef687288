//! Postgres crashes, loses backends and sessions, and runs out of disk space and connections.

use super::{Bite, Faults};
use crate::{database::Database, disk::Disk, plan::Fault};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sqlx::Connection;
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::{task::spawn_blocking, time::sleep};

impl Faults {
    pub(super) async fn postgres_crash(&self, fault: &Fault) -> Bite {
        let (before, database) = (self.lost(), self.database(fault));
        database.crash().await;
        sleep(fault.lasts).await;
        database.revive().await;
        let what = format!("{} crashed; connections lost", database.name);
        Bite::new(self.lost() - before, what)
    }

    pub(super) async fn backend_killed(&self, fault: &Fault) -> Bite {
        let (before, database) = (self.lost(), self.database(fault));
        let backends = database.backends().await;
        let Some(pid) = backends.get((fault.variant as usize) % backends.len().max(1)) else {
            return Bite::new(0, "no backend");
        };
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        sleep(fault.lasts).await;
        database.revive().await;
        let what = format!(
            "a backend of {} was killed; connections lost",
            database.name
        );
        Bite::new(self.lost() - before, what)
    }

    pub(super) async fn sessions_ended(&self, fault: &Fault) -> Bite {
        let before = self.lost();
        let half = (fault.variant % 2) as i32;
        for database in self.fixture.databases() {
            end_half(database, half).await;
        }
        sleep(fault.lasts).await;
        Bite::new(self.lost() - before, "half of the sessions were ended")
    }

    /// Every append fails until there is space again.
    pub(super) async fn disk_full(&self, fault: &Fault) -> Bite {
        if self.fixture.disk.is_none() {
            return Bite::new(0, "no disk of our own: be root");
        }
        let (mut bytes, refused) = (0, self.lines_with("No space left on device"));
        let harm = self.harm_while(async {
            bytes = self.fill_disk().await;
            sleep(fault.lasts).await;
            // Postgres has some space in reserve: calls hang or fail once it is used up.
            for _ in 0..40 {
                bytes += self.fill_disk().await;
                sleep(Duration::from_millis(50)).await;
            }
        });
        let harm = harm.await + self.lines_with("No space left on device") - refused;
        self.fixture.disk.iter().for_each(Disk::free);
        self.fixture.revive_databases().await;
        Bite::new(harm, format!("{} MiB were taken", bytes >> 20))
    }

    async fn fill_disk(&self) -> u64 {
        let fixture = self.fixture.clone();
        let fill = move || fixture.disk.as_ref().map_or(0, Disk::fill);
        spawn_blocking(fill).await.expect("it is filled")
    }

    /// Takes all connections, and ends some of the service, which cannot have them back.
    pub(super) async fn no_connections(&self, fault: &Fault) -> Bite {
        let (database, lost) = (self.database(fault), self.lost());
        let mut taken = Vec::new();
        let mut refused = 0;
        while taken.len() < 1_000 && refused < 3 {
            match database.login(database.name).await {
                Ok(connection) => taken.push(connection),
                Err(_) => {
                    refused += 1;
                    for pid in database.backends().await.into_iter().take(3) {
                        database.end_session(pid).await;
                    }
                }
            }
        }
        sleep(fault.lasts).await;
        let many = taken.len();
        for connection in taken {
            let _ = connection.close().await;
        }
        let what = format!(
            "{many} connections of {} were taken; those that the service lost",
            database.name
        );
        Bite::new(self.lost() - lost, what)
    }

    /// The Postgres to attack: that of the journal, or one time in three that of the tasks.
    fn database(&self, fault: &Fault) -> &Database {
        if fault.variant % 3 == 2 {
            &self.fixture.target
        } else {
            &self.fixture.journal
        }
    }

    /// The number of connections that Postgres has closed so far.
    pub(super) fn lost(&self) -> u64 {
        let servers = self.fixture.servers.iter();
        servers
            .flat_map(|server| server.databases())
            .map(|proxy| proxy.counters().lost.load(Relaxed))
            .sum()
    }

    /// How many lines of the logs of all servers hold a text.
    fn lines_with(&self, text: &str) -> u64 {
        let servers = self.fixture.servers.iter();
        servers.map(|server| server.lines_with(text)).sum()
    }
}

/// Ends the sessions of the service with even, or odd, process ids.
pub(super) async fn end_half(database: &Database, half: i32) {
    let backends = database.backends().await.into_iter();
    for pid in backends.filter(|pid| pid % 2 == half) {
        database.end_session(pid).await;
    }
}
