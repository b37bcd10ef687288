//! RetryFailed: the tasks that failed are retried page by page, those of lower orders first. The
//! copies of a page run while the next one is asked for: a lower order on a later page would come
//! too late for its barrier.

use super::{
    Schedulers,
    retry::{Copies, MAX_SEARCHES, Retriable, Submitted, has_target, retry_of, submit},
};
use crate::{
    core::{Caller, DoneNo, Order, Reply, Seq, Verb},
    journal::{EndedTask, StoredTask},
    rpc::{
        errors,
        validate::{RetryFailed, RetryFailedPage, Targets},
    },
    traces::CalledMethod,
};
use rallypoint_client::api;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};
use tonic::Status;

/// Tasks that one call retries at most.
const TASKS_PER_CALL: usize = 1_000;
/// Tasks that are taken from the journal in one read.
const TASKS_PER_READ: usize = 100_000;
/// How long pages are passed over on which nothing is to be retried.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(1);

/// The tasks of one call.
struct Found {
    /// By position.
    tasks: Vec<Retriable>,
    /// Tasks besides whose targets are no more.
    no_target: Vec<(Position, Seq)>,
    /// The page that follows.
    next: Option<RetryFailedPage>,
}

/// Tasks that ended as wanted, retried or not.
struct Ended {
    /// By position.
    tasks: Vec<EndedTask>,
    next: Option<RetryFailedPage>,
}

/// Which tasks are looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    /// Those with an order.
    Ordered,
    Unordered,
}

/// The lowest positions of the tasks that were looked through.
struct Lowest {
    /// Only those after it.
    after: Option<Position>,
    tasks: BTreeMap<Option<Position>, EndedTask>,
    /// There are more than one call retries.
    is_more: bool,
    /// Of the last task that has an order.
    previous: Option<Position>,
    /// The events of tasks that have an order ascend with their positions.
    ascend: bool,
}

/// Where a task comes: by its order, and without one last, since nothing waits for it; then by its
/// event.
type Position = (bool, Option<Order>, DoneNo);

fn position(order: Option<Order>, event: DoneNo) -> Position {
    (order.is_none(), order, event)
}

impl Schedulers {
    pub(super) async fn retry_failed(
        &self,
        caller: Caller,
        request: Arc<api::RetryFailedRequest>,
    ) -> Result<api::RetryFailedResponse, Status> {
        let query = RetryFailed::new(&request, &caller.namespace)?;
        let (handle, request) = (query.handle, query.request);
        let last = match self.submitted_before(&caller, &query).await? {
            // Retries that fail while one page follows the other are not among them.
            Err(last) => query.page.map_or(last, |page| page.last),
            Ok(copies) => return self.retried_before(&query, copies).await,
        };
        for _ in 0..MAX_SEARCHES {
            let searched = self.last_submitted(handle).await?;
            let mut found = self.search(&query, last).await?;
            leave_out_without_target(&mut found, &self.targets.of(&caller.namespace));
            loop {
                if found.tasks.is_empty() {
                    // They may have their retries by a call under the same request id.
                    return match self.submitted_before(&caller, &query).await? {
                        Err(_) => Ok(found.answer(&query, None)),
                        Ok(copies) => self.retried_before(&query, copies).await,
                    };
                }
                let submit = submit(&found.tasks, searched, Some(request));
                let submit = (CalledMethod::RetryFailed, submit);
                match self.submit_copies(&caller, handle, submit).await? {
                    Submitted::Accepted(copies) => return Ok(found.answer(&query, Some(copies))),
                    Submitted::Before(copies) => return self.retried_before(&query, copies).await,
                    Submitted::Overtaken => break,
                    Submitted::TooMany(error) if found.tasks.len() == 1 => return Err(error),
                    Submitted::TooMany(_) => found.halve(query.page_after(last)),
                }
            }
        }
        Err(errors::retried_meanwhile())
    }

    /// The copies that an earlier call under the request id submitted, or the last event when there
    /// was none.
    async fn submitted_before(
        &self,
        caller: &Caller,
        query: &RetryFailed,
    ) -> Result<Result<Copies, DoneNo>, Status> {
        let verb = Verb::Submitted(query.request);
        match self.ask(caller.clone(), query.handle, verb).await? {
            Reply::NotSubmitted { done_no } => Ok(Err(done_no)),
            Reply::Submitted {
                first_seq,
                count,
                done_no,
                ..
            } => Ok(Ok(Copies {
                first_seq,
                count,
                done_no,
            })),
            other => Err(errors::mismatched_reply(&other)),
        }
    }

