//! CancelTasks. The core knows which tasks are unfinished and where they stand, the journal what
//! they were submitted with: a page asks both, and has the core cancel what is left, in one command
//! of bounded size.

use super::{Schedulers, listing::MAX_PAGE_TIME};
use crate::{
    core::{Caller, Cancel, Handle, Phase, Reply, Seq, TaskRange, Verb},
    journal::{RangePage, TaskSearch},
    rpc::{errors, validate::CancelTasks},
};
use rallypoint_client::api;
use std::{sync::Arc, time::Instant};
use tonic::Status;

/// Tasks that one page goes through.
const TASKS_PER_PAGE: usize = 10_000;
/// Ranges of tasks that one page cancels: others wait while the core does it.
const RANGES_PER_PAGE: usize = 500;

impl Schedulers {
    pub(super) async fn cancel_tasks(
        &self,
        caller: Caller,
        request: Arc<api::CancelTasksRequest>,
    ) -> Result<api::CancelTasksResponse, Status> {
        let begun = Instant::now();
        let query = CancelTasks::new(&request, &caller.namespace)?;
        let (before, last) = match (query.before, query.last) {
            (Some(before), Some(last)) => (before, last),
            (_, asked) => {
                let submitted = self.highest_seq(&caller, query.handle).await?;
                let last = asked.map_or(submitted, |asked| asked.min(submitted));
                note(&caller, &query, last);
                (last.plus(1), last)
            }
        };
        let search = self.reader.search(query.handle, query.filter.clone()).await;
        let search = search.map_err(errors::journal)?;
        let mut page = RangePage {
            ranges: Vec::new(),
            next: Some(before),
        };
        while let Some(before) = page.next
            && page.ranges.is_empty()
            && begun.elapsed() < MAX_PAGE_TIME
        {
            page = self.unfinished(&caller, &query, &search, before).await?;
        }
        let next_page = page.next.map(|next| query.next_page(next, last));
        let (waiting, running) = self.cancel_ranges(caller, &query, page.ranges).await?;
        Ok(api::CancelTasksResponse {
            waiting: waiting.into(),
            running: running.into(),
            last_seq: last.0,
            next_page_token: next_page.unwrap_or_default(),
        })
    }

    /// The number of the last task submitted.
    async fn highest_seq(&self, caller: &Caller, handle: Handle) -> Result<Seq, Status> {
        match self.ask(caller.clone(), handle, Verb::Describe).await? {
            Reply::Scheduler(view) => Ok(view.image.checkpoint.highest_seq),
            other => Err(errors::mismatched_reply(&other)),
        }
    }

    /// The next tasks that are meant, among them all that are unfinished. A label that few tasks
    /// have leads to them, else the core does, which passes over what has ended.
    async fn unfinished(
        &self,
        caller: &Caller,
        query: &CancelTasks,
        search: &TaskSearch,
        before: Seq,
    ) -> Result<RangePage, Status> {
        let before = before.min(search.below_seq());
        let mut page = match search.has_rare_label() && !query.tells_waiting_apart() {
            true => {
                let page = self.reader.ranges_before(search, before, TASKS_PER_PAGE);
                page.await.map_err(errors::journal)?
            }
            false => self.select_ranges(caller, query, search, before).await?,
        };
        if page.ranges.len() > RANGES_PER_PAGE {
            page.ranges.truncate(RANGES_PER_PAGE);
            page.next = page.ranges.last().map(|range| range.first);
        }
        page.next = page.next.filter(|next| *next > search.first_seq());
        Ok(page)
    }

    async fn select_ranges(
        &self,
        caller: &Caller,
        query: &CancelTasks,
        search: &TaskSearch,
        before: Seq,
    ) -> Result<RangePage, Status> {
        let verb = Verb::Select {
            before,
            phases: query.phases.clone(),
            order: query.filter.order,
            limit: TASKS_PER_PAGE,
        };
        let (seqs, next) = match self.ask(caller.clone(), query.handle, verb).await? {
            Reply::Selected { seqs, next } => (seqs, next),
            other => return Err(errors::mismatched_reply(&other)),
        };
        let ranges = match seqs.is_empty() {
            true => Vec::new(),
            false => {
                let ranges = self.reader.ranges_of(search, &seqs).await;
                ranges.map_err(errors::journal)?
            }
        };
        Ok(RangePage { ranges, next })
    }

    /// How many of them waited and ran.
    async fn cancel_ranges(
        &self,
        caller: Caller,
        query: &CancelTasks,
        tasks: Vec<TaskRange>,
    ) -> Result<(u32, u32), Status> {
        if tasks.is_empty() {
            return Ok((0, 0));
        }
        let verb = Verb::Cancel(Arc::new(Cancel {
            tasks,
            waiting: query.phases.iter().any(|phase| *phase != Phase::Running),
            running: query.phases.contains(&Phase::Running),
            dry_run: query.dry_run,
            filter: Some(query.filter_text.as_str().into()),
        }));
        match self.ask(caller, query.handle, verb).await? {
            Reply::Cancelled { waiting, running } => Ok((waiting, running)),
            other => Err(errors::mismatched_reply(&other)),
        }
    }
}

/// Says in the service's log that tasks begin to be cancelled.
fn note(caller: &Caller, query: &CancelTasks, last: Seq) {
    if !query.dry_run {
        tracing::info!(
            handle = %query.handle,
            namespace = %caller.namespace.0,
            caller = %caller.name,
            filter = query.filter_text,
            last_seq = last.0,
            "tasks are being cancelled by a filter"
        );
    }
}
