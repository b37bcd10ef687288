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
use clap::Args;
use rallypoint_client::api::{
    DeclareDeadRequest, DeclareDeadResponse, PendingFence, declare_dead_request::Scope,
};
use std::process::ExitCode;

/// Arguments of `declare-dead`.
#[derive(Args, Debug)]
pub(super) struct DeclareDead {
    /// The target, as `status` names it under FENCE_PENDING
    target: String,
    /// The replica that had opened them
    #[arg(
        long,
        required_unless_present = "all_replicas",
        conflicts_with = "all_replicas",
        value_name = "NAME"
    )]
    replica: Option<String>,
    /// Whichever replica had opened them
    #[arg(long)]
    all_replicas: bool,
    /// How it is known that they have ended, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    confirm: Confirm,
}

impl DeclareDead {
    /// Declares them dead. Repeated, it finds none, and changes nothing.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let what = format!("cannot declare the sessions on {} dead", self.target);
        let question = format!(
            "Tasks whose sessions on {} are awaited start again. Has it ended, all that ran there?",
            self.target
        );
        self.confirm.ask(&question).await?;
        let request = DeclareDeadRequest {
            target: self.target.clone(),
            scope: Some(self.replica.map_or(Scope::AllReplicas(()), Scope::Replica)),
            reason: self.reason,
        };
        let answer = server.client().await?.declare_dead(request).await;
        let sessions = answer.map_err(|error| CliError::call(what, &error))?;
        output::answer(&DeclareDeadResponse { sessions }, |_| {
            output::line(match sessions {
                0 => format!(
                    "the end of no session on {} is awaited: `rallypoint status` lists what waits",
                    self.target
                ),
                _ => format!("declared dead: {}", plural::count(sessions, "session")),
            })
        });
        Ok(ExitCode::SUCCESS)
    }
}

/// The sessions whose end is awaited, as `status` shows them.
pub(super) fn print(fences: &[PendingFence]) {
    if fences.is_empty() {
        return;
    }
    output::line("");
    output::line(output::paint(
        "FENCE_PENDING: tasks wait until these sessions are shown to have ended",
        RED,
    ));
    let mut table = Table::new(&["target", "replica", ">backend", ">since", "why"]);
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
