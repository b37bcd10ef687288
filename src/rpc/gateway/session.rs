//! Who looks at the page, on a server that knows its callers: a token that was given once is kept
//! in a cookie that scripts cannot read and other sites do not send. The server keeps nothing.
//!
//! The cookie stands for `authorization` only in a request with the header of the page, which a
//! foreign page cannot send without asking first, and is never told it may (see `same_site`). It is
//! checked with every call, at the door of all calls. Its name has the port in it, unless that is
//! a usual one: browsers send a cookie to all ports of a host, and another server there keeps its
//! own.

use super::{
    answer,
    media::{json, line},
    same_site,
    settings::Settings,
};
use crate::{
    core::Namespace,
    identity::{Authenticator, Credentials, Refusal, Role},
    peer::ConnectionInfo,
    rpc::{auth::NAMESPACE, errors},
};
use http_body_util::BodyExt;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::json;
use std::{fmt::Write, time::Duration};
use tokio::time::timeout;
use tonic::{
    Status,
    body::Body,
    codegen::http::{
        Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
        header::{AUTHORIZATION, COOKIE, SET_COOKIE},
        request::Parts,
    },
};

/// Where the page asks who it is, signs in and signs out. The Rust client asks who it is here, too.
pub(super) const PATH: &str = "/session";
/// The name of the cookie, before the port.
const NAME: &str = "rallypoint-token";
/// The page sends it with everything.
const PAGE: HeaderName = HeaderName::from_static("rallypoint-page");
/// Browsers keep no longer cookie, and do not say so.
const COOKIE_BYTES: usize = 4_096;
/// No token that fits there is longer, nor what carries it.
const MAX_BYTES: usize = 6 << 10;
/// Whose turns those have who sign in; no namespace has a name like it.
const TURNS: &str = " session";
/// How long that may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The browser forgets a token after so long; a token may end before.
const KEPT_SECONDS: u32 = 30 * 86_400;

/// Presents the token of the page, where a call presents none.
pub(super) fn authorize(uri: &Uri, headers: &mut HeaderMap) {
    if headers.contains_key(AUTHORIZATION) || !headers.contains_key(PAGE) {
        return;
    }
    if let Some(mut value) = token(uri, headers).and_then(|token| bearer(&token)) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
}

fn bearer(token: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("Bearer {token}")).ok()
}

/// The name of the cookie, by the port that the browser has used, which may be that of a proxy.
/// Browsers leave a usual one out, and a proxy may write it.
fn name(uri: &Uri, headers: &HeaderMap) -> String {
    let port = same_site::host(uri, headers).and_then(|host| host.port_u16());
    match port.filter(|port| !matches!(port, 80 | 443)) {
        Some(port) => format!("{NAME}-{port}"),
        None => NAME.to_owned(),
    }
}

/// The one that the cookie holds.
fn token(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let name = name(uri, headers);
    let lines = headers.get_all(COOKIE).iter();
    let cookies = lines.filter_map(|line| line.to_str().ok());
    let mut cookies = cookies.flat_map(|line| line.split(';'));
    let found = cookies.find_map(|cookie| cookie.trim().strip_prefix(&name)?.strip_prefix('='))?;
    let token = percent_decode_str(found).decode_utf8().ok()?;
    (!token.is_empty()).then(|| token.into_owned())
}

/// Answers a request at [`PATH`].
pub(super) async fn answer(request: Request<Body>, settings: &Settings) -> Response<Body> {
    if settings.is_starting {
        // As calls are: who may do what is known once they are answered.
        return answer::failure(&errors::starting());
    }
    let (mut parts, body) = request.into_parts();
    let answered = match (&parts.method, parts.headers.contains_key(PAGE)) {
        (&Method::GET, _) => {
            authorize(&parts.uri, &mut parts.headers);
            shown(&parts.headers, &parts.extensions, settings)
        }
        (&Method::POST, true) => signed_in(&mut parts, body, settings).await,
        (&Method::DELETE, true) => Ok(signed_out(&name(&parts.uri, &parts.headers), settings)),
        _ => Err(errors::gateway::http_invalid(
            "this path is for the page of the server: call methods with a token instead",
        )),
    };
    answered.unwrap_or_else(|status| answer::failure(&status))
}

