//! Resources that steps need and the service does not have. Who makes them may do so later, so a
//! job is applied without them: its runs fail until they are there.

use super::job::Job;
use crate::{
    cli::{output, shell},
    toml_file::written_key,
};
use rallypoint_client::{Client, api};
use std::collections::BTreeMap;

/// Notes each resource that is missing, with the tasks that need it, as the file names them.
pub(super) async fn note(client: &Client, jobs: &[Job]) {
    for (name, tasks) in needed(jobs) {
        let request = api::GetResourceRequest {
            name: name.clone(),
            page_size: 1,
        };
        let found = client.get_resource(request).await;
        // Any other error is of this look alone, not of the jobs.
        if found.is_err_and(|error| error.is("RESOURCE_NOT_FOUND")) {
            output::note(text(&name, &tasks));
        }
    }
}

/// The tasks that need each resource.
fn needed(jobs: &[Job]) -> BTreeMap<String, Vec<String>> {
    let mut needed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for job in jobs {
        let settings = job.settings();
        let lists = [
            ("steps", settings.steps),
            ("on_failure", settings.on_failure),
        ];
        for (list, tasks) in lists {
            for (place, task) in (1..).zip(tasks) {
                for wanted in task.options.unwrap_or_default().resources {
                    let task = format!("jobs.{}.{list}[{place}]", written_key(&job.name));
                    needed.entry(wanted.name).or_default().push(task);
                }
            }
        }
    }
    needed
}

fn text(name: &str, tasks: &[String]) -> String {
    let (first, more) = match tasks {
        [first] => (first.as_str(), String::new()),
        [first, rest @ ..] => (first.as_str(), format!(" (and {} more)", rest.len())),
        [] => ("", String::new()),
    };
    let word = shell::word(name);
    format!(
        "there is no resource {name}, which {first}{more} needs: runs fail until `rallypoint \
         resource create {word}` has made it"
    )
}
