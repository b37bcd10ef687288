//! `import`: what another cron runs, as a file of jobs. Says what has no place there, and compares
//! the due times of the next 30 days with an expansion in the other cron's manner.
//!
//! A crontab runs commands of the shell, which the service does not: its lines become jobs that a
//! program claims, and are given anew with `rallypoint jobs claim` before their commands.

mod crontab;
mod vixie;

use super::file;
use crate::{
    cli::{error::CliError, output, postgres_url, table::Table},
    core::schedule::{DueTime, TimeZones},
    server::pg_cron,
    toml_file::Faults,
};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt::Write, fs, path::PathBuf, process::ExitCode};

/// Arguments of `import`.
#[derive(Args, Debug)]
pub(in crate::cli) struct Import {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand, Debug)]
enum From {
    /// From a crontab: its commands become jobs that a program claims
    Crontab(FromCrontab),
    /// From the tables of pg_cron: its statements become the steps of jobs
    PgCron(FromPgCron),
}

#[derive(Args, Debug)]
struct FromCrontab {
    /// The crontab, as `crontab -l` prints it
    file: PathBuf,
    /// Its lines name a user, as those of /etc/crontab do
    #[arg(long)]
    system: bool,
    /// IANA name of the time zone of the machine
    #[arg(long, default_value = "UTC", value_name = "ZONE")]
    time_zone: String,
    #[command(flatten)]
    to: To,
}

#[derive(Args, Debug)]
struct FromPgCron {
    /// URL of the database that has pg_cron, with a login that may read `cron.job`
    #[arg(long, value_name = "URL")]
    url: String,
    /// The target that the jobs are to run on
    #[arg(long, default_value = "app", value_name = "NAME")]
    target: String,
    #[command(flatten)]
    to: To,
}

/// Where the jobs go.
#[derive(Args, Debug)]
struct To {
    /// The file of jobs to write
    #[arg(
        short = 'f',
        long = "file",
        value_name = "FILE",
        default_value = "jobs.toml"
    )]
    written: PathBuf,
    /// Write it although it is there
    #[arg(long)]
    force: bool,
}

/// A job to write.
struct Imported {
    name: String,
    /// Where it comes from: a line, or a number.
    source: String,
    /// The keys of its table, in TOML.
    keys: String,
    /// Five fields, if it has such a schedule.
    fields: Option<String>,
    time_zone: String,
    notes: Vec<String>,
    /// The line for a crontab that does its runs.
    crontab_line: Option<String>,
}

/// Due times of 30 days: ours and those of the other cron.
struct Comparison {
    ours: usize,
    theirs: usize,
    first_difference: Option<Timestamp>,
}

impl Import {
    pub(in crate::cli) async fn run(self) -> Result<ExitCode, CliError> {
        let (jobs, left_out, to) = match self.from {
            From::Crontab(from) => from.read()?,
            From::PgCron(from) => from.read().await?,
        };
        if to.written.exists() && !to.force {
            let what = format!("{} is there already", to.written.display());
            return Err(CliError::usage(what).next("name another file with -f, or say --force"));
        }
        let (jobs, left_out) = readable(jobs, left_out);
        let text: String = jobs.iter().map(Imported::text).collect();
        fs::write(&to.written, text).map_err(|error| {
            CliError::new(format!("cannot write {}", to.written.display())).why(error)
        })?;
        let now = Timestamp::now();
        let compared: Vec<_> = jobs.iter().map(|job| (job, job.compare(now))).collect();
        let document = json!({
            "file": to.written.display().to_string(),
            "jobs": compared.iter().map(|(job, compared)| job.json(compared.as_ref())).collect::<Vec<_>>(),
            "left_out": left_out.iter().map(|(source, why)| json!({ "source": source, "why": why })).collect::<Vec<_>>(),
        });
        match output::is_json() {
            true => output::line(document.to_string()),
            false => print(&to, &compared, &left_out),
        }
        Ok(ExitCode::SUCCESS)
    }
}

type Read = (Vec<Imported>, Vec<(String, String)>, To);

