//! Addresses of servers as people write them: what is wrong with one before it is called, and what
//! to do when nobody answers there. Pure.

use super::error::{CliError, UNANSWERED};
use http::Uri;

/// The environment variable that holds one.
pub(super) const VARIABLE: &str = "RALLYPOINT_SERVER";
const FORM: &str = "write it like http://HOST:PORT, or https://HOST:PORT if the server has TLS";
/// How rustls says that the answer to its greeting is no TLS.
const NOT_TLS: &str = "InvalidContentType";
/// How it says that nobody it trusts has signed a certificate.
const UNKNOWN_AUTHORITY: &str = "UnknownIssuer";
/// What else it says of a certificate, and what to do.
const CERTIFICATES: [(&str, &str); 3] = [
    (
        "CaUsedAsEndEntity",
        "its certificate is that of an authority: have the authority sign one for the server \
         (docs/security.md)",
    ),
    (
        "certificate not valid for name",
        "its certificate is for other names: call it by one of those, or have that name signed",
    ),
    (
        "certificate expired",
        "its certificate has expired: renew it, or set the clock of this machine",
    ),
];

/// Refuses what can be no address of a server. `from`: the option or the variable that says it.
pub(super) fn check(addresses: &str, from: &str) -> Result<(), CliError> {
    let refused = |what: &str| Err(CliError::usage(format!("{from}: {what}")).next(FORM));
    if addresses.contains('@') {
        // It is not repeated: what stands before it may be a password.
        let what = format!("{from}: an address has no user and no password");
        let next = "write it like https://HOST:PORT; --token-file says who calls";
        return Err(CliError::usage(what).next(next));
    }
    let mut named = named(addresses).peekable();
    if named.peek().is_none() {
        return refused("it is empty");
    }
    for address in named {
        match address.split_once("://") {
            Some(("http" | "https", _)) | None => {}
            Some((scheme, _)) => return refused(&format!("no server is called by {scheme}://")),
        }
        if parsed(address).is_none() {
            return refused(&format!("`{address}` is no address"));
        }
    }
    Ok(())
}

/// What to do when nobody answers at these addresses, for this reason.
pub(super) fn remedy(addresses: &str, from: &str, why: &str) -> String {
    let without_port = |address: &&str| parsed(address).is_some_and(|uri| uri.port().is_none());
    if why.contains(NOT_TLS) {
        let plain = addresses.replace("https://", "http://");
        return format!("the server has no TLS: set {from} to {plain}");
    }
    if why.contains(UNKNOWN_AUTHORITY) {
        return "name the authority that has signed its certificate: --tls-ca FILE".to_owned();
    }
    let mut certificates = CERTIFICATES.iter();
    if let Some((_, next)) = certificates.find(|(said, _)| why.contains(said)) {
        return (*next).to_owned();
    }
    if let Some(address) = named(addresses).find(without_port) {
        let address = address.trim_end_matches('/');
        return format!("{from} names no port: set it to {address}:PORT (a server has 50051)");
    }
    UNANSWERED.to_owned()
}

fn named(addresses: &str) -> impl Iterator<Item = &str> {
    let addresses = addresses.split(',').map(str::trim);
    addresses.filter(|address| !address.is_empty())
}

/// An address with a host, and with a number if it has a port.
fn parsed(address: &str) -> Option<Uri> {
    let with_scheme = match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    };
    let uri: Uri = with_scheme.parse().ok()?;
    let authority = uri.authority()?.as_str();
    let host = uri.host()?;
    let is_whole = authority == host || uri.port_u16().is_some();
    // A number alone is a port without a host.
    let is_host = host.contains(|c: char| !c.is_ascii_digit());
    (is_whole && is_host).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused_by_the_name_of_what_says_it() {
        for good in [
            "http://a:1",
            "https://a",
            "a:1",
            "127.0.0.1:1, http://[::1]:2,",
            "http://a:1/",
        ] {
            assert!(check(good, VARIABLE).is_ok(), "{good}");
        }
        for (wrong, what) in [
            ("", "it is empty"),
            (" , ", "it is empty"),
            ("ftp://a:1", "no server is called by ftp://"),
            ("postgres://a:1", "no server is called by postgres://"),
            ("http://u:secret@a:1", "no user and no password"),
            ("http://", "`http://` is no address"),
            ("a:x", "`a:x` is no address"),
            ("50051", "`50051` is no address"),
            ("http://50051", "`http://50051` is no address"),
            (":50051", "`:50051` is no address"),
            ("a b:1", "`a b:1` is no address"),
            ("a:1,b:99999", "`b:99999` is no address"),
        ] {
            let said = check(wrong, VARIABLE).expect_err(wrong).in_words();
            assert!(said.starts_with("RALLYPOINT_SERVER: "), "{said}");
            assert!(said.contains(what) && !said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn the_remedy_fits_the_address() {
        let of = |address: &str, why| remedy(address, "--server", why);
        let refused = "Connection refused";
        assert!(of("https://a:1", NOT_TLS).ends_with("set --server to http://a:1"));
        assert!(of("https://a:1", UNKNOWN_AUTHORITY).ends_with("--tls-ca FILE"));
        assert!(
            of("https://a:1", "certificate not valid for name \"b\"").contains("for other names")
        );
        assert!(of("http://a/", refused).contains("set it to http://a:PORT"));
        assert!(of("http://a:1", refused).contains("--server URL or RALLYPOINT_SERVER"));
    }
}
