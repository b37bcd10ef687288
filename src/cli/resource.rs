//! `resource`: resources are defined, shown and deleted, and claims on them shown and ended.

pub(super) mod closed;
mod settings;
mod show;

use super::{
    confirm::Confirm, connect::Server, error::CliError, number::whole, outage_note::OutageNote,
    output, shell,
};
use clap::{Args, Subcommand};
use rallypoint_client::{
    Client,
    api::{
        ClaimEnd, ClaimState, CreateResourceRequest, DeleteResourceResponse, GetClaimResponse,
        GetResourceRequest, GetResourceResponse, ListResourcesRequest, ListResourcesResponse,
        ReleaseResponse, UpdateResourceRequest,
    },
};
use settings::Settings;
use std::process::ExitCode;

/// Arguments of `resource`.
#[derive(Args, Debug)]
pub(super) struct Resource {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Define a resource, or with `NAME/*` one for every name below NAME
    Create {
        /// What it is called
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Change settings; no hold ends
    Update {
        /// What it is called
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Show a resource and how it is used
    Get {
        /// What it is called
        name: String,
    },
    /// List resources and patterns
    List,
    /// Show who holds a resource and who waits, first in line first
    Queue {
        /// What it is called
        name: String,
        /// Most holds, and most waiting claims, to show
        #[arg(
            long,
            default_value_t = show::LISTED as i32,
            value_name = "N",
            value_parser = whole::<i32>(1..=1_000)
        )]
        limit: i32,
    },
    /// Follow a resource: who holds it and who waits, whenever that changes, until it is deleted
    Watch {
        /// What it is called
        name: String,
        /// End after so many messages
        #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
        count: Option<u64>,
    },
    /// Show a claim, open or ended
    Claim {
        /// Its number
        #[arg(value_parser = claim_number)]
        claim: i64,
    },
    /// Give a hold back with its token, withdraw a claim that waits, or end anybody's with --force
    Release(Release),
    /// Delete a resource that nobody uses
    Delete {
        /// What it is called
        name: String,
    },
}

/// Reads the number of a claim.
fn claim_number(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    let advice = "write the number of a claim: `rallypoint resource queue NAME` shows them";
    number.ok_or_else(|| advice.to_owned())
}

#[derive(Args, Debug)]
struct Release {
    /// The claim's number
    #[arg(value_parser = claim_number)]
    claim: i64,
    /// Token of the hold; without it a claim in waiting is withdrawn
    #[arg(long, default_value_t = 0, hide_default_value = true, value_parser = whole::<i64>(0..))]
    token: i64,
    /// End it whoever has it; others get the resource after its lock delay
    #[arg(long, requires = "reason", conflicts_with = "token")]
    force: bool,
    /// Why, for the record
    #[arg(long, requires = "force", value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
}

