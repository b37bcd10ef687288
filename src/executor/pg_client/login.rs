//! A login on a target, as the operator writes it: a URL.
//!
//! Invariant: the URL says all of it. The environment (PGPASSWORD, PGSSLMODE and their like) and
//! password files add nothing, since they would reach every target; and what cannot be obeyed is an
//! error, never ignored. Neither an error nor a log shows a password.

use crate::database_url::{SSL_MODES, is_here, obeyed};
use anyhow::{Context, anyhow, bail, ensure};
use percent_encoding::percent_decode_str;
use std::{
    borrow::Cow,
    fmt, fs,
    path::{Path, PathBuf},
    str::FromStr,
};

const DEFAULT_PORT: u16 = 5432;

/// Where and as whom tasks of a target log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) database: String,
    pub(super) ssl: Ssl,
    /// Settings of the session: what the URL says, and later what the service needs.
    pub(super) settings: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    /// The directory of a Unix socket.
    Socket(PathBuf),
}

/// TLS as the URL asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ssl {
    pub(super) mode: SslMode,
    pub(super) root_cert: Option<PathBuf>,
    /// Certificate and key with which this side identifies itself.
    pub(super) client: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SslMode {
    Disable,
    /// When the server takes it: on this machine, unless the URL says otherwise.
    #[default]
    Prefer,
    Require,
    VerifyCa,
    /// Off this machine, unless the URL says otherwise.
    VerifyFull,
}

impl Ssl {
    /// The files it names, each with its option.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let client = self.client.iter();
        let client = client.flat_map(|(cert, key)| [("sslcert", cert), ("sslkey", key)]);
        let root = self.root_cert.iter().map(|file| ("sslrootcert", file));
        root.chain(client)
    }
}

impl Login {
    /// What is wrong with a file of TLS that the URL names, if one cannot be read.
    pub(crate) fn unreadable_file(&self) -> Option<String> {
        let unread = |(option, file): (&str, &PathBuf)| {
            let error = fs::File::open(file).err()?;
            Some(format!("{option}: cannot read {}: {error}", file.display()))
        };
        self.ssl.files().find_map(unread)
    }

    /// Whether it brings a password.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// The same with this password.
    pub fn with_password(self, password: String) -> Self {
        Login {
            password: Some(password),
            ..self
        }
    }

    /// Another user on the same database, with or without a password.
    pub fn as_user(self, user: String, password: Option<String>) -> Self {
        Login {
            user,
            password,
            ..self
        }
    }

