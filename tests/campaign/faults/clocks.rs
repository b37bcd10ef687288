//! The clock of a server is wrong.

use super::{Bite, Faults};
use crate::{clock::Clock, history::now, plan::Fault, server::Server};
use rallypoint_client::api::{
    ListSchedulersRequest, scheduler_service_client::SchedulerServiceClient,
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How far off it is, in seconds.
const JUMPS: [i64; 4] = [3_600, -3_600, 86_400, -86_400];
/// How long it stays as it is when it strobes.
const STROBE: Duration = Duration::from_millis(50);
/// Nobody's clock is so wrong unless it was set.
const WRONG: i64 = 1_800 * 1_000_000;

impl Faults {
    /// It jumps and stays there, mostly while the server goes on, now and then for one that begins so; then it jumps to and
    /// fro, and in the end it is right.
    pub(super) async fn clock_jumps(&self, fault: &Fault) -> Bite {
        let server = self.fixture.server(self.victim(fault).await);
        let Some(clock) = &server.clock else {
            return Bite::new(0, "no libfaketime here");
        };
        let (jump, restarts) = (
            JUMPS[(fault.variant / 4 % 4) as usize],
            (fault.variant / 16).is_multiple_of(3),
        );
        let before = server.log().len();
        clock.set(jump);
        if restarts {
            server.kill();
            server.release();
        }
        has_it_log(server, fault.lasts).await;
        strobe(server, clock, jump, fault.lasts).await;
        clock.set(0);
        let wrong = server.log()[before..]
            .lines()
            .filter(|line| is_wrong(line))
            .count();
        let start = if restarts {
            "started anew with a clock"
        } else {
            "went on with a clock"
        };
        Bite::new(
            wrong as u64,
            format!(
                "server {} {start} {jump} s off; lines of its log with that time",
                server.number
            ),
        )
        .hurting(restarts.then_some(server.number))
    }
}

async fn strobe(server: &Server, clock: &Clock, jump: i64, lasts: Duration) {
    let to_and_fro = async {
        for ahead in [0, jump, -jump].into_iter().cycle() {
            clock.set(ahead);
            sleep(STROBE).await;
        }
    };
    tokio::select! {
        () = to_and_fro => {}
        () = has_it_log(server, lasts) => {}
    }
}

/// Opens connections, each of which is worth a line.
async fn has_it_log(server: &Server, lasts: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < lasts {
        let call = async {
            let mut client = SchedulerServiceClient::connect(server.url()).await.ok()?;
            client
                .list_schedulers(ListSchedulersRequest {
                    page_size: 1,
                    ..Default::default()
                })
                .await
                .ok()
        };
        let _ = timeout(Duration::from_secs(1), call).await;
        sleep(STROBE).await;
    }
}

/// A line of a log from another time.
fn is_wrong(line: &str) -> bool {
    let fields: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    let time: Option<prost_types::Timestamp> = fields["timestamp"]
        .as_str()
        .and_then(|time| time.parse().ok());
    time.is_some_and(|time| (time.seconds * 1_000_000 - now()).abs() > WRONG)
}
