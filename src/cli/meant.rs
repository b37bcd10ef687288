//! Names that the service does not know, with the one that was probably meant.

use super::{connect::Server, error::CliError, shell};
use crate::{core::Handle, likeness::closest};
use rallypoint_client::{
    Client, Result,
    api::{GetJobRequest, ListJobsRequest, ListResourcesRequest, ListSchedulersRequest},
};
use std::time::Duration;
use tokio::time::timeout;

/// Names that are looked at: the newest schedulers, the first jobs and resources.
const MOST: i32 = 1_000;
/// Characters of a handle that hardly another one begins with: its time in milliseconds.
const CUT_HANDLE: usize = 13;
/// How long looking for them may take, with the connection: the command has failed already, and
/// some commands no longer listen to signals.
const WITHIN: Duration = Duration::from_secs(2);

/// The error, with the name that is there in the place of one that is not, or what the name is of.
pub(super) async fn suggested(server: &Server, error: CliError) -> CliError {
    let Some((reason, name)) = error.unknown_name() else {
        return error;
    };
    let found = timeout(WITHIN, found(server, reason, name)).await;
    match found.ok().flatten() {
        Some(Found::Job) => {
            let next = of_job(name);
            error.next(next)
        }
        Some(Found::Alike(meant)) => error.asking(&format!("did you mean `{meant}`?")),
        None => error,
    }
}

/// What there is in the place of a name that the service does not know.
enum Found {
    /// Something of the kind that is missing, whose name is alike.
    Alike(String),
    /// A job of this name, where a scheduler is missing.
    Job,
}

async fn found(server: &Server, reason: &str, name: &str) -> Option<Found> {
    let client = server.quiet_client().await.ok()?;
    let job = GetJobRequest {
        name: name.to_owned(),
    };
    if reason == "HANDLE_NOT_FOUND" && client.get_job(job).await.is_ok() {
        return Some(Found::Job);
    }
    let names = listed(&client, reason).await.ok()?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let meant = probable(name, &names).filter(|meant| *meant != name)?;
    Some(Found::Alike(meant.to_owned()))
}

/// What to do with the name of a job in the place of a scheduler: each run has one of its own.
fn of_job(name: &str) -> String {
    let job = shell::word(name);
    format!(
        "{name} is a job: `rallypoint jobs runs {job}` lists its runs with their schedulers, \
         `rallypoint jobs log {job}` the tasks of the last one"
    )
}

/// The name that was probably meant. Handles begin with a time, so those of one month are more
/// alike than a name and its slip: one is meant by its beginning only.
fn probable<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let is_handle = |word: &&&str| word.parse::<Handle>().is_ok();
    let (handles, names): (Vec<&str>, Vec<&str>) = names.iter().partition(|word| is_handle(word));
    let is_cut = |handle: &&str| name.len() >= CUT_HANDLE && handle.starts_with(name);
    handles
        .into_iter()
        .find(is_cut)
        .or_else(|| closest(name, &names))
}

/// The names of what there is of the kind that is missing.
async fn listed(client: &Client, reason: &str) -> Result<Vec<String>> {
    match reason {
        "JOB_NOT_FOUND" => {
            let request = ListJobsRequest {
                page_size: MOST,
                ..ListJobsRequest::default()
            };
            let page = client.list_jobs(request).await?;
            Ok(page.jobs.into_iter().map(|job| job.name).collect())
        }
        "RESOURCE_NOT_FOUND" => {
            let request = ListResourcesRequest {
                page_size: MOST,
                ..ListResourcesRequest::default()
            };
            let page = client.resources(request).await?;
            Ok(page.resources.into_iter().map(|one| one.name).collect())
        }
        "HANDLE_NOT_FOUND" => {
            let request = ListSchedulersRequest {
                page_size: MOST,
                ..ListSchedulersRequest::default()
            };
            let page = client.schedulers(request).await?;
            let names = page.schedulers.into_iter();
            let names = names.flat_map(|one| [one.name, one.handle]);
            Ok(names.filter(|name| !name.is_empty()).collect())
        }
        _ => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use tokio::time::Instant;

    #[test]
    fn a_handle_is_meant_by_its_beginning_and_a_name_by_its_likeness() {
        let known = ["nightly", "01a218e0-28f7-7000-a47c-24aaef7d3abf"];
        let cut = &known[1][..35];
        assert_eq!(probable(cut, &known), Some(known[1]));
        assert_eq!(
            probable("01a218e0-28f8-7000-a47c-24aaef7d3abf", &known),
            None
        );
        assert_eq!(probable("01a2", &known), None);
        assert_eq!(probable("nihgtly", &known), Some("nightly"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_not_waited_for_long() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut server = Server::at(silent.local_addr().expect("an address"));
        // With TLS the server has a part in connecting, and this one does not do it.
        server.address = server.address.replace("http:", "https:");
        let error = CliError::new("no such job").because_unknown("JOB_NOT_FOUND", "nihgtly");
        let begun = Instant::now();
        let error = suggested(&server, error).await;
        assert_eq!(begun.elapsed().as_secs(), WITHIN.as_secs());
        assert_eq!(error.in_words(), "no such job");
    }
}