    /// As whom it logs in.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The same with this setting in every session.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut login = self.clone();
        login.set(name, value);
        login
    }

    /// Sets what the operator has not set.
    pub(crate) fn or(self, name: &str, value: &str) -> Self {
        match self.settings.iter().any(|(set, _)| set == name) {
            true => self,
            false => self.with(name, value),
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(set, _)| set != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    fn parameter(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        let path = || Some(PathBuf::from(value));
        match key {
            "host" if value.starts_with('/') => self.host = Host::Socket(value.into()),
            "host" | "hostaddr" => self.host = Host::Name(value.to_owned()),
            "port" => self.port = value.parse().context("`port` is not a port")?,
            "user" => self.user = value.to_owned(),
            "password" => self.password = Some(value.to_owned()),
            "dbname" => self.database = value.to_owned(),
            "sslmode" | "ssl-mode" => self.ssl.mode = value.parse()?,
            "sslrootcert" | "ssl-root-cert" | "ssl-ca" => self.ssl.root_cert = path(),
            "application_name" | "options" => self.set(key, value),
            // Of sqlx, and without a meaning here.
            "statement-cache-capacity" => {}
            _ => {
                let setting = key.strip_prefix("options[");
                let setting = setting.and_then(|key| key.strip_suffix(']'));
                let setting = setting.with_context(|| format!("`{key}` is not known"))?;
                self.set(setting, value);
            }
        }
        Ok(())
    }
}

impl FromStr for Login {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let url = obeyed(text)?;
        let host = decoded(url.host_str().unwrap_or_default())?;
        let mut login = Login {
            host: match host.starts_with('/') {
                true => Host::Socket(Path::new(&*host).to_owned()),
                false => Host::Name(host.trim_matches(['[', ']']).to_owned()),
            },
            port: url.port().unwrap_or(DEFAULT_PORT),
            user: decoded(url.username())?.into_owned(),
            password: match url.password() {
                Some(password) => Some(decoded(password)?.into_owned()),
                None => None,
            },
            database: decoded(url.path().trim_start_matches('/'))?.into_owned(),
            ssl: Ssl::default(),
            settings: Vec::new(),
        };
        let (mut cert, mut key, mut has_mode) = (None, None, false);
        for (name, value) in url.query_pairs() {
            has_mode |= matches!(&*name, "sslmode" | "ssl-mode");
            match &*name {
                "sslcert" | "ssl-cert" => cert = Some(PathBuf::from(&*value)),
                "sslkey" | "ssl-key" => key = Some(PathBuf::from(&*value)),
                name => login.parameter(name, &value)?,
            }
        }
        login.ssl.client = match (cert, key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some((cert, key)),
            _ => bail!("`sslcert` and `sslkey` belong together: give both, or none"),
        };
        ensure!(
            login.host != Host::Name(String::new()),
            "it names no host: write it like postgres://user@host/database, \
             or add ?host=/directory for a Unix socket"
        );
        if matches!(&login.host, Host::Name(host) if !has_mode && !is_here(host)) {
            login.ssl.mode = SslMode::VerifyFull;
        }
        ensure!(
            matches!(login.host, Host::Name(_)) || login.ssl.verified() <= SslMode::Prefer,
            "`sslmode` asks for TLS, which a Unix socket has not: take it out, or name a host"
        );
        ensure!(
            !login.user.is_empty(),
            "it names no user: write it like postgres://user@host/database"
        );
        if login.database.is_empty() {
            login.database.clone_from(&login.user);
        }
        Ok(login)
    }
}

impl Ssl {
    /// What is verified: a root certificate that was given is not given for nothing.
    pub(super) fn verified(&self) -> SslMode {
        match self.mode {
            SslMode::Require if self.root_cert.is_some() => SslMode::VerifyCa,
            mode => mode,
        }
    }
}

impl SslMode {
    /// Whether the server is asked for TLS.
    pub(super) fn asks(self) -> bool {
        self != SslMode::Disable
    }
}

impl FromStr for SslMode {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "disable" => SslMode::Disable,
            "allow" | "prefer" => SslMode::Prefer,
            "require" => SslMode::Require,
            "verify-ca" => SslMode::VerifyCa,
            "verify-full" => SslMode::VerifyFull,
            _ => bail!(SSL_MODES),
        })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

