//! Names that the service does not know, with the one that was probably meant.

use super::{connect::Server, error::CliError};
use crate::toml_file::closest;
use rallypoint_client::{
    Client, Result,
    api::{ListJobsRequest, ListResourcesRequest, ListSchedulersRequest},
};
use std::time::Duration;

/// Names that are looked at: the newest schedulers, the first jobs and resources.
const MOST: i32 = 1_000;
/// How long the service may take to say them.
const WITHIN: Duration = Duration::from_secs(2);

/// The error, with the name that is there in the place of one that is not.
pub(super) async fn suggested(server: &Server, error: CliError) -> CliError {
    let Some((reason, name)) = error.unknown_name() else {
        return error;
    };
    let Ok(client) = server.quiet_client().await else {
        return error;
    };
    let client = client.with_time_limit(Some(WITHIN));
    let names = names(&client, reason).await.unwrap_or_default();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match closest(name, &names).filter(|meant| *meant != name) {
        Some(meant) => {
            let meant = format!("did you mean `{meant}`?");
            error.asking(&meant)
        }
        None => error,
    }
}

/// The names of what the service does not have under another one.
async fn names(client: &Client, reason: &str) -> Result<Vec<String>> {
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
            let names = page.schedulers.into_iter().map(|one| one.name);
            Ok(names.filter(|name| !name.is_empty()).collect())
        }
        _ => Ok(Vec::new()),
    }
}
