//! A conversation by somebody who uses the Rust client and leaves it to that to find a server, to repeat, and to listen on.

use super::{Load, PATIENCE, answered, work};
use crate::{
    history::{Answer, Done, Entry, now},
    rng::Rng,
};
use rallypoint_client::{
    self, Client, Scheduler,
    api::{self, end::Reason},
};
use std::sync::{Arc, atomic::Ordering::Relaxed};
use tokio::time::timeout;
use uuid::Uuid;

pub(super) struct Caller {
    load: Arc<Load>,
    /// Knows all servers.
    client: Client,
    rng: Rng,
    order: i64,
    /// The last event heard.
    heard: i64,
}

impl Caller {
    pub(super) fn new(load: Arc<Load>, seed: u64) -> Caller {
        let (mut rng, mut addresses) = (Rng::new(seed), load.addresses.clone());
        let first = rng.place(addresses.len());
        addresses.rotate_left(first);
        let client = Client::connect_lazy(&addresses.join(","))
            .expect("addresses")
            .with_retry_timeout(PATIENCE);
        Caller {
            load,
            client,
            rng,
            order: 100,
            heard: 0,
        }
    }

    /// Whatever fails has been written down: there is nothing to go on with.
    pub(super) async fn hold(mut self) -> Option<()> {
        let limit = Some(1 + self.rng.below(5) as i32);
        let settings = api::SchedulerSettings {
            max_parallelism: limit,
            on_failure: api::OnFailure::Continue.into(),
            ..Default::default()
        };
        let scheduler = self
            .said("GetScheduler", self.client.open(settings))
            .await
            .ok()?;
        let handle = scheduler.handle().to_owned();
        self.load.history.write(&Entry::Opened {
            handle: handle.clone(),
            limit,
        });
        for _ in 0..2 + self.rng.below(5) {
            self.submit(&scheduler).await?;
            if self.rng.percent(60) {
                self.listen(&scheduler).await?;
            }
        }
        let begun = now();
        let release = scheduler.release(api::ReleaseMode::Finish, true);
        let answer = self.said("ReleaseScheduler", release).await.map(drop);
        self.load.history.write(&Entry::Release {
            begun,
            ended: now(),
            handle,
            cancel: false,
            answer,
        });
        self.listen(&scheduler).await
    }

    async fn submit(&mut self, scheduler: &Scheduler) -> Option<()> {
        self.order += 100;
        let order = self.rng.percent(70).then_some(self.order);
        let several = 0..1 + self.rng.below(25);
        let asked: Vec<_> = several
            .map(|_| work::asked(self.load.new_token(), order, &mut self.rng))
            .collect();
        let tasks = asked
            .iter()
            .map(|asked| work::task(asked, &mut self.rng))
            .collect();
        let begun = now();
        let answer = self
            .said("ExecAsync", scheduler.exec(tasks))
            .await
            .map(|ok| (ok.first_seq, ok.count));
        // The client's own request id is its secret: this one only names the call.
        let (handle, request) = (scheduler.handle().to_owned(), Uuid::now_v7().to_string());
        self.load.history.write(&Entry::Submit {
            begun,
            ended: now(),
            handle,
            request,
            tasks: asked,
            answer: answer.clone(),
        });
        answer.ok().map(drop)
    }

    /// Until all have ended.
    async fn listen(&mut self, scheduler: &Scheduler) -> Option<()> {
        let stream = self.load.next_stream.fetch_add(1, Relaxed);
        let (handle, after) = (scheduler.handle().to_owned(), self.heard);
        self.load.history.write(&Entry::Stream {
            id: stream,
            begun: now(),
            handle,
            after,
            all: true,
        });
        let heard = async {
            let mut events = scheduler.synchronize(after, None).await?;
            while let Some(done) = events.next().await? {
                let done = done.iter().map(Done::from).collect();
                self.load.history.write(&Entry::Events {
                    stream,
                    at: now(),
                    done,
                });
            }
            Ok((
                events.cursor(),
                events.end().map_or(Reason::Unspecified, api::End::reason),
            ))
        };
        let answer = self.said("Synchronization", heard).await;
        let reason = answer.clone().map(|(_, reason)| reason as i32);
        self.load.history.write(&Entry::StreamEnd {
            stream,
            at: now(),
            answer: reason,
        });
        self.heard = answer.ok()?.0;
        Some(())
    }

    /// What a call came to, which is written down.
    async fn said<T>(
        &self,
        call: &str,
        said: impl Future<Output = rallypoint_client::Result<T>>,
    ) -> Answer<T> {
        let begun = now();
        let answer = match timeout(2 * PATIENCE, said).await {
            Ok(Ok(value)) => Answer::Ok(value),
            Ok(Err(error)) => answered(error),
            Err(_) => Answer::Unknown("it does not come back".into()),
        };
        let (came_to, answer) = match answer {
            Answer::Ok(value) => (Answer::Ok(()), Answer::Ok(value)),
            Answer::Refused(why) => (Answer::Refused(why.clone()), Answer::Refused(why)),
            Answer::Unknown(why) => (Answer::Unknown(why.clone()), Answer::Unknown(why)),
        };
        self.load.history.write(&Entry::Caller {
            call: call.to_owned(),
            begun,
            ended: now(),
            answer: came_to,
        });
        answer
    }
}
