//! What happens between a server and Postgres, the other servers, and its callers.

use super::{Bite, Faults};
use crate::{plan::Fault, proxy::Proxy};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::time::{Instant, sleep};

const BETWEEN_CUTS: Duration = Duration::from_millis(300);

impl Faults {
    /// Cuts again and again, the acknowledgement of a commit or a statement. Only the owner's writer has any.
    pub(super) async fn cut(&self, fault: &Fault, acknowledgement: bool) -> Bite {
        let counted = |server: &crate::server::Server| {
            let counters = server.proxy.counters();
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
                let scissors = server.proxy.scissors();
                let scissor = if acknowledgement {
                    &scissors.acknowledgement
                } else {
                    &scissors.statement
                };
                scissor.store(true, Relaxed);
            }
            sleep(BETWEEN_CUTS).await;
        }
        for server in &self.fixture.servers {
            server
                .proxy
                .scissors()
                .acknowledgement
                .store(false, Relaxed);
            server.proxy.scissors().statement.store(false, Relaxed);
        }
        Bite::new(all() - before, "cuts")
    }

    /// What is open now is silent for a while and then closed; new connections work.
    pub(super) async fn half_open(&self, fault: &Fault) -> Bite {
        let server = self.fixture.server(fault.server);
        let proxy = &server.proxy;
        let before = proxy.counters().withheld.load(Relaxed);
        let first_new = proxy.next_connection();
        proxy.change(|weather| weather.silent_below = first_new);
        sleep(fault.lasts).await;
        proxy.change(|weather| weather.closed_below = first_new);
        proxy.change(|weather| weather.silent_below = 0);
        let withheld = proxy.counters().withheld.load(Relaxed) - before;
        Bite::new(withheld, "connections went silent; pieces withheld").hurting([server.number])
    }

    pub(super) async fn latency(&self, fault: &Fault) -> Bite {
        let latency = Duration::from_millis([5, 20, 50, 150][(fault.variant % 4) as usize]);
        let counters = || {
            self.fixture
                .servers
                .iter()
                .map(|server| server.proxy.counters().delayed.load(Relaxed))
                .sum::<u64>()
        };
        let before = counters();
        self.fixture
            .servers
            .iter()
            .for_each(|server| server.proxy.change(|weather| weather.latency = latency));
        sleep(fault.lasts).await;
        self.fixture.servers.iter().for_each(|server| {
            server
                .proxy
                .change(|weather| weather.latency = Duration::ZERO)
        });
        Bite::new(
            counters() - before,
            format!("{} ms more for every piece", latency.as_millis()),
        )
    }

    /// What the service says to Postgres does not arrive.
    pub(super) async fn partition(&self, fault: &Fault) -> Bite {
        let server = self.fixture.server(self.victim(fault).await);
        apart(&server.proxy, fault).await.hurting([server.number])
    }

    /// What other servers say to one does not arrive.
    pub(super) async fn peers_apart(&self, fault: &Fault) -> Bite {
        match &self.fixture.server(self.victim(fault).await).peers {
            Some(proxy) => apart(proxy, fault).await,
            None => Bite::new(0, "it is alone"),
        }
    }

    /// What callers say to a server does not arrive.
    pub(super) async fn callers_apart(&self, fault: &Fault) -> Bite {
        apart(&self.fixture.server(fault.server).callers, fault).await
    }
}

/// Nothing passes, either way. In the end what was withheld arrives late, or is lost with its connections.
async fn apart(proxy: &Proxy, fault: &Fault) -> Bite {
    let before = proxy.counters().withheld.load(Relaxed);
    proxy.change(|weather| weather.silent_below = u64::MAX);
    sleep(fault.lasts).await;
    let (arrives, next) = (fault.variant.is_multiple_of(2), proxy.next_connection());
    proxy.change(|weather| {
        weather.closed_below = if arrives { weather.closed_below } else { next };
        weather.silent_below = 0;
    });
    let end = if arrives {
        "arrived late"
    } else {
        "was lost with its connections"
    };
    Bite::new(
        proxy.counters().withheld.load(Relaxed) - before,
        format!("what was withheld {end}"),
    )
}