    /// The answer to a repeated call: the same tasks, and the page after them.
    async fn retried_before(
        &self,
        query: &RetryFailed,
        copies: Copies,
    ) -> Result<api::RetryFailedResponse, Status> {
        let newest_first = (0..copies.count).rev().map(|at| copies.first_seq.plus(at));
        let seqs: Vec<Seq> = newest_first.collect();
        let tasks = self.reader.tasks_of(query.handle, &seqs).await;
        let tasks = tasks.map_err(errors::journal)?;
        let of = tasks.iter().rev().filter_map(|task| task.retry_of);
        let retried: Vec<Seq> = of.map(|of| of.seq).collect();
        let outcomes = self.reader.outcomes(query.handle, &retried).await;
        let outcomes = outcomes.map_err(errors::journal)?;
        let positions = outcomes.values();
        let positions = positions.map(|(event, done)| position(done.order, *event));
        let page = query.page_after(copies.done_no);
        let next = positions.max().map(|(.., event)| RetryFailedPage {
            after: event,
            ..page
        });
        Ok(api::RetryFailedResponse {
            retried: retried.iter().map(|seq| seq.0).collect(),
            first_seq: Some(copies.first_seq.0),
            done_no: Some(copies.done_no.0),
            next_page_token: next.map(|page| query.token(page)).unwrap_or_default(),
            no_target: Vec::new(),
        })
    }

    /// The next tasks that fit the filter and have no retry, up to the event `last`. Pages on which
    /// there are none are passed over, for a while.
    async fn search(&self, query: &RetryFailed, last: DoneNo) -> Result<Found, Status> {
        let begun = Instant::now();
        let mut page = query.page_after(last);
        loop {
            let found = self.page(query, page).await?;
            match found.next {
                Some(next) if found.tasks.is_empty() && begun.elapsed() < MAX_SEARCH_TIME => {
                    page = next;
                }
                _ => return Ok(found),
            }
        }
    }

    async fn page(&self, query: &RetryFailed, page: RetryFailedPage) -> Result<Found, Status> {
        let Ended { tasks: ended, next } = self.ended(query, page).await?;
        let mut newest_first: Vec<Seq> = ended.iter().map(|one| one.seq).collect();
        newest_first.sort_unstable_by(|one, other| other.cmp(one));
        let stored = self.reader.tasks_of(query.handle, &newest_first).await;
        let stored = stored.map_err(errors::journal)?;
        let by_seq = stored.into_iter().map(|task| (task.seq, task));
        let mut by_seq: HashMap<Seq, StoredTask> = by_seq.collect();
        let mut tasks = Vec::new();
        let mut of = Vec::new();
        for EndedTask { seq, .. } in &ended {
            let task = by_seq.remove(seq).filter(|task| task.retried_as.is_none());
            let is_meant = |task: &StoredTask| {
                let filter = &query.filter;
                filter.admits_submission(task.effective, &task.spec, task.submitted_at)
            };
            if let Some(task) = task.filter(is_meant) {
                of.push((*seq, retry_of(&task)));
                tasks.push(task);
            }
        }
        let wanted = tasks.len();
        let tasks = self.with_bodies(query.handle, tasks, of).await?;
        let mut found = Found {
            tasks,
            no_target: Vec::new(),
            next,
        };
        if found.tasks.len() < wanted {
            found.cut(found.tasks.len(), next.unwrap_or(page));
        }
        Ok(found)
    }

    /// The next tasks that ended as wanted. Where the events of ordered tasks ascend with their
    /// orders, as they do unless orders are used again, a page goes on where the one before ended;
    /// else all tasks are looked through for each page.
    async fn ended(&self, query: &RetryFailed, page: RetryFailedPage) -> Result<Ended, Status> {
        let after = self.position_before(query, page).await?;
        let mut lowest = Lowest::after(after);
        let start = DoneNo(0);
        match after {
            Some((false, ..)) if page.ascends => {
                self.walk(query, page, page.after, Part::Ordered, &mut lowest)
                    .await?;
                if !lowest.is_more {
                    self.walk(query, page, start, Part::Unordered, &mut lowest)
                        .await?;
                }
            }
            Some((true, ..)) if page.ascends => {
                self.walk(query, page, page.after, Part::Unordered, &mut lowest)
                    .await?;
            }
            _ => {
                self.walk(query, page, start, Part::All, &mut lowest)
                    .await?
            }
        }
        let ascends = match after {
            Some(_) => page.ascends,
            None => lowest.ascend,
        };
        let tasks: Vec<EndedTask> = lowest.tasks.into_values().collect();
        let last = tasks.last().filter(|_| lowest.is_more);
        let next = last.map(|task| RetryFailedPage {
            after: task.done_no,
            ascends,
            ..page
        });
        Ok(Ended { tasks, next })
    }

