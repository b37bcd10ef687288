//! Callers that hang up during a call, or open streams and do not read them.

use super::{Bite, Faults};
use crate::{
    history::{Entry, now},
    plan::Fault,
};
use rallypoint_client::api::{self, until::Kind};
use std::time::Duration;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use uuid::Uuid;

const HASTY_CALLERS: u64 = 16;
const SLOW_READERS: usize = 24;
/// Events that a stream does not hold: its window is 64 KiB.
const MORE_THAN_A_WINDOW: i32 = 5_000;

impl Faults {
    /// Callers hang up 0 to 20 ms after they have called. Their tasks may run once, or not at all.
    pub(super) async fn callers_vanish(&self, fault: &Fault) -> Bite {
        let Some(handle) = self.open_stray().await else {
            return Bite::new(0, "no scheduler");
        };
        let mut callers = JoinSet::new();
        for number in 0..HASTY_CALLERS {
            callers.spawn(self.clone().vanish(
                handle.clone(),
                fault.variant.wrapping_add(number),
                fault.lasts,
            ));
        }
        let gone: u64 = callers.join_all().await.into_iter().sum();
        self.release_stray(&handle).await;
        Bite::new(gone, "calls were hung up on")
    }

    async fn vanish(self, handle: String, seed: u64, lasts: Duration) -> u64 {
        let (mut rng, begun, mut gone) = (crate::rng::Rng::new(seed), Instant::now(), 0);
        while begun.elapsed() < lasts {
            let token = self.load.new_token();
            self.fixture.history.write(&Entry::Stray {
                handle: handle.clone(),
                token,
            });
            let statement = format!("insert into witness (token, start) values ({token}, true)");
            let sql = api::task::Kind::Sql(api::SqlTask {
                statement,
                ..Default::default()
            });
            let options = api::TaskOptions {
                delivery: api::Delivery::AtMostOnce.into(),
                ..Default::default()
            };
            let tasks = vec![api::Task {
                kind: Some(sql),
                options: Some(options),
                ..Default::default()
            }];
            let call = api::ExecAsyncRequest {
                handle: handle.clone(),
                request_id: Uuid::now_v7().to_string(),
                tasks,
            };
            let mut client = self.load.client(rng.place(60));
            let hangs_up_after = Duration::from_micros(rng.below(20_000));
            gone += u64::from(
                timeout(hangs_up_after, client.exec_async(call))
                    .await
                    .is_err(),
            );
        }
        gone
    }

    /// Readers open streams over all events and do not read them while the fault lasts.
    pub(super) async fn slow_readers(&self, fault: &Fault) -> Bite {
        let Some(handle) = self.open_stray().await else {
            return Bite::new(0, "no scheduler");
        };
        let mut streams = Vec::new();
        for reader in 0..SLOW_READERS {
            let request = api::SynchronizationRequest {
                handle: handle.clone(),
                until: Some(api::Until {
                    kind: Some(Kind::Forever(())),
                }),
                ..Default::default()
            };
            if let Ok(Ok(stream)) = timeout(
                Duration::from_secs(5),
                self.load.client(reader).synchronization(request),
            )
            .await
            {
                streams.push(stream.into_inner());
            }
        }
        let (begun, mut events) = (Instant::now(), 0);
        while begun.elapsed() < fault.lasts || events < MORE_THAN_A_WINDOW {
            if begun.elapsed() > 5 * fault.lasts {
                break;
            }
            let noop = api::Task {
                kind: Some(api::task::Kind::Noop(api::NoopTask::default())),
                ..Default::default()
            };
            let tasks = vec![noop; 200];
            let call = api::ExecAsyncRequest {
                handle: handle.clone(),
                request_id: Uuid::now_v7().to_string(),
                tasks,
            };
            let answer = self.load.once(self.load.client(0).exec_async(call)).await;
            events += answer.ok().map_or(0, |accepted| accepted.count);
            sleep(Duration::from_millis(20)).await;
        }
        // The server has stood waiting for readers who have more to hear than they take.
        let open = if events < MORE_THAN_A_WINDOW {
            0
        } else {
            streams.len()
        };
        drop(streams);
        self.release_stray(&handle).await;
        let what = format!("streams were not read, with {events} events on each");
        Bite::new(open as u64, what)
    }

    async fn open_stray(&self) -> Option<String> {
        let request = api::GetSchedulerRequest {
            request_id: Uuid::now_v7().to_string(),
            ..Default::default()
        };
        for server in 0..50 {
            let call = timeout(Duration::from_secs(5), async {
                self.load
                    .client(server)
                    .get_scheduler(request.clone())
                    .await
            });
            if let Ok(Ok(response)) = call.await {
                let handle = response.into_inner().scheduler?.handle;
                self.fixture.history.write(&Entry::Stray {
                    handle: handle.clone(),
                    token: 0,
                });
                return Some(handle);
            }
            sleep(Duration::from_millis(200)).await;
        }
        None
    }

    async fn release_stray(&self, handle: &str) {
        for server in 0..200 {
            let mode = api::ReleaseMode::Finish.into();
            let call = api::ReleaseSchedulerRequest {
                handle: handle.to_owned(),
                mode,
                wait: false,
            };
            let (begun, answer) = (
                now(),
                self.load
                    .once(self.load.client(server).release_scheduler(call))
                    .await,
            );
            if let crate::history::Answer::Ok(_) = answer {
                let answer = answer.map(|_| ());
                let handle = handle.to_owned();
                self.fixture.history.write(&Entry::Release {
                    begun,
                    ended: now(),
                    handle,
                    cancel: false,
                    answer,
                });
                return;
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}
