//! `jobs apply`: the jobs of the service become those of a file. What differs is said as it is
//! changed, and with `--dry-run` nothing else is done. Jobs that are not in the file stay as they
//! are.

use super::{AnyJobsFile, fault, job::Job};
use crate::cli::{connect::Server, error::CliError, json, output};
use clap::Args;
use rallypoint_client::{Client, Error, api};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Arguments of `jobs apply`.
#[derive(Args, Debug)]
pub(super) struct Apply {
    #[command(flatten)]
    file: AnyJobsFile,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
}

/// What is done to a job.
struct Change {
    name: String,
    /// `created`, `changed` or `unchanged`; in a dry run, what would be.
    done: &'static str,
    /// What differs: the field, and its value before and after.
    differences: Vec<(String, String, String)>,
}

impl Apply {
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let mut jobs = super::read(self.file.path())?;
        in_sequence(&mut jobs);
        let client = server.client().await?;
        let mut changes = Vec::new();
        for job in &jobs {
            match apply(&client, job, self.dry_run).await {
                Ok(change) => {
                    if !output::is_json() {
                        output::line(change.text(self.dry_run));
                    }
                    changes.push(change);
                }
                Err(error) => {
                    self.say_all(&changes);
                    output::note(self.stopped(&changes, jobs.len()));
                    return Err(self.failed(job, &error));
                }
            }
        }
        self.say_all(&changes);
        Ok(ExitCode::SUCCESS)
    }

    /// For programs; people were told of each change when it was made.
    fn say_all(&self, changes: &[Change]) {
        if output::is_json() {
            let document = json!({
                "file": self.file.path().display().to_string(),
                "dry_run": self.dry_run,
                "jobs": changes.iter().map(Change::json).collect::<Vec<_>>(),
            });
            output::line(document.to_string());
        }
    }

    /// What is behind the command when it stops: the error says at which job.
    fn stopped(&self, changes: &[Change], all: usize) -> String {
        let done = changes.len();
        match self.dry_run {
            true => format!("{done} of {all} jobs were compared"),
            false => {
                format!("{done} of {all} jobs are as in the file, and the others are as they were")
            }
        }
    }

    /// Why a job could not be applied, and what to do before the file is applied again.
    fn failed(&self, job: &Job, error: &Error) -> CliError {
        let what = format!("cannot apply job {}", job.name);
        let failed = CliError::call(what, &fault::in_file(job, error));
        let path = self.file.path().display();
        let again = format!("`rallypoint jobs apply -f {path}` again");
        match fault::line(job, error) {
            Some(line) => failed.then(&format!("change line {line} of {path} and {again}")),
            None => failed.then(&again),
        }
    }
}

/// Jobs come behind those that they follow.
fn in_sequence(jobs: &mut Vec<Job>) {
    let mut rest = std::mem::take(jobs);
    while !rest.is_empty() {
        let is_later = |job: &Job, rest: &[Job]| {
            let before = job.follows();
            rest.iter().any(|other| before == Some(&*other.name))
        };
        let at = rest
            .iter()
            .position(|job| !is_later(job, &rest))
            .unwrap_or(0);
        jobs.push(rest.remove(at));
    }
}

async fn apply(client: &Client, job: &Job, dry_run: bool) -> Result<Change, Error> {
    let name = &job.name;
    let request = api::CreateJobRequest {
        name: name.clone(),
        settings: Some(job.settings()),
        validate_only: true,
    };
    let planned = client.create_job(request.clone()).await?;
    let planned = planned.job.unwrap_or_default();
    let known = client
        .get_job(api::GetJobRequest { name: name.clone() })
        .await;
    let known = match known {
        Ok(known) => known.job,
        Err(error) if error.is("JOB_NOT_FOUND") => None,
        Err(error) => return Err(error),
    };
    let Some(known) = known else {
        if !dry_run {
            let request = api::CreateJobRequest {
                validate_only: false,
                ..request
            };
            client.create_job(request).await?;
        }
        return Ok(Change::of(name, "created", Vec::new()));
    };
    let differences = differences(known.settings.as_ref(), planned.settings.as_ref());
    if differences.is_empty() {
        return Ok(Change::of(name, "unchanged", differences));
    }
    if !dry_run {
        let request = api::UpdateJobRequest {
            name: name.clone(),
            settings: Some(job.settings()),
            etag: known.etag,
        };
        client.update_job(request).await?;
    }
    Ok(Change::of(name, "changed", differences))
}

fn differences(
    before: Option<&api::JobSettings>,
    after: Option<&api::JobSettings>,
) -> Vec<(String, String, String)> {
    let json = |settings: Option<&api::JobSettings>| settings.map_or(Value::Null, json::of);
    let mut found = Vec::new();
    compare("", &json(before), &json(after), &mut found);
    found
}

/// The values that differ, by the path of their field.
fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<(String, String, String)>) {
    match (before, after) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                let of = |map: &serde_json::Map<String, Value>| {
                    map.get(name).cloned().unwrap_or(Value::Null)
                };
                compare(&path, &of(one), &of(other), found);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for at in 0..one.len().max(other.len()) {
                let of = |list: &[Value]| list.get(at).cloned().unwrap_or(Value::Null);
                let path = format!("{path}[{}]", at + 1);
                compare(&path, &of(one), &of(other), found);
            }
        }
        _ if before == after => {}
        _ => found.push((path.to_owned(), before.to_string(), after.to_string())),
    }
}

impl Change {
    fn of(name: &str, done: &'static str, differences: Vec<(String, String, String)>) -> Self {
        Change {
            name: name.to_owned(),
            done,
            differences,
        }
    }

    fn json(&self) -> Value {
        let difference = |(field, before, after): &(String, String, String)| json!({ "field": field, "before": before, "after": after });
        json!({
            "job": self.name,
            "done": self.done,
            "differences": self.differences.iter().map(difference).collect::<Vec<_>>(),
        })
    }

    fn text(&self, dry_run: bool) -> String {
        let would_be = match dry_run && self.done != "unchanged" {
            true => "would be ",
            false => "",
        };
        let mut lines = vec![format!("{}: {would_be}{}", self.name, self.done)];
        for (field, before, after) in &self.differences {
            lines.push(format!("  {field}: {before} -> {after}"));
        }
        lines.join("\n")
    }
}
