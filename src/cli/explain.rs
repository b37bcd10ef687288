//! `explain HANDLE SEQ`: why a task is not running. The sentences are the server's.

use super::{
    api_words,
    connect::Server,
    enum_text,
    error::CliError,
    exec,
    output::{self, BOLD},
    shell,
    task_name::TaskWords,
    terminal_text::plain,
    time_text,
};
use clap::Args;
use rallypoint_client::{
    Scheduler,
    api::{Blocker, ExplainTaskResponse, TaskOptions, blocker::Kind},
};
use std::{process::ExitCode, time::Duration};
use tokio::time::timeout;

/// How long the name of the task may take.
const NAME_TIMEOUT: Duration = Duration::from_secs(2);

/// Arguments of `explain`.
#[derive(Args, Debug)]
pub(super) struct Explain {
    #[command(flatten)]
    task: TaskWords,
}

impl Explain {
    /// Asks the server and prints what it says.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let task = self.task.task()?;
        let what = format!("cannot explain task {task}");
        let scheduler = server.scheduler(&task.handle).await?;
        let answer = scheduler.explain(task.seq).await;
        let word = shell::word(&task.handle);
        let failed = |error| CliError::call(what, &error).naming("HANDLE", &word);
        let answer = answer.map_err(failed)?;
        let options = match output::is_json() {
            true => TaskOptions::default(),
            false => options(&scheduler, task.seq).await,
        };
        output::answer(&answer, |answer| print(answer, &options, &word));
        Ok(ExitCode::SUCCESS)
    }
}

/// Of a task, for its name. Without them the answer is whole but for that.
async fn options(scheduler: &Scheduler, seq: i64) -> TaskOptions {
    let view = timeout(NAME_TIMEOUT, scheduler.task(seq)).await;
    let options = view.ok().and_then(|view| view.ok()?.task?.options);
    options.unwrap_or_default()
}

/// `scheduler`: as the command line names it.
fn print(answer: &ExplainTaskResponse, options: &TaskOptions, scheduler: &str) {
    let task = answer.id.clone().unwrap_or_default();
    let state = match &answer.done {
        Some(done) => enum_text::outcome(done.outcome()),
        None => enum_text::task_state(answer.state()),
    };
    let head = format!("task {}/{}: {state}", task.handle, task.seq);
    output::styled(head, BOLD);
    let by = enum_text::submitted_by(answer.submitted_by.as_ref());
    let title = exec::titled(options, &answer.statement_preview);
    let submitted = format!("submitted by {by}  {}", plain(&title));
    output::line(submitted.trim_end());
    match &answer.running {
        Some(running) => output::line(plain(&running.text)),
        None if answer.blockers.is_empty() => output::line(shown(&answer.text)),
        None => {}
    }
    for (number, blocker) in answer.blockers.iter().enumerate() {
        let said = match blocker.kind {
            Some(Kind::Paused(_) | Kind::Halted(_)) => {
                api_words::of_scheduler(&said(blocker), scheduler)
            }
            _ => said(blocker),
        };
        output::line(format!("{:>3}. {said}", number + 1));
    }
    if let Some(place) = &answer.place {
        let least = if place.at_least { "at least " } else { "" };
        output::line(format!(
            "     ahead of it: {least}{}, and {} in lower orders",
            place.ahead, place.in_lower_orders
        ));
    }
    if let Some(deadline) = &answer.deadline {
        let at = time_text::time(time_text::micros(Some(deadline)));
        output::line(format!("     deadline: {at}"));
    }
}

/// What is in the way in the words of the server, which may know more kinds than this program.
fn said(blocker: &Blocker) -> String {
    match shown(&blocker.text) {
        text if text.is_empty() => "a reason without words, from a newer server".to_owned(),
        text => text,
    }
}

fn shown(text: &str) -> String {
    api_words::translated(&plain(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn a_blocker_of_a_newer_server_is_said_in_its_words() {
        // Field 99 is a kind that this version does not know.
        let newer = [&b"\x0a\x04full\x9a\x06\x00"[..], b"\x9a\x06\x00"].map(Blocker::decode);
        let [newer, wordless] = newer.map(|blocker| blocker.expect("a message"));
        assert_eq!((&newer.kind, said(&newer).as_str()), (&None, "full"));
        assert!(said(&wordless).contains("newer server"));
    }
}
