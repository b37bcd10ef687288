//! `jobs check`: everything that is wrong with a file of jobs, and what may surprise.

use super::{
    JobsFile,
    finding::{Finding, findings},
};
use crate::{
    cli::{error::CliError, output},
    core::schedule::TimeZones,
};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Arguments of `jobs check`.
#[derive(Args, Debug)]
pub(super) struct Check {
    #[command(flatten)]
    file: JobsFile,
    /// From this time on, like 2027-03-13T08:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
}

impl Check {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let jobs = self.file.read()?;
        let findings = findings(&jobs, self.from.unwrap_or_else(Timestamp::now));
        let path = self.file.path.display().to_string();
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
                output::line(document.to_string());
            }
            false => {
                for finding in &findings {
                    output::line(line(&path, finding));
                }
                let (jobs, findings) = (jobs.len(), findings.len());
                let zones = format!("time zones of release {release}");
                output::line(format!(
                    "{path}: {jobs} jobs, {findings} findings ({zones})"
                ));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn line(path: &str, finding: &Finding) -> String {
    match &finding.job {
        Some((job, line)) => format!("{path} line {line}: {job}: {}", finding.text),
        None => format!("{path}: {}", finding.text),
    }
}
