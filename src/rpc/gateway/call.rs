//! The gRPC call that an HTTP request asks for: the same path, the same metadata, and a message
//! that is read as JSON only when somebody behind the gateway asks for it, who has looked at the
//! caller first.

use super::{
    answer,
    json_message::JsonMessage,
    media::{GRPC, JSON},
    messages, session,
};
use crate::{
    identity::{Access, Role, access},
    peer::ConnectionInfo,
    rpc::{
        deadline::{TIMEOUT, timeout},
        errors,
        message_budget::largest,
        room::{Rooms, Share},
        unfetched::room_of,
    },
};
use prost_reflect::MethodDescriptor;
use tokio::time::Instant;
use tonic::{
    Status,
    body::Body,
    codegen::http::{
        HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
        header::{
            ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, TE, TRANSFER_ENCODING,
        },
        request::Parts,
    },
};
use url::form_urlencoded;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The one parameter of a GET: the request message, as JSON.
const MESSAGE: &str = "message";
/// Of the protocol that is not spoken here.
const FOREIGN: [HeaderName; 6] = [
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    COOKIE,
    LAST_EVENT_ID,
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-accept-encoding"),
];

/// A call, and what its answer becomes.
pub(super) struct Called {
    pub request: Request<Body>,
    pub answer_in: MethodDescriptor,
    /// Until when a stream may last.
    pub deadline: Option<Instant>,
    /// Where the answer takes its room; `None`: it takes none.
    pub room: Option<Share>,
}

/// The call that `request` asks for, or the answer to it.
pub(super) fn of(
    request: Request<Body>,
    rooms: &Rooms,
    most: usize,
) -> Result<Called, Box<Response<Body>>> {
    let refused = |status: Status| Box::new(answer::failure(&status));
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path();
    let Some(method) = messages::method(path).filter(|method| !method.is_client_streaming()) else {
        let meant = messages::meant(path);
        let status = errors::gateway::no_such_path(path, meant.as_deref());
        return Err(refused(status));
    };
    let body = match parts.method {
        Method::POST => {
            check_kind(&parts.headers).map_err(refused)?;
            body
        }
        Method::GET if is_look(path) => message_of(&parts.uri).map_err(refused)?,
        _ => return Err(wrong_verb(path)),
    };
    let deadline = deadline(&parts.headers).map_err(refused)?;
    let shares = rooms.shares(parts.extensions.get::<ConnectionInfo>());
    let message = JsonMessage {
        kind: method.input(),
        resume_token: last_event(&parts.headers).map_err(refused)?,
        place: shares.calls.place(),
        largest: largest(path, most),
    };
    let room = room_of(path, &shares);
    parts.extensions.insert(shares);
    Ok(Called {
        room,
        request: Request::from_parts(into_grpc(parts), message.read(body)),
        answer_in: method,
        deadline,
    })
}

fn into_grpc(mut parts: Parts) -> Parts {
    session::authorize(&parts.uri, &mut parts.headers);
    for name in FOREIGN {
        parts.headers.remove(name);
    }
    let headers = &mut parts.headers;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    parts.method = Method::POST;
    parts.version = Version::HTTP_2;
    parts
}

/// Browsers let a page of somebody else send other kinds without asking first.
fn check_kind(headers: &HeaderMap) -> Result<(), Status> {
    let kind = headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut parts = kind.split(';').map(str::trim);
    let is_json = parts
        .next()
        .is_some_and(|kind| kind.eq_ignore_ascii_case(JSON));
    let mut charsets = parts.filter_map(|part| part.split_once('='));
    let is_other_charset = charsets.any(|(name, value)| {
        let value = value.trim_matches('"');
        name.eq_ignore_ascii_case("charset") && !value.eq_ignore_ascii_case("utf-8")
    });
    let is_packed = headers.contains_key(CONTENT_ENCODING);
    let message = match (is_json, is_other_charset || is_packed) {
        (true, false) => return Ok(()),
        (true, true) => "a call is sent as it is, in UTF-8: no other charset, no content-encoding",
        _ if kind.starts_with(GRPC) => "gRPC needs HTTP/2, of which this request is not",
        _ => "a call is sent with `content-type: application/json`",
    };
    Err(errors::gateway::http_invalid(message))
}

/// Whether a method only reads, so that it may be called with GET.
fn is_look(path: &str) -> bool {
    let needed = access(path);
    matches!(needed, Some(Access::Anybody | Access::In(Role::Reader)))
}

/// The message of a GET; without one it is empty.
fn message_of(uri: &Uri) -> Result<Body, Status> {
    let query = uri.query().unwrap_or_default();
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    let text = match (parameters.next(), parameters.next()) {
        (None, _) => String::new(),
        (Some((name, text)), None) if name == MESSAGE => text.into_owned(),
        _ => {
            let message = "a GET has one parameter: `message`, the request as JSON";
            return Err(errors::gateway::http_invalid(message));
        }
    };
    Ok(Body::new(http_body_util::Full::from(text)))
}

fn wrong_verb(path: &str) -> Box<Response<Body>> {
    let (allowed, message) = match is_look(path) {
        true => ("GET, POST", "this method is called with POST or GET"),
        false => ("POST", "this method is called with POST"),
    };
    let mut answer = answer::failure(&errors::gateway::http_invalid(message));
    *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    let allowed = HeaderValue::from_static(allowed);
    answer.headers_mut().insert(ALLOW, allowed);
    Box::new(answer)
}

/// Where a stream is to go on, as browsers say it.
fn last_event(headers: &HeaderMap) -> Result<Option<String>, Status> {
    let mut ids = headers.get_all(LAST_EVENT_ID).iter();
    let id = match (ids.next(), ids.next()) {
        (None, _) => return Ok(None),
        (Some(id), None) => id.to_str().ok(),
        (Some(_), Some(_)) => None,
    };
    let message = "`last-event-id` is the id of one event, as it was sent";
    let id = id.ok_or_else(|| errors::gateway::http_invalid(message))?;
    Ok((!id.is_empty()).then(|| id.to_owned()))
}

/// When the caller will not wait any longer. gRPC clients see to that of a stream by themselves.
fn deadline(headers: &HeaderMap) -> Result<Option<Instant>, Status> {
    if !headers.contains_key(TIMEOUT) {
        return Ok(None);
    }
    let message = "`grpc-timeout` is up to 8 digits and a unit: H, M, S, m (ms), u or n";
    let left = timeout(headers).ok_or_else(|| errors::gateway::http_invalid(message))?;
    Ok(Instant::now().checked_add(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::room::Shares;

    #[test]
    fn a_call_brings_the_share_with_which_its_text_is_read() {
        let request = Request::post("/rallypoint.v1.SchedulerService/ListTasks")
            .header(CONTENT_TYPE, JSON)
            .body(Body::empty())
            .expect("a request");
        let Ok(called) = of(request, &Rooms::default(), 1 << 20) else {
            panic!("it is one");
        };
        assert!(called.request.extensions().get::<Shares>().is_some());
    }
}
