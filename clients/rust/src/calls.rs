//! How calls are made: again while their outcome is unknown, within their time limit.

use crate::{
    Client,
    backoff::Backoff,
    codec::SharedCodec,
    error::{Error, Result},
    servers::Pick,
    token::Token,
};
use prost::Message;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tonic::{Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery};

/// No answer of the service is larger.
const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// After these calls what they are about is not found any more.
const DELETIONS: [&str; 3] = [
    "/rallypoint.v1.JobService/CancelRun",
    "/rallypoint.v1.JobService/DeleteJob",
    "/rallypoint.v1.ResourceService/DeleteResource",
];

impl Client {
    /// The error of a failed call. When another server may answer, the next one is asked at once,
    /// and so is this one when another token is there meanwhile.
    pub(crate) fn failed(&self, pick: Pick, status: Status) -> Error {
        let mut error = Error::from(status);
        let is_refused = error.code == Code::Unauthenticated;
        if is_refused && self.token.as_ref().is_some_and(Token::was_renewed) {
            error.retry_after = Some(Duration::ZERO);
        }
        if error.is_of_the_server() && self.servers.switch_from(pick) {
            error.retry_after = Some(Duration::ZERO);
        }
        error
    }

    /// For how long a call is repeated, so that it still ends with the error that it met.
    pub(crate) fn retry_timeout(&self) -> Duration {
        self.retry_timeout
            .min(self.time_limit.unwrap_or(Duration::MAX))
    }

    pub(crate) async fn call<T, R>(&self, path: String, request: T) -> Result<R>
    where
        T: Message + 'static,
        R: Message + Default + 'static,
    {
        let deletes = DELETIONS.contains(&path.as_str());
        let path = method_at(path)?;
        let request = Arc::new(request);
        self.repeated(deletes, || self.attempt(path.clone(), request.clone()))
            .await
    }

    /// Calls until the outcome is known. `deletes`: what the call is about is not found any more
    /// once it has had its effect.
    pub(crate) async fn repeated<R, F>(&self, deletes: bool, attempt: impl Fn() -> F) -> Result<R>
    where
        F: Future<Output = Result<R>>,
    {
        let (mut met, mut is_under_way) = (None, false);
        let answered = async {
            let mut backoff = Backoff::new(self.retry_timeout());
            let mut unknown = false;
            loop {
                let begun = Instant::now();
                is_under_way = true;
                let attempt = attempt().await;
                is_under_way = false;
                self.outage.met(&attempt);
                let failed = match attempt {
                    Ok(response) => return Ok(response),
                    Err(error) => error,
                };
                // An answer that is final is not asked for again, whatever became of the call.
                let is_final = !failed.is_retryable();
                let failed = failed.after(unknown, deletes);
                if is_final {
                    return Err(failed);
                }
                unknown = failed.is_unknown();
                met = Some(failed.clone());
                if begun.elapsed() > self.servers.longest_silence() {
                    // A server was there all the while: this is a new failure.
                    backoff = Backoff::new(self.retry_timeout());
                }
                backoff.wait(failed).await?;
            }
        };
        let in_time = self.in_time(async { Ok(answered.await) }).await;
        // What an attempt met says more than that there was no answer in time.
        in_time.unwrap_or_else(|late| match met {
            Some(met) if is_under_way => Err(met.of_unknown_effect()),
            met => Err(met.unwrap_or(late)),
        })
    }

    /// What is called, unless the time limit passes: then its outcome is unknown.
    pub(crate) async fn in_time<T>(&self, called: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(limit) = self.time_limit else {
            return called.await;
        };
        let late = |_| Status::deadline_exceeded(format!("no answer within {limit:?}"));
        tokio::time::timeout(limit, called).await.map_err(late)?
    }

    pub(crate) async fn attempt<T, R>(&self, path: PathAndQuery, request: Arc<T>) -> Result<R>
    where
        T: Message + 'static,
        R: Message + Default + 'static,
    {
        let (pick, channel) = self.servers.pick();
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        let called = async {
            grpc.ready()
                .await
                .map_err(|error| Status::from_error(Box::new(error)))?;
            grpc.unary(self.request(request), path, SharedCodec::<T, R>::new())
                .await
        };
        Ok(called
            .await
            .map_err(|status| self.failed(pick, status))?
            .into_inner())
    }

    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        for (key, value) in [
            ("rallypoint-caller", &self.caller),
            ("rallypoint-namespace", &self.namespace),
        ] {
            if let Some(value) = value {
                request.metadata_mut().insert(key, value.clone());
            }
        }
        if let Some(token) = &self.token {
            let metadata = request.metadata_mut();
            metadata.insert("authorization", token.metadata());
        }
        request
    }
}

/// The method that is called.
pub(crate) fn method_at(path: String) -> Result<PathAndQuery> {
    PathAndQuery::try_from(path).map_err(|error| Status::internal(error.to_string()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashMap, sync::Mutex};
    use tonic_types::{ErrorDetails, StatusExt};

    /// What a call of this method fails with whose first answer was lost, and whose second one says
    /// that what it is about is not there.
    async fn missing_after_a_loss(method: &str) -> Error {
        let details = ErrorDetails::with_error_info("X_NOT_FOUND", "rallypoint", HashMap::new());
        let missing = Status::with_error_details(Code::NotFound, "no x", details);
        let answers = Mutex::new(vec![missing, Status::unavailable("lost")]);
        let attempt = || {
            let next = answers.lock().expect("no panic").pop();
            async move { Err::<(), Error>(next.expect("two attempts").into()) }
        };
        let client = Client::connect_lazy("127.0.0.1:1").expect("an address");
        let deletes = DELETIONS.contains(&method);
        let failed = client.repeated(deletes, attempt).await;
        failed.expect_err("it is not there")
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_limit_that_passes_in_a_later_attempt_tells_what_the_first_one_met() {
        let client = Client::connect_lazy("127.0.0.1:1").expect("an address");
        let client = client.with_time_limit(Some(Duration::from_secs(8)));
        let answers = Mutex::new(vec![Status::unavailable("nobody is there")]);
        let attempt = || {
            let next = answers.lock().expect("no panic").pop();
            async move {
                match next {
                    Some(status) => Err::<(), Error>(status.into()),
                    None => std::future::pending().await,
                }
            }
        };
        let failed = client.repeated(false, attempt).await;
        let failed = failed.expect_err("nobody answered");
        assert_eq!(failed.message, "nobody is there");
        assert!(failed.is_unknown(), "the later attempt was under way");
        let failed = client.repeated(false, attempt).await;
        let failed = failed.expect_err("nobody answered");
        assert_eq!(failed.code, Code::DeadlineExceeded);
    }

    #[tokio::test]
    async fn what_is_gone_may_have_been_deleted_by_an_earlier_attempt() {
        let deleted = missing_after_a_loss("/rallypoint.v1.ResourceService/DeleteResource").await;
        assert!(deleted.is("X_NOT_FOUND") && deleted.is_unknown());
        assert!(deleted.to_string().contains("may have removed it"));
        let released = missing_after_a_loss("/rallypoint.v1.ResourceService/Release").await;
        assert!(released.is("X_NOT_FOUND") && !released.is_unknown());
    }
}
