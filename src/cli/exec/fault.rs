//! What is wrong with a line of a file, and what to write instead.

use crate::cli::error::CliError;

/// Faults of a file that are said at a time.
const MOST_SAID: usize = 20;

/// A line that cannot be read as tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Number of the line, from 1.
    pub line: usize,
    pub why: String,
    /// What to write instead; empty: the reason says it.
    pub next: String,
}

impl Fault {
    pub(super) fn new(line: usize, why: impl Into<String>, next: impl Into<String>) -> Fault {
        Fault {
            line,
            why: why.into(),
            next: next.into(),
        }
    }
}

/// The faults of a file, of which there is one at least, as an error of the command.
pub(super) fn error(file: &str, mut faults: Vec<Fault>) -> CliError {
    if let [Fault { line, why, next }] = &faults[..] {
        let error = CliError::new(format!("{file}, line {line}: {why}"));
        return match &**next {
            "" => error,
            next => error.next(next),
        };
    }
    faults.sort_by_key(|fault| fault.line);
    let what = format!("{file} cannot be used: {} faults", faults.len());
    let more = faults.len().saturating_sub(MOST_SAID);
    let said = faults.iter().take(MOST_SAID);
    let said = said.map(|Fault { line, why, next }| match &**next {
        "" => format!("line {line}: {why}"),
        next => format!("line {line}: {why}: {next}"),
    });
    let error = said.fold(CliError::new(what), CliError::why);
    match more {
        0 => error,
        more => error.why(format!("and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_whose_reason_is_its_remedy_has_no_other() {
        let fault = Fault::new(3, "`timeout`: write a length of time like 30s", "");
        let said = error("a.json", vec![fault.clone()]).in_words();
        assert_eq!(
            said,
            "a.json, line 3: `timeout`: write a length of time like 30s"
        );
        let said = error("a.json", vec![fault.clone(), fault]).in_words();
        assert!(said.ends_with("line 3: `timeout`: write a length of time like 30s"));
    }

    #[test]
    fn faults_are_said_in_the_sequence_of_their_lines_and_no_endless_list_of_them() {
        let faults = (1..=30)
            .rev()
            .map(|line| Fault::new(line, "wrong", "mend it"));
        let said = error("a.sql", faults.collect()).in_words();
        let begin = "a.sql cannot be used: 30 faults: line 1: wrong: mend it: line 2:";
        assert!(said.starts_with(begin), "{said}");
        assert!(
            said.ends_with("line 20: wrong: mend it: and 10 more"),
            "{said}"
        );
    }
}
