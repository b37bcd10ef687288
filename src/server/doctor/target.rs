//! What `rallypoint doctor` finds out about a target: whether each of its logins gets in, and may
//! do what the configuration has it do.

use crate::{
    executor::{Connection, Login},
    journal::{Finding, Verdict, login_remedy},
    server::Target,
};
use std::collections::BTreeSet;

/// What is found about each of its logins. `coordination`: that of the coordination database.
pub(crate) async fn of_target(target: &Target, coordination: Option<&Login>) -> Vec<Finding> {
    let check = format!("target {}", target.name);
    let mut findings = vec![of_tasks(&check, &target.login, target, coordination).await];
    for (namespace, login) in &target.logins {
        let check = format!("{check}, namespace {namespace}");
        findings.push(of_tasks(&check, login, target, coordination).await);
    }
    if let Some(watchdog) = &target.watchdog {
        let tasks: Vec<&Login> = target.logins.values().chain([&target.login]).collect();
        let is_of_all = tasks.iter().all(|login| login.user() == watchdog.user());
        findings.push(of_watchdog(&format!("{check}, watchdog"), watchdog, is_of_all).await);
    }
    findings
}

/// A login of tasks.
async fn of_tasks(
    check: &str,
    login: &Login,
    target: &Target,
    coordination: Option<&Login>,
) -> Finding {
    let user = login.user();
    let found = match ask(login, &rights(&target.roles)).await {
        Ok(row) => row,
        Err(finding) => return finding.of(check),
    };
    let [superuser, is_prepared, may_mark, roles] = &found[..] else {
        return Finding::wrong(check, Verdict::Bad, "it answers strangely", "ask again");
    };
    let is = |said: &Option<String>| said.as_deref() == Some("t");
    if let Some(roles) = roles {
        let found = format!("{user} may not become what `roles` names: {roles}");
        let remedy = format!("`grant ROLE to {user}`, or take it out: tasks that name it fail");
        return Finding::wrong(check, Verdict::Bad, found, remedy);
    }
    let is_too_mighty = if is(superuser) {
        Some("is a superuser")
    } else if coordination
        .is_some_and(|other| other.is_on_server_of(login) && other.user() == login.user())
    {
        Some("is also the login of the coordination database")
    } else {
        None
    };
    if let Some(is_too_mighty) = is_too_mighty {
        let found = format!("{user} can log in, and {is_too_mighty}");
        let remedy = "give tasks a login of their own: a statement may do whatever that login may";
        return Finding::wrong(check, Verdict::Doubtful, found, remedy);
    }
    match (is(is_prepared), is(may_mark)) {
        (true, true) => Finding::good(check, format!("{user} can log in, also for EXACTLY_ONCE")),
        (false, _) => {
            let found =
                format!("{user} can log in; not prepared for EXACTLY_ONCE (prepare-target)");
            Finding::good(check, found)
        }
        (true, false) => {
            let found = format!("{user} can log in, but may not use what prepare-target has made");
            let remedy = format!(
                "`rallypoint prepare-target --login {user}`, or its EXACTLY_ONCE tasks fail"
            );
            Finding::wrong(check, Verdict::Doubtful, found, remedy)
        }
    }
}

/// The login that ends sessions of others. `is_of_all`: it is the only one, and may end its own.
async fn of_watchdog(check: &str, login: &Login, is_of_all: bool) -> Finding {
    let user = login.user();
    let query = "select pg_has_role('pg_signal_backend', 'usage'), \
                 pg_has_role('pg_read_all_stats', 'usage')";
    let found = match ask(login, query).await {
        Ok(row) => row,
        Err(finding) => return finding.of(check),
    };
    let may = found.iter().all(|said| said.as_deref() == Some("t"));
    match may || is_of_all {
        true => Finding::good(check, format!("{user} can log in, and may end sessions")),
        false => {
            let found = format!("{user} can log in, but may not see and end sessions of others");
            let remedy = format!("`grant pg_signal_backend, pg_read_all_stats to {user}`");
            Finding::wrong(check, Verdict::Bad, found, remedy)
        }
    }
}

/// Why nobody could be asked.
struct Refused {
    found: String,
    remedy: &'static str,
}

impl Refused {
    fn of(self, check: &str) -> Finding {
        Finding::wrong(check, Verdict::Bad, self.found, self.remedy)
    }
}

/// Logs in, and asks for one row.
async fn ask(login: &Login, query: &str) -> Result<Vec<Option<String>>, Refused> {
    let answered = async {
        let mut connection = Connection::open(login).await?;
        let row = connection.row(query).await;
        connection.close().await;
        row
    };
    answered.await.map_err(|error| {
        let found = error.to_string();
        let remedy = login_remedy(error.sqlstate(), &found)
            .unwrap_or("start it, or correct its URL and password: its tasks wait until then");
        Refused { found, remedy }
    })
}

/// Asks whether the login is a superuser, whether markers are there, whether it may use them, and
/// which of these roles it may not become.
fn rights(roles: &BTreeSet<String>) -> String {
    let quoted = |role: &String| format!("'{}'", role.replace('\'', "''"));
    let roles: Vec<String> = roles.iter().map(quoted).collect();
    let markers = "from pg_proc p join pg_namespace n on n.oid = p.pronamespace \
                   where n.nspname = 'rallypoint' and p.proname = 'begin_task'";
    format!(
        "select current_setting('is_superuser') = 'on', exists (select {markers}), \
         exists (select {markers} and has_schema_privilege(n.oid, 'usage') \
             and has_function_privilege(p.oid, 'execute')), \
         (select string_agg(name, ', ') from unnest(array[{}]::text[]) as named (name) \
             where not exists (select from pg_roles r \
                 where r.rolname = name and pg_has_role(r.oid, 'member')))",
        roles.join(", ")
    )
}
