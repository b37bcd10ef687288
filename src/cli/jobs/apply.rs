//! `jobs apply`: the jobs of the service become those of a file. All of them are compared before
//! the first is changed, so that every job with wrong settings is named at once. Which jobs follow
//! each other, and how many there may be, the service checks only when a job is made or changed: it
//! may refuse that half-way. What differs is said as it is changed, and with `--dry-run` nothing
//! else is done. A resource that is missing is noted. Jobs that are not in the file stay as they
//! are.

use super::{AnyJobsFile, fault, job::Job, missing_resources};
use crate::cli::{connect::Server, error::CliError, json, output, shell};
use clap::Args;
use rallypoint_client::{Client, Error, api};
use serde_json::{Value, json};
use std::{collections::BTreeSet, process::ExitCode};
use tonic::{Code, Status};

/// Who does the runs: the service, or programs. It stays as it was when the job was made.
const CLAIMS: &str = "settings.claims";

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
    differences: Vec<(String, Value, Value)>,
}

/// What is to be done to a job.
struct Plan<'j> {
    job: &'j Job,
    change: Change,
    /// Of the version that was compared; `None`: the service does not have the job.
    etag: Option<String>,
}

impl Apply {
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let mut jobs = super::read(self.file.path())?;
        in_sequence(&mut jobs);
        let client = server.client().await?;
        let (plans, refused) = plans(&client, &jobs).await;
        if !refused.is_empty() && !self.dry_run {
            output::note("all jobs are as they were");
            return Err(self.failed(&refused, jobs.len()));
        }
        missing_resources::note(&client, &jobs).await;
        let mut changes = Vec::new();
        for Plan { job, change, etag } in plans {
            let made = match self.dry_run {
                true => Ok(()),
                false => make(&client, job, &change, etag).await,
            };
            if let Err(error) = made {
                self.say_all(&changes);
                let unknown = error.is_unknown().then_some(&*job.name);
                output::note(stopped(changes.len(), jobs.len(), unknown));
                let failed = self.failed(&[(job, error)], jobs.len());
                return Err(match changes.iter().any(Change::is_one) {
                    true => failed.with_effect(),
                    false => failed,
                });
            }
            if !output::is_json() {
                let lines = change.lines(self.dry_run);
                lines.iter().for_each(output::step_line);
            }
            changes.push(change);
        }
        self.say_all(&changes);
        match refused.is_empty() {
            true => Ok(ExitCode::SUCCESS),
            false => Err(self.failed(&refused, jobs.len())),
        }
    }

    /// For programs; people have seen each change when it was made.
    fn say_all(&self, changes: &[Change]) {
        if output::is_json() {
            let document = json!({
                "file": self.file.path().display().to_string(),
                "dry_run": self.dry_run,
                "jobs": changes.iter().map(Change::json).collect::<Vec<_>>(),
            });
            output::is_written(document.to_string());
        }
    }

    /// Why jobs could not be applied, of which there is one at least, and what to do before the
    /// file is applied again.
    fn failed(&self, refused: &[(&Job, Error)], all: usize) -> CliError {
        let what = match refused {
            [(job, _)] => format!("cannot apply job {}", job.name),
            several => format!("cannot apply {} of {all} jobs", several.len()),
        };
        let mut errors = refused
            .iter()
            .map(|(job, error)| fault::in_file(job, error));
        let failed = match errors.next() {
            Some(first) => CliError::call(what, &first),
            None => CliError::new(what),
        };
        let failed = errors.fold(failed, |failed, error| failed.also(&error));
        let path = self.file.path().display();
        let (claims_differ, wrong): (Vec<_>, Vec<_>) =
            refused.iter().partition(|(_, error)| is_of_claims(error));
        let lines = wrong.iter().map(|(job, error)| fault::lines(job, error));
        let lines: BTreeSet<usize> = lines.flatten().collect();
        let named = lines.iter().map(usize::to_string).collect::<Vec<_>>();
        let mut steps: Vec<String> = claims_differ.iter().map(|(job, _)| anew(job)).collect();
        match &named[..] {
            [] => {}
            [line] => steps.push(format!("change line {line} of {path}")),
            lines => steps.push(format!("change lines {} of {path}", lines.join(", "))),
        }
        let file = shell::word(&path.to_string());
        steps.push(format!("`rallypoint jobs apply -f {file}` again"));
        failed.then(&steps.join(" and "))
    }
}

/// How a job comes to other settings that the service never changes.
fn anew(job: &Job) -> String {
    let name = &job.name;
    let word = shell::word(name);
    format!("`rallypoint jobs delete {word}` (or give {name} another name in the file)")
}

/// What is behind the command when it stops: the error says at which job. `unknown`: nobody knows
/// whether this one was changed.
fn stopped(done: usize, all: usize, unknown: Option<&str>) -> String {
    let unknown = unknown.map_or_else(String::new, |name| {
        format!(", whether {name} is one is not known")
    });
    format!("{done} of {all} jobs are as in the file{unknown}, and the others are as they were")
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

/// What is to be done to each job, and the jobs that cannot be compared.
async fn plans<'j>(client: &Client, jobs: &'j [Job]) -> (Vec<Plan<'j>>, Vec<(&'j Job, Error)>) {
    let (mut plans, mut refused) = (Vec::new(), Vec::new());
    for job in jobs {
        match plan(client, job).await {
            Ok(plan) => plans.push(plan),
            Err(error) if error.code == Code::InvalidArgument => refused.push((job, error)),
            // It is about the server or the caller, and no fault of the file.
            Err(error) => return (plans, vec![(job, error)]),
        }
    }
    (plans, refused)
}

