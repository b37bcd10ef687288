//! A stream of AsyncDone, resumed at any server after the last event received.

use super::{Load, refused_or_unknown};
use crate::history::{Answer, Done, Entry, now};
use rallypoint_client::api::{self, end::Reason, until::Kind};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

/// How long a stream may be silent before it counts as broken.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Listener {
    pub load: Arc<Load>,
    pub handle: String,
    pub after: i64,
    pub until: Kind,
    /// The server to begin with.
    pub server: usize,
    /// How long to go on after breaks.
    pub limit: Duration,
}

impl Listener {
    /// Listens until the goal is met or the time is over.
    pub(super) async fn listen(mut self) -> Option<Reason> {
        let begun = Instant::now();
        let mut resume_token = String::new();
        while begun.elapsed() < self.limit {
            match self.one_stream(&mut resume_token).await {
                Answer::Ok(reason) => return Some(reason),
                Answer::Refused(reason) => {
                    self.load.count_failure(&reason);
                    eprintln!("a stream of {} is refused: {reason}", self.handle);
                    return None;
                }
                Answer::Unknown(why) => {
                    self.load.harm(&why);
                    self.server += 1;
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
        self.load.given_up.fetch_add(1, Relaxed);
        None
    }

    async fn one_stream(&mut self, resume_token: &mut String) -> Answer<Reason> {
        let stream = self.load.next_stream.fetch_add(1, Relaxed);
        let (handle, all) = (
            self.handle.clone(),
            self.until == Kind::All(()) && resume_token.is_empty(),
        );
        self.load.history.write(&Entry::Stream {
            id: stream,
            begun: now(),
            handle,
            after: self.after,
            all,
        });
        let answer = self.hear(stream, resume_token).await;
        self.load.history.write(&Entry::StreamEnd {
            stream,
            at: now(),
            answer: answer.clone().map(|reason| reason as i32),
        });
        answer
    }

    async fn hear(&mut self, stream: u64, resume_token: &mut String) -> Answer<Reason> {
        let request = api::SynchronizationRequest {
            handle: self.handle.clone(),
            after: self.after,
            until: Some(api::Until {
                kind: Some(self.until),
            }),
            resume_token: resume_token.clone(),
        };
        let mut messages = match timeout(
            SILENCE_TIMEOUT,
            self.load.client(self.server).synchronization(request),
        )
        .await
        {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return refused_or_unknown(status),
            Err(_) => return Answer::Unknown("no stream in time".into()),
        };
        loop {
            let message = match timeout(SILENCE_TIMEOUT, messages.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return Answer::Unknown("ended without a reason".into()),
                Ok(Err(status)) => return refused_or_unknown(status),
                Err(_) => return Answer::Unknown("silent".into()),
            };
            *resume_token = message.resume_token;
            if let Some(last) = message.done.last() {
                self.after = last.done_no;
                let done = message.done.iter().map(Done::from).collect();
                self.load.history.write(&Entry::Events {
                    stream,
                    at: now(),
                    done,
                });
            }
            if let Some(end) = message.end {
                return Answer::Ok(end.reason());
            }
        }
    }
}

impl From<&api::AsyncDone> for Done {
    fn from(done: &api::AsyncDone) -> Done {
        Done {
            done_no: done.done_no,
            seq: done.seq,
            order: done.effective_order,
            outcome: done.outcome,
            attempt: done.attempt,
            started: done.started_us,
            ended: done.ended_us,
            error: done
                .error
                .as_ref()
                .map(|error| error.code.clone())
                .unwrap_or_default(),
            retry_of: done.retry_of,
        }
    }
}
