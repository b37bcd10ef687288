//! `attempts HANDLE SEQ`: the attempts of a task.

use super::{
    connect::Server, enum_text, error::CliError, output, shell, table::Table, task_name::TaskWords,
    terminal_text::plain, time_text,
};
use clap::Args;
use rallypoint_client::api::{Attempt, AttemptState, ListAttemptsRequest, ListAttemptsResponse};
use std::process::ExitCode;

/// Arguments of `attempts`.
#[derive(Args, Debug)]
pub(super) struct Attempts {
    #[command(flatten)]
    task: TaskWords,
}

impl Attempts {
    /// Reads the attempts and prints them, the first one first.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let list = self.read(server).await?;
        output::answer(&list, |list| print(&list.attempts));
        Ok(ExitCode::SUCCESS)
    }

    async fn read(&self, server: &Server) -> Result<ListAttemptsResponse, CliError> {
        let task = self.task.task()?;
        let scheduler = server.scheduler(&task.handle).await?;
        let mut request = ListAttemptsRequest {
            page_size: 1000,
            ..Default::default()
        };
        let mut list = ListAttemptsResponse::default();
        loop {
            let page = scheduler.attempts(task.seq, request.clone()).await;
            let page = page.map_err(|error| {
                CliError::call(format!("cannot list the attempts of {task}"), &error)
                    .naming("HANDLE", shell::word(&task.handle))
            })?;
            list.attempts.extend(page.attempts);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return Ok(list);
            }
        }
    }
}

fn print(attempts: &[Attempt]) {
    if attempts.is_empty() {
        return output::line("no attempts");
    }
    let mut table = Table::new(&[
        ">attempt",
        "state",
        "started",
        ">took",
        "?replica",
        "?>slot",
        "?>backend",
        "~remark",
    ]);
    for attempt in attempts {
        let started = time_text::micros(attempt.started_at.as_ref());
        let ended = time_text::micros(attempt.ended_at.as_ref());
        let next = time_text::micros(attempt.next_attempt_at.as_ref());
        let why = match (&attempt.error, attempt.state()) {
            (Some(error), _) => format!("{} {}", error.code, plain(&error.message)),
            (None, AttemptState::Lost) => "its server or its connection ended".to_owned(),
            (None, AttemptState::HandedBack) => {
                "stopped with its server, or by a pause of its target".to_owned()
            }
            (None, _) if attempt.cancel_requested => "being stopped".to_owned(),
            (None, _) => String::new(),
        };
        let next = (next > 0).then(|| format!("next at {}", time_text::time(next)));
        let remark: Vec<String> = [Some(why).filter(|why| !why.is_empty()), next]
            .into_iter()
            .flatten()
            .collect();
        let some = |number: i32| match number {
            0 => "-".to_owned(),
            number => number.to_string(),
        };
        table.row([
            attempt.attempt.to_string(),
            enum_text::attempt_state(attempt.state()).to_owned(),
            time_text::time(started),
            match started > 0 && ended > 0 {
                true => time_text::duration(ended - started),
                false => "-".to_owned(),
            },
            match attempt.replica.is_empty() {
                true => "-".to_owned(),
                false => attempt.replica.clone(),
            },
            some(attempt.slot),
            some(attempt.backend_pid),
            remark.join("; "),
        ]);
    }
    table.print();
}
