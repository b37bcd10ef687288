//! One connection goes silent for good, while new ones work: what it is for decides who has to
//! notice, and how soon.

use super::{Bite, Faults};
use crate::{
    plan::Fault,
    proxy::{Proxy, Purpose},
    server::Server,
};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::sleep};

/// How long to wait until a connection goes silent.
const BITE_TIMEOUT: Duration = Duration::from_secs(8);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Connections of callers that go silent at once, and new ones that say nothing or little.
const CALLERS: u32 = 3;
const SILENT_CALLERS: u32 = 4;
/// What a client says first begins with this.
const HALF_A_PREFACE: &[u8] = b"PRI * HT";
/// Messages in which a connection is opened and prepared, about.
const OPENING_MESSAGES: u64 = 12;

impl Faults {
    /// A connection that is in use all the time.
    pub(super) async fn half_open_of(&self, fault: &Fault, purpose: Purpose) -> Bite {
        let mut servers: Vec<&Server> = self.fixture.servers.iter().collect();
        if purpose == Purpose::Heartbeat {
            servers = vec![self.fixture.server(self.victim(fault).await)];
        }
        let silent = self.silence(&servers, purpose, 0).await;
        sleep(fault.lasts).await;
        // Of a task's session its server gives up the task as well, and of a peer's the owner.
        let hurt = match purpose {
            Purpose::Target => silent.clone(),
            Purpose::Peer => servers.iter().map(|server| server.number).collect(),
            _ => Vec::new(),
        };
        bite(purpose, &silent).hurting(hurt)
    }

    /// A connection that a new owner opens: the present one is killed. Any message may be the first
    /// that is lost.
    pub(super) async fn half_open_takeover(&self, fault: &Fault, purpose: Purpose) -> Bite {
        let killed = self.fixture.owner().await.unwrap_or(fault.server);
        let killed = self.fixture.server(killed);
        let others = self.fixture.servers.iter();
        // What is about to start would meet it in its preparations.
        let others = others.filter(|server| server.number != killed.number);
        let others: Vec<&Server> = others.collect();
        killed.kill();
        let silent = self
            .silence(&others, purpose, fault.variant % OPENING_MESSAGES)
            .await;
        killed.release();
        sleep(fault.lasts).await;
        bite(purpose, &silent).hurting([killed.number])
    }

    /// Callers vanish, and others connect and say nothing, or half of what they have to.
    pub(super) async fn half_open_callers(&self, fault: &Fault) -> Bite {
        let server = self.fixture.server(fault.server);
        let half_opens = server.callers.half_opens();
        let before = half_opens.silenced().len();
        half_opens.arm(Purpose::Caller, CALLERS + SILENT_CALLERS, 0);
        let mut openings = Vec::new();
        for number in 0..SILENT_CALLERS {
            let said = if number % 2 == 0 {
                HALF_A_PREFACE
            } else {
                &HALF_A_PREFACE[..1]
            };
            openings.extend(say(server.callers.address, said).await);
        }
        let begun = Instant::now();
        let silent = || half_opens.silenced().len() - before;
        while silent() < (CALLERS + SILENT_CALLERS) as usize && begun.elapsed() < fault.lasts {
            sleep(POLL_INTERVAL).await;
        }
        half_opens.disarm(Purpose::Caller);
        let what = format!("callers of server {} went silent", server.number);
        Bite::new(silent() as u64, what)
    }

    /// Lets one connection of any of these servers go silent; returns whose it was.
    async fn silence(&self, servers: &[&Server], purpose: Purpose, after: u64) -> Vec<usize> {
        let proxies: Vec<(usize, &Proxy)> = servers
            .iter()
            .filter_map(|server| Some((server.number, proxy_of(server, purpose)?)))
            .collect();
        let count = |proxy: &Proxy| proxy.half_opens().silenced().len();
        let before: Vec<usize> = proxies.iter().map(|(_, proxy)| count(proxy)).collect();
        let silent = || {
            let with_count = proxies.iter().zip(&before);
            let silent = with_count.filter(|((_, proxy), before)| count(proxy) > **before);
            silent.map(|((number, _), _)| *number).collect::<Vec<_>>()
        };
        for (_, proxy) in &proxies {
            proxy.half_opens().arm(purpose, 1, after);
        }
        let begun = Instant::now();
        while silent().is_empty() && begun.elapsed() < BITE_TIMEOUT {
            sleep(POLL_INTERVAL).await;
        }
        for (_, proxy) in &proxies {
            proxy.half_opens().disarm(purpose);
        }
        silent()
    }
}

fn bite(purpose: Purpose, silent: &[usize]) -> Bite {
    let what = format!("a connection ({purpose:?}) of {silent:?} went silent");
    Bite::new(silent.len() as u64, what)
}

/// The proxy through which a server, or somebody else for it, opens such connections.
fn proxy_of(server: &Server, purpose: Purpose) -> Option<&Proxy> {
    match purpose {
        Purpose::Target => Some(&server.target),
        Purpose::Peer => server.peers.as_ref(),
        Purpose::Caller | Purpose::Opening => Some(&server.callers),
        _ => Some(&server.journal),
    }
}

/// Connects and begins to speak.
async fn say(address: SocketAddr, said: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(said).await.ok()?;
    Some(stream)
}
