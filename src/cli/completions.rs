//! `completions SHELL`: what a shell needs to complete the command line.

use super::{error::CliError, output};
use clap::{Args, Command};
use clap_complete::{Shell, generate};
use serde_json::json;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
For the present shell:
  source <(rallypoint completions bash)
For good:
  rallypoint completions bash > /etc/bash_completion.d/rallypoint
  rallypoint completions zsh > /usr/local/share/zsh/site-functions/_rallypoint
  rallypoint completions fish > ~/.config/fish/completions/rallypoint.fish";

/// Arguments of `completions`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, mut command: Command) -> Result<ExitCode, CliError> {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "rallypoint", &mut script);
        let script = String::from_utf8_lossy(&script);
        let document = json!({ "shell": self.shell.to_string(), "script": script });
        output::script(document, script.trim_end());
        Ok(ExitCode::SUCCESS)
    }
}
