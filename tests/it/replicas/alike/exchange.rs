//! A request and its answer as HTTP/2 has them: headers, data, trailers, and where the stream ends.

use super::requests::{Request, with_handle};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::timeout;
use tonic::{
    Code, Status,
    codegen::http::{self, HeaderMap, StatusCode},
};
use tonic_types::{ErrorDetail, StatusExt};

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends requests over one connection to each server.
pub(super) struct Exchange(legacy::Client<HttpConnector, Full<Bytes>>);

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    http: StatusCode,
    headers: BTreeMap<String, Vec<Vec<u8>>>,
    /// The stream ends with the headers, so they are the trailers.
    trailers_only: bool,
    trailers: BTreeMap<String, Vec<Vec<u8>>>,
    status: Option<Errors>,
    /// A message of a success, of which only its being there is compared: it tells of times.
    has_message: bool,
}

/// The parts of a status.
#[derive(Debug, PartialEq, Eq)]
struct Errors {
    code: Code,
    message: String,
    details: Vec<String>,
}

impl Exchange {
    pub(super) fn new() -> Exchange {
        let client = legacy::Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build_http();
        Exchange(client)
    }

    /// Sends `request` about the scheduler `handle`.
    pub(super) async fn send(&self, server: &str, request: &Request, handle: &str) -> Reply {
        let mut call = http::Request::post(format!("{server}/rallypoint.v1.{}", request.call))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (key, value) in &request.metadata {
            call = call.header(*key, *value);
        }
        let body = Full::new(with_handle(&request.body, handle).into());
        let call = call.body(body).expect("a request");
        let answer = async {
            let response = self.0.request(call).await.expect("an answer");
            let trailers_only = http_body::Body::is_end_stream(response.body());
            let (parts, body) = response.into_parts();
            let body = body.collect().await.expect("the whole answer");
            let trailers = body.trailers().cloned().unwrap_or_default();
            Reply::new(&parts, trailers_only, &trailers, &body.to_bytes())
        };
        timeout(ANSWER_TIMEOUT, answer).await.expect("in time")
    }
}

impl Reply {
    fn new(
        parts: &http::response::Parts,
        trailers_only: bool,
        trailers: &HeaderMap,
        data: &[u8],
    ) -> Reply {
        let status = Status::from_header_map(&parts.headers)
            .or_else(|| Status::from_header_map(trailers))
            .map(|status| Errors {
                code: status.code(),
                message: status.message().to_owned(),
                details: details(&status),
            });
        Reply {
            http: parts.status,
            headers: all(&parts.headers),
            trailers_only,
            trailers: all(trailers),
            status,
            has_message: !data.is_empty(),
        }
    }

    /// The reply as if it were about the scheduler `to` instead of `from`.
    pub(super) fn with(mut self, from: &str, to: &str) -> Reply {
        if let Some(status) = &mut self.status {
            status.message = status.message.replace(from, to);
            for detail in &mut status.details {
                *detail = detail.replace(from, to);
            }
        }
        self
    }

    /// It is an error without a message that ends the stream with its headers, or a message with
    /// trailers.
    pub(super) fn is_well_formed(&self) -> bool {
        let Some(status) = &self.status else {
            return false;
        };
        let is_error = status.code != Code::Ok;
        is_error == self.trailers_only
            && is_error != self.has_message
            && is_error == self.trailers.is_empty()
            && !matches!(
                status.code,
                Code::Unknown | Code::Internal | Code::Cancelled
            )
    }

    pub(super) fn is_unavailable(&self) -> bool {
        self.status
            .as_ref()
            .is_some_and(|status| status.code == Code::Unavailable)
    }

    pub(super) fn code(&self) -> String {
        let code = self.status.as_ref().map(|status| status.code);
        format!("{code:?}")
    }
}

/// The details as texts: the entries of a map may be written in any sequence.
fn details(status: &Status) -> Vec<String> {
    let details = status.get_error_details_vec().into_iter();
    let detail = |detail| match detail {
        ErrorDetail::ErrorInfo(info) => {
            let metadata: BTreeMap<_, _> = info.metadata.into_iter().collect();
            format!("{} {} {metadata:?}", info.domain, info.reason)
        }
        other => format!("{other:?}"),
    };
    details.map(detail).collect()
}

/// The headers by name, without what differs by time, and without the status, which is compared
/// by its parts.
fn all(headers: &HeaderMap) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut all = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for (name, value) in headers {
        let value = match name.as_str() {
            "date" => continue,
            "grpc-message" | "grpc-status-details-bin" => Vec::new(),
            _ => value.as_bytes().to_owned(),
        };
        all.entry(name.to_string()).or_default().push(value);
    }
    all
}
