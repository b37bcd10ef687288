//! Jobs that follow others: those they name exist, and none follows itself over others.

use super::job::Job;
use crate::{
    likeness::closest,
    toml_file::{Faults, written_key},
};
use std::collections::{BTreeMap, BTreeSet};

/// `names`: of all jobs of the file, also of those that make no sense.
pub(super) fn check(jobs: &[Job], names: &[String], faults: &mut Faults) {
    let follows: BTreeMap<&str, &str> = jobs
        .iter()
        .filter_map(|job| Some((job.name.as_str(), job.follows()?)))
        .collect();
    for job in jobs {
        let Some(before) = job.follows() else {
            continue;
        };
        let what = if !names.iter().any(|name| name == before) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let meant = closest(before, &names);
            let meant = meant.map(|name| format!(": did you mean `{name}`?"));
            let meant = meant.unwrap_or_default();
            format!("there is no job `{before}` in this file{meant}")
        } else if let Some(circle) = circle(&job.name, &follows) {
            format!("it would wait for itself: {circle}")
        } else {
            continue;
        };
        let what = format!("jobs.{}.schedule.after: {what}", written_key(&job.name));
        faults.add(Some(job.schedule_lines.of("")), what);
    }
}

/// The jobs that lead back to this one.
fn circle(name: &str, follows: &BTreeMap<&str, &str>) -> Option<String> {
    let (mut seen, mut way) = (BTreeSet::new(), vec![name]);
    let mut at = name;
    while let Some(before) = follows.get(at) {
        way.push(before);
        if *before == name {
            return Some(way.join(" after "));
        }
        if !seen.insert(*before) {
            return None;
        }
        at = before;
    }
    None
}
