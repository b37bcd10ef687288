//! Somebody abuses HTTP/2 on a server. Others are served meanwhile: how fast is reported, and that
//! the memory of the server stays bounded is checked.

use super::{Bite, Faults};
use crate::{http2_abuse, plan::Fault};
use std::time::Duration;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

/// Sockets that say nothing: more than may be opening at a time.
const SILENT: usize = 1_500;
/// What the server may need for all of it.
const MAX_MIB: u64 = 400;
/// For how long others are timed before.
const CALM: Duration = Duration::from_secs(1);

impl Faults {
    /// Bites with each call of somebody else that was answered meanwhile.
    pub(super) async fn http2_abuse(&self, fault: &Fault) -> Bite {
        let number = fault.server % self.fixture.servers.len();
        let server = self.fixture.server(number);
        let (before, held) = (self.timed(number, CALM).await, server.memory_mib());
        // Not by the proxy, which others share.
        let abuse = http2_abuse::begin(&server.listen.to_string());
        let mut silent = Vec::new();
        for _ in 0..SILENT {
            silent.extend(TcpStream::connect(server.listen).await);
        }
        let meanwhile = self.timed(number, fault.lasts).await;
        let more = held.zip(server.memory_mib());
        let more = more.map_or(0, |(held, now)| now.saturating_sub(held));
        drop((abuse, silent));
        assert!(more < MAX_MIB, "abuse costs a server {more} MiB");
        let what = format!(
            "HTTP/2 was abused: p99 of others {:?}, before {:?}; {more} MiB more",
            p99(&meanwhile),
            p99(&before)
        );
        Bite::new(meanwhile.len() as u64, what)
    }

    /// How long each call of somebody else takes that is answered.
    async fn timed(&self, server: usize, lasts: Duration) -> Vec<Duration> {
        let (begun, mut took) = (Instant::now(), Vec::new());
        while begun.elapsed() < lasts {
            let call = Instant::now();
            let mut client = self.load.client(server);
            let listed = client.list_schedulers(rallypoint_client::api::ListSchedulersRequest {
                page_size: 1,
                ..Default::default()
            });
            if self.load.once(listed).await.ok().is_some() {
                took.push(call.elapsed());
            }
            sleep(Duration::from_millis(10)).await;
        }
        took
    }
}

fn p99(took: &[Duration]) -> Duration {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let at = sorted.len() * 99 / 100;
    sorted.get(at).copied().unwrap_or_default()
}
