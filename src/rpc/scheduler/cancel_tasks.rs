//! CancelTasks. The core knows which tasks are unfinished and where they stand, the journal what
//! they were submitted with: a page asks both, and has the core cancel what is left, in commands of
//! bounded size, between which it does what others ask for.

use super::{Schedulers, listing::MAX_PAGE_TIME};
use crate::{
    core::{Caller, Cancel, Handle, Phase, Reply, Seq, TaskRange, Verb},
    journal::{RangePage, TaskSearch},
    rpc::{errors, validate::CancelTasks},
};
use rallypoint_client::api;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;
use tonic::Status;

/// Tasks that are read at a time.
const TASKS_PER_READ: usize = 500;
/// Tasks that one command cancels: each is an event to write, and others wait for that.
const TASKS_PER_COMMAND: u32 = 250;
/// How long a call pauses after it has searched, after it has read a page and after each command,
/// as a multiple of the time that took. The disk and the processors are others' meanwhile.
const PAUSE_PER_WORK: f64 = 1.6;
/// The longest pause: work that took so much time has waited for something else.
const MAX_PAUSE: Duration = Duration::from_secs(1);

impl Schedulers {
    pub(super) async fn cancel_tasks(
        &self,
        caller: Caller,
        request: Arc<api::CancelTasksRequest>,
    ) -> Result<api::CancelTasksResponse, Status> {
        let query = CancelTasks::new(&request, &caller.namespace)?;
        self.check_visible(&caller, query.handle).await?;
        let (before, last) = match (query.before, query.last) {
            (Some(before), Some(last)) => (before, last),
            (_, asked) => {
                let submitted = self.highest_seq(&caller, query.handle).await?;
                let last = asked.map_or(submitted, |asked| asked.min(submitted));
                note(&caller, &query, last);
                (last.plus(1), last)
            }
        };
        let search = leaving_room(self.reader.search(query.handle, query.filter.clone())).await;
        let search = search.map_err(errors::journal)?;
        let mut answer = api::CancelTasksResponse {
            last_seq: last.0,
            ..Default::default()
        };
        // The time for reading counts from here, so that a slow search leaves some.
        let begun = Instant::now();
        let mut next = Some(before);
        while let Some(at) = next {
            match self
                .cancel_before(&caller, &query, &search, at, &mut answer)
                .await
            {
                Ok(after) => next = after,
                Err(error) if at == before => return Err(error),
                // It does not hide what was done before it: the next call meets it again.
                Err(error) => {
                    tracing::debug!(%error, "a call of CancelTasks ends early");
                    break;
                }
            }
            if begun.elapsed() >= MAX_PAGE_TIME {
                break;
            }
        }
        let next_page = next.map(|next| query.next_page(next, last));
        answer.next_page_token = next_page.unwrap_or_default();
        Ok(answer)
    }

    /// Cancels the next tasks that are meant. Returns before which task to look on.
    async fn cancel_before(
        &self,
        caller: &Caller,
        query: &CancelTasks,
        search: &TaskSearch,
        before: Seq,
        answer: &mut api::CancelTasksResponse,
    ) -> Result<Option<Seq>, Status> {
        let page = leaving_room(self.unfinished(caller, query, search, before)).await?;
        let mut done_to = None;
        for tasks in commands(&page.ranges) {
            let first = tasks.last().map(|range| range.first);
            match leaving_room(self.cancel_ranges(caller.clone(), query, tasks)).await {
                Ok((waiting, running)) => {
                    answer.waiting += i64::from(waiting);
                    answer.running += i64::from(running);
                    done_to = first;
                }
                Err(error) if done_to.is_none() => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "a page of CancelTasks ends early");
                    return Ok(done_to);
                }
            }
        }
        Ok(page.next)
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
                let page = self.reader.ranges_before(search, before, TASKS_PER_READ);
                page.await.map_err(errors::journal)?
            }
            false => self.select_ranges(caller, query, search, before).await?,
        };
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
            limit: TASKS_PER_READ,
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

/// Does a part of the work, and pauses for others.
async fn leaving_room<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let begun = Instant::now();
    let done = work.await?;
    let pause = begun.elapsed().mul_f64(PAUSE_PER_WORK).min(MAX_PAUSE);
    sleep(pause).await;
    Ok(done)
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

/// The tasks of ranges, newest first, cut into what one command cancels.
fn commands(ranges: &[TaskRange]) -> Vec<Vec<TaskRange>> {
    let mut commands: Vec<Vec<TaskRange>> = Vec::new();
    let mut room = 0;
    for range in ranges {
        let mut last = range.last;
        while last >= range.first {
            if room == 0 {
                commands.push(Vec::new());
                room = TASKS_PER_COMMAND;
            }
            let first = range.first.max(Seq(last.0 + 1 - i64::from(room)));
            room -= (last.0 + 1 - first.0) as u32;
            let part = TaskRange {
                first,
                last,
                ..*range
            };
            if let Some(command) = commands.last_mut() {
                command.push(part);
            }
            last = Seq(first.0 - 1);
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Order;

    #[test]
    fn every_task_is_in_one_command_and_none_is_too_large() {
        let range = |first, last, order| TaskRange {
            first: Seq(first),
            last: Seq(last),
            order: Some(Order(order)),
        };
        let ranges = [range(2_000, 2_100, 3), range(500, 899, 2), range(7, 7, 1)];
        let cut = commands(&ranges);
        let expected = [
            vec![range(2_000, 2_100, 3), range(751, 899, 2)],
            vec![range(501, 750, 2)],
            vec![range(500, 500, 2), range(7, 7, 1)],
        ];
        assert_eq!(cut, expected);
        assert!(commands(&[]).is_empty());
    }
}
