//! URLs of databases, as the coordination database and administrators' logins are reached: with TLS
//! that is verified off this machine, unless a URL says otherwise.

use crate::likeness::closest;
use anyhow::{Context, Result, anyhow, bail, ensure};
use sqlx::{
    ConnectOptions,
    postgres::{PgConnectOptions, PgSslMode},
};
use std::{borrow::Cow, env, fs::File, net::IpAddr, path::Path};
use url::{ParseError, Url};

/// What `sslmode` may be.
pub(crate) const SSL_MODES: &str =
    "`sslmode` is disable, prefer, require, verify-ca or verify-full";

/// What to do about a certificate that shows nothing.
pub(crate) const UNTRUSTED: &str =
    "name its authority with sslrootcert=FILE in the URL, or say another sslmode there";
/// What to do about a server without TLS.
pub(crate) const NO_TLS: &str = "the server takes no TLS, and sslmode asks for it: set it up \
                                 there, or say another sslmode in the URL";
/// What is said of a port on which something else listens.
pub(crate) const NO_POSTGRES: &str = "what answers there is no Postgres";

/// Parameters that are obeyed, besides `options[NAME]`.
const PARAMETERS: [&str; 18] = [
    "host",
    "hostaddr",
    "port",
    "user",
    "password",
    "dbname",
    "application_name",
    "options",
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
];

/// Whether what is said to this host stays on this machine.
pub(crate) fn is_here(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// What is to be added of a mode that nobody need have said.
pub(crate) fn by_default(verifies_all: bool) -> &'static str {
    match verifies_all {
        true => ", which off this machine is verify-full",
        false => "",
    }
}

/// Where a connection goes: the host and the port, or the path of the socket.
pub(crate) fn place(options: &PgConnectOptions) -> String {
    let port = options.get_port();
    match options.get_socket() {
        Some(folder) => format!("{}/.s.PGSQL.{port}", folder.display()),
        None => format!("{}:{port}", options.get_host()),
    }
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

/// What to write in place of a text that is no URL for this reason.
pub(crate) fn form_instead(error: ParseError) -> &'static str {
    match error {
        ParseError::EmptyHost => {
            "write it like postgres://user@host/database, and with a Unix socket like \
             postgres://user@/database?host=/run/postgresql"
        }
        _ => {
            "write it like postgres://user:password@host/database, where special characters of \
             the password are percent-encoded (`#` is `%23`)"
        }
    }
}

/// The parts of a URL that says nothing which would not be obeyed.
pub(crate) fn obeyed(text: &str) -> Result<Url> {
    let url = parsed(text).map_err(|error| anyhow!("not a URL: {error}"))?;
    ensure!(
        url.fragment().is_none(),
        "a `#` ends a URL; in a password it is written %23"
    );
    for (name, _) in url.query_pairs() {
        let is_setting = name.starts_with("options[") && name.ends_with(']');
        if !is_setting && !PARAMETERS.contains(&&*name) {
            return Err(unknown(&name));
        }
    }
    Ok(url)
}

fn unknown(name: &str) -> anyhow::Error {
    // What does not look like a name may be the rest of a password with a `?` in it.
    let is_name = |byte: u8| byte.is_ascii_alphabetic() || b"_-".contains(&byte);
    match closest(name, &PARAMETERS) {
        _ if !name.bytes().all(is_name) => {
            anyhow!("a parameter is not known; a `?` in a password is written %3F")
        }
        Some(meant) => anyhow!("`{name}` is not known: did you mean `{meant}`?"),
        None => anyhow!("`{name}` is not known: take it out of the URL"),
    }
}

/// Fails when a file that a parameter names cannot be read. The driver would not look at it unless
/// the mode and the server have it verify something.
fn readable(name: &str, file: &str) -> Result<()> {
    File::open(Path::new(file)).with_context(|| format!("{name}: cannot read {file}"))?;
    Ok(())
}

/// How to connect to the database at `url`. Where neither the URL nor PGSSLMODE says how TLS is
/// used, it is as [`is_here`] says: verified (`verify-full`), or on this machine used if it is
/// there. Fails when the URL says what cannot be obeyed, and repeats no value of it but the names
/// of files.
pub(crate) fn options_of(url: &str) -> Result<PgConnectOptions> {
    let url = obeyed(url)?;
    let mut is_said = says_how(env::var("PGSSLMODE").ok().as_deref());
    for (name, value) in url.query_pairs() {
        match &*name {
            "sslmode" | "ssl-mode" if says_how(Some(&value)) => is_said = true,
            "sslmode" | "ssl-mode" => bail!(SSL_MODES),
            name if name.starts_with("ssl") => readable(name, &value)?,
            _ => {}
        }
    }
    let options = PgConnectOptions::from_url(&url).map_err(without_values)?;
    let stays_here = options.get_socket().is_some() || is_here(options.get_host());
    Ok(match is_said || stays_here {
        true => options,
        false => options.ssl_mode(PgSslMode::VerifyFull),
    })
}

/// Whether a mode says something. The driver takes a PGSSLMODE that it does not understand for
/// `prefer`.
fn says_how(mode: Option<&str>) -> bool {
    mode.is_some_and(|mode| mode.parse::<PgSslMode>().is_ok())
}

/// What the driver says of a URL, without the values that it quotes: one of them may be a secret in
/// the wrong place.
fn without_values(error: sqlx::Error) -> anyhow::Error {
    let said = match &error {
        sqlx::Error::Configuration(cause) => cause.to_string(),
        other => other.to_string(),
    };
    let outside: Vec<&str> = said.split('"').step_by(2).map(str::trim).collect();
    anyhow!(outside.join(" "))
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
        let said = |url: &str| format!("{:#}", options_of(url).expect_err(url));
        assert_eq!(said("postgres://u@db/d?sslmode=s3cret"), SSL_MODES);
        let shown = said("postgres://u:s3cret@db:port/d");
        assert!(
            shown.contains("port") && !shown.contains("s3cret"),
            "{shown}"
        );
    }

    #[test]
    fn what_would_not_be_obeyed_is_refused() {
        let said = |rest: &str| {
            let url = format!("postgres://u@localhost/{rest}");
            format!("{:#}", options_of(&url).expect_err(rest))
        };
        let meant = "`sslrotcert` is not known: did you mean `sslrootcert`?";
        assert_eq!(said("d?sslrotcert=/ca"), meant);
        assert!(said("d?zzz=1").contains("take it out"));
        assert!(said("d?12secret@h").contains("%3F"));
        assert!(said("d#x").contains("%23"));
        let missing = said("d?sslmode=prefer&sslrootcert=/nowhere/ca.crt");
        let expected = "sslrootcert: cannot read /nowhere/ca.crt: No such file";
        assert!(missing.starts_with(expected), "{missing}");
        let known = "postgres://u@localhost/d?options[search_path]=s&application_name=x&port=1";
        assert!(options_of(known).is_ok());
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
