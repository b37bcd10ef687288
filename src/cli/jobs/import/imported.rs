//! A job that was read from elsewhere: its table in the file of jobs, and its due times beside
//! those of the other cron.

use super::{super::file, wall_clock::Theirs};
use crate::{
    core::schedule::{DueTime, TimeZones},
    toml_file::Faults,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt::Write, path::Path};

/// A job to write.
pub(super) struct Imported {
    pub name: String,
    /// Where it comes from: a line, or a number.
    pub source: String,
    /// The keys of its table, in TOML.
    pub keys: String,
    /// When the other cron runs it, if that can be told.
    pub theirs: Option<Theirs>,
    pub time_zone: String,
    /// What is to be said of it, also in the file.
    pub notes: Vec<String>,
    /// The line for a crontab that does its runs.
    pub crontab_line: Option<(String, String)>,
}

/// Due times of 30 days: ours and those of the other cron.
pub(super) struct Comparison {
    pub ours: usize,
    pub theirs: usize,
    pub first_difference: Option<Timestamp>,
}

impl Imported {
    pub(super) fn text(&self) -> String {
        let mut text = format!("[jobs.{}]\n", quoted(&self.name));
        let comments = [format!("from {}", self.source)];
        for comment in comments.iter().chain(&self.notes()) {
            let _ = writeln!(text, "# {}", printable(comment));
        }
        text + &self.keys + "\n"
    }

    /// `None`: there is nothing to compare with.
    pub(super) fn compare(&self, from: Timestamp) -> Option<Comparison> {
        let zone = TimeZones::bundled().zone(&self.time_zone).ok()?;
        let theirs = self.theirs.as_ref()?.firings(&zone, from);
        let mut faults = Faults::of(Path::new(""));
        let job = file::parse(&self.text(), Path::new(""), &mut faults).pop()?;
        let end = Theirs::end(from);
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
    pub(super) fn notes_beside(&self, compared: Option<&Comparison>) -> Vec<String> {
        let mut notes = self.notes();
        if let Some(at) = compared.and_then(|compared| compared.first_difference) {
            notes.push(format!("they differ first at {at}"));
        }
        notes
    }

    /// Whatever it is compared with.
    fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if self.theirs.as_ref().is_some_and(Theirs::joins_days_by_and) {
            notes.push(
                "cron runs it when both fields of days meet, here either is enough".to_owned(),
            );
        }
        notes
    }

    pub(super) fn json(&self, compared: Option<&Comparison>) -> Value {
        json!({
            "job": self.name,
            "source": self.source,
            "firings": compared.map(|compared| compared.ours),
            "firings_before": compared.map(|compared| compared.theirs),
            "notes": self.notes_beside(compared),
            "crontab": self.crontab_line.as_ref().map(|(zone, line)| match &**zone {
                "" => line.clone(),
                zone => format!("CRON_TZ={zone}\n{line}"),
            }),
        })
    }
}

/// Names of jobs, each given once.
#[derive(Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    pub(super) fn of(&mut self, wanted: &str) -> String {
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

/// A text as a comment.
pub(super) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// A text as a value of TOML.
pub(super) fn quoted(text: &str) -> String {
    // JSON's strings are TOML's, but for one character.
    json!(text).to_string().replace('\u{7f}', "\\u007F")
}