fn decoded(text: &str) -> anyhow::Result<Cow<'_, str>> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map_err(|_| anyhow!("it is not UTF-8 behind its % signs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(url: &str) -> Login {
        url.parse().expect(url)
    }

    #[test]
    fn a_url_names_host_user_and_database() {
        let full = login("postgres://a%40b:p%2Fw@db.example:6432/x%20y");
        assert_eq!(full.host, Host::Name("db.example".into()));
        assert_eq!((full.port, full.user.as_str()), (6432, "a@b"));
        assert_eq!(full.password.as_deref(), Some("p/w"));
        assert_eq!(full.database.as_str(), "x y");
        let short = login("postgresql://app@[::1]");
        assert_eq!(short.host, Host::Name("::1".into()));
        assert_eq!((short.port, short.database.as_str()), (5432, "app"));
        assert_eq!(short.password, None);
    }

    #[test]
    fn a_unix_socket_is_a_directory() {
        let socket = Host::Socket("/run/postgresql".into());
        for url in [
            "postgres://app@localhost/app?host=/run/postgresql",
            "postgres://app@%2Frun%2Fpostgresql:5432/app",
            "postgres:///app?host=/run/postgresql&user=app",
        ] {
            assert_eq!(login(url).host, socket, "{url}");
        }
    }

    #[test]
    fn parameters_are_obeyed_or_refused() {
        let url = "postgres://u@h/d?sslmode=verify-full&sslrootcert=/ca&sslcert=/c&sslkey=/k\
                   &application_name=x&options=-c%20a%3Db&options[search_path]=s&dbname=e&port=7";
        let login = login(url);
        assert_eq!((login.port, login.database.as_str()), (7, "e"));
        let ssl = Ssl {
            mode: SslMode::VerifyFull,
            root_cert: Some("/ca".into()),
            client: Some(("/c".into(), "/k".into())),
        };
        assert_eq!(login.ssl, ssl);
        let set = [
            ("application_name", "x"),
            ("options", "-c a=b"),
            ("search_path", "s"),
        ];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(login.settings, set);
        for wrong in [
            "sslmode=on",
            "channel_binding=require",
            "sslcert=/c",
            "port=x",
            "passwrod=secret",
        ] {
            let url = format!("postgres://u:secret@h/d?{wrong}");
            let error = url.parse::<Login>().expect_err(wrong);
            assert!(!format!("{error:#}").contains("secret"), "{error:#}");
        }
    }

    #[test]
    fn what_cannot_be_obeyed_is_refused_and_shows_no_part_of_a_password() {
        for (wrong, remedy) in [
            ("postgres://u:12?secret@h/d", "%3F"),
            ("postgres://u:12#secret@h/d", "%23"),
            ("postgres://u@h/d?sslrotcert=/ca", "mean `sslrootcert`?"),
            ("postgres://u@h/d?host=/run&sslmode=require", "Unix socket"),
            (
                "postgres://u@h/d?host=/run&sslmode=verify-full",
                "Unix socket",
            ),
        ] {
            let error = format!("{:#}", wrong.parse::<Login>().expect_err(wrong));
            assert!(
                error.contains(remedy) && !error.contains("secret"),
                "{error}"
            );
        }
        login("postgres://u@h/d?host=/run&sslmode=prefer");
    }

    #[test]
    fn a_login_without_host_or_user_is_refused_and_no_password_is_shown() {
        for wrong in [
            "postgres:///d",
            "postgres://:secret@h/d",
            "nothing",
            "postgres://h/d",
        ] {
            let error = wrong.parse::<Login>().expect_err(wrong);
            assert!(!format!("{error:#}").contains("secret"), "{error:#}");
        }
        let shown = format!("{:?}", login("postgres://u:secret@h/d?options=secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn tls_is_verified_off_this_machine_unless_the_url_says_otherwise() {
        for (url, mode) in [
            ("postgres://u@db/d", SslMode::VerifyFull),
            ("postgres://u@[2001:db8::1]/d", SslMode::VerifyFull),
            ("postgres://u@localhost/d?host=db", SslMode::VerifyFull),
            ("postgres://u@db/d?sslmode=require", SslMode::Require),
            ("postgres://u@db/d?ssl-mode=disable", SslMode::Disable),
            ("postgres://u@localhost/d", SslMode::Prefer),
            ("postgres://u@127.0.0.2/d", SslMode::Prefer),
            ("postgres://u@[::1]/d", SslMode::Prefer),
            ("postgres://u@db/d?host=/run/postgresql", SslMode::Prefer),
        ] {
            assert_eq!(login(url).ssl.mode, mode, "{url}");
        }
    }

    #[test]
    fn a_root_certificate_is_not_given_for_nothing() {
        let url = "postgres://u@h/d?sslmode=require";
        assert_eq!(login(url).ssl.verified(), SslMode::Require);
        let url = format!("{url}&sslrootcert=/ca");
        assert_eq!(login(&url).ssl.verified(), SslMode::VerifyCa);
    }

    #[test]
    fn the_service_sets_what_the_operator_has_not() {
        let login = login("postgres://u@h/d?application_name=x");
        let login = login
            .or("application_name", "y")
            .or("a", "1")
            .with("a", "2");
        let set = [("application_name", "x"), ("a", "2")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(login.settings, set);
    }
}