impl Resource {
    /// Does what the verb says.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        match self.verb {
            Verb::Create { name, settings } => create(server, name, &settings).await?,
            Verb::Update { name, settings } => update(server, name, &settings).await?,
            Verb::Get { name } => get(server, name, 1, false).await?,
            Verb::Queue { name, limit } => get(server, name, limit, true).await?,
            Verb::Watch { name, count } => output::while_read(watch(server, name, count)).await?,
            Verb::List => list(server).await?,
            Verb::Claim { claim } => {
                let client = server.client().await?;
                let known = client.get_claim(claim).await;
                let what = format!("cannot show claim {claim}");
                let known = known.map_err(|error| CliError::call(what, &error))?;
                let closed = match known.state() {
                    ClaimState::Waiting => closed::in_words(&client, &known.resources).await,
                    _ => None,
                };
                let answer = GetClaimResponse { claim: Some(known) };
                output::answer(&answer, |answer| show::claim(answer.claim.as_ref(), closed));
            }
            Verb::Release(release) => release.run(&server.client().await?).await?,
            Verb::Delete { name } => {
                let deleted = server.client().await?.delete_resource(&name).await;
                let what = format!("cannot delete resource {name}");
                deleted.map_err(|error| {
                    let failed = CliError::call(what, &error).naming("NAME", shell::word(&name));
                    let is_gone = error.is("RESOURCE_NOT_FOUND")
                        && !error.metadata.contains_key("definition");
                    match is_gone {
                        true => failed.next(
                            "if it was deleted before, nothing is left to do; `rallypoint resource \
                             list` shows the resources there are",
                        ),
                        false => failed,
                    }
                })?;
                output::answer(&DeleteResourceResponse {}, |_| {
                    output::line(format!("{name}: deleted"));
                });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn create(server: &Server, name: String, settings: &Settings) -> Result<(), CliError> {
    let what = format!("cannot create resource {name}");
    let request = CreateResourceRequest {
        name,
        settings: Some(settings.message(1)),
    };
    let created = server.client().await?.create_resource(request).await;
    let created = created.map_err(|error| CliError::call(what, &error))?;
    output::answer(&created, |created| {
        let before = match created.already_exists {
            true => " (was there before)",
            false => "",
        };
        show::resource(created.resource.as_ref(), before);
    });
    Ok(())
}

async fn update(server: &Server, name: String, settings: &Settings) -> Result<(), CliError> {
    let paths = settings.paths();
    if paths.is_empty() {
        let what = "name something to change: --capacity, --lock-delay, --max-hold, --refill, \
                    --reader-preferred";
        return Err(CliError::usage(what));
    }
    let what = format!("cannot update resource {name}");
    let request = UpdateResourceRequest {
        name: name.clone(),
        settings: Some(settings.message(0)),
        update_mask: Some(prost_types::FieldMask { paths }),
    };
    let updated = server.client().await?.update_resource(request).await;
    let failed = |error| CliError::call(what, &error).naming("NAME", shell::word(&name));
    let updated = updated.map_err(failed)?;
    output::answer(&updated, |updated| {
        show::resource(updated.resource.as_ref(), "")
    });
    Ok(())
}

async fn get(server: &Server, name: String, limit: i32, queue: bool) -> Result<(), CliError> {
    let what = format!("cannot show resource {name}");
    let request = GetResourceRequest {
        name: name.clone(),
        page_size: limit,
    };
    let known = server.client().await?.get_resource(request).await;
    let failed = |error| CliError::call(what, &error).naming("NAME", shell::word(&name));
    let known = known.map_err(failed)?;
    output::answer(&known, |known| match queue {
        true => show::queue(known),
        false => show::resource(known.resource.as_ref(), ""),
    });
    if queue && let Some(limit) = cut_at(&known, limit as usize) {
        output::note(format!(
            "more hold it or wait for it than are shown: {limit}"
        ));
    }
    Ok(())
}

/// What keeps a list from showing all that the resource counts.
fn cut_at(known: &GetResourceResponse, limit: usize) -> Option<&'static str> {
    let resource = known.resource.as_ref()?;
    if resource.name.ends_with('*') {
        // It counts what is listed under names.
        return None;
    }
    let has_more = |(shown, count): &(usize, i64)| *count > *shown as i64;
    let claims = [
        (known.holds.len(), resource.holds),
        (known.queue.len(), resource.waiting),
    ];
    let tasks = [(known.waiting_tasks.len(), resource.waiting_tasks)];
    let mut full = claims.iter().chain(&tasks);
    if full.any(|list| list.0 >= limit && has_more(list)) {
        return Some("see --limit (1000 at most)");
    }
    let is_cut = claims.iter().any(has_more);
    is_cut.then_some("a list of large claims has 1 MiB at most")
}

/// Its state whenever it has changed.
async fn watch(server: &Server, name: String, count: Option<u64>) -> Result<(), CliError> {
    let what = format!("cannot follow resource {name}");
    let failed = |error| CliError::call(&what, &error).naming("NAME", shell::word(&name));
    let client = server.client().await?;
    let mut states = client.watch_resource(&name).await.map_err(failed)?;
    let mut outage = OutageNote::of(states.outage());
    for shown in 0..count.unwrap_or(u64::MAX) {
        let next = outage.beside(states.next(), output::note).await;
        let Some(state) = next.map_err(failed)? else {
            break;
        };
        output::answer(&state, |state| {
            if shown > 0 {
                output::line("");
            }
            show::state(state);
        });
    }
    Ok(())
}

/// All pages as one answer.
async fn list(server: &Server) -> Result<(), CliError> {
    let client = server.client().await?;
    let mut all = ListResourcesResponse::default();
    loop {
        let request = ListResourcesRequest {
            page_size: 1_000,
            page_token: std::mem::take(&mut all.next_page_token),
        };
        let page = client.resources(request).await;
        let page = page.map_err(|error| CliError::call("cannot list resources", &error))?;
        all.resources.extend(page.resources);
        all.next_page_token = page.next_page_token;
        if all.next_page_token.is_empty() {
            break;
        }
    }
    output::answer(&all, |all| show::resources(&all.resources));
    Ok(())
}

impl Release {
    async fn run(self, client: &Client) -> Result<(), CliError> {
        let claim = self.claim;
        let what = format!("cannot release claim {claim}");
        let said = |already_ended| match already_ended {
            true => format!("claim {claim}: had ended before"),
            false => format!("claim {claim}: released"),
        };
        self.ask(client).await?;
        match self.reason {
            Some(reason) => {
                let ended = client.force_release(claim, reason).await;
                let ended = ended.map_err(|error| CliError::call(what, &error))?;
                output::answer(&ended, |ended| output::line(said(ended.already_ended)));
            }
            None => match client.release_claim(claim, self.token).await {
                Ok(ended) => output::answer(&ended, |ended| {
                    let its = ended.claim.as_ref();
                    let is_withdrawn = its.is_some_and(|its| its.end() == ClaimEnd::Withdrawn);
                    output::line(match its.filter(|_| is_withdrawn && !ended.already_ended) {
                        Some(its) => format!("claim {claim} of {}: withdrawn", show::who(its)),
                        None => said(ended.already_ended),
                    });
                }),
                Err(error) if error.is("TOKEN_MISMATCH") => {
                    let known = client.get_claim(claim).await;
                    let known = known.map_err(|error| CliError::call(&what, &error))?;
                    if known.state() != ClaimState::Ended {
                        let used = known.resources.first();
                        let name = used.map_or("NAME".to_owned(), |used| shell::word(&used.name));
                        return Err(CliError::call(what, &error).naming("NAME", name));
                    }
                    let ended = ReleaseResponse {
                        claim: Some(known),
                        already_ended: true,
                    };
                    output::answer(&ended, |ended| output::line(said(ended.already_ended)));
                }
                Err(error) => return Err(CliError::call(what, &error)),
            },
        }
        Ok(())
    }

