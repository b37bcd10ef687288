//! Arguments of `exec` that are parts of a statement: somebody has left out the quotes around it,
//! and the shell has made an argument of each word. Their form shows it: but for a few, no
//! statement is one word.

use crate::cli::{error::CliError, shell};
use std::path::Path;

/// Commands of Postgres that are a statement in one word.
const WHOLE: &[&str] = &[
    "abort",
    "analyse",
    "analyze",
    "begin",
    "checkpoint",
    "cluster",
    "commit",
    "end",
    "rollback",
    "vacuum",
];
/// Commands that may go on without a space, as `select(1)`.
const GOING_ON: &[&str] = &["call", "select", "table", "values", "with"];

/// Refuses arguments whose first one is a word of a statement. `words`: how many the command line
/// has, with those before the arguments.
pub(super) fn refuse_split(arguments: &[String], words: usize) -> Result<(), CliError> {
    match arguments {
        [first, _, ..] if is_part(first) && first.starts_with(char::is_alphabetic) => {
            Err(split(arguments, words))
        }
        _ => Ok(()),
    }
}

/// Refuses arguments of which one is a part of a statement, or a single one that can be none.
pub(super) fn refuse_parts(arguments: &[String], words: usize) -> Result<(), CliError> {
    match arguments {
        [one] if one == "-" => Err(CliError::usage("`-` is no SQL statement")
            .next("read tasks from stdin: `rallypoint exec -f -`")),
        [one] if !one.trim().is_empty() && !one.contains(char::is_alphabetic) => {
            Err(CliError::usage(format!("`{one}` is no SQL statement"))
                .next("write a whole statement, in quotes: `rallypoint exec 'select 1'`"))
        }
        [_, _, ..] if arguments.iter().any(|one| is_part(one)) => Err(split(arguments, words)),
        _ => Ok(()),
    }
}

fn split(arguments: &[String], words: usize) -> CliError {
    let what = format!(
        "a statement is one argument, and the shell has made {} of it",
        arguments.len()
    );
    let whole = shell::quoted(&arguments.join(" "));
    let error = CliError::usage(what);
    let error = match arguments.iter().any(|one| Path::new(one).is_file()) {
        true => error.why("without quotes it also puts the names of files in place of `*`"),
        false => error,
    };
    let next = match words > arguments.len() + "rallypoint exec".split(' ').count() {
        true => {
            format!("put it in quotes, with the options as they are: `rallypoint exec … {whole}`")
        }
        false => format!("put it in quotes: `rallypoint exec {whole}`"),
    };
    error.next(next)
}

/// One word that is no statement, or that may be a part of one: `select` alone is valid, but
/// `select 'a b'` begins with it, too.
fn is_part(text: &str) -> bool {
    if text.is_empty() || text.contains(char::is_whitespace) {
        return false;
    }
    let text = text.trim_end_matches(';').to_lowercase();
    let end = text.find(|c: char| !c.is_ascii_alphabetic());
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    let goes_on = |rest: &str| !rest.starts_with(|c: char| c == '_' || c == ',' || c.is_numeric());
    // A shell splits at `;` and `(` unless they are in quotes, and a comment is like a space: this
    // is more than a word.
    let is_more = |rest: &str| [";", "(", "/*"].iter().any(|sign| rest.starts_with(sign));
    match (word, rest) {
        ("", rest) => !(rest.starts_with("/*") || GOING_ON.iter().any(|word| rest.contains(word))),
        (word, "") => !WHOLE.contains(&word),
        (word, rest) => !(is_more(rest) || GOING_ON.contains(&word) && goes_on(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arguments: &[&str]) -> Option<String> {
        let arguments: Vec<String> = arguments.iter().map(|one| one.to_string()).collect();
        let words = arguments.len() + 2;
        let refused = refuse_split(&arguments, words);
        let refused = refused.and_then(|()| refuse_parts(&arguments, words));
        refused.err().map(|error| format!("{error:?}"))
    }

    #[test]
    fn a_statement_without_quotes_is_answered_by_the_command_with_quotes() {
        for (arguments, command) in [
            (&["select", "1"][..], "`rallypoint exec 'select 1'`"),
            (
                &["drop", "table", "a.b"],
                "`rallypoint exec 'drop table a.b'`",
            ),
            (&["select", "a b"], "`rallypoint exec 'select a b'`"),
            (&["select", "it's"], r"exec 'select it'\\''s'`"),
            (&["vacuum", "t1"], "`rallypoint exec 'vacuum t1'`"),
            (&["vacuum", "t;"], "`rallypoint exec 'vacuum t;'`"),
            (&["."], "`rallypoint exec 'select 1'`"),
            (&["1"], "`rallypoint exec 'select 1'`"),
            (&["-"], "`rallypoint exec -f -`"),
        ] {
            let said = refused(arguments).expect("refused");
            assert!(said.contains(command), "{arguments:?}: {said}");
        }
    }

    #[test]
    fn statements_are_none_of_the_kind() {
        for arguments in [
            &["select 1", "select 2"][..],
            &["commit", "vacuum;", "CHECKPOINT"],
            &[
                "select(1)",
                "select-1",
                "select.5",
                "(select(1))",
                "values(1)",
            ],
            &["explain(analyze)select(1)", "begin;commit", "/**/commit"],
            &["commit/**/", "vacuum(full)"],
            &["select", "select 2"][1..],
            &["nonsense"],
            &[""],
        ] {
            assert_eq!(refused(arguments), None, "{arguments:?}");
        }
    }
}
