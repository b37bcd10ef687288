//! The overview: the status and what runs at each reading, the lists beside it at each fifth.

use super::{
    super::seen::{Overview, Query, Seen},
    attention,
    executions::executions,
};
use rallypoint_client::{
    Client, Result,
    api::{
        GetStatusResponse, ListJobsRequest, ListResourcesRequest, ListSchedulersRequest, Scheduler,
        SchedulerFilter,
        SchedulerState::{self, Open, Released, Releasing},
    },
};

/// Readings from one of the lists to the next.
const SLOW: u64 = 5;
/// Schedulers that are open, and that have ended.
const OPEN: i32 = 30;
const ENDED: i32 = 30;
/// Resources and jobs.
const LISTED: i32 = 200;
/// Rates that are kept.
const KEPT: usize = 120;

pub(super) async fn read(client: &Client, query: &Query) -> Result<Seen> {
    let mut seen = match query.before.as_deref() {
        Some(Seen::Overview(before)) => (**before).clone(),
        _ => Overview::default(),
    };
    let (status, (executions, _)) = tokio::try_join!(client.status(), executions(client))?;
    seen.executions = executions;
    measure(&mut seen, status, query.now);
    if seen.turn.is_multiple_of(SLOW) {
        lists(client, &mut seen, query.now).await?;
    }
    seen.turn += 1;
    Ok(Seen::Overview(Box::new(seen)))
}

/// A rate is what has ended between two answers of one owner.
fn measure(seen: &mut Overview, status: GetStatusResponse, now: i64) {
    let ended = |status: &GetStatusResponse| status.backlog.as_ref().map(|all| all.ended);
    if let (Some(before), Some(after)) = (ended(&seen.status), ended(&status))
        && seen.turn > 0
        && after >= before
        && now > seen.at
    {
        let seconds = (now - seen.at) as f64 / 1e6;
        seen.rates.push((after - before) as f64 / seconds);
        let surplus = seen.rates.len().saturating_sub(KEPT);
        seen.rates.drain(..surplus);
    }
    seen.status = status;
    seen.at = now;
}

async fn lists(client: &Client, seen: &mut Overview, now: i64) -> Result<()> {
    let resources = ListResourcesRequest {
        page_size: LISTED,
        page_token: String::new(),
    };
    let jobs = ListJobsRequest {
        page_size: LISTED,
        page_token: String::new(),
    };
    let (open, ended, resources, jobs) = tokio::try_join!(
        schedulers(client, OPEN, &[Open, Releasing]),
        schedulers(client, ENDED, &[Released]),
        client.resources(resources),
        client.list_jobs(jobs)
    )?;
    seen.schedulers = open.into_iter().chain(ended).collect();
    seen.resources = resources.resources;
    seen.jobs = jobs.jobs;
    seen.errors = attention::errors(client, &seen.schedulers, &seen.errors, now).await?;
    seen.held_up = attention::held_up(client, &seen.executions, now).await;
    Ok(())
}

async fn schedulers(
    client: &Client,
    page_size: i32,
    states: &[SchedulerState],
) -> Result<Vec<Scheduler>> {
    let filter = SchedulerFilter {
        states: states.iter().map(|state| i32::from(*state)).collect(),
        ..SchedulerFilter::default()
    };
    let request = ListSchedulersRequest {
        page_size,
        page_token: String::new(),
        filter: Some(filter),
    };
    Ok(client.schedulers(request).await?.schedulers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::Backlog;

    #[test]
    fn a_rate_is_not_made_up_when_another_replica_has_taken_over() {
        let status = |ended| GetStatusResponse {
            backlog: Some(Backlog {
                ended,
                ..Backlog::default()
            }),
            ..GetStatusResponse::default()
        };
        let mut seen = Overview::default();
        for (second, ended) in [(1, 100), (2, 150), (3, 20), (4, 30)] {
            measure(&mut seen, status(ended), second * 1_000_000);
            seen.turn += 1;
        }
        assert_eq!(seen.rates, [50.0, 10.0]);
    }
}
