//! The exit codes: one table, which the help and `docs/cli.md` repeat.

use std::process::ExitCode;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Exit {
    Success = 0,
    Failure = 1,
    WrongUsage = 2,
    TaskFailed = 3,
    HungUp = 129,
    Interrupted = 130,
    Quit = 131,
    Terminated = 143,
}

impl Exit {
    const ALL: [Exit; 8] = [
        Exit::Success,
        Exit::Failure,
        Exit::WrongUsage,
        Exit::TaskFailed,
        Exit::HungUp,
        Exit::Interrupted,
        Exit::Quit,
        Exit::Terminated,
    ];

    pub(super) fn number(self) -> u8 {
        self as u8
    }

    pub(super) fn meaning(self) -> &'static str {
        match self {
            Exit::Success => "success",
            Exit::Failure => "failure",
            Exit::WrongUsage => "wrong usage",
            Exit::TaskFailed => "a task did not succeed",
            Exit::HungUp => "ended by SIGHUP",
            Exit::Interrupted => "ended by Ctrl-C",
            Exit::Quit => "ended by SIGQUIT",
            Exit::Terminated => "ended by SIGTERM",
        }
    }

    /// Ends the process, also where nothing can be returned.
    pub(super) fn now(self) -> ! {
        std::process::exit(self.number().into())
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.number())
    }
}

/// The whole table in a sentence.
pub(super) fn table() -> String {
    let codes = Exit::ALL.map(|exit| format!("{} {}", exit.number(), exit.meaning()));
    format!("Exit codes: {}.", codes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_have_the_same_table() {
        let document = include_str!("../../docs/cli.md");
        for exit in Exit::ALL {
            let row = format!("| {} | {}", exit.number(), exit.meaning());
            assert!(document.contains(&row), "{row}");
        }
    }
}