impl FromCrontab {
    fn read(self) -> Result<Read, CliError> {
        let text = fs::read_to_string(&self.file).map_err(|error| {
            CliError::usage(format!("cannot read {}", self.file.display())).why(error)
        })?;
        let crontab = crontab::read(&text, self.system);
        let mut names = Names::default();
        let job = |entry: crontab::Entry| {
            let name = names.of(&program(&entry.command));
            let time_zone = match &*entry.time_zone {
                "" => self.time_zone.clone(),
                zone => zone.to_owned(),
            };
            let mut notes = Vec::new();
            if let Some(user) = &entry.user {
                notes.push(format!(
                    "runs as {user}: claim it in the crontab of that user"
                ));
            }
            if entry.command.contains('%') {
                notes.push("`%` in the command: cron makes lines of it".to_owned());
            }
            // A minute of waiting bears a difference between the clocks.
            let line = format!(
                "{}{}  rallypoint jobs claim {name} --wait 1m -- {}",
                match &*entry.time_zone {
                    "" => String::new(),
                    zone => format!("CRON_TZ={zone}\n"),
                },
                entry.fields,
                crontab::in_one_word(&entry.command)
            );
            Imported {
                keys: format!(
                    "# {}\nschedule = {{ cron = {}, time_zone = {} }}\nclaimed = true\noverlap = \"ALLOW\"\nmisfire = \"SKIP\"\n",
                    printable(&entry.command),
                    quoted(&entry.fields),
                    quoted(&time_zone)
                ),
                name,
                source: format!("line {}", entry.line),
                fields: Some(entry.fields),
                time_zone,
                notes,
                crontab_line: Some(line),
            }
        };
        let jobs = crontab.entries.into_iter().map(job).collect();
        let left_out = crontab.left_out.into_iter();
        let left_out = left_out.map(|(line, why)| (format!("line {line}"), why));
        Ok((jobs, left_out.collect(), self.to))
    }
}

impl FromPgCron {
    async fn read(self) -> Result<Read, CliError> {
        postgres_url::check("--url", &self.url)?;
        let read = pg_cron::read(&self.url).await;
        let table =
            read.map_err(|error| CliError::new("cannot read cron.job").why(format!("{error:#}")))?;
        let (mut names, mut left_out) = (Names::default(), Vec::new());
        let mut jobs = Vec::new();
        for row in table.jobs {
            let source = format!("job {}", row.id);
            if !row.active {
                left_out.push((source, "it is not active".to_owned()));
                continue;
            }
            let known = row.name.unwrap_or_else(|| format!("pg_cron-{}", row.id));
            let seconds = row
                .schedule
                .strip_suffix("seconds")
                .or(row.schedule.strip_suffix("second"));
            let seconds: Option<u32> = seconds.and_then(|text| text.trim().parse().ok());
            let fields = seconds.is_none().then(|| row.schedule.replace('$', "L"));
            let schedule = match (&fields, seconds) {
                (Some(fields), _) => format!(
                    "{{ cron = {}, time_zone = {} }}",
                    quoted(fields),
                    quoted(&table.time_zone)
                ),
                (None, seconds) => format!(
                    "{{ interval = {{ every = \"{}s\" }} }}",
                    seconds.unwrap_or(1)
                ),
            };
            jobs.push(Imported {
                name: names.of(&known),
                keys: format!(
                    "schedule = {schedule}\noverlap = \"QUEUE_ONE\"\nmisfire = \"SKIP\"\nsteps = [{{ statement = {}, target = {} }}]\n",
                    quoted(&row.command),
                    quoted(&self.target)
                ),
                source,
                fields: fields.filter(|fields| !fields.contains('L')),
                time_zone: table.time_zone.clone(),
                notes: vec![format!(
                    "runs in {} as {}: {} must be that database and login",
                    row.database, row.user, self.target
                )],
                crontab_line: None,
            });
        }
        Ok((jobs, left_out, self.to))
    }
}

/// Jobs that our reader takes; the others are left out with what it says.
fn readable(
    jobs: Vec<Imported>,
    mut left_out: Vec<(String, String)>,
) -> (Vec<Imported>, Vec<(String, String)>) {
    let mut taken = Vec::new();
    for job in jobs {
        let mut faults = Faults::of("jobs.toml".as_ref());
        let read = file::parse(&job.text(), &mut faults);
        match faults.into_result(read) {
            Ok(_) => taken.push(job),
            Err(faults) => left_out.push((job.source, faults.to_string())),
        }
    }
    (taken, left_out)
}

impl Imported {
    fn text(&self) -> String {
        let mut text = format!("[jobs.{}]\n", quoted(&self.name));
        let _ = writeln!(text, "# from {}", self.source);
        text + &self.keys + "\n"
    }

