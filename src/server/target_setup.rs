//! Prepares the database of a target: the place of the markers of EXACTLY_ONCE tasks, the guard
//! that refuses writers whose hold is over, and the place where runs of jobs are finished; and who
//! may use them. Doing it again changes nothing.
//!
//! All live in the schema `rallypoint`, each with a role of its own, and know nothing of each
//! other: whoever may use one is not let into the others. An administrator connects as tasks do:
//! the URL says all of it.

use super::unreached::{Unreached, sqlstate};
use crate::executor::{Connection, Login, MARKERS_SETUP};
use anyhow::{Context, Result};

const GUARD_SETUP: &str = include_str!("target_setup/guard.sql");
const RUNS_SETUP: &str = include_str!("target_setup/runs.sql");
/// What a login of EXACTLY_ONCE tasks calls.
pub(super) const MARKER_ROUTINES: [&str; 5] = [
    "rallypoint.begin_task(text, int8, uuid, int8)",
    "rallypoint.run(text)",
    "rallypoint.complete_task(text, int8, uuid, int8, text, text)",
    "rallypoint.marker_of(text, int8)",
    "rallypoint.prune_markers(int8, int4)",
];
/// What of it a watchdog calls.
pub(super) const WATCHDOG_ROUTINES: [&str; 2] = [MARKER_ROUTINES[3], MARKER_ROUTINES[4]];
/// What a login calls that shows its tokens; it may also make triggers of the second.
const GUARD_ROUTINES: [&str; 2] = [
    "rallypoint.guard(text, int8, bool)",
    "rallypoint.guard_writes()",
];

/// What a login calls that claims runs of jobs, or with which the service asks what became of them.
const RUN_ROUTINES: [&str; 3] = [
    "rallypoint.finish_run(text, timestamptz, int8, text)",
    "rallypoint.close_run(text, timestamptz, int8, text)",
    "rallypoint.require_finished(text, timestamptz, text)",
];

/// The SQLSTATE of a role that is not there.
const NO_SUCH_ROLE: &str = "42704";

/// What can be installed into a target by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installed {
    /// The place of the markers of EXACTLY_ONCE tasks.
    Markers,
    /// What refuses writers whose hold is over.
    Guard,
    /// Where runs of jobs are finished.
    Runs,
}

impl Installed {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Installed::Markers => "the place of markers",
            Installed::Guard => "the guard",
            Installed::Runs => "the place where runs are finished",
        }
    }

    /// The statements that install it, for these logins.
    pub(crate) fn statements(self, logins: &[String]) -> String {
        match self {
            Installed::Markers => for_logins(MARKERS_SETUP, &MARKER_ROUTINES, logins),
            Installed::Guard => for_logins(GUARD_SETUP, &GUARD_ROUTINES, logins),
            Installed::Runs => for_logins(RUNS_SETUP, &RUN_ROUTINES, logins),
        }
    }

    /// Installs it as the administrator of the database.
    pub(crate) async fn install(self, administrator: &Login, logins: &[String]) -> Result<()> {
        let mut connection = Connection::open(administrator).await.context(Unreached)?;
        // One message, and so one transaction.
        connection
            .run(&self.statements(logins))
            .await
            .with_context(|| format!("cannot install {}", self.name()))?;
        connection.close().await;
        Ok(())
    }
}

fn for_logins(setup: &str, routines: &[&str], logins: &[String]) -> String {
    let mut statements = setup.to_owned();
    for login in logins {
        let login = format!("\"{}\"", login.replace('"', "\"\""));
        statements.push_str(&format!("\ngrant usage on schema rallypoint to {login};\n"));
        for routine in routines {
            statements.push_str(&format!("grant execute on routine {routine} to {login};\n"));
        }
    }
    statements
}

/// Whether a login is none of the server, which an error of [`install`](Installed::install) says.
pub(crate) fn is_of_missing_role(error: &anyhow::Error) -> bool {
    sqlstate(error).as_deref() == Some(NO_SUCH_ROLE)
}
