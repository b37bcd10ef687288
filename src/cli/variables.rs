//! Which environment variables count for a command line, and what those of flags may say.

use clap::{Arg, Command, builder::Resettable};
use std::{env, ffi::OsString};

/// Options of `serve` that exclude each other.
const EXCLUSIVE: [&str; 2] = ["database", "data_dir"];

/// Reads the variable of a flag. The Python client takes the same words; an empty one is not set.
pub(super) fn flag(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "" | "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("write 1, true, yes or on, or 0, false, no or off".to_owned()),
    }
}

/// The variable that holds the value of an option, wherever there is one of this name.
pub(super) fn holder(command: &Command, option: &str, value: &str) -> Option<String> {
    let variable = |argument: &Arg| {
        let variable = argument.get_env()?;
        let holds = env::var_os(variable).is_some_and(|held| held == value);
        let is_it = holds && argument.get_long() == Some(option);
        is_it.then(|| variable.to_string_lossy().into_owned())
    };
    let own = command.get_arguments().find_map(variable);
    own.or_else(|| {
        let mut below = command.get_subcommands();
        below.find_map(|verb| holder(verb, option, value))
    })
}

/// Without the variable of an option that goes with none on the command line: what is written
/// counts.
pub(super) fn without_excluded(command: Command, words: &[OsString]) -> Command {
    let lenient = without_any(command.clone()).ignore_errors(true);
    let written = lenient.try_get_matches_from(words).ok();
    let serve = written
        .as_ref()
        .and_then(|it| it.subcommand_matches("serve"));
    let is_written = |option: &str| serve.is_some_and(|it| it.contains_id(option));
    let [one, other] = EXCLUSIVE;
    match (is_written(one), is_written(other)) {
        (true, false) => without(command, other),
        (false, true) => without(command, one),
        _ => command,
    }
}

fn without(command: Command, option: &'static str) -> Command {
    command.mut_subcommand("serve", |serve| {
        serve.mut_arg(option, |argument| argument.env(Resettable::Reset))
    })
}

/// Without the variables of a caller that are empty: they count as not set. An empty address stays
/// one, which is refused: the default might be another server than the one that was meant.
pub(super) fn without_empty(command: Command) -> Command {
    command.mut_args(|argument| match is_empty(&argument) {
        true => argument.env(Resettable::Reset),
        false => argument,
    })
}

/// Whether the option is one of every verb, without a default, and its variable is empty.
fn is_empty(argument: &Arg) -> bool {
    let is_of_caller = argument.is_global_set() && argument.get_default_values().is_empty();
    let value = argument.get_env().and_then(env::var_os);
    is_of_caller && value.is_some_and(|value| value.is_empty())
}

/// Without all variables.
pub(super) fn without_any(command: Command) -> Command {
    command
        .mut_args(|argument| argument.env(Resettable::Reset))
        .mut_subcommands(without_any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_set_and_left_out_by_the_words_of_the_python_client() {
        for word in ["1", "true", "True", "yes", "on"] {
            assert_eq!(flag(word), Ok(true), "{word}");
        }
        for word in ["", "0", "false", "NO", "off"] {
            assert_eq!(flag(word), Ok(false), "{word}");
        }
        assert!(flag("maybe").is_err());
    }
}