/// Compares a job of the file with that of the service, which checks the settings by themselves:
/// not whether the job that this one follows exists.
async fn plan<'j>(client: &Client, job: &'j Job) -> Result<Plan<'j>, Error> {
    let name = &job.name;
    let request = api::CreateJobRequest {
        name: name.clone(),
        settings: Some(job.settings()),
        validate_only: true,
    };
    let planned = client.create_job(request).await?;
    let planned = planned.job.unwrap_or_default();
    let known = client
        .get_job(api::GetJobRequest { name: name.clone() })
        .await;
    let known = match known {
        Ok(known) => known.job,
        Err(error) if error.is("JOB_NOT_FOUND") => None,
        Err(error) => return Err(error),
    };
    let claims = |job: &api::Job| {
        let settings = job.settings.as_ref();
        settings.is_some_and(|settings| settings.claims.is_some())
    };
    let known_claims = known.as_ref().map(claims);
    if known_claims.is_some_and(|known| known != claims(&planned)) {
        return Err(claims_changed());
    }
    let (done, differences) = match &known {
        None => ("created", Vec::new()),
        Some(known) => {
            let found = differences(known.settings.as_ref(), planned.settings.as_ref());
            (
                if found.is_empty() {
                    "unchanged"
                } else {
                    "changed"
                },
                found,
            )
        }
    };
    Ok(Plan {
        job,
        change: Change::of(name, done, differences),
        etag: known.map(|known| known.etag),
    })
}

/// What the service says when it is asked to change who does the runs of a job.
fn claims_changed() -> Error {
    let what = "who does the runs of a job cannot be changed";
    let mut error = Error::from(Status::invalid_argument(format!("{CLAIMS}: {what}")));
    error.reason = Some("JOB_INVALID".to_owned());
    error.violations = [(CLAIMS.to_owned(), what.to_owned())].into();
    error
}

fn is_of_claims(error: &Error) -> bool {
    error.violations.iter().any(|(field, _)| field == CLAIMS)
}

/// Makes the change of a plan.
async fn make(
    client: &Client,
    job: &Job,
    change: &Change,
    etag: Option<String>,
) -> Result<(), Error> {
    let (name, settings) = (job.name.clone(), Some(job.settings()));
    match etag {
        None => {
            let request = api::CreateJobRequest {
                name,
                settings,
                validate_only: false,
            };
            client.create_job(request).await.map(drop)
        }
        Some(_) if change.differences.is_empty() => Ok(()),
        Some(etag) => {
            let request = api::UpdateJobRequest {
                name,
                settings,
                etag,
            };
            client.update_job(request).await.map(drop)
        }
    }
}

fn differences(
    before: Option<&api::JobSettings>,
    after: Option<&api::JobSettings>,
) -> Vec<(String, Value, Value)> {
    let json = |settings: Option<&api::JobSettings>| settings.map_or(Value::Null, json::of);
    let mut found = Vec::new();
    compare("", &json(before), &json(after), &mut found);
    found
}

/// The values that differ, by the path of their field.
fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<(String, Value, Value)>) {
    let empty = Value::Object(serde_json::Map::new());
    let (before, after) = match (before, after) {
        (Value::Null, Value::Object(_)) => (&empty, after),
        (Value::Object(_), Value::Null) => (before, &empty),
        both => both,
    };
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
        // Of something that is not there at all: an empty list, a choice that nobody has made.
        (Value::Null, Value::Array(list)) | (Value::Array(list), Value::Null)
            if list.is_empty() => {}
        (Value::Null, Value::String(word)) | (Value::String(word), Value::Null)
            if word.ends_with("_UNSPECIFIED") => {}
        _ => found.push((path.to_owned(), before.clone(), after.clone())),
    }
}

impl Change {
    fn of(name: &str, done: &'static str, differences: Vec<(String, Value, Value)>) -> Self {
        Change {
            name: name.to_owned(),
            done,
            differences,
        }
    }

    fn json(&self) -> Value {
        let difference = |(field, before, after): &(String, Value, Value)| {
            let (before, after) = (before.to_string(), after.to_string());
            json!({ "field": field, "before": before, "after": after })
        };
        json!({
            "job": self.name,
            "done": self.done,
            "differences": self.differences.iter().map(difference).collect::<Vec<_>>(),
        })
    }

    /// Whether anything differs.
    fn is_one(&self) -> bool {
        self.done != "unchanged"
    }

    fn lines(&self, dry_run: bool) -> Vec<String> {
        let would_be = match dry_run && self.is_one() {
            true => "would be ",
            false => "",
        };
        let mut lines = vec![format!("{}: {would_be}{}", self.name, self.done)];
        for (field, before, after) in &self.differences {
            lines.push(format!("  {}", fault::difference(field, before, after)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_unknown_outcome_is_not_said_to_be_as_it_was() {
        let others = "and the others are as they were";
        let expected = format!("1 of 3 jobs are as in the file, {others}");
        assert_eq!(stopped(1, 3, None), expected);
        let expected =
            format!("1 of 3 jobs are as in the file, whether b is one is not known, {others}");
        assert_eq!(stopped(1, 3, Some("b")), expected);
    }

    #[test]
    fn what_nobody_has_written_is_no_difference() {
        let mut found = Vec::new();
        let retry = json!({ "retry": { "max_attempts": 3, "non_retryable_codes": [] } });
        compare("", &retry, &json!({}), &mut found);
        compare("", &json!({}), &json!({ "labels": [] }), &mut found);
        let path = "retry.max_attempts".to_owned();
        assert_eq!(found, [(path, json!(3), Value::Null)]);
    }
}
