//! What the service refuses of a job, in the words of the file it comes from: its keys in place of
//! the fields of the API, and steps counted from 1.

use super::job::Job;
use crate::{cli::exec::Described, core::model::limits::length_text, toml_file::written_key};
use rallypoint_client::Error;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

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
    (".options.retry.max_losses", ".max_losses"),
    (".options.", "."),
];

/// Keys that are lengths of time, which the API counts in seconds.
const LENGTHS: &[&str] = &[
    "every",
    "phase",
    "jitter",
    "delay",
    "max_runtime",
    "timeout",
    "total_timeout",
    "statement_timeout",
];
/// Keys that are choices, and how the API names them longer.
const CHOICES: &[(&str, &str)] = &[
    ("overlap", "OVERLAP_"),
    ("misfire", "MISFIRE_"),
    ("on_step_failure", "ON_FAILURE_"),
    ("dst_gap", "DST_GAP_"),
    ("dst_fold", "DST_FOLD_"),
    ("period", "PERIOD_"),
    ("delivery", "DELIVERY_"),
    ("isolation", "ISOLATION_"),
];

/// The error with the keys of the file.
pub(super) fn in_file(job: &Job, error: &Error) -> Error {
    let violations = error.violations.iter();
    let violations = violations.map(|(field, fault)| (keys(job, field), keys(job, fault)));
    // Faults of other jobs may follow.
    let of_job = format!(" fields of job {} are wrong", job.name);
    let message = keys(job, &error.message);
    Error {
        message: message.replacen(" fields are wrong", &of_job, 1),
        violations: violations.collect(),
        ..error.clone()
    }
}

/// The lines of the file that are to be changed; none: the error is about no field of the job.
pub(super) fn lines(job: &Job, error: &Error) -> BTreeSet<usize> {
    let fields = error.violations.iter();
    fields
        .filter_map(|(field, _)| Some(line(job, field.strip_prefix(SETTINGS)?)))
        .collect()
}

fn line(job: &Job, field: &str) -> usize {
    let of_step = task_of(&job.steps, "steps", field).map(|step| match &job.steps_file {
        Some(file) => Some(file.line),
        None => step.line,
    });
    let of_task = || task_of(&job.on_failure, "on_failure", field).map(|task| task.line);
    let of_key = || {
        let named = key(field);
        match named.split_once('.').unwrap_or((&*named, "")) {
            ("schedule", key) => job.schedule_lines.of(key),
            _ => job.lines.of(&named),
        }
    };
    let of_listed = of_step.or_else(of_task).flatten();
    of_listed.unwrap_or_else(of_key)
}

/// The task of a list that a field is of.
fn task_of<'a>(tasks: &'a [Described], list: &str, field: &str) -> Option<&'a Described> {
    let place = field.strip_prefix(list)?.strip_prefix('[')?;
    tasks.get(place.split_once(']')?.0.parse::<usize>().ok()?)
}

/// Where a step stands that is not in the file of jobs; empty: it is, or none is meant.
fn place(job: &Job, field: &str) -> String {
    let file = job.steps_file.as_ref();
    let line = task_of(&job.steps, "steps", field).and_then(|step| step.line);
    let place = file.zip(line);
    place.map_or_else(String::new, |(file, line)| {
        format!(" ({}, line {line})", file.name)
    })
}

/// The text with keys of the file in place of fields.
fn keys(job: &Job, text: &str) -> String {
    let mut parts = text.split(SETTINGS);
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_of_field = |c: char| c.is_ascii_alphanumeric() || "_.[]".contains(c);
        let end = part.find(|c| !is_of_field(c)).unwrap_or(part.len());
        let (field, rest) = part.split_at(end);
        said += &format!(
            "jobs.{}.{}{}{rest}",
            written_key(&job.name),
            key(field),
            place(job, field)
        );
    }
    said
}

/// A value that differs, as the file would say it. Steps are counted from 1 already.
pub(super) fn difference(field: &str, before: &Value, after: &Value) -> String {
    let key = renamed(field);
    let (before, after) = (value(&key, before), value(&key, after));
    format!("{key}: {before} -> {after}")
}