    /// A claim that waits may be withdrawn by anybody: without a token a person is asked whether it
    /// is the one that was meant.
    async fn ask(&self, client: &Client) -> Result<(), CliError> {
        let claim = self.claim;
        if self.token > 0 || self.force || !self.confirm.is_needed() {
            return Ok(());
        }
        match client.get_claim(claim).await {
            Ok(known) if known.state() == ClaimState::Waiting => {
                let question = format!("withdraw claim {claim} of {}?", show::who(&known));
                self.confirm.ask(&question).await
            }
            // What is wrong with it the call says.
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::{Claim, Resource};

    #[test]
    fn a_list_that_was_cut_is_told_from_a_whole_one() {
        let known = |shown: usize, waiting: i64, waiting_tasks: i64| GetResourceResponse {
            resource: Some(Resource {
                waiting,
                waiting_tasks,
                ..Resource::default()
            }),
            queue: vec![Claim::default(); shown],
            ..GetResourceResponse::default()
        };
        let cut = |known: &GetResourceResponse| cut_at(known, 10);
        assert!(cut(&known(10, 11, 0)).is_some_and(|limit| limit.contains("--limit")));
        assert_eq!(cut(&known(10, 10, 0)), None);
        // By its bytes.
        assert!(cut(&known(9, 11, 0)).is_some_and(|limit| limit.contains("MiB")));
        // Not every line of tasks that is counted is shown.
        assert_eq!(cut(&known(9, 9, 1)), None);
        let mut pattern = known(0, 11, 0);
        pattern.resource.get_or_insert_default().name = "a/*".into();
        assert_eq!(cut(&pattern), None);
    }
}
