//! Browsers send requests for whichever page is open in them. A page of somebody else must not use
//! a server that trusts whoever reaches it, as one on this machine does: it is refused by what
//! browsers say of a request, and by the name under which they reached the server (a name of
//! somebody else may lead here: DNS rebinding). See `docs/decisions/0191`.

use crate::rpc::errors;
use std::net::IpAddr;
use tonic::{
    Status,
    body::Body,
    codegen::http::{
        HeaderMap, HeaderName, Method, Request, Uri,
        header::{HOST, ORIGIN},
        uri::Authority,
    },
};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Names by which requests over HTTP may reach the server.
#[derive(Clone, Debug)]
pub(crate) enum Hosts {
    /// Whatever leads here: callers say who they are, and a page of somebody else cannot.
    Any,
    /// Addresses, `localhost`, and these.
    Named(Vec<String>),
}

/// Refuses what a page of another origin sends.
pub(super) fn check(request: &Request<Body>, hosts: &Hosts) -> Result<(), Status> {
    let host = reached(request, hosts)?;
    let site = request.headers().get(SEC_FETCH_SITE);
    let is_foreign = site.is_some_and(|site| site != "same-origin" && site != "none");
    if is_foreign || !origin_is(request.headers(), &host) {
        return Err(errors::gateway::origin_not_allowed());
    }
    Ok(())
}

/// The same for what is only shown: a link of another page may lead to it, in a window of its own.
pub(super) fn check_document(request: &Request<Body>, hosts: &Hosts) -> Result<(), Status> {
    let kind = request.headers().get(SEC_FETCH_DEST);
    match kind.is_some_and(|kind| kind == "document") && request.method() == Method::GET {
        true => reached(request, hosts).map(drop),
        false => check(request, hosts),
    }
}

/// The name under which the server was reached, which must be one of its own.
fn reached(request: &Request<Body>, hosts: &Hosts) -> Result<Authority, Status> {
    let Some(host) = host(request.uri(), request.headers()) else {
        return Err(errors::gateway::host_not_allowed());
    };
    if let Hosts::Named(names) = hosts
        && !is_known(host.host(), names)
    {
        return Err(errors::gateway::host_not_allowed());
    }
    Ok(host)
}

/// The one name and port that the caller used.
pub(super) fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    if let Some(authority) = uri.authority() {
        return Some(authority.clone());
    }
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok()?.parse().ok(),
        _ => None,
    }
}

/// A name that nobody else can have lead here.
fn is_known(host: &str, names: &[String]) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let host = host.to_ascii_lowercase();
    address.parse::<IpAddr>().is_ok()
        || host == "localhost"
        || host.ends_with(".localhost")
        || names.iter().any(|name| name.eq_ignore_ascii_case(&host))
}

/// Whether the page that sends a request, if one does, was loaded from this server. The scheme is
/// not compared: a proxy that ends TLS changes it.
fn origin_is(headers: &HeaderMap, host: &Authority) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let origin = match (origins.next(), origins.next()) {
        (None, _) => return true,
        (Some(origin), None) => origin.to_str().unwrap_or_default(),
        (Some(_), Some(_)) => return false,
    };
    let Some((scheme, authority)) = origin.split_once("://") else {
        return false;
    };
    let Ok(authority) = authority.parse::<Authority>() else {
        return false;
    };
    let usual = if scheme == "https" { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(usual);
    authority.host().eq_ignore_ascii_case(host.host()) && port(&authority) == port(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(hosts: &Hosts, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::post("/a.B/C");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        check(&request, hosts).is_ok()
    }

    #[test]
    fn a_name_of_somebody_else_leads_nowhere() {
        let hosts = Hosts::Named(vec!["ci.example".into()]);
        for host in [
            "localhost:50051",
            "127.0.0.1:50051",
            "[::1]:50051",
            "10.0.0.7",
            "CI.example:80",
            "a.localhost",
        ] {
            assert!(passes(&hosts, &[("host", host)]), "{host}");
        }
        for host in ["evil.example:50051", "localhost.evil.example", ""] {
            assert!(!passes(&hosts, &[("host", host)]), "{host}");
        }
        assert!(!passes(&hosts, &[]));
        assert!(!passes(
            &hosts,
            &[("host", "localhost"), ("host", "localhost")]
        ));
        assert!(passes(&Hosts::Any, &[("host", "evil.example")]));
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let from = |origin| {
            let headers = [("host", "localhost:50051"), ("origin", origin)];
            passes(&Hosts::Named(Vec::new()), &headers)
        };
        assert!(from("http://localhost:50051"));
        assert!(from("https://localhost:50051"));
        for origin in [
            "http://localhost",
            "http://localhost:50052",
            "http://127.0.0.1:50051",
            "https://evil.example",
            "null",
            "",
        ] {
            assert!(!from(origin), "{origin}");
        }
        let site = |site, mode| {
            let headers = [
                ("host", "localhost"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
            ];
            passes(&Hosts::Any, &headers)
        };
        assert!(site("same-origin", "cors") && site("none", "navigate"));
        assert!(!site("cross-site", "no-cors") && !site("same-site", "cors"));
        // A form of another page.
        assert!(!site("cross-site", "navigate"));
    }

    #[test]
    fn a_link_of_another_page_leads_to_documents_alone() {
        let request = |kind: &str| {
            let request = Request::get("/a.B/C")
                .header("host", "localhost")
                .header("sec-fetch-site", "cross-site")
                .header("sec-fetch-mode", "navigate")
                .header("sec-fetch-dest", kind);
            request.body(Body::empty()).expect("a request")
        };
        assert!(check_document(&request("document"), &Hosts::Any).is_ok());
        assert!(check_document(&request("iframe"), &Hosts::Any).is_err());
        assert!(check(&request("document"), &Hosts::Any).is_err());
    }
}
