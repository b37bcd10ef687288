//! What every answer over HTTP has in common: its media type, and what keeps browsers from doing
//! more with it than it is meant for.

use bytes::Bytes;
use http_body_util::Full;
use tonic::{
    body::Body,
    codegen::http::{
        HeaderName, HeaderValue, Response, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_FRAME_OPTIONS,
        },
    },
};

pub(super) const JSON: &str = "application/json";
pub(super) const GRPC: &str = "application/grpc";
/// Pages run their own scripts and styles, talk to this server, and stand in no frame of others.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                              img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                              form-action 'none'; frame-ancestors 'none'";

/// An answer that is fit for browsers.
pub(super) fn guarded(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A text that ends with its line, as terminals and tools of lines have it.
pub(super) fn line(mut text: String) -> Bytes {
    text.push('\n');
    text.into()
}

/// An answer in JSON: a [`line`].
pub(super) fn json(code: StatusCode, text: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(text)));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static(JSON);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
