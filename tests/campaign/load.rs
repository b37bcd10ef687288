//! The callers: several conversations at a time, each by its own rules, with all calls written into
//! the history.
//!
//! A call of unknown outcome is repeated under its request id, at any server, up to
//! [`RETRY_TIMEOUT`].

mod caller;
mod claim;
mod claimants;
mod client_claim;
mod conversation;
pub(crate) mod jobs;
mod listener;
pub(crate) mod newer_setting;
pub(crate) mod resources;
mod work;

use crate::history::{Answer, Entry, History};
use caller::Caller;
use conversation::Conversation;
use rallypoint_client::{
    self,
    api::{
        self, resource_service_client::ResourceServiceClient,
        scheduler_service_client::SchedulerServiceClient,
    },
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};
use tonic::{
    Code, Response, Status,
    transport::{Channel, Endpoint},
};

/// Conversations at any time.
pub(crate) const CONVERSATIONS: u64 = 8;
/// One in this many conversations goes through the Rust client.
const CLIENT_EVERY: u64 = 4;
/// How long a call may take before its caller gives up waiting for the answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call of unknown outcome is repeated.
const RETRY_TIMEOUT: Duration = Duration::from_secs(120);

/// Longer than leases of claims and a delay.
const QUIET_TIME: Duration = Duration::from_secs(14);

/// What all callers share.
pub(crate) struct Load {
    pub channels: Vec<Channel>,
    addresses: Vec<String>,
    pub history: Arc<History>,
    /// No new conversations.
    stopping: AtomicBool,
    /// Calls of unknown outcome, and broken streams.
    harmed: AtomicU64,
    /// Why calls and streams failed, and how often for this reason.
    failures: Mutex<BTreeMap<String, u64>>,
    answered: AtomicU64,
    /// Calls that were repeated in vain.
    pub given_up: AtomicU64,
    next_stream: AtomicU64,
    next_token: AtomicI64,
    next_claim: AtomicU64,
    /// All servers run this version: some tasks run exactly once, some are retried.
    one_version: bool,
}

impl Load {
    pub(crate) fn new(urls: impl Iterator<Item = String>, history: Arc<History>) -> Load {
        let addresses: Vec<String> = urls.collect();
        let channels = addresses.iter().cloned().map(|url| {
            let endpoint = Endpoint::from_shared(url)
                .expect("a URL")
                .connect_timeout(Duration::from_secs(2));
            let endpoint = endpoint
                .http2_keep_alive_interval(Duration::from_secs(1))
                .keep_alive_timeout(Duration::from_secs(2));
            endpoint.keep_alive_while_idle(true).connect_lazy()
        });
        Load {
            channels: channels.collect(),
            addresses,
            history,
            stopping: AtomicBool::new(false),
            harmed: AtomicU64::new(0),
            failures: Mutex::default(),
            answered: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            next_stream: AtomicU64::new(1),
            next_token: AtomicI64::new(1),
            next_claim: AtomicU64::new(1),
            one_version: false,
        }
    }

    pub(crate) fn of_one_version(self) -> Load {
        Load {
            one_version: true,
            ..self
        }
    }

    /// Holds one conversation after the other, until [`Load::stop`].
    pub(crate) async fn hold_conversations(self: Arc<Self>, seed: u64) {
        let mut number = 0;
        while !self.is_stopping() {
            number += 1;
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(number);
            match number % CLIENT_EVERY {
                0 => _ = Caller::new(self.clone(), seed).hold().await,
                _ => Conversation::new(self.clone(), seed).hold().await,
            }
        }
    }

    /// Nothing goes wrong for a while, so that leases end which nobody renews.
    pub(crate) async fn go_on_quietly(&self) {
        if self.one_version {
            sleep(QUIET_TIME).await;
        }
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    pub(crate) fn harmed(&self) -> u64 {
        self.harmed.load(Relaxed)
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    pub(crate) fn new_token(&self) -> i64 {
        self.next_token.fetch_add(1, Relaxed)
    }

    pub(crate) fn client(&self, server: usize) -> SchedulerServiceClient<Channel> {
        SchedulerServiceClient::new(self.channels[server % self.channels.len()].clone())
            .max_decoding_message_size(16 << 20)
    }

    fn resources(&self, server: usize) -> ResourceServiceClient<Channel> {
        ResourceServiceClient::new(self.channels[server % self.channels.len()].clone())
    }

    /// One try of a call.
    pub(crate) async fn once<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Answer<T> {
        let answer = match timeout(CALL_TIMEOUT, call).await {
            Ok(Ok(response)) => Answer::Ok(response.into_inner()),
            Ok(Err(status)) => refused_or_unknown(status),
            Err(_) => Answer::Unknown("no answer in time".into()),
        };
        match &answer {
            Answer::Unknown(why) => self.harm(why),
            Answer::Refused(why) => self.count_failure(why),
            Answer::Ok(_) => {}
        }
        if !matches!(answer, Answer::Unknown(_)) {
            self.answered.fetch_add(1, Relaxed);
        }
        answer
    }

    fn harm(&self, why: &str) {
        self.harmed.fetch_add(1, Relaxed);
        self.count_failure(why);
    }

    fn count_failure(&self, why: &str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures.entry(why.to_owned()).or_default() += 1;
    }

    /// Why calls and streams failed, and how often for this reason.
    pub(crate) fn failures(&self) -> BTreeMap<String, u64> {
        let failures = self.failures.lock();
        failures.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls every server until it answers: all of them must serve, before the first fault and
    /// after the last.
    pub(crate) async fn call_every_server(&self) {
        for server in 0..self.channels.len() {
            let begun = Instant::now();
            let answer = loop {
                let request = api::ListSchedulersRequest {
                    page_size: 1,
                    ..Default::default()
                };
                let answer = self
                    .once(self.client(server).list_schedulers(request))
                    .await
                    .map(|_| ());
                if matches!(answer, Answer::Ok(())) || begun.elapsed() > Duration::from_secs(30) {
                    break answer;
                }
                sleep(Duration::from_millis(200)).await;
            };
            self.history.write(&Entry::FinalCall { server, answer });
        }
    }
}

impl<T> Answer<T> {
    pub(crate) fn ok(self) -> Option<T> {
        if let Answer::Ok(value) = self {
            Some(value)
        } else {
            None
        }
    }

    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Answer::Ok(value) => Answer::Ok(change(value)),
            Answer::Refused(reason) => Answer::Refused(reason),
            Answer::Unknown(reason) => Answer::Unknown(reason),
        }
    }
}

/// An error is definite only if it carries a reason of the service's own.
pub(crate) fn refused_or_unknown<T>(status: Status) -> Answer<T> {
    answered(rallypoint_client::Error::from(status))
}

fn answered<T>(error: rallypoint_client::Error) -> Answer<T> {
    let away = matches!(error.code, Code::Unavailable | Code::DeadlineExceeded);
    match (&error.reason, away) {
        (Some(reason), false) => Answer::Refused(reason.clone()),
        (reason, _) => Answer::Unknown(format!(
            "{:?} {} {}",
            error.code,
            reason.as_deref().unwrap_or_default(),
            error.message
        )),
    }
}
