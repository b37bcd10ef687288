//! What `rallypoint doctor` finds out about a target: whether each of its logins gets in, and may
//! do what the configuration has it do.

use super::CALL_TIMEOUT;
use crate::{
    executor::{Connection, Login},
    journal::{Finding, Verdict, login_remedy},
    server::{
        Target,
        target_setup::{MARKER_ROUTINES, WATCHDOG_ROUTINES},
    },
};
use sqlx::postgres::PgConnectOptions;
use std::collections::BTreeSet;
use tokio::time::timeout;

/// Where the password of a target stands.
const PASSWORD: &str = "in its URL, or in a file that `password_file` of the configuration names: \
                        the environment and ~/.pgpass count for no target";

/// What is found about each login. `coordination`: the login of the coordination database.
pub(crate) async fn of_target(target: &Target, coordination: &PgConnectOptions) -> Vec<Finding> {
    let check = format!("target {}", target.name);
    let named = target.logins.iter();
    let named = named.map(|(namespace, login)| (format!("{check}, namespace {namespace}"), login));
    let logins = [(check.clone(), &target.login)].into_iter().chain(named);
    let mut findings = Vec::new();
    // Which a login may not become, of those that could be asked.
    let mut denied: Vec<BTreeSet<String>> = Vec::new();
    let mut were_all_asked = true;
    for (check, login) in logins {
        let said = match ask(login, &of_tasks(&target.roles)).await {
            Ok(said) => said,
            Err(refused) => {
                findings.push(refused.of(&check));
                were_all_asked = false;
                continue;
            }
        };
        findings.push(said.of_tasks(&check, login, target, coordination));
        denied.push(said.names);
    }
    let nobodys = denied.into_iter().reduce(|all, one| &all & &one);
    if let Some(nobodys) = nobodys.filter(|roles| were_all_asked && !roles.is_empty()) {
        let found = format!("no login may become {}", list(&nobodys));
        let remedy = "create what is missing, and grant it to a login of tasks; or take it out: \
                      tasks that name it fail";
        findings.push(Finding::wrong(
            &format!("{check}, roles"),
            Verdict::Bad,
            found,
            remedy,
        ));
    }
    if let Some(watchdog) = &target.watchdog {
        let check = format!("{check}, watchdog");
        let users = target.logins.values().chain([&target.login]);
        let users = users.map(|login| login.user().to_owned()).collect();
        findings.push(match ask(watchdog, &of_watchdog(&users)).await {
            Ok(said) => said.of_watchdog(&check, watchdog),
            Err(refused) => refused.of(&check),
        });
    }
    findings
}

/// What a login says of itself.
struct Said {
    is_superuser: bool,
    /// Routines of `prepare-target` that are there.
    made: usize,
    /// Those of them that it has to call and may not.
    denied: usize,
    /// Roles that it may not become; of a watchdog, logins whose sessions it may not end.
    names: BTreeSet<String>,
}

impl Said {
    fn of_tasks(
        &self,
        check: &str,
        login: &Login,
        target: &Target,
        coordination: &PgConnectOptions,
    ) -> Finding {
        let user = login.user();
        let mut found = vec![format!("{user} can log in")];
        let mut wrong = Vec::new();
        if let Some(role) = target.defaults.role.as_ref()
            && self.names.contains(role)
        {
            found.push(format!("it may not become {role}, the role of `defaults`"));
            let remedy = format!("grant {} to {}", ident(role), ident(user));
            wrong.push((Verdict::Bad, remedy));
        }
        let own = "give tasks a login of their own: a statement may do whatever that login may";
        if self.is_superuser {
            found.push("it is a superuser".to_owned());
            wrong.push((Verdict::Doubtful, own.to_owned()));
        } else if is_same(login, coordination) {
            found.push("it is also the login of the coordination database".to_owned());
            wrong.push((Verdict::Doubtful, own.to_owned()));
        }
        match (self.made, self.denied) {
            (0, _) => found.push("not prepared for EXACTLY_ONCE (prepare-target)".to_owned()),
            (made, _) if made < MARKER_ROUTINES.len() => {
                found.push("what prepare-target has made is not whole".to_owned());
                let remedy = format!("`rallypoint prepare-target --url URL --login {user}`");
                wrong.push((Verdict::Doubtful, remedy));
            }
            (_, 0) => found.push("prepared for EXACTLY_ONCE".to_owned()),
            _ => {
                found.push("it may not use what prepare-target has made".to_owned());
                let remedy = format!(
                    "`rallypoint prepare-target --url URL --login {user}`, or its EXACTLY_ONCE \
                     tasks fail"
                );
                wrong.push((Verdict::Doubtful, remedy));
            }
        }
        finding(check, found, wrong)
    }

