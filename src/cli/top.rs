//! `top`: what the service is doing, live, in a terminal.
//!
//! `model.rs` is a pure machine: events in, effects out. `content/` makes rows of what was read,
//! `draw.rs` puts them on the screen, and `run.rs` is the loop between the terminal, the model and
//! the server. What a server says becomes text by `text.rs` only, which lets no control character
//! pass.

mod act;
mod call;
mod command;
mod content;
mod dialog;
mod draw;
mod editor;
mod fault;
mod filter;
mod grid;
mod model;
mod offers;
mod place;
mod read;
mod run;
mod screen;
mod seen;
mod subject;
mod text;
mod units;
mod visit;

use super::{connect::Server, error::CliError, output};
use clap::Args;
use command::Command;
use draw::Theme;
use model::Model;
use place::Place;
use rallypoint_client::{
    Client,
    api::{GetJobRequest, GetResourceRequest},
};
use screen::Screen;
use std::{
    io::{IsTerminal, stdin, stdout},
    process::ExitCode,
};

/// Arguments of `top`.
#[derive(Args, Debug)]
#[command(after_help = "`?` shows the keys. docs/top.md has more.")]
pub(super) struct Top {
    /// Where to begin, as behind `:`, such as `jobs`, `scheduler NAME` or `task HANDLE SEQ`
    /// [default: overview]
    #[arg(value_name = "VIEW")]
    view: Vec<String>,
}

impl Top {
    /// Shows the service until a key or a signal ends it.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let first = self.first()?;
        check_terminal()?;
        // Before the screen is taken: who has mistyped the address sees why.
        let client = server.quiet_client().await?;
        check_place(server, &client, &first).await?;
        let theme = match output::is_coloured() {
            true => Theme::Coloured,
            false => Theme::Plain,
        };
        let cannot = |error| CliError::new("cannot use the terminal").why(error);
        let mut screen = Screen::open(theme).map_err(cannot)?;
        let size = screen.size().map_err(cannot)?;
        let model = Model::new(&server.address, size, first);
        let limit = server.request_timeout(super::connect::REQUEST_TIMEOUT);
        let ended = run::run(client, limit, model, &mut screen).await;
        drop(screen);
        ended.map(ExitCode::from)
    }

    fn first(&self) -> Result<Place, CliError> {
        if self.view.is_empty() {
            return Ok(Place::Overview);
        }
        match command::parse(&self.view.join(" ")) {
            Ok(Command::Go(place)) => Ok(place),
            Ok(_) => Err("that is no view".to_owned()),
            Err(text) => Err(text),
        }
        .map_err(|text| CliError::usage("cannot begin there").why(text))
    }
}

/// Refuses a name that nobody has, before the screen is taken. A server that is away is waited for
/// there.
async fn check_place(server: &Server, client: &Client, place: &Place) -> Result<(), CliError> {
    let (what, found) = match place {
        Place::Scheduler(word) => (
            format!("cannot show scheduler {word}"),
            server.scheduler(word).await?.describe().await.map(drop),
        ),
        Place::Task(word, seq) => (
            format!("cannot show task {word}/{seq}"),
            server.scheduler(word).await?.task(*seq).await.map(drop),
        ),
        Place::Job(name) => {
            let request = GetJobRequest { name: name.clone() };
            let found = client.get_job(request).await;
            (format!("cannot show job {name}"), found.map(drop))
        }
        Place::Resource(name) => {
            let request = GetResourceRequest {
                name: name.clone(),
                page_size: 1,
            };
            let found = client.get_resource(request).await;
            (format!("cannot show resource {name}"), found.map(drop))
        }
        _ => return Ok(()),
    };
    match found {
        Err(error) if !fault::is_away(&error) => Err(CliError::call(what, &error)),
        _ => Ok(()),
    }
}

/// Whether there is a terminal that can be drawn on.
fn check_terminal() -> Result<(), CliError> {
    let next = "for programs: `rallypoint status --watch --json`, and `list`, `tasks`, `explain`";
    if output::is_json() {
        return Err(CliError::usage("top draws on a terminal and prints no JSON").next(next));
    }
    if !stdin().is_terminal() || !stdout().is_terminal() {
        let what = "top needs a terminal: its input or its output is none";
        return Err(CliError::usage(what).next(next));
    }
    match std::env::var("TERM").as_deref() {
        Ok("dumb") => Err(CliError::usage("top cannot draw on this terminal")
            .why("it cannot move the cursor (TERM=dumb)")
            .next(next)),
        _ => Ok(()),
    }
}
