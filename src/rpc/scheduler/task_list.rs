//! ListTasks. The rows come from the journal; where unfinished tasks stand, and which ones stand
//! where, from the core. A page is short rather than late: it ends when it is full, or large, or
//! has taken its time.

use super::{
    Schedulers,
    listing::{MAX_PAGE_BYTES, MAX_PAGE_TIME},
    tasks::States,
};
use crate::{
    core::{Caller, DoneNo, Phase, Reply, Seq, Verb},
    journal::{StoredTask, TaskSearch},
    rpc::{convert, errors, validate::ListTasks},
};
use prost::Message;
use rallypoint_client::api;
use std::{sync::Arc, time::Instant};
use tonic::Status;

/// Tasks read at a time when some of them may be left out.
const TASKS_PER_READ: usize = 1_000;

/// Tasks found in one read, in the order of the list, with the states of the unfinished ones.
struct Found {
    tasks: Vec<StoredTask>,
    states: States,
    /// Below which number to look on; `None`: nowhere.
    next: Option<i64>,
}

impl Schedulers {
    pub(super) async fn tasks(
        &self,
        caller: Caller,
        request: Arc<api::ListTasksRequest>,
    ) -> Result<api::ListTasksResponse, Status> {
        let begun = Instant::now();
        let query = ListTasks::new(&request, &caller.namespace)?;
        self.check_visible(&caller, query.handle).await?;
        let search = self.reader.search(query.handle, query.filter).await;
        let search = search.map_err(errors::journal)?;
        let mut list = api::ListTasksResponse::default();
        let (mut before, mut bytes) = (Some(query.before.unwrap_or(i64::MAX)), 0);
        let mut is_first = true;
        while let Some(below) = before {
            let left = query.size - list.tasks.len();
            let found = self.find(&caller, &search, below, left, is_first).await?;
            (before, is_first) = (found.next, false);
            let seqs: Vec<Seq> = found.tasks.iter().map(|task| task.seq).collect();
            let mut summaries = self.summaries(query.handle, &seqs).await?;
            for task in &found.tasks {
                let state = found.states.get(&task.seq).copied();
                let mut view = convert::task_view(query.handle, task, state);
                let summary = summaries.remove(&task.seq).unwrap_or_default();
                view.submitted_by = summary.submitted_by;
                view.statement_preview = summary.statement_preview;
                bytes += view.encoded_len();
                list.tasks.push(view);
                if list.tasks.len() == query.size || bytes > MAX_PAGE_BYTES {
                    before = Some(number(&search, task)).filter(|number| *number > 1);
                    break;
                }
            }
            if list.tasks.len() == query.size
                || bytes > MAX_PAGE_BYTES
                || begun.elapsed() > MAX_PAGE_TIME
            {
                break;
            }
        }
        list.next_page_token = before
            .map(|number| query.token.after(number as u128))
            .unwrap_or_default();
        Ok(list)
    }

    /// The next tasks that the search admits; `is_first`: nothing was read for this page before.
    async fn find(
        &self,
        caller: &Caller,
        search: &TaskSearch,
        before: i64,
        limit: usize,
        is_first: bool,
    ) -> Result<Found, Status> {
        let filter = search.filter();
        if filter.asks_for_ends() {
            return match filter.admits_phase(Phase::Done) {
                true => self.find_ended(search, before, limit).await,
                false => Ok(Found::nothing()),
            };
        }
        let read = self.read_tasks(caller, search, Seq(before), limit, is_first);
        let (mut tasks, next) = read.await?;
        let states = self.states(caller, search.handle(), &mut tasks).await?;
        tasks.retain(|task| match (&task.done, states.get(&task.seq)) {
            (Some(_), _) => filter.admits_phase(Phase::Done),
            (None, Some((state, _))) => filter.admits_phase(state.phase()),
            // Past its retention while it was read.
            (None, None) => false,
        });
        Ok(Found {
            tasks,
            states,
            next: next.map(|seq| seq.0),
        })
    }