    fn of_watchdog(&self, check: &str, login: &Login) -> Finding {
        let user = login.user();
        let mut found = vec![format!("{user} can log in")];
        let mut wrong = Vec::new();
        match self.names.is_empty() {
            true => found.push("it may end the sessions of tasks".to_owned()),
            false => {
                let of = list(&self.names);
                found.push(format!("it may not see and end sessions of {of}"));
                let remedy = format!(
                    "grant pg_signal_backend, pg_read_all_stats to {}; sessions of a superuser \
                     only a superuser ends",
                    ident(user)
                );
                wrong.push((Verdict::Bad, remedy));
            }
        }
        if self.denied > 0 {
            found.push("it may not look for markers of EXACTLY_ONCE".to_owned());
            let remedy = format!("`rallypoint prepare-target --url URL --login {user}`");
            wrong.push((Verdict::Bad, remedy));
        }
        finding(check, found, wrong)
    }
}

/// All that is said of one login; the worst counts.
fn finding(check: &str, found: Vec<String>, wrong: Vec<(Verdict, String)>) -> Finding {
    let found = found.join("; ");
    match wrong.iter().map(|(verdict, _)| *verdict).max() {
        None => Finding::good(check, found),
        Some(verdict) => {
            let remedies: Vec<String> = wrong.into_iter().map(|(_, remedy)| remedy).collect();
            Finding::wrong(check, verdict, found, remedies.join("; "))
        }
    }
}

/// Why nobody could be asked.
struct Refused {
    found: String,
    remedy: String,
}

impl Refused {
    fn of(self, check: &str) -> Finding {
        Finding::wrong(check, Verdict::Bad, self.found, self.remedy)
    }
}

/// Logs in, and asks for one row.
async fn ask(login: &Login, query: &str) -> Result<Said, Refused> {
    let silent = || Refused {
        found: format!("{} can log in, and gets no answer", login.user()),
        remedy: "is it Postgres that answers there, or a pooler without a server?".to_owned(),
    };
    let opened = Connection::open(login).await;
    let mut connection = opened.map_err(|error| {
        let found = error.to_string();
        let known = login_remedy(error.sqlstate(), &found, PASSWORD);
        let remedy = known.unwrap_or_else(|| {
            match error.sqlstate() {
                None => "start it, or correct its URL: its tasks wait until then",
                Some(_) => "correct its URL: Postgres answers there, and does not let the login in",
            }
            .to_owned()
        });
        Refused { found, remedy }
    })?;
    let row = timeout(CALL_TIMEOUT, connection.row(query)).await;
    connection.close().await;
    let row = row.map_err(|_| silent())?;
    let row = row.map_err(|error| Refused {
        found: format!("{} can log in, and may not ask: {error}", login.user()),
        remedy: "let it read the catalogs of its database, as every login may".to_owned(),
    })?;
    let row: Vec<String> = row.into_iter().flatten().collect();
    let [is_superuser, made, denied, names] = &row[..] else {
        return Err(silent());
    };
    let count = |text: &String| text.parse().map_err(|_| silent());
    Ok(Said {
        is_superuser: is_superuser == "on",
        made: count(made)?,
        denied: count(denied)?,
        names: names.lines().map(str::to_owned).collect(),
    })
}

/// Asks a login of tasks which of these roles it may not become, a line each.
fn of_tasks(roles: &BTreeSet<String>) -> String {
    // Since Postgres 16 who is a member need not be let into the role.
    let may = "pg_has_role(r.oid, case when current_setting('server_version_num')::int < 160000 \
               then 'member' else 'set' end)";
    asked(&MARKER_ROUTINES, roles, may)
}

/// Asks a watchdog which of these users have sessions that it may not see and end.
fn of_watchdog(users: &BTreeSet<String>) -> String {
    let may = "(pg_has_role(r.oid, 'usage') or not r.rolsuper \
               and pg_has_role('pg_signal_backend', 'usage') \
               and pg_has_role('pg_read_all_stats', 'usage'))";
    asked(&WATCHDOG_ROUTINES, users, may)
}

/// A row for [`Said`]: `may` is what the login has to have of each role of these names.
fn asked(routines: &[&'static str], names: &BTreeSet<String>, may: &str) -> String {
    let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let literals = |all: Vec<&str>| all.into_iter().map(literal).collect::<Vec<_>>().join(", ");
    // `rallypoint.run(text)`: each name is there once.
    let name = |routine: &&'static str| routine.split(['.', '(']).nth(1).unwrap_or(routine);
    let routines = literals(routines.iter().map(name).collect());
    let names = literals(names.iter().map(String::as_str).collect());
    let made = format!(
        "select count(*) from pg_proc p join pg_namespace n on n.oid = p.pronamespace \
         where n.nspname = 'rallypoint' and p.proname in ({routines})"
    );
    format!(
        "select current_setting('is_superuser'), ({made}), \
         ({made} and not (has_schema_privilege(n.oid, 'usage') \
             and has_function_privilege(p.oid, 'execute'))), \
         (select coalesce(string_agg(named.name, chr(10)), '') \
             from unnest(array[{names}]::text[]) as named (name) \
             where not exists (select from pg_roles r where r.rolname = named.name and {may}))"
    )
}

fn is_same(login: &Login, other: &PgConnectOptions) -> bool {
    let folder = other
        .get_socket()
        .map(|folder| folder.display().to_string());
    let host = folder.as_deref().unwrap_or(other.get_host());
    login.is_user_at(other.get_username(), host, other.get_port())
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().cloned().collect::<Vec<_>>().join(", ")
}

/// As SQL has the name of a role.
fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
