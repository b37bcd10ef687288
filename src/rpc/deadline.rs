//! The deadlines that callers set. A call that is not answered by then is dropped and answered with
//! DEADLINE_EXCEEDED.

use super::errors;
use futures_util::future::{BoxFuture, Either, FutureExt};
use std::{
    convert::Infallible,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use tonic::{
    body::Body,
    codegen::http::{HeaderMap, Request, Response},
};
use tower::Service;

pub(super) const TIMEOUT: &str = "grpc-timeout";
/// The most digits that the protocol allows.
const MAX_DIGITS: usize = 8;

/// Answers calls whose deadline has passed.
#[derive(Clone)]
pub(super) struct Deadlines<S>(pub S);

type Answer = Result<Response<Body>, Infallible>;

impl<S> Service<Request<Body>> for Deadlines<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Answer>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let deadline = deadline(request.headers());
        let answer = self.0.call(request);
        match deadline {
            Some(deadline) => Either::Right(within(deadline, answer).boxed()),
            None => Either::Left(answer),
        }
    }
}

async fn within(deadline: Instant, answer: impl Future<Output = Answer>) -> Answer {
    let answered = timeout_at(deadline, answer).await;
    answered.unwrap_or_else(|_| Ok(errors::deadline_exceeded().into_http()))
}

/// When the caller wants the answer by; `None`: whenever it comes.
pub(super) fn deadline(headers: &HeaderMap) -> Option<Instant> {
    Instant::now().checked_add(timeout(headers)?)
}

/// The time that the caller leaves for the call; `None` also for what the protocol does not allow.
pub(super) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=MAX_DIGITS).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_digit());
    let amount: u64 = digits.parse().ok().filter(|_| is_number)?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::service_fn;

    fn parsed(text: &'static str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(TIMEOUT, text.parse().expect("a value"));
        timeout(&headers)
    }

    #[test]
    fn a_timeout_is_up_to_eight_digits_and_a_unit() {
        assert_eq!(parsed("10m"), Some(Duration::from_millis(10)));
        assert_eq!(parsed("0n"), Some(Duration::ZERO));
        assert_eq!(
            parsed("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
        for wrong in ["", "m", "1", "1x", "+1S", "123456789S", "1 S"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_call_that_is_late_is_told_so_and_dropped() {
        let mut service = Deadlines(service_fn(|_| std::future::pending::<Answer>()));
        let mut request = Request::new(Body::empty());
        request
            .headers_mut()
            .insert(TIMEOUT, "1m".parse().expect("a value"));
        let Ok(answer) = service.call(request).await;
        assert_eq!(answer.headers()["grpc-status"], "4");
    }
}
