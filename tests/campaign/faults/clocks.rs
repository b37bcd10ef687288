//! The clock of a server jumps.

use super::{Bite, Faults};
use crate::{clock::Clock, history::now, plan::Fault, server::Server};
use rallypoint_client::api::{
    ListSchedulersRequest, scheduler_service_client::SchedulerServiceClient,
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How wrong it is, in seconds.
const JUMPS_S: [i64; 4] = [3_600, -3_600, 86_400, -86_400];
/// Time between two jumps to and fro.
const STROBE_INTERVAL: Duration = Duration::from_millis(50);
/// A clock that is wrong by more than this was set by the fault, in microseconds.
const WRONG_BY_US: i64 = 1_800 * 1_000_000;

impl Faults {
    /// It jumps and stays wrong for a while, for a running server or for one that starts; then it
    /// jumps to and fro, and is right in the end.
    pub(super) async fn clock_jumps(&self, fault: &Fault) -> Bite {
        let server = self.fixture.server(self.victim(fault).await);
        let Some(clock) = &server.clock else {
            return Bite::new(0, "no libfaketime here");
        };
        let (jump, restarts) = (
            JUMPS_S[(fault.variant / 4 % 4) as usize],
            (fault.variant / 16).is_multiple_of(3),
        );
        let before = server.log().len();
        clock.set(jump);
        if restarts {
            server.kill();
            server.release();
        }
        make_it_log(server, fault.lasts).await;
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
            sleep(STROBE_INTERVAL).await;
        }
    };
    tokio::select! {
        () = to_and_fro => {}
        () = make_it_log(server, lasts) => {}
    }
}

/// Opens connections, each of which logs a line.
async fn make_it_log(server: &Server, lasts: Duration) {
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
        sleep(STROBE_INTERVAL).await;
    }
}

/// Whether a line of a log has the time of a wrong clock.
fn is_wrong(line: &str) -> bool {
    let fields: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    let time: Option<prost_types::Timestamp> = fields["timestamp"]
        .as_str()
        .and_then(|time| time.parse().ok());
    time.is_some_and(|time| (time.seconds * 1_000_000 - now()).abs() > WRONG_BY_US)
}
