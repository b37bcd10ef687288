//! Options by which a command knows the server and the server knows it: authorities, a
//! certificate, a token, a namespace.
//!
//! A token is in the environment or in a file, never an argument: arguments are shown to everybody
//! on the machine.

use super::{error::CliError, unreadable, variables};
use clap::Args;
use rallypoint_client::{Client, SecretString, Tls};
use std::path::PathBuf;

/// Where a token may be. `RALLYPOINT_TOKEN` is the fencing token of `lock run`.
const TOKEN: &str = "RALLYPOINT_AUTH_TOKEN";
const TOKEN_FILE: &str = "RALLYPOINT_AUTH_TOKEN_FILE";
const TLS_CA: &str = "RALLYPOINT_TLS_CA";
const TLS_CERT: &str = "RALLYPOINT_TLS_CERT";
const TLS_KEY: &str = "RALLYPOINT_TLS_KEY";

/// Whom to trust, and who calls.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Credentials {
    /// Authorities to trust at https:// addresses (PEM) [default: the public ones]
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = TLS_CA,
        hide_env_values = true,
        value_name = "FILE"
    )]
    tls_ca: Option<PathBuf>,
    /// Certificate to present there (PEM)
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = TLS_CERT,
        hide_env_values = true,
        value_name = "FILE"
    )]
    tls_cert: Option<PathBuf>,
    /// Private key of that certificate (PEM)
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = TLS_KEY,
        hide_env_values = true,
        value_name = "FILE"
    )]
    tls_key: Option<PathBuf>,
    /// File whose first line is the token to call with [default: the token in the environment,
    /// RALLYPOINT_AUTH_TOKEN]
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = TOKEN_FILE,
        hide_env_values = true,
        value_name = "FILE"
    )]
    token_file: Option<PathBuf>,
    /// Send the token in plain text to other machines, where the network itself encrypts
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = "RALLYPOINT_PLAIN_TEXT_TOKEN",
        hide_env_values = true,
        value_parser = variables::flag
    )]
    plain_text_token: bool,
    /// Namespace to call in, for callers that have several
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = "RALLYPOINT_NAMESPACE",
        hide_env_values = true,
        value_name = "NAME"
    )]
    namespace: Option<String>,
}

impl Credentials {
    /// Refuses files of callers that are given to a server: it would have no TLS, or know nobody.
    pub(super) fn refuse_for_server(&self) -> Result<(), CliError> {
        let files = [
            ("--tls-cert", TLS_CERT, &self.tls_cert),
            ("--tls-key", TLS_KEY, &self.tls_key),
            ("--tls-ca", TLS_CA, &self.tls_ca),
            ("--token-file", TOKEN_FILE, &self.token_file),
        ];
        // What the environment says is for the calls of this account.
        let is_given = |variable, file: &Option<PathBuf>| {
            file.is_some() && *file != std::env::var_os(variable).map(PathBuf::from)
        };
        let mut given = files.iter();
        match given.find(|(_, variable, file)| is_given(variable, file)) {
            Some((option, ..)) => Err(CliError::usage(format!(
                "{option} is for who calls a server, and not for the server"
            ))
            .next(
                "its certificate and key are --listen-cert and --listen-key, the authorities of \
                 its callers --listen-client-ca, their tokens `token_file` in its --config file",
            )),
            None => Ok(()),
        }
    }

    /// What connections by TLS need; `address` must be one of those if something is set.
    pub(super) fn tls(&self, address: &str) -> Result<Tls, CliError> {
        let files = [
            ("--tls-ca", &self.tls_ca),
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
            ("--token-file", &self.token_file),
        ];
        for (option, file) in files {
            unreadable::check(option, file.as_deref())?;
        }
        let mut tls = Tls::new();
        if let Some(ca) = &self.tls_ca {
            tls = tls.with_ca(ca);
        }
        tls = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => tls.with_identity(cert, key),
            (None, None) => tls,
            _ => {
                let what = "a certificate and its key belong together";
                let next = "set both --tls-cert and --tls-key";
                return Err(CliError::usage(what).next(next));
            }
        };
        let is_set = self.tls_ca.is_some() || self.tls_cert.is_some();
        let is_https = |address: &str| address.trim().starts_with("https://");
        if is_set && !address.split(',').all(is_https) {
            let what = "--tls-ca, --tls-cert and --tls-key are for https:// addresses";
            let next = "write --server https://HOST:PORT";
            return Err(CliError::usage(what)
                .why(format!("the server is {address}"))
                .next(next));
        }
        Ok(tls)
    }

    /// A namespace is said.
    pub(super) fn names_namespace(&self) -> bool {
        self.namespace.is_some()
    }

    /// The client with token and namespace.
    pub(super) fn of(&self, client: Client) -> rallypoint_client::Result<Client> {
        let token = std::env::var(TOKEN).ok();
        let token = token.filter(|token| !token.is_empty());
        let token = token.map(SecretString::from);
        let client = match self.plain_text_token {
            true => client.with_plain_text_tokens(),
            false => client,
        };
        let client = match (&self.token_file, token) {
            (Some(path), _) => client.with_token_file(path)?,
            (None, Some(token)) => client.with_token(&token)?,
            (None, None) => client,
        };
        match &self.namespace {
            Some(namespace) => client.with_namespace(namespace),
            None => Ok(client),
        }
    }
}
