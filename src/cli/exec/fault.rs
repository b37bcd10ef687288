//! What is wrong with a line of a file, and what to write instead.

use super::task_option::Described;
use crate::cli::error::CliError;
use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

/// Faults of a file that are said at a time.
const MOST_SAID: usize = 20;
/// Lines that are named of one fault.
const MOST_LINES: usize = 10;

/// A line that cannot be read as tasks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    let mut known = HashSet::new();
    faults.retain(|fault| known.insert(fault.clone()));
    if let [Fault { line, why, next }] = &faults[..] {
        let error = CliError::new(format!("{file}, line {line}: {why}"));
        return match &**next {
            "" => error,
            next => error.next(next),
        };
    }
    faults.sort_by_key(|fault| fault.line);
    let what = format!("{file} cannot be used: {} faults", faults.len());
    let different = different(&faults);
    let more = different.len().saturating_sub(MOST_SAID);
    let said = different.iter().take(MOST_SAID);
    let said = said.map(|(lines, fault)| match &*fault.next {
        "" => format!("{}: {}", named(lines), fault.why),
        next => format!("{}: {}: {next}", named(lines), fault.why),
    });
    let error = said.fold(CliError::new(what), CliError::why);
    match more {
        0 => error,
        more => error.why(format!("and {more} more")),
    }
}

/// What is wrong, each with all lines of which it is said.
fn different(faults: &[Fault]) -> Vec<(Vec<usize>, &Fault)> {
    let mut different: Vec<(Vec<usize>, &Fault)> = Vec::new();
    let mut places = HashMap::new();
    for fault in faults {
        let place = *places.entry((&fault.why, &fault.next)).or_insert_with(|| {
            different.push((Vec::new(), fault));
            different.len() - 1
        });
        different[place].0.push(fault.line);
    }
    different
}

fn named(lines: &[usize]) -> String {
    if let [line] = lines {
        return format!("line {line}");
    }
    let named = lines.iter().take(MOST_LINES).map(usize::to_string);
    let named = named.collect::<Vec<_>>().join(", ");
    match lines.len().saturating_sub(MOST_LINES) {
        0 => format!("lines {named}"),
        more => format!("lines {named} and {more} more"),
    }
}

/// Says where the tasks stand that the server has found at fault.
pub(super) fn with_line(error: CliError, file: Option<&Path>, tasks: &[Described]) -> CliError {
    let at_fault = error.tasks();
    let lines = at_fault.iter().filter_map(|at| tasks.get(*at)?.line);
    let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
    let Some(file) = file else {
        return error;
    };
    let file = name_of(file);
    match &lines[..] {
        [] => error,
        [line] => error.why(format!("the statement begins in {file}, line {line}")),
        lines => error.why(format!(
            "the statements begin in {file}, lines {}",
            lines.join(", ")
        )),
    }
}

/// What a file is called in errors.
pub(super) fn name_of(path: &Path) -> String {
    match path.as_os_str() == "-" {
        true => "stdin".to_owned(),
        false => path.display().to_string(),
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
        let other = Fault {
            line: 4,
            ..fault.clone()
        };
        let said = error("a.json", vec![fault, other]).in_words();
        assert!(said.ends_with("lines 3, 4: `timeout`: write a length of time like 30s"));
    }

    #[test]
    fn faults_are_said_in_the_sequence_of_their_lines_and_no_endless_list_of_them() {
        let faults = (1..=30)
            .rev()
            .map(|line| Fault::new(line, format!("wrong {line}"), "mend it"));
        let said = error("a.sql", faults.collect()).in_words();
        let begin = "a.sql cannot be used: 30 faults: line 1: wrong 1: mend it: line 2:";
        assert!(said.starts_with(begin), "{said}");
        assert!(
            said.ends_with("line 20: wrong 20: mend it: and 10 more"),
            "{said}"
        );
    }

    #[test]
    fn equal_faults_of_a_line_are_one() {
        let fault = Fault::new(3, "no comma", "add one");
        let said = error("a.txt", vec![fault.clone(), fault.clone()]).in_words();
        assert_eq!(said, "a.txt, line 3: no comma");
        let other = Fault::new(3, "no order", "");
        let said = error("a.txt", vec![fault.clone(), other, fault]).in_words();
        let expected =
            "a.txt cannot be used: 2 faults: line 3: no comma: add one: line 3: no order";
        assert_eq!(said, expected);
    }

    #[test]
    fn what_is_wrong_with_several_lines_is_said_once() {
        let mut faults: Vec<Fault> = (1..=13)
            .map(|line| Fault::new(line, "no comma", ""))
            .collect();
        faults[4].why = "no order".to_owned();
        let said = error("a.txt", faults).in_words();
        let expected = "a.txt cannot be used: 13 faults: lines 1, 2, 3, 4, 6, 7, 8, 9, 10, 11 and \
                        2 more: no comma: line 5: no order";
        assert_eq!(said, expected);
    }
}
