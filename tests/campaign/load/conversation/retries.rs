//! Tasks that have failed are retried, one by one and all of them, also by two callers at a time.

use super::Conversation;
use crate::{
    history::{Answer, Entry, Retried, now},
    load::RETRY_TIMEOUT,
};
use rallypoint_client::api::{self, Outcome, scheduler_service_client::SchedulerServiceClient};
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::{Instant, sleep};
use tonic::{Response, Status, transport::Channel};
use uuid::Uuid;

impl Conversation {
    /// Retries a task, which may have ended or not, or all that failed.
    pub(super) async fn retry_some(&mut self) {
        if self.rng.percent(30) {
            return self.retry_failed().await;
        }
        let seq = 1 + self.rng.below(self.last.max(1) as u64) as i64;
        let (one, other) = (self.server, self.server + 1);
        match self.rng.below(3) {
            0 => _ = self.retry_task(seq, one).await,
            1 => _ = tokio::join!(self.retry_task(seq, one), self.retry_task(seq, other)),
            _ => {
                self.retry_task(seq, one).await;
                self.retry_task(seq, other).await;
            }
        }
    }

    /// Retries what failed, and perhaps what was cancelled.
    pub(super) async fn retry_failed(&mut self) {
        let mut outcomes = vec![Outcome::Failed, Outcome::TimedOut, Outcome::Exhausted];
        if self.rng.percent(50) {
            outcomes.push(Outcome::Cancelled);
        }
        let outcomes = outcomes.into_iter().map(i32::from).collect();
        let filter = api::TaskFilter {
            outcomes,
            ..Default::default()
        };
        let (one, other) = (self.server, self.server + 1);
        let last = match self.rng.below(3) {
            0 => {
                let both = tokio::join!(
                    self.retry_pages(&filter, one, false),
                    self.retry_pages(&filter, other, false)
                );
                both.0.max(both.1)
            }
            repeats => self.retry_pages(&filter, one, repeats == 1).await,
        };
        self.last = self.last.max(last);
    }

    /// Every page of a RetryFailed; returns the number of the last copy.
    async fn retry_pages(&self, filter: &api::TaskFilter, server: usize, repeats: bool) -> i64 {
        let (mut last, mut page_token) = (0, String::new());
        loop {
            let page = api::RetryFailedRequest {
                handle: self.handle.clone(),
                request_id: Uuid::now_v7().to_string(),
                filter: Some(filter.clone()),
                page_token,
            };
            let Some(answer) = self.retry_page(&page, server).await else {
                return last;
            };
            if repeats {
                self.retry_page(&page, server + 1).await;
            }
            let copies = answer.retried.len() as i64;
            last = last.max(answer.first_seq.map_or(0, |first| first + copies - 1));
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                return last;
            }
        }
    }

    async fn retry_page(
        &self,
        page: &api::RetryFailedRequest,
        server: usize,
    ) -> Option<api::RetryFailedResponse> {
        let call = |mut client: SchedulerServiceClient<Channel>| {
            let page = page.clone();
            async move { client.retry_failed(page).await }
        };
        self.until_known(server, &page.request_id, None, call, Retried::of)
            .await
    }

    async fn retry_task(&self, seq: i64, server: usize) {
        let request = api::RetryTaskRequest {
            id: Some(api::TaskId {
                handle: self.handle.clone(),
                seq,
            }),
            ..Default::default()
        };
        let call = |mut client: SchedulerServiceClient<Channel>| {
            let request = request.clone();
            async move { client.retry_task(request).await }
        };
        let retried = |answer: &api::RetryTaskResponse| {
            vec![Retried {
                seq,
                copy: answer.seq,
                already: answer.already_retried,
            }]
        };
        let name = Uuid::now_v7().to_string();
        self.until_known(server, &name, Some(seq), call, retried)
            .await;
    }

    /// Makes a call until its outcome is known, and writes each try into the history.
    async fn until_known<T, F>(
        &self,
        server: usize,
        request: &str,
        seq: Option<i64>,
        call: impl Fn(SchedulerServiceClient<Channel>) -> F,
        retried: impl Fn(&T) -> Vec<Retried>,
    ) -> Option<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let (since, mut server) = (Instant::now(), server);
        while since.elapsed() < RETRY_TIMEOUT {
            let begun = now();
            let answer = self.load.once(call(self.load.client(server))).await;
            self.load.history.write(&Entry::Retry {
                begun,
                ended: now(),
                handle: self.handle.clone(),
                request: request.to_owned(),
                seq,
                answer: match &answer {
                    Answer::Ok(answer) => Answer::Ok(retried(answer)),
                    Answer::Refused(why) => Answer::Refused(why.clone()),
                    Answer::Unknown(why) => Answer::Unknown(why.clone()),
                },
            });
            match answer {
                Answer::Ok(answer) => return Some(answer),
                Answer::Refused(_) => return None,
                Answer::Unknown(_) => {
                    server += 1;
                    sleep(super::RETRY_INTERVAL).await;
                }
            }
        }
        self.load.given_up.fetch_add(1, Relaxed);
        None
    }
}