/// Who the caller is and what it may do; nobody, when it presents nothing that is valid.
fn shown(
    headers: &HeaderMap,
    extensions: &Extensions,
    settings: &Settings,
) -> Result<Response<Body>, Status> {
    let who = match &settings.authenticator {
        None => {
            json!({"knows_callers": false, "name": "", "namespace": "", "role": "admin", "everywhere": "admin"})
        }
        Some(authenticator) => known(authenticator, headers, extensions)?,
    };
    Ok(json(StatusCode::OK, line(who.to_string())))
}

fn known(
    authenticator: &Authenticator,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<serde_json::Value, Status> {
    let info = extensions.get::<ConnectionInfo>();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let identity = match authenticator.identify(Credentials {
        authorization: text(AUTHORIZATION.as_str()),
        certificate: info.and_then(ConnectionInfo::certificate),
    }) {
        Ok(identity) => Some(identity),
        Err(Refusal::KeysUnavailable) => return Err(errors::access::keys_unavailable()),
        Err(Refusal::Missing | Refusal::Invalid(_)) => None,
    };
    let said = |role: Option<Role>| role.map(Role::as_str).unwrap_or_default();
    let named = text(NAMESPACE).and_then(Namespace::named);
    let namespace = identity
        .as_ref()
        .and_then(|identity| named.or_else(|| identity.usual_namespace()));
    let role = identity
        .as_ref()
        .zip(namespace.as_ref())
        .and_then(|(identity, namespace)| identity.role_in(namespace));
    Ok(json!({
        "knows_callers": true,
        "name": identity.as_ref().map(|identity| &*identity.name).unwrap_or_default(),
        "namespace": namespace.as_ref().map(|namespace| &*namespace.0).unwrap_or_default(),
        "role": said(role),
        "everywhere": said(identity.as_ref().and_then(|identity| identity.role_everywhere())),
    }))
}

fn too_long() -> Status {
    errors::gateway::http_invalid(
        "the token is longer than what a browser keeps: sign in with a shorter one",
    )
}

fn malformed() -> Status {
    errors::gateway::http_invalid("a token is needed: {\"token\": \"…\"}")
}

/// A short body. Its parts are copied, since each one that is kept takes more than it holds.
async fn whole(mut body: Body) -> Result<Vec<u8>, Status> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(part) = frame.map_err(|_| malformed())?.into_data() {
            whole.extend_from_slice(&part);
        }
        if whole.len() > MAX_BYTES {
            return Err(too_long());
        }
    }
    Ok(whole)
}

/// Keeps a token that is valid in the browser.
async fn signed_in(
    parts: &mut Parts,
    body: Body,
    settings: &Settings,
) -> Result<Response<Body>, Status> {
    let name = name(&parts.uri, &parts.headers);
    let (headers, extensions) = (&mut parts.headers, &parts.extensions);
    // Nobody is known yet: few of a connection may be under way.
    let turns = extensions.get::<ConnectionInfo>();
    let turns = turns.map(|info| info.turns.of(TURNS));
    let turn = turns.map(|turns| turns.try_acquire_owned()).transpose();
    let _turn = turn.map_err(|_| errors::no_message_room())?;
    let text = timeout(BODY_TIMEOUT, whole(body)).await;
    let text = text.map_err(|_| errors::message_late())??;
    let sent: serde_json::Value = serde_json::from_slice(&text).map_err(|_| malformed())?;
    let token = sent["token"]
        .as_str()
        .map(str::trim)
        .ok_or_else(malformed)?;
    let value = bearer(token)
        .filter(|_| !token.is_empty())
        .ok_or_else(malformed)?;
    headers.insert(AUTHORIZATION, value);
    let who = match &settings.authenticator {
        Some(authenticator) => known(authenticator, headers, extensions)?,
        None => {
            return Err(errors::gateway::http_invalid(
                "this server does not know callers",
            ));
        }
    };
    if who["name"] == "" {
        return Err(errors::access::identity_invalid());
    }
    let token = utf8_percent_encode(token, NON_ALPHANUMERIC).to_string();
    if name.len() + token.len() > COOKIE_BYTES {
        return Err(too_long());
    }
    let mut response = json(StatusCode::OK, line(who.to_string()));
    set(
        &mut response,
        &name,
        (token.as_str(), KEPT_SECONDS),
        settings,
    );
    Ok(response)
}

