//! Counts what callers meet: calls that are answered with an error, and streams that are open. A
//! call that is answered costs a look at its headers.

use crate::{identity::STREAMS, metrics::Metrics};
use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, FutureExt};
use http_body::{Frame, SizeHint};
use prometheus_client::metrics::gauge::Gauge;
use rallypoint_client::api::ErrorReason;
use std::{
    convert::Infallible,
    pin::Pin,
    sync::atomic::AtomicU64,
    task::{Context, Poll},
};
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, Response},
};
use tonic_types::StatusExt;
use tower::Service;

const CODE: &str = "grpc-status";
/// The label of an error without a reason of ours.
const OTHER: &str = "OTHER";

/// Counts an answer that is an error.
pub(super) fn count(metrics: &Metrics, response: Response<Body>) -> Response<Body> {
    if response.headers().contains_key(CODE)
        && let Some(status) = Status::from_header_map(response.headers())
        && status.code() != tonic::Code::Ok
    {
        note(metrics, &status);
    }
    response
}

/// Counts an error that is an answer.
pub(super) fn note(metrics: &Metrics, status: &Status) {
    metrics.calls.failed.of([reason(status)]).inc();
}

/// Its reason, if it is one of the API: another replica may know others, and a label has few
/// values.
fn reason(status: &Status) -> &'static str {
    let info = status.get_details_error_info();
    let known = info.and_then(|info| {
        let name = format!("ERROR_REASON_{}", info.reason);
        ErrorReason::from_str_name(&name).or_else(|| ErrorReason::from_str_name(&info.reason))
    });
    known.map_or(OTHER, |known| {
        let name = known.as_str_name();
        name.strip_prefix("ERROR_REASON_").unwrap_or(name)
    })
}

/// Counts the streams that are open.
#[derive(Clone)]
pub(super) struct Observed<S> {
    inner: S,
    metrics: Metrics,
}

impl<S> Observed<S> {
    pub(super) fn new(inner: S, metrics: Metrics) -> Self {
        Observed { inner, metrics }
    }
}

impl<S> Service<Request<Body>> for Observed<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = STREAMS.iter().find(|path| **path == request.uri().path());
        let answer = self.inner.call(request);
        let Some(path) = method else {
            return Either::Left(answer);
        };
        let method = path.rsplit('/').next().unwrap_or(path);
        let open = Open::new(self.metrics.calls.streams.of([method]));
        let counted = |body| Body::new(CountedStream { body, _open: open });
        Either::Right(answer.map(|answered| Ok(answered?.map(counted))).boxed())
    }
}

/// Counts as open until it is dropped.
struct Open(Gauge<f64, AtomicU64>);

impl Open {
    fn new(gauge: Gauge<f64, AtomicU64>) -> Self {
        gauge.inc();
        Open(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The body of a stream.
struct CountedStream {
    body: Body,
    _open: Open,
}

impl http_body::Body for CountedStream {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
