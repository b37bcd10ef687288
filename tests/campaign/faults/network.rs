//! Faults of the network between a server and the databases, the other servers, or its callers.

use super::{Bite, Faults};
use crate::{plan::Fault, proxy::Proxy, server::Server};
use rallypoint_client::api::{ListExecutionsRequest, status_service_client::StatusServiceClient};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::time::{Instant, sleep, timeout};

const CUT_INTERVAL: Duration = Duration::from_millis(300);
/// How long a server may take to ask the others.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
const ASK_INTERVAL: Duration = Duration::from_millis(100);

impl Faults {
    /// Cuts off acknowledgements of commits, or statements, again and again. Only the writer of the
    /// owner has any.
    pub(super) async fn cut(&self, fault: &Fault, acknowledgement: bool) -> Bite {
        let counted = |server: &Server| {
            let counters = server.journal.counters();
            let counter = if acknowledgement {
                &counters.acknowledgements_cut
            } else {
                &counters.statements_cut
            };
            counter.load(Relaxed)
        };
        let all = || self.fixture.servers.iter().map(counted).sum::<u64>();
        let (before, begun) = (all(), Instant::now());
        while begun.elapsed() < fault.lasts
            || (all() == before && begun.elapsed() < 5 * fault.lasts)
        {
            for server in &self.fixture.servers {
                let armed_cuts = server.journal.armed_cuts();
                let armed = if acknowledgement {
                    &armed_cuts.acknowledgement
                } else {
                    &armed_cuts.statement
                };
                armed.store(true, Relaxed);
            }
            sleep(CUT_INTERVAL).await;
        }
        for server in &self.fixture.servers {
            let armed_cuts = server.journal.armed_cuts();
            armed_cuts.acknowledgement.store(false, Relaxed);
            armed_cuts.statement.store(false, Relaxed);
        }
        Bite::new(all() - before, "cuts")
    }

    /// Cuts off the answers to commits of exactly-once tasks, again and again.
    pub(super) async fn cut_commits(&self, fault: &Fault) -> Bite {
        let servers = || self.fixture.servers.iter();
        let counted = |server: &Server| server.target.counters().commits_cut.load(Relaxed);
        let all = || servers().map(counted).sum::<u64>();
        let arm = |armed| {
            servers().for_each(|server| {
                let commit = &server.target.armed_cuts().commit;
                commit.store(armed, Relaxed);
            });
        };
        let (before, begun) = (all(), Instant::now());
        while begun.elapsed() < fault.lasts
            || (all() == before && begun.elapsed() < 5 * fault.lasts)
        {
            arm(true);
            sleep(CUT_INTERVAL).await;
        }
        arm(false);
        Bite::new(all() - before, "cuts")
    }

    /// Open connections to the databases are silent for a while and then closed; new ones work.
    pub(super) async fn half_open(&self, fault: &Fault) -> Bite {
        let server = self.fixture.server(fault.server);
        let proxies = server.databases();
        let before = withheld(&proxies);
        let first_new = proxies.map(Proxy::next_connection);
        for (proxy, first_new) in proxies.iter().zip(first_new) {
            proxy.change(|conditions| conditions.silent_below = first_new);
        }
        sleep(fault.lasts).await;
        for (proxy, first_new) in proxies.iter().zip(first_new) {
            proxy.change(|conditions| conditions.closed_below = first_new);
            proxy.change(|conditions| conditions.silent_below = 0);
        }
        let withheld = withheld(&proxies) - before;
        Bite::new(withheld, "connections went silent; pieces withheld").hurting([server.number])
    }

    pub(super) async fn latency(&self, fault: &Fault) -> Bite {
        let latency = Duration::from_millis([5, 20, 50, 150][(fault.variant % 4) as usize]);
        let servers = self.fixture.servers.iter();
        let proxies: Vec<&Proxy> = servers.flat_map(Server::databases).collect();
        let delayed = |proxy: &&Proxy| proxy.counters().delayed.load(Relaxed);
        let before: u64 = proxies.iter().map(delayed).sum();
        let set = |latency| {
            for proxy in &proxies {
                proxy.change(|conditions| conditions.latency = latency);
            }
        };
        set(latency);
        sleep(fault.lasts).await;
        set(Duration::ZERO);
        let delayed = proxies.iter().map(delayed).sum::<u64>() - before;
        let what = format!("{} ms more for every piece", latency.as_millis());
        Bite::new(delayed, what)
    }

    /// Nothing passes between a server and the databases.
    pub(super) async fn partition(&self, fault: &Fault) -> Bite {
        let server = self.fixture.server(self.victim(fault).await);
        let bite = apart(&server.databases(), fault).await;
        bite.hurting([server.number])
    }

    /// Nothing passes between a server and the others that connect to it.
    ///
    /// Only the owner has connections from the others all the time. So that there is something to
    /// withhold whichever server it is, the others are asked what runs everywhere, and ask it.
    pub(super) async fn peers_apart(&self, fault: &Fault) -> Bite {
        let number = self.victim(fault).await;
        let Some(proxy) = &self.fixture.server(number).peers else {
            return Bite::new(0, "it is alone");
        };
        let proxies = [proxy];
        let apart = apart(&proxies, fault);
        tokio::pin!(apart);
        loop {
            tokio::select! {
                bite = &mut apart => return bite,
                () = self.others_ask(number) => {}
            }
        }
    }

    /// Asks every server but one what runs on all of them.
    async fn others_ask(&self, number: usize) {
        let others = self.fixture.servers.iter();
        let ask = async |server: &Server| {
            let mut client = StatusServiceClient::connect(server.url()).await.ok()?;
            let asked = client.list_executions(ListExecutionsRequest::default());
            timeout(ASK_TIMEOUT, asked).await.ok()?.ok()
        };
        for server in others.filter(|server| server.number != number) {
            let _ = ask(server).await;
        }
        sleep(ASK_INTERVAL).await;
    }

    /// Nothing passes between a server and its callers.
    pub(super) async fn callers_apart(&self, fault: &Fault) -> Bite {
        apart(&[&self.fixture.server(fault.server).callers], fault).await
    }
}

/// Nothing passes, either way. In the end what was withheld arrives late, or is lost with its
/// connections.
async fn apart(proxies: &[&Proxy], fault: &Fault) -> Bite {
    let before = withheld(proxies);
    for proxy in proxies {
        proxy.change(|conditions| conditions.silent_below = u64::MAX);
    }
    sleep(fault.lasts).await;
    let arrives = fault.variant.is_multiple_of(2);
    for proxy in proxies {
        let next = proxy.next_connection();
        proxy.change(|conditions| {
            if !arrives {
                conditions.closed_below = next;
            }
            conditions.silent_below = 0;
        });
    }
    let end = if arrives {
        "arrived late"
    } else {
        "was lost with its connections"
    };
    let what = format!("what was withheld {end}");
    Bite::new(withheld(proxies) - before, what)
}

/// Pieces withheld so far.
fn withheld(proxies: &[&Proxy]) -> u64 {
    let withheld = |proxy: &&Proxy| proxy.counters().withheld.load(Relaxed);
    proxies.iter().map(withheld).sum()
}