fn signed_out(name: &str, settings: &Settings) -> Response<Body> {
    let mut response = json(StatusCode::OK, line("{}".to_owned()));
    set(&mut response, name, ("", 0), settings);
    response
}

/// Has the browser keep a token for so many seconds.
fn set(
    response: &mut Response<Body>,
    name: &str,
    (token, seconds): (&str, u32),
    settings: &Settings,
) {
    let mut cookie =
        format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict");
    if settings.by_tls {
        // A string takes whatever is written.
        let _ = write!(cookie, "; Secure");
    }
    if let Ok(mut value) = HeaderValue::from_str(&cookie) {
        value.set_sensitive(true);
        response.headers_mut().insert(SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{gateway::Hosts, room::Rooms};
    use tonic::codegen::http::header::RETRY_AFTER;

    #[tokio::test]
    async fn a_server_that_starts_does_not_say_who_may_do_what() {
        let mut settings = Settings {
            hosts: Hosts::Any,
            rooms: Rooms::default(),
            largest: 1 << 20,
            is_starting: true,
            authenticator: None,
            by_tls: false,
        };
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let mut request = Request::new(Body::empty());
            *request.method_mut() = method;
            request
                .headers_mut()
                .insert(PAGE, HeaderValue::from_static("1"));
            let later = answer(request, &settings).await;
            assert_eq!(later.status(), StatusCode::SERVICE_UNAVAILABLE);
            let headers = later.headers();
            assert!(headers.contains_key(RETRY_AFTER) && !headers.contains_key(SET_COOKIE));
        }
        settings.is_starting = false;
        let everybody = answer(Request::new(Body::empty()), &settings).await;
        assert_eq!(everybody.status(), StatusCode::OK);
    }

    fn authorized(headers: &[(&'static str, &str)]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        authorize(&Uri::default(), &mut map);
        let value = map.get(AUTHORIZATION)?;
        Some(value.to_str().expect("text").to_owned())
    }

    #[test]
    fn the_cookie_counts_only_for_the_page_and_never_against_a_token() {
        let cookie = ("cookie", "a=1; rallypoint-token=s%3Bcret; b=2");
        let page = ("rallypoint-page", "1");
        assert_eq!(
            authorized(&[cookie, page]).as_deref(),
            Some("Bearer s;cret")
        );
        assert_eq!(authorized(&[cookie]), None);
        assert_eq!(authorized(&[page]), None);
        assert_eq!(authorized(&[page, ("cookie", "rallypoint-token=")]), None);
        assert_eq!(authorized(&[page, ("cookie", "rallypoint-token2=x")]), None);
        // That of another server on this host.
        let host = ("host", "localhost:7001");
        assert_eq!(authorized(&[cookie, page, host]), None);
        let cookies = "rallypoint-token=a; rallypoint-token-7002=b; rallypoint-token-7001=c";
        assert_eq!(
            authorized(&[("cookie", cookies), page, host]).as_deref(),
            Some("Bearer c")
        );
        for usual in ["localhost", "localhost:80", "localhost:443"] {
            assert_eq!(
                authorized(&[cookie, page, ("host", usual)]).as_deref(),
                Some("Bearer s;cret"),
                "{usual}"
            );
        }
        let own = ("authorization", "Bearer own");
        assert_eq!(
            authorized(&[cookie, page, own]).as_deref(),
            Some("Bearer own")
        );
    }
}
