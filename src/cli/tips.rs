//! The tips of a command line that cannot be read: those that mislead are left out, and what `exec`
//! says in other words is named.

use super::{exec, filter, variables};
use clap::{
    Command,
    builder::StyledStr,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};
use std::env;
use strsim::jaro_winkler;

/// Words of `--delivery`.
const DELIVERIES: [&str; 3] = ["at-least-once", "at-most-once", "exactly-once"];

/// How alike the names of two options are when one may be meant by the other.
const ALIKE: f64 = 0.8;

/// The error with the environment variables that may hold what is missing, or say what nobody has
/// written or what is wrong.
pub(super) fn with_variables(mut error: Error, line: &Command) -> Error {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let verb = verb(line, &usage.unwrap_or_default());
    let named = |kind| match error.get(kind) {
        Some(ContextValue::Strings(usages)) => usages.clone(),
        Some(ContextValue::String(usage)) => vec![usage.clone()],
        _ => Vec::new(),
    };
    let option = |usage: &String| Some(usage.split_whitespace().next()?.to_owned());
    let with_variable = |usage: &String| {
        let option = option(usage)?;
        let variable = variable(verb, option.strip_prefix("--")?)?;
        Some((option, variable))
    };
    let holder = |usage: &String, value: &String| {
        variables::holder(line, option(usage)?.strip_prefix("--")?, value)
    };
    let usages = named(ContextKind::InvalidArg);
    let tips: Vec<StyledStr> = match error.kind() {
        ErrorKind::MissingRequiredArgument => {
            let known = usages.iter().filter_map(with_variable);
            let tips =
                known.map(|(option, variable)| format!("{option} may also be in {variable}"));
            tips.map(StyledStr::from).collect()
        }
        ErrorKind::ArgumentConflict => {
            let excluded = [usages, named(ContextKind::PriorArg)].concat();
            let known = excluded.iter().filter_map(with_variable);
            let set = known.filter(|(_, variable)| env::var_os(variable).is_some());
            let tips =
                set.map(|(_, variable)| format!("{variable} is set: unset it, or the other"));
            tips.map(StyledStr::from).collect()
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let values = named(ContextKind::InvalidValue);
            let held = usages.iter().zip(&values);
            let held = held.filter_map(|(usage, value)| holder(usage, value));
            let tips = held.map(|variable| format!("it stands in {variable}"));
            tips.map(StyledStr::from).collect()
        }
        _ => return error,
    };
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// The command that a usage is of.
fn verb<'l>(line: &'l Command, usage: &str) -> &'l Command {
    let words = usage.split_whitespace();
    words.fold(line, |command, word| {
        command.find_subcommand(word).unwrap_or(command)
    })
}

/// The environment variable of an option of a command.
fn variable(command: &Command, option: &str) -> Option<String> {
    let mut own = command.get_arguments();
    let own = own.find_map(|one| one.get_env().filter(|_| one.get_long() == Some(option)));
    own.map(|variable| variable.to_string_lossy().into_owned())
}

/// The error with tips that help.
pub(super) fn sensible(error: Error) -> Error {
    let error = without_values(error);
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg).cloned() else {
        return error;
    };
    let tip = of_exec(&error, &wrong).or_else(|| of_list(&error));
    let tip = tip.or_else(|| of_tasks(&error));
    let tip = tip.or_else(|| of_runs(&error, &wrong));
    match tip.or_else(|| of_agent(&error, &wrong)) {
        Some(tip) => with_tip(error, tip),
        None => without_strangers(error, &wrong),
    }
}

/// Without the advice to write `-- -5s` or `-- --option`: nobody who writes an option means a
/// value.
fn without_values(mut error: Error) -> Error {
    let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested) else {
        return error;
    };
    let mut tips = tips.clone();
    tips.retain(|tip| !tip.to_string().starts_with("to pass"));
    match tips.is_empty() {
        true => error.remove(ContextKind::Suggested),
        false => error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips)),
    };
    error
}

/// What an option of `exec` is that exists by another name: how tasks run.
fn of_exec(error: &Error, wrong: &str) -> Option<String> {
    let usage = error.get(ContextKind::Usage)?.to_string();
    let name = wrong.strip_prefix("--")?;
    if !usage.contains("rallypoint exec") {
        return None;
    }
    let option = name.replace('-', "_");
    match name {
        _ if DELIVERIES.contains(&name) => Some(format!("`--delivery {name}`")),
        "resource" | "resources" => Some(exec::RESOURCES_STAND.to_owned()),
        _ if exec::option_names().any(|known| known == option) => {
            Some(format!("`--option {option}=VALUE`"))
        }
        _ => None,
    }
}

/// What `list` shows as the state of an open scheduler that a failure has halted.
fn of_list(error: &Error) -> Option<String> {
    let Some(ContextValue::Strings(states)) = error.get(ContextKind::ValidValue) else {
        return None;
    };
    let is_of_schedulers = states.iter().any(|state| state == "releasing");
    let wrong = error.get(ContextKind::InvalidValue)?;
    let is_halted =
        matches!(wrong, ContextValue::String(wrong) if wrong.eq_ignore_ascii_case("halted"));
    (is_of_schedulers && is_halted).then(|| "`--halted`".to_owned())
}

/// What `tasks` shows as the state of a task that has ended: how it has.
fn of_tasks(error: &Error) -> Option<String> {
    let Some(ContextValue::Strings(states)) = error.get(ContextKind::ValidValue) else {
        return None;
    };
    let is_of_tasks = states.iter().any(|state| state == "retrying");
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidValue) else {
        return None;
    };
    let outcome = wrong.to_lowercase().replace(['_', ' '], "-");
    match outcome == "failed" {
        _ if !is_of_tasks => None,
        true => Some("`--failed`".to_owned()),
        false => filter::is_outcome(&outcome).then(|| format!("`--outcome {outcome}`")),
    }
}

/// Verbs of one run take its due time as an argument.
fn of_runs(error: &Error, wrong: &str) -> Option<String> {
    let usage = error.get(ContextKind::Usage)?.to_string();
    let mut verbs = ["jobs log", "jobs get-run", "jobs cancel-run"].into_iter();
    let is_of_run =
        matches!(wrong, "--due" | "--date" | "--time") && verbs.any(|verb| usage.contains(verb));
    is_of_run.then(|| format!("behind the name, without `{wrong}`"))
}

/// Only one of the two verbs of the agent takes a reason.
fn of_agent(error: &Error, wrong: &str) -> Option<String> {
    let usage = error.get(ContextKind::Usage)?.to_string();
    let is_reason = wrong == "--reason" && usage.contains("jobs start-agent");
    is_reason.then(|| format!("without `{wrong}`: of the agent only a stop has a reason"))
}

fn with_tip(mut error: Error, tip: String) -> Error {
    error.remove(ContextKind::SuggestedArg);
    let tip = StyledStr::from(format!("it is written {tip}"));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    error
}

/// Without an option that has little in common with the wrong one.
fn without_strangers(mut error: Error, wrong: &str) -> Error {
    if let Some(ContextValue::String(suggested)) = error.get(ContextKind::SuggestedArg) {
        let (wrong, suggested) = (wrong.trim_matches('-'), suggested.trim_matches('-'));
        if jaro_winkler(wrong, suggested) < ALIKE {
            error.remove(ContextKind::SuggestedArg);
        }
    }
    error
}
