//! `jobs runs`: due times of a job with what became of them, over as many pages as are asked for.

use super::{show, waiting};
use crate::cli::{connect::Server, error::CliError, number::whole, output};
use clap::Args;
use rallypoint_client::{
    Client,
    api::{ListRunsRequest, ListRunsResponse},
};

/// Due times per page.
const PAGE_SIZE: i32 = 1_000;

/// Arguments of `jobs runs`.
#[derive(Args, Debug)]
pub(super) struct Runs {
    /// Its name
    name: String,
    /// Most due times to show, the newest ones
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = whole::<usize>(1..))]
    limit: usize,
}

impl Runs {
    pub(super) async fn run(self, server: &Server) -> Result<(), CliError> {
        let client = server.client().await?;
        let mut list = self.read(&client).await?;
        waiting::explain(&client, &mut list.runs).await;
        output::answer(&list, |list| show::runs(&list.runs));
        if !list.next_page_token.is_empty() {
            output::note("older due times are not shown: see --limit");
        }
        Ok(())
    }

    /// The newest due times, with a token when there are older ones.
    async fn read(&self, client: &Client) -> Result<ListRunsResponse, CliError> {
        let mut list = ListRunsResponse::default();
        loop {
            let left = i32::try_from(self.limit - list.runs.len()).unwrap_or(PAGE_SIZE);
            let request = ListRunsRequest {
                name: self.name.clone(),
                page_size: left.clamp(1, PAGE_SIZE),
                page_token: std::mem::take(&mut list.next_page_token),
            };
            let page = client.list_runs(request).await.map_err(|error| {
                CliError::call(format!("cannot list runs of job {}", self.name), &error)
            })?;
            list.runs.extend(page.runs);
            list.next_page_token = page.next_page_token;
            if list.next_page_token.is_empty() || list.runs.len() >= self.limit {
                list.runs.truncate(self.limit);
                return Ok(list);
            }
        }
    }
}
