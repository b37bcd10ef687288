//! `jobs preview`: the next due times of the jobs of a file.

use super::{JobsFile, clock_note, job::Job};
use crate::{
    cli::{error::CliError, number::whole, output, table::Table, when::When},
    core::schedule::{DueTime, TimeZones},
};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::{path::Path, process::ExitCode};

/// Arguments of `jobs preview`.
#[derive(Args, Debug)]
pub(super) struct Preview {
    /// Only this job
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    file: JobsFile,
    /// Number of due times of each job
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N", value_parser = whole::<usize>(1..))]
    limit: usize,
    /// From this time on: 2027-03-13 or 2027-03-13T08:00 in the zone of each job, or a time like
    /// 2027-03-13T08:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<When>,
}

impl Preview {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let mut jobs = super::read(&self.file.path)?;
        if let Some(name) = &self.name {
            let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
            jobs.retain(|job| job.name == *name);
            if jobs.is_empty() {
                let what = format!("{} has no job `{name}`", self.file.path.display());
                let next = match Path::new(name).is_file() {
                    true => format!("name the file by -f {name}"),
                    false => format!("it has {}", names.join(", ")),
                };
                return Err(CliError::usage(what).next(next));
            }
        }
        let now = Timestamp::now();
        let times = |job: &Job| {
            let from = self.from.map(|from| from.in_zone(job.schedule.zone()));
            next_times(job, from.unwrap_or(now), self.limit)
        };
        let times: Vec<_> = jobs.iter().map(|job| (job, times(job))).collect();
        match output::is_json() {
            true => {
                let jobs = times.iter().map(|(job, times)| to_json(job, times));
                let release = TimeZones::bundled().release();
                let jobs: Vec<Value> = jobs.collect();
                output::verbatim(json!({ "time_zones": release, "jobs": jobs }).to_string());
            }
            false => print(&times),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The next due times, and those before the last of them that a change of the clocks leaves out.
fn next_times(job: &Job, from: Timestamp, limit: usize) -> Vec<DueTime> {
    let mut due = 0;
    let within = |time: &DueTime| {
        due += usize::from(time.is_due());
        due <= limit
    };
    job.schedule.due_times(from).take_while(within).collect()
}

fn print(times: &[(&Job, Vec<DueTime>)]) {
    let mut table = Table::new(&["job", "due", "utc", "~note"]);
    for (job, times) in times {
        for time in times {
            let (due, utc) = match time.is_due() {
                true => (
                    clock_note::local(time.at, &job.schedule),
                    time.at.to_string(),
                ),
                false => ("-".to_owned(), "-".to_owned()),
            };
            table.row([job.name.clone(), due, utc, notes(job, time).join("; ")]);
        }
        if times.is_empty() {
            let none = match job.follows() {
                Some(before) => format!("after {before}"),
                None => "not due any more".to_owned(),
            };
            table.row([job.name.clone(), "-".to_owned(), "-".to_owned(), none]);
        }
    }
    table.print();
}

fn notes(job: &Job, time: &DueTime) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(clock_note::text(time, &job.schedule));
    let delay = job.schedule.delay(&job.name);
    if time.is_due() && !delay.is_zero() {
        notes.push(format!("starts {:#} later", shown(delay)));
    }
    if let Some(closes) = time.closes {
        let closes = clock_note::local(closes, &job.schedule);
        notes.push(format!("may start until {closes}"));
    }
    notes
}

fn shown(delay: std::time::Duration) -> SignedDuration {
    SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX)
}

fn to_json(job: &Job, times: &[DueTime]) -> Value {
    let schedule = &job.schedule;
    let one = |time: &DueTime| {
        let starts = time.at.checked_add(shown(schedule.delay(&job.name))).ok();
        let at = |at: Option<Timestamp>| at.filter(|_| time.is_due()).map(|at| at.to_string());
        json!({
            "due": at(Some(time.at)),
            "local": time.local.to_string(),
            "starts": at(starts),
            "closes": time.closes.map(|closes| closes.to_string()),
            "dst": time.dst.map(clock_note::name),
            "note": clock_note::text(time, schedule),
        })
    };
    json!({
        "job": job.name,
        "time_zone": schedule.zone().name(),
        "after": job.follows(),
        "due_times": times.iter().map(one).collect::<Vec<_>>(),
    })
}