    /// Looks through the tasks of a part whose events come after `from`.
    async fn walk(
        &self,
        query: &RetryFailed,
        page: RetryFailedPage,
        mut from: DoneNo,
        part: Part,
        lowest: &mut Lowest,
    ) -> Result<(), Status> {
        loop {
            let events = (from, page.last);
            let read = self
                .reader
                .ended(query.handle, events, &query.filter, TASKS_PER_READ);
            let (tasks, next) = read.await.map_err(errors::journal)?;
            for task in tasks.into_iter().filter(|task| part.has(task)) {
                lowest.take(task);
            }
            match next.filter(|_| part == Part::All || !lowest.is_more) {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// The position of the last task of the page before; `None`: this is the first page.
    async fn position_before(
        &self,
        query: &RetryFailed,
        page: RetryFailedPage,
    ) -> Result<Option<Position>, Status> {
        let after = page.after;
        if after == DoneNo(0) {
            return Ok(None);
        }
        let it_alone = (DoneNo(after.0 - 1), after);
        let read = self.reader.ended(query.handle, it_alone, &query.filter, 1);
        let (tasks, _) = read.await.map_err(errors::journal)?;
        let task = tasks.first();
        let task = task.ok_or_else(errors::page_truncated)?;
        Ok(Some(position(task.order, after)))
    }
}

/// Copies of tasks whose targets are no more would wait for ever, and one such task is to keep
/// no other from being retried.
fn leave_out_without_target(found: &mut Found, targets: &Targets) {
    let tasks = std::mem::take(&mut found.tasks);
    let (tasks, without) = tasks.into_iter().partition(|one| has_target(one, targets));
    found.tasks = tasks;
    let without: Vec<Retriable> = without;
    let place = |one: &Retriable| {
        let (event, done) = one.task.done.as_ref()?;
        Some((position(done.order, *event), one.task.seq))
    };
    found.no_target = without.iter().filter_map(place).collect();
}

impl Part {
    fn has(self, task: &EndedTask) -> bool {
        match self {
            Part::All => true,
            Part::Ordered => task.order.is_some(),
            Part::Unordered => task.order.is_none(),
        }
    }
}

impl Lowest {
    fn after(after: Option<Position>) -> Self {
        Lowest {
            after,
            tasks: BTreeMap::new(),
            is_more: false,
            previous: None,
            ascend: true,
        }
    }

    fn take(&mut self, task: EndedTask) {
        let place = Some(position(task.order, task.done_no));
        if task.order.is_some() {
            self.ascend &= self.previous < place;
            self.previous = place;
        }
        if place > self.after {
            self.tasks.insert(place, task);
        }
        if self.tasks.len() > TASKS_PER_CALL {
            self.tasks.pop_last();
            self.is_more = true;
        }
    }
}

impl Found {
    /// Leaves half of the tasks for the next page.
    fn halve(&mut self, page: RetryFailedPage) {
        self.cut(self.tasks.len() / 2, self.next.unwrap_or(page));
    }

    /// Leaves all but `most` tasks for the next page.
    fn cut(&mut self, most: usize, page: RetryFailedPage) {
        self.tasks.truncate(most);
        let last = self.tasks.last().and_then(|one| one.task.done.as_ref());
        if let Some((event, done)) = last {
            let last = position(done.order, *event);
            self.no_target.retain(|(at, _)| *at <= last);
            self.next = Some(RetryFailedPage {
                after: *event,
                ..page
            });
        }
    }

    fn answer(&self, query: &RetryFailed, copies: Option<Copies>) -> api::RetryFailedResponse {
        let mut retried: Vec<i64> = self.tasks.iter().map(|one| one.task.seq.0).collect();
        retried.sort_unstable();
        api::RetryFailedResponse {
            retried,
            first_seq: copies.as_ref().map(|copies| copies.first_seq.0),
            done_no: copies.map(|copies| copies.done_no.0),
            next_page_token: self.next.map(|page| query.token(page)).unwrap_or_default(),
            no_target: self.no_target.iter().map(|(_, seq)| seq.0).collect(),
        }
    }
}
