//! Somebody abuses HTTP/2 on a server. Others are served meanwhile: how fast is reported, and that
//! the memory of the server stays bounded is checked.

use super::{Bite, Faults};
use crate::{
    http2_abuse::{Abuse, Abusers},
    plan::Fault,
};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What the server may need for all of it: the room for messages that are being sent (192 MiB), the
/// windows of some connections (1 MiB each) with a thousand calls on each, answers that nobody
/// fetches (four connections with a thousand lists of schedulers each), and sockets that are
/// opening. The rest is for what it does for others meanwhile.
const MAX_MIB: u64 = 800;
/// For how long others are timed before.
const CALM: Duration = Duration::from_secs(2);
/// Between two calls of them.
const PAUSE: Duration = Duration::from_millis(5);
/// For how long the abuse may go on until all of it is there: on a busy machine it is less.
const MAX_LENGTH: Duration = Duration::from_secs(10);

/// What others meet, and what the server needs.
#[derive(Default)]
struct Seen {
    /// How long each call of somebody else took that was answered.
    took: Vec<Duration>,
    /// The most memory that the server had.
    most_mib: u64,
}

impl Faults {
    /// Bites with each call of somebody else that was answered meanwhile.
    pub(super) async fn http2_abuse(&self, fault: &Fault) -> Bite {
        let number = fault.server % self.fixture.servers.len();
        let server = self.fixture.server(number);
        let before = self.seen(number, |since| since < CALM).await;
        let (held, peak) = (server.memory_mib(), server.peak_mib());
        // Not by the proxy, which others share.
        let abusers = Abusers::begin(server.listen, &Abuse::ALL);
        let goes_on = |since: Duration| {
            let (opened, wanted) = abusers.silent();
            since < fault.lasts || (opened < wanted && since < MAX_LENGTH)
        };
        let meanwhile = self.seen(number, goes_on).await;
        let (opened, _) = abusers.silent();
        drop(abusers);
        // What a server has had at the most is known exactly where it had less before.
        let peaks = server.peak_mib().zip(peak).filter(|(now, then)| now > then);
        let most = peaks.map_or(meanwhile.most_mib, |(now, _)| now);
        // A server that has been started again has less than before.
        let more = held.map_or(0, |held| most.saturating_sub(held));
        assert!(more < MAX_MIB, "abuse costs a server {more} MiB");
        let (with, without) = (p99(&meanwhile.took), p99(&before.took));
        let what = format!(
            "HTTP/2 was abused, with {opened} silent sockets: p99 of others {with:?} of {} calls, \
             without {without:?} of {}: {:.1} times; memory {most} MiB at the most, {held:?} before",
            meanwhile.took.len(),
            before.took.len(),
            with.as_secs_f64() / without.as_secs_f64().max(1e-6),
        );
        // An owner that has no time hears nothing of executors, whose tasks go to others.
        Bite::new(meanwhile.took.len() as u64, what).hurting(0..self.fixture.servers.len())
    }

    /// Has somebody else call for as long as `goes_on` says, by the time that it has.
    async fn seen(&self, number: usize, goes_on: impl Fn(Duration) -> bool) -> Seen {
        let (begun, mut seen) = (Instant::now(), Seen::default());
        while goes_on(begun.elapsed()) {
            let call = Instant::now();
            let mut client = self.load.client(number);
            let listed = client.list_schedulers(rallypoint_client::api::ListSchedulersRequest {
                page_size: 1,
                ..Default::default()
            });
            if self.load.once(listed).await.ok().is_some() {
                seen.took.push(call.elapsed());
            }
            let now = self.fixture.server(number).memory_mib();
            seen.most_mib = seen.most_mib.max(now.unwrap_or_default());
            sleep(PAUSE).await;
        }
        seen
    }
}

fn p99(took: &[Duration]) -> Duration {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let at = sorted.len() * 99 / 100;
    sorted.get(at).copied().unwrap_or_default()
}