    /// `None`: there is nothing to compare with.
    fn compare(&self, from: Timestamp) -> Option<Comparison> {
        let fields = vixie::Fields::parse(self.fields.as_ref()?)?;
        let zone = TimeZones::bundled().zone(&self.time_zone).ok()?;
        let theirs = fields.firings(&zone, from, vixie::DAYS);
        let mut faults = Faults::of("jobs.toml".as_ref());
        let job = file::parse(&self.text(), &mut faults).pop()?;
        let end = vixie::end(from);
        let ours = job.schedule.due_times(from).filter(DueTime::is_due);
        let ours = ours.map(|due| due.at).filter(|at| *at > from);
        let ours: Vec<Timestamp> = ours.take_while(|at| *at <= end).collect();
        let (one, other): (BTreeSet<_>, BTreeSet<_>) =
            (ours.iter().collect(), theirs.iter().collect());
        let first_difference = one.symmetric_difference(&other).next();
        Some(Comparison {
            ours: ours.len(),
            theirs: theirs.len(),
            first_difference: first_difference.map(|at| **at),
        })
    }

    /// Notes, with what the comparison says.
    fn notes(&self, compared: Option<&Comparison>) -> Vec<String> {
        let mut notes = self.notes.clone();
        let fields = self.fields.as_deref().and_then(vixie::Fields::parse);
        if fields.is_some_and(|fields| fields.joins_days_by_and()) {
            notes.push(
                "cron runs it when both fields of days meet, here either is enough".to_owned(),
            );
        }
        if let Some(at) = compared.and_then(|compared| compared.first_difference) {
            notes.push(format!("they differ first at {at}"));
        }
        notes
    }

    fn json(&self, compared: Option<&Comparison>) -> Value {
        json!({
            "job": self.name,
            "source": self.source,
            "firings": compared.map(|compared| compared.ours),
            "firings_before": compared.map(|compared| compared.theirs),
            "notes": self.notes(compared),
            "crontab": self.crontab_line,
        })
    }
}

fn print(to: &To, compared: &[(&Imported, Option<Comparison>)], left_out: &[(String, String)]) {
    let mut table = Table::new(&["job", "from", ">30 days", ">before", "note"]);
    for (job, compared) in compared {
        let count = |of: fn(&Comparison) -> usize| {
            let count = compared.as_ref().map(|compared| of(compared).to_string());
            count.unwrap_or_else(|| "-".to_owned())
        };
        table.row([
            job.name.clone(),
            job.source.clone(),
            count(|compared| compared.ours),
            count(|compared| compared.theirs),
            job.notes(compared.as_ref()).join("; "),
        ]);
    }
    table.print();
    for (source, why) in left_out {
        output::line(format!("{source}: left out: {why}"));
    }
    let lines: Vec<&String> = compared
        .iter()
        .filter_map(|(job, _)| job.crontab_line.as_ref())
        .collect();
    if !lines.is_empty() {
        output::line("\nIn the crontab of every machine that may run them:");
        lines.into_iter().for_each(output::line);
    }
    let file = to.written.display();
    output::note(format!(
        "{file} is written: `rallypoint jobs check -f {file}`"
    ));
}

/// Names of jobs, each given once.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    fn of(&mut self, wanted: &str) -> String {
        let kept: String = wanted.chars().filter(|c| !c.is_control()).collect();
        let kept = match kept.trim() {
            "" => "job",
            kept => &kept[..kept.floor_char_boundary(50)],
        };
        let numbered = (2..).map(|number| format!("{kept}-{number}"));
        let mut all = [kept.to_owned()].into_iter().chain(numbered);
        let name = all.find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.insert(name.clone());
        name
    }
}

/// The name of the program that a command runs.
fn program(command: &str) -> String {
    let is_variable = |word: &&str| word.contains('=');
    let word = command.split_whitespace().find(|word| !is_variable(word));
    let name = word.and_then(|word| word.rsplit('/').next());
    let name = name.and_then(|name| name.split('.').next());
    let is_of_a_name = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
    name.unwrap_or_default()
        .chars()
        .filter(is_of_a_name)
        .collect()
}

/// A text as a comment.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// A text as a value of TOML.
fn quoted(text: &str) -> String {
    // JSON's strings are TOML's, but for one character.
    json!(text).to_string().replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests;
