//! `man`: the help as manual pages.

use super::{error::CliError, output};
use clap::{Args, Command};
use clap_mangen::Man;
use serde_json::json;
use std::{io, path::PathBuf, process::ExitCode};

/// Arguments of `man`.
#[derive(Args, Debug)]
pub(super) struct Manual {
    /// Write a page for each verb into this folder, such as /usr/local/share/man/man1 [default: the
    /// page of the program, to stdout]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Manual {
    pub(super) fn run(self, command: Command) -> Result<ExitCode, CliError> {
        match self.folder {
            None => {
                let page = page(command).map_err(anyhow::Error::from)?;
                output::script(json!({ "page": page }), page.trim_end());
            }
            Some(folder) => {
                let shown = folder.display().to_string();
                let cannot = format!("cannot write manual pages into {shown}");
                let written = std::fs::create_dir_all(&folder)
                    .and_then(|()| clap_mangen::generate_to(command, &folder));
                written.map_err(|error| CliError::new(cannot).why(error))?;
                output::document(json!({ "folder": shown }), format!("written into {shown}"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn page(command: Command) -> io::Result<String> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