    async fn find_ended(
        &self,
        search: &TaskSearch,
        before: i64,
        limit: usize,
    ) -> Result<Found, Status> {
        let page = self.reader.ended_tasks(search, DoneNo(before), limit).await;
        let page = page.map_err(errors::journal)?;
        Ok(Found {
            tasks: page.tasks,
            states: States::new(),
            next: page.next.map(|done_no| done_no.0),
        })
    }

    /// Tasks whose submission the search admits. Those of some phases are selected by the core,
    /// which knows the unfinished ones and therefore the others. Two things it does not know: the
    /// orders of tasks that have ended, and labels; so the journal finds what is rare by these.
    async fn read_tasks(
        &self,
        caller: &Caller,
        search: &TaskSearch,
        before: Seq,
        limit: usize,
        is_first: bool,
    ) -> Result<(Vec<StoredTask>, Option<Seq>), Status> {
        let filter = search.filter();
        let core_knows = match filter.phases.contains(&Phase::Done) {
            true => filter.order.is_none() && filter.labels.is_empty(),
            false => !filter.phases.is_empty() && !search.has_rare_label(),
        };
        if core_knows {
            return self.select(caller, search, before, limit).await;
        }
        // Most tasks have ended, so where these are asked for the first read may be enough.
        let may_be_enough = is_first && filter.phases.contains(&Phase::Done);
        let limit = match filter.phases.is_empty() || may_be_enough {
            true => limit,
            false => TASKS_PER_READ,
        };
        let page = self.reader.tasks(search, before, limit).await;
        let page = page.map_err(errors::journal)?;
        Ok((page.tasks, page.next))
    }

    /// The newest tasks of the phases asked for.
    async fn select(
        &self,
        caller: &Caller,
        search: &TaskSearch,
        before: Seq,
        limit: usize,
    ) -> Result<(Vec<StoredTask>, Option<Seq>), Status> {
        let filter = search.filter();
        let verb = Verb::Select {
            before: before.min(search.below_seq()),
            phases: filter.phases.clone(),
            order: filter.order,
            limit: match filter.labels.is_empty() {
                true => limit,
                false => TASKS_PER_READ,
            },
        };
        let (mut seqs, next) = match self.ask(caller.clone(), search.handle(), verb).await? {
            Reply::Selected { seqs, next } => (seqs, next),
            other => return Err(errors::mismatched_reply(&other)),
        };
        seqs.retain(|seq| *seq >= search.first_seq());
        let tasks = self.reader.tasks_of(search.handle(), &seqs).await;
        let mut tasks = tasks.map_err(errors::journal)?;
        let gap = seqs.last().filter(|last| !ends_with(&tasks, **last));
        let next = match (next, gap) {
            (Some(_), Some(gap)) => self.before_gap(search, *gap).await?,
            _ => next,
        };
        tasks
            .retain(|task| filter.admits_submission(task.effective, &task.spec, task.submitted_at));
        Ok((tasks, next.filter(|next| *next > search.first_seq())))
    }

    /// Before which task to look on when the row of `missing` is past its retention: older tasks
    /// that are unfinished, or ended within it, still have theirs.
    async fn before_gap(&self, search: &TaskSearch, missing: Seq) -> Result<Option<Seq>, Status> {
        let last = self.reader.last_task(search.handle(), missing).await;
        Ok(last.map_err(errors::journal)?.map(|last| last.plus(1)))
    }
}

impl Found {
    fn nothing() -> Self {
        Found {
            tasks: Vec::new(),
            states: States::new(),
            next: None,
        }
    }
}

fn ends_with(tasks: &[StoredTask], seq: Seq) -> bool {
    tasks.last().is_some_and(|task| task.seq == seq)
}

/// The number by which the list is ordered.
fn number(search: &TaskSearch, task: &StoredTask) -> i64 {
    match &task.done {
        Some((done_no, _)) if search.filter().asks_for_ends() => done_no.0,
        _ => task.seq.0,
    }
}
