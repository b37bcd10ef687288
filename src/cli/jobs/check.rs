//! `jobs check`: everything that is wrong with a file of jobs, and what may surprise.

use super::{
    AnyJobsFile,
    finding::{Finding, findings},
    history,
    job::Job,
};
use crate::{
    cli::{connect::Server, error::CliError, number::whole, output, plural, when::When},
    core::schedule::TimeZones,
};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::process::ExitCode;

/// What it does not look at.
const AFTER_HELP: &str = "It reads the file alone: whether the server has the targets and resources \
that are named there, `jobs apply --dry-run` says.";

/// Arguments of `jobs check`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Check {
    #[command(flatten)]
    file: AnyJobsFile,
    /// From this time on: 2027-03-13 (of UTC), or a time like 2027-03-13T08:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<When>,
    /// Ask the server, too, how long the runs of these jobs took: windows that are shorter, and a
    /// `max_runtime` that fits
    #[arg(long)]
    from_log: bool,
    /// How many times the p99 of the runs `max_runtime` is to be
    #[arg(
        long,
        default_value_t = 3,
        requires = "from_log",
        value_parser = whole::<u32>(1..=100),
        value_name = "N"
    )]
    factor: u32,
}

impl Check {
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let jobs = super::read(self.file.path())?;
        let from = self.from.map_or_else(Timestamp::now, When::in_utc);
        let mut findings = findings(&jobs, from);
        if self.from_log {
            findings.extend(history::findings(server, &jobs, from, self.factor).await?);
        }
        self.say(&jobs, &findings);
        Ok(ExitCode::SUCCESS)
    }

    fn say(&self, jobs: &[Job], findings: &[Finding]) {
        let path = self.file.path().display().to_string();
        let release = TimeZones::bundled().release();
        match output::is_json() {
            true => {
                let jobs: Vec<Value> = jobs.iter().map(|job| job.json()).collect();
                let findings: Vec<Value> = findings.iter().map(Finding::json).collect();
                let document = json!({
                    "file": path,
                    "time_zones": release,
                    "jobs": jobs,
                    "findings": findings,
                });
                output::verbatim(document.to_string());
            }
            false => {
                for finding in findings {
                    output::line(line(&path, finding));
                }
                let jobs = plural::count(jobs.len(), "job");
                let findings = plural::count(findings.len(), "finding");
                let zones = format!("time zones of release {release}");
                output::line(format!("{path}: {jobs}, {findings} ({zones})"));
            }
        }
    }
}

fn line(path: &str, finding: &Finding) -> String {
    match &finding.job {
        Some((job, line)) => format!("{path} line {line}: {job}: {}", finding.text),
        None => format!("{path}: {}", finding.text),
    }
}
