//! Who may reach the service and do what: every method for every kind of caller, certificates that
//! are renewed, files that are read again, and the commands of `docs/security.md`.

mod audit;
mod callers;
mod canary;
mod certificates;
mod forwarding;
mod jwt;
mod lost_rights;
mod methods;
mod reads;
mod refused_once;
mod reload;
mod walk_through;
mod withdrawn;

use crate::harness::{
    in_process::{InProcess, config},
    postgres::{self, POSTGRES},
};
use rallypoint::{
    identity::{Authenticator, Sources},
    peer::CallerTls,
    postgres::{COORDINATION, TARGET},
    server::{Config, ConfigFile, DEFAULT_SESSION_IDLE, Target},
};
use rallypoint_client::{Client, SecretString};
use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnectOptions;
use std::{collections::BTreeSet, fs, path::Path};
use tempfile::TempDir;

/// A server in this process whose callers are known.
struct Secured {
    server: InProcess,
    authenticator: Authenticator,
    folder: TempDir,
    /// The coordination database.
    journal: PgConnectOptions,
}

/// A role of a token, which is called like its name: `NAME-token`.
struct Grant {
    name: &'static str,
    namespaces: &'static [&'static str],
    role: &'static str,
}

/// The two files of a server: who has which token, and what each may do.
fn describe(folder: &Path, grants: &[Grant], more: &str) {
    let (mut tokens, mut rules) = (String::new(), String::new());
    for Grant {
        name,
        namespaces,
        role,
    } in grants
    {
        let hash: [u8; 32] = Sha256::digest(token(name).as_bytes()).into();
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        tokens.push_str(&format!("{name} = \"sha256:{hash}\"\n"));
        rules.push_str(&format!(
            "[[access]]\nidentities = [\"token:{name}\"]\nnamespaces = {namespaces:?}\n\
             role = \"{role}\"\n"
        ));
    }
    let text = format!("[identity]\ntoken_file = \"tokens.toml\"\n{rules}{more}");
    fs::write(folder.join("tokens.toml"), tokens).expect("written");
    fs::write(folder.join("rallypoint.toml"), text).expect("written");
}

fn token(name: &str) -> String {
    format!("{name}-token")
}

fn sources(folder: &Path) -> Sources {
    let file = ConfigFile {
        path: folder.join("rallypoint.toml"),
        slots: 2,
        session_idle: DEFAULT_SESSION_IDLE,
        others: BTreeSet::new(),
        namespaces: false,
        certificates: true,
    };
    let described = file.read().expect("it makes sense");
    described.sources.expect("callers are known")
}

impl Secured {
    /// A server for these callers, with the target `app` for `etl` only.
    fn start(grants: &[Grant], more: &str, tls: Option<CallerTls>) -> Secured {
        let folder = TempDir::new().expect("a directory");
        describe(folder.path(), grants, more);
        let login = POSTGRES.url_for(&postgres::database(TARGET), TARGET);
        let app = Target {
            namespaces: Some([rallypoint::core::Namespace("etl".into())].into()),
            ..Target::new(TARGET, login.parse().expect("a login"), 2)
        };
        let database = postgres::database(COORDINATION);
        let journal = POSTGRES.options_for(&database, COORDINATION);
        let usual = config(POSTGRES.url_for(&database, COORDINATION), vec![app]);
        let authenticator = Authenticator::new(sources(folder.path()));
        let server = InProcess::start(Config {
            authenticator: Some(authenticator.clone()),
            tls,
            ..usual
        });
        Secured {
            server,
            authenticator,
            folder,
            journal,
        }
    }

    /// Has these callers count from now on, as SIGHUP does.
    fn change(&self, grants: &[Grant]) {
        describe(self.folder.path(), grants, "");
        self.authenticator.replace(sources(self.folder.path()));
    }

    /// The caller with this token.
    fn client(&self, name: &str) -> Client {
        let client = Client::connect_lazy(&self.server.url()).expect("a URL");
        let token = SecretString::from(token(name));
        client.with_token(&token).expect("a token")
    }
}
