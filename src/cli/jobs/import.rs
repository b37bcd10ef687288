//! `import`: what another cron runs, as a file of jobs. Says what has no place there, and compares
//! the due times of the next 30 days with an expansion in the other cron's manner.
//!
//! A crontab runs commands of the shell, which the service does not: its lines become jobs that a
//! program claims, and are given anew with `rallypoint jobs claim` before their commands.

mod crontab;
mod imported;
mod pg_cron;
mod pg_timetable;
mod pgagent;
mod vixie;
mod wall_clock;

use super::file;
use crate::{
    cli::{error::CliError, output, shell, table::Table, unreadable},
    core::schedule::TimeZones,
    server::unreached::connection_remedy,
    toml_file::Faults,
};
use clap::{Args, Subcommand};
use imported::{Comparison, Imported, Names, printable, quoted};
use jiff::Timestamp;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use wall_clock::Theirs;

/// Where the password stands with which the tables of another cron are read.
const PASSWORD: &str = "in the URL (--url, RALLYPOINT_ADMIN_URL), in PGPASSWORD or in ~/.pgpass";

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
    PgCron(FromDatabase),
    /// From the tables of pgAgent: each schedule becomes a job with the steps of its job
    #[command(name = "pgagent")]
    PgAgent(FromDatabase),
    /// From the tables of pg_timetable: each chain becomes a job
    PgTimetable(FromDatabase),
}

#[derive(Args, Debug)]
struct FromCrontab {
    /// The crontab, as `crontab -l` prints it
    file: PathBuf,
    /// Its lines name a user, as those of /etc/crontab do
    #[arg(long)]
    system: bool,
    /// IANA name of the time zone of the machine [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = time_zone)]
    time_zone: Option<String>,
    #[command(flatten)]
    to: To,
}

#[derive(Args, Debug)]
struct FromDatabase {
    /// URL of the database that has the tables, with a login that may read them
    #[arg(
        long,
        value_name = "URL",
        env = "RALLYPOINT_ADMIN_URL",
        hide_env_values = true
    )]
    url: String,
    /// IANA name of the time zone of its schedules [default: that of the login, or of pg_cron]
    #[arg(long, value_name = "ZONE", value_parser = time_zone)]
    time_zone: Option<String>,
    /// The target that the jobs are to run on, also those of other databases, which are left out
    /// without it [default: app]
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    #[command(flatten)]
    to: To,
}

impl FromDatabase {
    /// The target that the jobs are to run on.
    fn target(&self) -> &str {
        self.target.as_deref().unwrap_or("app")
    }

