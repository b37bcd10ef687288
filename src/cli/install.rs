//! Installs something into the database of a target, as its administrator. Does nothing when it is
//! there already.

use super::{check_config, error::CliError, output, postgres_url};
use crate::{
    server::{
        ConfigFile, DEFAULT_SESSION_IDLE, Described, Login, Target,
        target_setup::{Installed, is_of_missing_role},
        unreached::connection_remedy,
    },
    toml_file::written_key,
};
use clap::Args;
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

/// Where the password of an administrator stands: of a target the environment does not count.
const PASSWORD: &str =
    "in the URL (--url, RALLYPOINT_ADMIN_URL), or in what the configuration says of the target";

/// Into which database, and for whom.
#[derive(Args, Debug)]
pub(super) struct Install {
    /// A target of the configuration file: its logins and roles may use it, and without --url its
    /// own login installs
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// The configuration file of the server
    #[arg(long, value_name = "FILE", default_value = "rallypoint.toml")]
    config: PathBuf,
    /// URL of the target's database with the login and password of an administrator, who may create
    /// roles and schemas
    #[arg(
        long,
        env = "RALLYPOINT_ADMIN_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    url: Option<String>,
    /// A login or role that may use it (may be repeated)
    #[arg(long = "login", value_name = "NAME")]
    logins: Vec<String>,
    /// Print the statements instead of running them
    #[arg(long)]
    print: bool,
}

impl Install {
    /// Installs this.
    pub(super) async fn run(self, what: Installed) -> Result<ExitCode, CliError> {
        let target = self.target()?;
        let has_database = self.print || self.url.is_some() || target.is_some();
        if !has_database || target.is_none() && self.logins.is_empty() {
            return Err(incomplete(has_database));
        }
        let of_roles = self.of_roles();
        let mut logins: BTreeSet<String> = self.logins.into_iter().collect();
        logins.extend(target.iter().flat_map(writers));
        let logins: Vec<String> = logins.into_iter().collect();
        if self.print {
            let statements = what.statements(&logins);
            output::script(json!({ "statements": statements }), &statements);
            return Ok(ExitCode::SUCCESS);
        }
        let administrator = match (self.url, target) {
            (Some(url), _) => {
                postgres_url::read(postgres_url::ADMINISTRATOR, &url, str::parse::<Login>)?
            }
            (None, Some(target)) => target.login,
            (None, None) => return Err(incomplete(false)),
        };
        let installed = what.install(&administrator, &logins).await;
        installed.map_err(|error| failed(error, &of_roles, PASSWORD))?;
        let text = format!("{} is installed, for {}", what.name(), logins.join(", "));
        output::document(json!({ "installed": true, "logins": logins }), text);
        Ok(ExitCode::SUCCESS)
    }

    /// Where the logins and roles stand for which it is installed.
    fn of_roles(&self) -> String {
        let file = self.config.display();
        let key = self.target.as_deref().map(written_key);
        match (key, self.logins.is_empty()) {
            (None, _) => "--login".to_owned(),
            (Some(key), true) => format!("[targets.{key}] in {file}"),
            (Some(key), false) => format!("--login or [targets.{key}] in {file}"),
        }
    }

    /// The target that is named, as the file describes it.
    fn target(&self) -> Result<Option<Target>, CliError> {
        let Some(name) = &self.target else {
            return Ok(None);
        };
        if !self.config.exists() {
            let what = format!(
                "{} is not there, and names no target",
                self.config.display()
            );
            return Err(CliError::new(what).next(
                "name the file of the server with --config; without one leave out --target, and say --url and \
                 --login",
            ));
        }
        let Described { targets, .. } = check_config::read(&ConfigFile {
            path: self.config.clone(),
            slots: 1,
            session_idle: DEFAULT_SESSION_IDLE,
            others: BTreeSet::new(),
            namespaces: true,
            certificates: true,
        })?;
        let names: Vec<String> = targets.iter().map(|one| one.name.to_string()).collect();
        let named = targets.into_iter().find(|one| &*one.name == name.as_str());
        let missing = || {
            let file = self.config.display();
            CliError::usage(format!("{file} has no target {name}"))
                .next(format!("it has: {}", names.join(", ")))
        };
        named.ok_or_else(missing).map(Some)
    }
}

/// What is to be said to install something.
fn incomplete(has_database: bool) -> CliError {
    let what = match has_database {
        true => "it is not said for whom",
        false => "it is not said into which database",
    };
    CliError::usage(what).next(
        "name a target with --target, and its configuration file with --config; or say --url, which \
         may also be in RALLYPOINT_ADMIN_URL, and --login",
    )
}

/// What keeps something from being installed, and what to do. `of_roles`: where the logins and
/// roles stand for which it is to be installed; `password`: where that of the administrator does.
pub(super) fn failed(error: anyhow::Error, of_roles: &str, password: &str) -> CliError {
    let next = match connection_remedy(&error, password) {
        Some(remedy) => remedy,
        None if is_of_missing_role(&error) => {
            format!("correct {of_roles}, or create that role first (`create role NAME login`)")
        }
        None => "use --url with the login of a superuser, or of a role with CREATEROLE that owns \
                 the database; or have an administrator run what --print prints"
            .to_owned(),
    };
    CliError::from(error).next(next)
}

/// As whom tasks of the target write.
fn writers(target: &Target) -> BTreeSet<String> {
    let logins = target.logins.values().chain([&target.login]);
    let logins = logins.map(|login| login.user().to_owned());
    logins.chain(target.roles.iter().cloned()).collect()
}
