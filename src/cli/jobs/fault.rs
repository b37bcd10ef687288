//! What the service refuses of a job, in the words of the file it comes from: its keys in place of
//! the fields of the API, and steps counted from 1.

use super::job::Job;
use crate::cli::exec::Described;
use rallypoint_client::Error;
use std::collections::BTreeSet;

/// Fields of the API begin so.
const SETTINGS: &str = "settings.";
/// Fields whose keys in the file have other names.
const RENAMED: &[(&str, &str)] = &[
    ("claims.target", "finish_target"),
    ("claims", "claimed"),
    ("scheduler.on_failure", "on_step_failure"),
    ("scheduler.", ""),
    (".sql.", "."),
    (".options.retry.max_attempts", ".retries"),
    (".options.", "."),
];

/// The error with the keys of the file.
pub(super) fn in_file(job: &Job, error: &Error) -> Error {
    let violations = error.violations.iter();
    let violations = violations.map(|(field, fault)| (keys(job, field), keys(job, fault)));
    Error {
        message: keys(job, &error.message),
        violations: violations.collect(),
        ..error.clone()
    }
}

/// The lines of the file that are to be changed; none: the error is about no field of the job.
pub(super) fn lines(job: &Job, error: &Error) -> BTreeSet<usize> {
    let fields = error.violations.iter();
    fields
        .filter_map(|(field, _)| line(job, field.strip_prefix(SETTINGS)?))
        .collect()
}

fn line(job: &Job, field: &str) -> Option<usize> {
    let among = |tasks: &[Described], list: &str| {
        let place = field.strip_prefix(list)?.strip_prefix('[')?;
        let place: usize = place.split_once(']')?.0.parse().ok()?;
        tasks.get(place)?.line
    };
    let step = among(&job.steps, "steps").or_else(|| among(&job.on_failure, "on_failure"));
    step.or(Some(job.line))
}

/// The text with keys of the file in place of fields.
fn keys(job: &Job, text: &str) -> String {
    let mut parts = text.split(SETTINGS);
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_of_field = |c: char| c.is_ascii_alphanumeric() || "_.[]".contains(c);
        let end = part.find(|c| !is_of_field(c)).unwrap_or(part.len());
        let (field, rest) = part.split_at(end);
        said += &format!("jobs.{}.{}{rest}", job.name, key(field));
    }
    said
}

/// `steps[1].sql.target` as `steps[2].target`.
fn key(field: &str) -> String {
    let renamed = RENAMED.iter();
    let field = renamed.fold(field.to_owned(), |field, (one, other)| {
        field.replace(one, other)
    });
    let Some((list, rest)) = field.split_once('[') else {
        return field;
    };
    match rest.split_once(']') {
        Some((place, rest)) => match place.parse::<usize>() {
            Ok(place) => format!("{list}[{}]{rest}", place + 1),
            Err(_) => field,
        },
        None => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_the_keys_of_a_file() {
        for (field, expected) in [
            ("steps[1].sql.target", "steps[2].target"),
            ("on_failure[0].options.timeout", "on_failure[1].timeout"),
            ("steps[0].options.retry.max_attempts", "steps[1].retries"),
            ("scheduler.max_parallelism", "max_parallelism"),
            ("scheduler.on_failure", "on_step_failure"),
            ("claims.target", "finish_target"),
            ("claims", "claimed"),
            ("schedule.cron", "schedule.cron"),
            ("steps", "steps"),
        ] {
            assert_eq!(key(field), expected);
        }
    }
}