    /// Why a job is left out whose target nobody has named: it runs elsewhere than in the database
    /// that has the tables. `place`: where.
    fn refuse_elsewhere(&self, is_elsewhere: bool, place: &str) -> Result<(), String> {
        match is_elsewhere && self.target.is_none() {
            true => Err(format!(
                "it runs in {place}: name the target for that with --target"
            )),
            false => Ok(()),
        }
    }
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

impl Import {
    pub(in crate::cli) async fn run(self) -> Result<ExitCode, CliError> {
        let (jobs, left_out, to) = match self.from {
            From::Crontab(from) => from.read()?,
            From::PgCron(from) => pg_cron::read(from).await?,
            From::PgAgent(from) => pgagent::read(from).await?,
            From::PgTimetable(from) => pg_timetable::read(from).await?,
        };
        if to.written.exists() && !to.force {
            let what = format!("{} is there already", to.written.display());
            return Err(CliError::usage(what).next("name another file with -f, or say --force"));
        }
        let (jobs, left_out) = readable(jobs, left_out);
        if jobs.is_empty() {
            return Err(nothing(&to, &left_out));
        }
        let text: String = jobs.iter().map(Imported::text).collect();
        fs::write(&to.written, text).map_err(|error| {
            CliError::new(format!("cannot write {}", to.written.display()))
                .why(error)
                .next("name a file with -f in a folder where this account may write")
        })?;
        let now = Timestamp::now();
        let compared: Vec<_> = jobs.iter().map(|job| (job, job.compare(now))).collect();
        let document = json!({
            "file": to.written.display().to_string(),
            "jobs": compared.iter().map(|(job, compared)| job.json(compared.as_ref())).collect::<Vec<_>>(),
            "left_out": left_out.iter().map(|(source, why)| json!({ "source": source, "why": why })).collect::<Vec<_>>(),
        });
        match output::is_json() {
            true => output::verbatim(document.to_string()),
            false => print(&to, &compared, &left_out),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The tables of another cron cannot be read.
fn unread(what: &str, error: anyhow::Error) -> CliError {
    let next = connection_remedy(&error, PASSWORD).unwrap_or_else(|| {
        "name the database that has them with --url, by a login that may read them; nothing is \
         written"
            .to_owned()
    });
    CliError::from(error.context(what.to_owned())).next(next)
}

/// The name of a time zone that an option gives.
fn time_zone(name: &str) -> Result<String, String> {
    TimeZones::bundled().zone(name).map(|_| name.to_owned())
}

/// The zone that an option names, else the one that the database says, which it may name in a way
/// of its own.
fn zone_of(option: Option<String>, of_database: String) -> Result<String, CliError> {
    let zone = option.unwrap_or(of_database);
    match time_zone(&zone) {
        Ok(zone) => Ok(zone),
        Err(_) => Err(unknown_zone(
            "the time zone of the database",
            &zone,
            "give --time-zone an IANA name, such as Europe/Berlin; nothing is written",
        )),
    }
}

/// The error about a zone that nobody knows. `what`: where it is named.
fn unknown_zone(what: impl std::fmt::Display, zone: &str, next: &str) -> CliError {
    let why = time_zone(zone).err().unwrap_or_default();
    CliError::new(format!("{what} cannot be used"))
        .why(why)
        .next(next)
}

/// The error where no job is left.
fn nothing(to: &To, left_out: &[(String, String)]) -> CliError {
    let what = "there is no job to write";
    let error = CliError::new(what).next(format!("{} is left as it is", to.written.display()));
    let reasons = left_out
        .iter()
        .map(|(source, why)| format!("{source}: left out: {why}"));
    reasons.fold(error, CliError::why)
}

type Read = (Vec<Imported>, Vec<(String, String)>, To);

impl FromCrontab {
    /// A zone that nobody has named may be the wrong one.
    fn say_which_zone(&self, crontab: &crontab::Crontab) {
        if self.time_zone.is_none() && crontab.entries.iter().any(|one| one.time_zone.is_empty()) {
            output::note(
                "lines without CRON_TZ count in UTC: say --time-zone where cron has another",
            );
        }
    }

    fn read(self) -> Result<Read, CliError> {
        let text = fs::read_to_string(&self.file)
            .map_err(|error| unreadable::error(self.file.display(), &error))?;
        let crontab = crontab::read(&text, self.system);
        if let Some((line, zone)) = &crontab.unknown_zone {
            let what = format!("{}, line {line}: CRON_TZ={zone}", self.file.display());
            let next = "correct the line: an IANA name, such as Europe/Berlin; nothing is written";
            return Err(unknown_zone(what, zone, next));
        }
        self.say_which_zone(&crontab);
        let of_machine = self.time_zone.as_deref().unwrap_or("UTC");
        let mut names = Names::default();
        let job = |entry: crontab::Entry| {
            let name = names.of(&program(&entry.command));
            let time_zone = match &*entry.time_zone {
                "" => of_machine.to_owned(),
                zone => zone.to_owned(),
            };
            let mut notes = Vec::new();
            if let Some(user) = &entry.user {
                notes.push(format!(
                    "runs as {user}: claim it in the crontab of that user"
                ));
            }
            if crontab::is_cut_by_some(&entry.command) {
                let note = "`%` behind two backslashes: cron cuts the command there, and cronie \
                            does not; claim a script that does it";
                notes.push(note.to_owned());
            }
            // A minute of waiting bears a difference between the clocks.
            let line = format!(
                "{}  rallypoint jobs claim {name} --wait 1m -- {}",
                entry.fields,
                crontab::in_one_word(&entry.command, &entry.shell)
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
                theirs: Theirs::parse(&entry.fields),
                time_zone,
                notes,
                crontab_line: Some((entry.time_zone, line)),
            }
        };
        let jobs = crontab.entries.into_iter().map(job).collect();
        let left_out = crontab.left_out.into_iter();
        let left_out = left_out.map(|(line, why)| (format!("line {line}"), why));
        Ok((jobs, left_out.collect(), self.to))
    }
}

/// Jobs that our reader takes; the others are left out with what it says.
fn readable(
    jobs: Vec<Imported>,
    mut left_out: Vec<(String, String)>,
) -> (Vec<Imported>, Vec<(String, String)>) {
    let mut taken = Vec::new();
    for job in jobs {
        // Its lines are none of the file that is written.
        let mut faults = Faults::of(Path::new(""));
        let read = file::parse(&job.text(), Path::new(""), &mut faults);
        match faults.into_result(read) {
            Ok(_) => taken.push(job),
            Err(faults) => left_out.push((job.source, faults.in_words())),
        }
    }
    (taken, left_out)
}

fn print(to: &To, compared: &[(&Imported, Option<Comparison>)], left_out: &[(String, String)]) {
    let mut table = Table::new(&["job", "from", ">here", ">there", "~note"]);
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
            job.notes_beside(compared.as_ref()).join("; "),
        ]);
    }
    table.print();
    for (source, why) in left_out {
        output::line(format!("{source}: left out: {why}"));
    }
    let lines = crontab_lines(compared.iter().map(|(job, _)| *job));
    if !lines.is_empty() {
        output::line("");
        output::line("In the crontab of every machine that may run them:");
        lines.iter().for_each(output::verbatim);
    }
    let file = to.written.display();
    let word = shell::word(&file.to_string());
    output::note("HERE and THERE: due times of the next 30 days");
    output::note(format!(
        "{file} is written: `rallypoint jobs check -f {word}`"
    ));
}

/// The lines of a crontab for these jobs, below the time zones that they are in.
fn crontab_lines<'a>(jobs: impl Iterator<Item = &'a Imported>) -> Vec<String> {
    let (mut lines, mut zone_above) = (Vec::new(), "");
    for (zone, line) in jobs.filter_map(|job| job.crontab_line.as_ref()) {
        if zone != zone_above {
            lines.push(format!("CRON_TZ={zone}"));
            zone_above = zone;
        }
        lines.push(line.clone());
    }
    lines
}

/// The name of the program that a command runs.
fn program(command: &str) -> String {
    let is_variable = |word: &&str| word.contains('=');
    let word = command.split_whitespace().find(|word| !is_variable(word));
    let name = word.and_then(|word| word.rsplit('/').next());
    let name = name.and_then(|name| name.split('.').next());
    let is_of_a_name = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
    let name: String = (name.unwrap_or_default().chars())
        .filter(is_of_a_name)
        .collect();
    // Else it would be taken for an option.
    name.trim_start_matches('-').to_owned()
}

#[cfg(test)]
mod tests;
