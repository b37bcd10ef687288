//! `declare-dead TARGET`: an operator's word that sessions have ended which the service cannot show
//! to have ended.

use super::{
    confirm::Confirm,
    connect::Server,
    error::CliError,
    output::{self, RED},
    plural,
    table::Table,
    time_text,
};
use crate::likeness::closest;
use clap::Args;
use rallypoint_client::api::{
    DeclareDeadRequest, DeclareDeadResponse, GetStatusResponse, PendingFence,
    declare_dead_request::Scope,
};
use std::process::ExitCode;

/// Whose sessions.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Whose {
    /// The replica that had opened them
    #[arg(long, value_name = "NAME")]
    replica: Option<String>,
    /// Whichever replica had opened them
    #[arg(long)]
    all_replicas: bool,
}

/// Arguments of `declare-dead`.
#[derive(Args, Debug)]
pub(super) struct DeclareDead {
    /// The target, as `status` names it under FENCE_PENDING
    target: String,
    #[command(flatten)]
    whose: Whose,
    /// How it is known that they have ended, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    confirm: Confirm,
}

impl DeclareDead {
    /// Declares them dead. Repeated, it finds none, and changes nothing. A name that nobody has is
    /// an error: another one may have been meant.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let what = || format!("cannot declare the sessions on {} dead", self.target);
        let question = format!(
            "Tasks whose sessions on {} are awaited start again. Has it ended, all that ran there?",
            self.target
        );
        self.confirm.ask(&question).await?;
        let request = DeclareDeadRequest {
            target: self.target.clone(),
            scope: Some(
                self.whose
                    .replica
                    .clone()
                    .map_or(Scope::AllReplicas(()), Scope::Replica),
            ),
            reason: self.reason,
        };
        let client = server.client().await?;
        let answer = client.declare_dead(request).await;
        let sessions = answer.map_err(|error| CliError::call(what(), &error))?;
        if sessions == 0 {
            // Besides: without the status nothing is said of names.
            let status = client.status().await.unwrap_or_default();
            if let Some((why, next)) = unknown(&status, &self.target, self.whose.replica.as_deref())
            {
                return Err(CliError::new(what()).why(why).next(next));
            }
        }
        let of_replica = self.whose.replica.map(|replica| format!("of {replica} "));
        output::answer(&DeclareDeadResponse { sessions }, |_| {
            output::line(match sessions {
                0 => format!(
                    "no session {}on {} is awaited: `rallypoint status` lists what waits",
                    of_replica.unwrap_or_default(),
                    self.target
                ),
                _ => format!("declared dead: {}", plural::count(sessions, "session")),
            })
        });
        Ok(ExitCode::SUCCESS)
    }
}

/// Which of the names nobody has, if the status is whole, and what to do.
fn unknown(
    status: &GetStatusResponse,
    target: &str,
    replica: Option<&str>,
) -> Option<(String, String)> {
    if status.replicas.is_empty() || !status.unreachable.is_empty() {
        return None;
    }
    let fences = &status.pending_fences;
    let targets = status.targets.iter().map(|known| &known.name);
    let targets = targets.chain(fences.iter().map(|fence| &fence.target));
    let replicas = status.replicas.iter().map(|known| &known.name);
    let replicas = replicas.chain(fences.iter().map(|fence| &fence.replica));
    let of_target = missing("target", target, targets.map(String::as_str).collect());
    of_target.or_else(|| missing("replica", replica?, replicas.map(String::as_str).collect()))
}

/// What to say if `name` is none of those.
fn missing(what: &str, name: &str, known: Vec<&str>) -> Option<(String, String)> {
    if known.contains(&name) {
        return None;
    }
    let lists = "`rallypoint status` lists those there are, and below FENCE_PENDING those whose \
                 sessions are awaited";
    let next = match closest(name, &known) {
        Some(meant) => format!("did you mean `{meant}`? {lists}"),
        None => lists.to_owned(),
    };
    Some((format!("no {what} is called {name} now"), next))
}

/// The sessions whose end is awaited, as `status` shows them.
pub(super) fn print(fences: &[PendingFence]) {
    if fences.is_empty() {
        return;
    }
    output::line("");
    output::styled(
        "FENCE_PENDING: tasks wait until these sessions are shown to have ended",
        RED,
    );
    let mut table = Table::new(&["target", "replica", ">backend", ">since", "~why"]);
    for fence in fences {
        table.row([
            fence.target.clone(),
            fence.replica.clone(),
            fence.backend_pid.to_string(),
            time_text::ago(time_text::micros(fence.since.as_ref())),
            fence.why.clone(),
        ]);
    }
    table.print();
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::{ReplicaStatus, TargetStatus};

    #[test]
    fn a_name_is_unknown_if_no_part_of_the_status_has_it() {
        let mut status = GetStatusResponse {
            replicas: vec![ReplicaStatus {
                name: "r1".into(),
                ..ReplicaStatus::default()
            }],
            targets: vec![TargetStatus {
                name: "app".into(),
                ..TargetStatus::default()
            }],
            pending_fences: vec![PendingFence {
                target: "old".into(),
                replica: "r0".into(),
                ..PendingFence::default()
            }],
            ..GetStatusResponse::default()
        };
        for (target, replica) in [("app", None), ("app", Some("r1")), ("old", Some("r0"))] {
            assert_eq!(unknown(&status, target, replica), None);
        }
        let (said, _) = unknown(&status, "app", Some("r9")).unwrap_or_default();
        assert!(said.contains("r9"), "{said}");
        let (said, next) = unknown(&status, "apq", None).unwrap_or_default();
        assert!(
            said.contains("apq") && next.contains("did you mean `app`?"),
            "{said} {next}"
        );
        status.unreachable.push("r2".into());
        assert_eq!(unknown(&status, "app", Some("r9")), None);
    }
}