fn value(key: &str, value: &Value) -> String {
    let last = key.rsplit('.').next().unwrap_or(key);
    match value {
        Value::Null => "nothing".to_owned(),
        // The file counts the attempts after the first one.
        Value::Number(number) if last == "retries" => number
            .as_i64()
            .map_or_else(|| value.to_string(), |most| (most - 1).to_string()),
        Value::String(text) if LENGTHS.contains(&last) => {
            let seconds = text.strip_suffix('s').and_then(|text| text.parse().ok());
            let length = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let length = length.map_or_else(|| text.clone(), length_text);
            format!("\"{length}\"")
        }
        Value::String(text) => {
            let of_choice = CHOICES.iter().find(|(choice, _)| *choice == last);
            let choice = of_choice.and_then(|(_, prefix)| text.strip_prefix(prefix));
            json!(choice.unwrap_or(text)).to_string()
        }
        other => other.to_string(),
    }
}

fn renamed(field: &str) -> String {
    let renamed = RENAMED.iter();
    renamed.fold(field.to_owned(), |field, (one, other)| {
        field.replace(one, other)
    })
}

/// `steps[1].sql.target` as `steps[2].target`.
fn key(field: &str) -> String {
    let field = renamed(field);
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
    use crate::{cli::jobs::file, toml_file::Faults};
    use std::path::Path;
    use tonic::Status;

    fn job(lines: &str) -> Job {
        let text = format!("[jobs.b]\nschedule.cron = \"@daily\"\n{lines}");
        let mut faults = Faults::of(Path::new("jobs.toml"));
        let jobs = file::parse(&text, Path::new(""), &mut faults);
        jobs.into_iter().next().expect("a job")
    }

    #[test]
    fn a_fault_of_a_job_is_on_the_line_of_its_key() {
        let zone = "schedule.time_zone = \"Asia/Tokyo\"\n";
        let job = job(&format!(
            "claimed = true\nfinish_target = \"nowhere\"\n{zone}"
        ));
        for (field, expected) in [
            ("claims.target", 4),
            ("claims", 3),
            ("schedule", 2),
            ("schedule.after", 2),
            ("schedule.time_zone", 5),
            ("schedule.jitter", 2),
            ("overlap", 1),
        ] {
            assert_eq!(line(&job, field), expected, "{field}");
        }
    }

    #[test]
    fn several_faults_are_said_to_be_those_of_a_job() {
        let said = "2 fields are wrong: settings.overlap: no; settings.claims: no";
        let refused = Status::invalid_argument(said).into();
        let error = in_file(&job("claimed = true\n"), &refused);
        let expected = "2 fields of job b are wrong: jobs.b.overlap: no; jobs.b.claimed: no";
        assert_eq!(error.message, expected);
    }

    #[test]
    fn fields_are_the_keys_of_a_file() {
        for (field, expected) in [
            ("steps[1].sql.target", "steps[2].target"),
            ("on_failure[0].options.timeout", "on_failure[1].timeout"),
            ("steps[0].options.retry.max_attempts", "steps[1].retries"),
            ("steps[0].options.retry.max_losses", "steps[1].max_losses"),
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
    #[test]
    fn what_differs_is_said_as_a_file_says_it() {
        for (field, before, after, said) in [
            (
                "max_runtime",
                json!("600s"),
                json!(null),
                r#"max_runtime: "10m" -> nothing"#,
            ),
            (
                "scheduler.on_failure",
                json!("ON_FAILURE_CONTINUE"),
                json!("ON_FAILURE_CANCEL_REST"),
                r#"on_step_failure: "CONTINUE" -> "CANCEL_REST""#,
            ),
            (
                "steps[2].options.retry.max_attempts",
                json!(3),
                json!(4),
                "steps[2].retries: 2 -> 3",
            ),
            (
                "steps[1].sql.statement",
                json!("select 's'"),
                json!("OVERLAP_SKIP"),
                r#"steps[1].statement: "select 's'" -> "OVERLAP_SKIP""#,
            ),
        ] {
            assert_eq!(difference(field, &before, &after), said);
        }
    }
}
