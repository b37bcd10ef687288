//! Installs something into the database of a target, as its administrator. Does nothing when it is
//! there already.

use super::{check_config, error::CliError, output, postgres_url};
use crate::server::{
    ConfigFile, DEFAULT_SESSION_IDLE, Described, Login, Target,
    target_setup::{Installed, is_of_missing_role},
};
use clap::Args;
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

/// Into which database, and for whom.
#[derive(Args, Debug)]
pub(super) struct Install {
    /// A target of the configuration file: its logins and roles may use it, and without --url its
    /// own login installs
    #[arg(long, value_name = "NAME", required_unless_present = "logins")]
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
        value_name = "URL",
        required_unless_present_any = ["target", "print"]
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
        let mut logins: BTreeSet<String> = self.logins.into_iter().collect();
        logins.extend(target.iter().flat_map(writers));
        let logins: Vec<String> = logins.into_iter().collect();
        if self.print {
            let statements = what.statements(&logins);
            output::document(json!({ "statements": statements }), &statements);
            return Ok(ExitCode::SUCCESS);
        }
        let administrator = match (self.url, target) {
            (Some(url), _) => postgres_url::read("--url", &url, str::parse::<Login>)?,
            (None, Some(target)) => target.login,
            (None, None) => return Err(CliError::usage("name the database: --url or --target")),
        };
        let installed = what.install(&administrator, &logins).await;
        installed.map_err(failed)?;
        let text = format!("{} is installed, for {}", what.name(), logins.join(", "));
        output::document(json!({ "installed": true, "logins": logins }), text);
        Ok(ExitCode::SUCCESS)
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
            return Err(CliError::usage(what).next(
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

/// What keeps something from being installed, and what to do.
pub(super) fn failed(error: anyhow::Error) -> CliError {
    let next = match is_of_missing_role(&error) {
        true => "correct --login, or create that role first (`create role NAME login`)",
        false => {
            "use --url with the login of a superuser, or of a role with CREATEROLE that owns the \
             database; or have an administrator run what --print prints"
        }
    };
    CliError::from(error).next(next)
}

/// As whom tasks of the target write.
fn writers(target: &Target) -> BTreeSet<String> {
    let logins = target.logins.values().chain([&target.login]);
    let logins = logins.map(|login| login.user().to_owned());
    logins.chain(target.roles.iter().cloned()).collect()
}
