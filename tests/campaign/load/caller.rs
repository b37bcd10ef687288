//! A conversation by somebody who leaves it to the Rust client to find a server, to repeat calls
//! and to resume streams. None of its calls may fail.

use super::{Load, RETRY_TIMEOUT, answered, work};
use crate::{
    history::{Answer, Done, Entry, Retried, now},
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
    /// It knows all servers.
    client: Client,
    rng: Rng,
    order: i64,
    /// The number of the last event received.
    cursor: i64,
    /// Its tasks declare resources.
    with_resources: bool,
}

impl Caller {
    pub(super) fn new(load: Arc<Load>, seed: u64) -> Caller {
        let (mut rng, mut addresses) = (Rng::new(seed), load.addresses.clone());
        let first = rng.place(addresses.len());
        addresses.rotate_left(first);
        let client = Client::connect_lazy(&addresses.join(","))
            .expect("addresses")
            .with_retry_timeout(RETRY_TIMEOUT);
        Caller {
            load,
            client,
            rng,
            order: 100,
            cursor: 0,
            with_resources: false,
        }
    }

    pub(super) fn with_resources(self) -> Caller {
        Caller {
            with_resources: true,
            ..self
        }
    }

    /// Ends at the first call that fails, which is in the history then.
    pub(super) async fn hold(mut self) -> Option<()> {
        let limit = Some(1 + self.rng.below(5) as i32);
        let settings = api::SchedulerSettings {
            max_parallelism: limit,
            on_failure: api::OnFailure::Continue.into(),
            ..Default::default()
        };
        let scheduler = self
            .record("GetScheduler", self.client.open(settings))
            .await
            .ok()?;
        let handle = scheduler.handle().to_owned();
        self.load.history.write(&Entry::Opened {
            handle: handle.clone(),
            limit,
            repaired: false,
        });
        for _ in 0..2 + self.rng.below(5) {
            self.submit(&scheduler).await?;
            if self.rng.percent(60) {
                self.listen(&scheduler).await?;
            }
            if self.load.one_version && self.rng.percent(30) {
                self.retry_failed(&scheduler).await?;
            }
        }
        let begun = now();
        let release = scheduler.release(api::ReleaseMode::Finish, true);
        let answer = self.record("ReleaseScheduler", release).await.map(drop);
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
            .map(|_| {
                let exact = self.load.one_version;
                let asked = work::asked(self.load.new_token(), order, exact, &mut self.rng);
                match self.with_resources {
                    true => work::with_resources(asked, &mut self.rng),
                    false => asked,
                }
            })
            .collect();
        let tasks = asked
            .iter()
            .map(|asked| work::task(asked, &mut self.rng))
            .collect();
        let begun = now();
        let answer = self
            .record("ExecAsync", scheduler.exec(tasks))
            .await
            .map(|ok| (ok.first_seq, ok.count));
        // The client does not show its request id: this one only names the call.
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

    async fn retry_failed(&mut self, scheduler: &Scheduler) -> Option<()> {
        let mut page_token = String::new();
        loop {
            let begun = now();
            let call = scheduler.retry_failed(None, page_token);
            let page = self.record("RetryFailed", call).await;
            self.load.history.write(&Entry::Retry {
                begun,
                ended: now(),
                handle: scheduler.handle().to_owned(),
                request: Uuid::now_v7().to_string(),
                seq: None,
                answer: page.clone().map(|page| Retried::of(&page)),
            });
            page_token = page.ok()?.next_page_token;
            if page_token.is_empty() {
                return Some(());
            }
        }
    }

    /// Reads events until all tasks have ended.
    async fn listen(&mut self, scheduler: &Scheduler) -> Option<()> {
        let stream = self.load.next_stream.fetch_add(1, Relaxed);
        let (handle, after) = (scheduler.handle().to_owned(), self.cursor);
        self.load.history.write(&Entry::Stream {
            id: stream,
            begun: now(),
            handle,
            after,
            all: true,
        });
        let reading = async {
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
        let answer = self.record("Synchronization", reading).await;
        let reason = answer.clone().map(|(_, reason)| reason as i32);
        self.load.history.write(&Entry::StreamEnd {
            stream,
            at: now(),
            answer: reason,
        });
        self.cursor = answer.ok()?.0;
        Some(())
    }

    /// Waits for the outcome of a call and writes it into the history.
    async fn record<T>(
        &self,
        call: &str,
        outcome: impl Future<Output = rallypoint_client::Result<T>>,
    ) -> Answer<T> {
        let begun = now();
        let answer = match timeout(2 * RETRY_TIMEOUT, outcome).await {
            Ok(Ok(value)) => Answer::Ok(value),
            Ok(Err(error)) => answered(error),
            Err(_) => Answer::Unknown("it does not come back".into()),
        };
        let (recorded, answer) = match answer {
            Answer::Ok(value) => (Answer::Ok(()), Answer::Ok(value)),
            Answer::Refused(why) => (Answer::Refused(why.clone()), Answer::Refused(why)),
            Answer::Unknown(why) => (Answer::Unknown(why.clone()), Answer::Unknown(why)),
        };
        self.load.history.write(&Entry::Caller {
            call: call.to_owned(),
            begun,
            ended: now(),
            answer: recorded,
        });
        answer
    }
}
