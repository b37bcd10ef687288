//! URLs of databases, as the coordination database and administrators' logins are reached: with TLS
//! that is verified off this machine, unless a URL says otherwise.

use sqlx::{
    ConnectOptions,
    postgres::{PgConnectOptions, PgSslMode},
};
use std::{borrow::Cow, env, net::IpAddr};
use url::{ParseError, Url};

/// Whether what is said to this host stays on this machine.
pub(crate) fn is_here(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// The parts of a URL. It may have a user and no host, as libpq takes it, if a parameter names the
/// host or the folder of a socket.
pub(crate) fn parsed(text: &str) -> Result<Url, ParseError> {
    match Url::parse(text) {
        Err(ParseError::EmptyHost) => {
            let url = Url::parse(&text.replacen("@/", "@localhost/", 1))?;
            let names_host = |(name, value): (Cow<'_, str>, Cow<'_, str>)| {
                matches!(&*name, "host" | "hostaddr") && !value.is_empty()
            };
            match url.query_pairs().any(names_host) {
                true => Ok(url),
                false => Err(ParseError::EmptyHost),
            }
        }
        parsed => parsed,
    }
}

/// How to connect to the database at `url`. Where neither the URL nor PGSSLMODE says how TLS is
/// used, it is as [`is_here`] says: verified (`verify-full`), or on this machine used if it is
/// there. Fails as the driver does when the URL is malformed, and repeats nothing of it.
pub(crate) fn options_of(url: &str) -> Result<PgConnectOptions, sqlx::Error> {
    let url = parsed(url).map_err(|error| sqlx::Error::Configuration(error.into()))?;
    let options = PgConnectOptions::from_url(&url).map_err(without_values)?;
    let mut parameters = url.query_pairs();
    let is_said = parameters.any(|(name, _)| matches!(&*name, "sslmode" | "ssl-mode"))
        || says_how(env::var("PGSSLMODE").ok().as_deref());
    let stays_here = options.get_socket().is_some() || is_here(options.get_host());
    Ok(match is_said || stays_here {
        true => options,
        false => options.ssl_mode(PgSslMode::VerifyFull),
    })
}

/// Whether PGSSLMODE says something. The driver takes what it does not understand for `prefer`.
fn says_how(mode: Option<&str>) -> bool {
    mode.is_some_and(|mode| mode.parse::<PgSslMode>().is_ok())
}

/// What the driver says of a URL, without the values that it quotes: one of them may be a secret in
/// the wrong place.
fn without_values(error: sqlx::Error) -> sqlx::Error {
    let said = match &error {
        sqlx::Error::Configuration(cause) => cause.to_string(),
        other => other.to_string(),
    };
    let outside: Vec<&str> = said.split('"').step_by(2).map(str::trim).collect();
    sqlx::Error::Configuration(outside.join(" ").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_that_makes_no_sense_switches_nothing_off() {
        assert!(says_how(Some("disable")) && says_how(Some("verify-ca")));
        for mode in [None, Some(""), Some("verify_full")] {
            assert!(!says_how(mode), "{mode:?}");
        }
    }

    #[test]
    fn a_fault_is_told_without_the_value() {
        let said = |url: &str| options_of(url).expect_err(url).to_string();
        let shown = said("postgres://u@db/d?sslmode=s3cret");
        assert!(shown.contains("unknown value for `ssl_mode`"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
        let shown = said("postgres://u:s3cret@db:port/d");
        assert!(
            shown.contains("port") && !shown.contains("s3cret"),
            "{shown}"
        );
    }

    #[test]
    fn a_socket_may_stand_behind_a_user_without_a_host() {
        let options = options_of("postgres://u:p@/d?host=/run/postgresql").expect("options");
        let socket = options.get_socket().map(|socket| socket.as_path());
        assert_eq!(socket, Some("/run/postgresql".as_ref()));
        assert_eq!(
            (options.get_username(), options.get_database()),
            ("u", Some("d"))
        );
        for without in ["postgres://u@/d", "postgres://u@/d?host="] {
            assert_eq!(parsed(without), Err(ParseError::EmptyHost));
        }
    }

    #[test]
    fn tls_is_verified_off_this_machine_unless_the_url_says_otherwise() {
        for (url, verified) in [
            ("postgres://u@db/d", true),
            ("postgres://u@10.0.0.1/d?application_name=x", true),
            ("postgres://u@[2001:db8::1]/d", true),
            ("postgres://u@db/d?sslmode=prefer", false),
            ("postgres://u@db/d?ssl-mode=disable", false),
            ("postgres://u@localhost/d", false),
            ("postgres://u@127.0.0.2/d", false),
            ("postgres://u@[::1]/d", false),
            ("postgres://u@db/d?host=/run/postgresql", false),
            ("postgres://u@%2Frun%2Fpostgresql/d", false),
        ] {
            let mode = options_of(url).expect(url).get_ssl_mode();
            assert_eq!(
                matches!(mode, PgSslMode::VerifyFull),
                verified,
                "{url}: {mode:?}"
            );
        }
    }
}
