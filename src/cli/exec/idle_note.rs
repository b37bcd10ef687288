//! Says why nothing runs while the tasks of a scheduler wait: nobody asks `explain` of a command
//! that just seems to take long.

use crate::cli::{api_words, progress::Console, terminal_text::plain};
use rallypoint_client::{
    Scheduler,
    api::{self, Blocker, TaskState},
};
use std::{mem::Discriminant, time::Duration};

/// After so long without an event it is looked at what waits.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// What was said last: the kinds of what was in the way.
#[derive(Debug, Default)]
pub(super) struct IdleNote(Vec<Option<Discriminant<api::blocker::Kind>>>);

impl IdleNote {
    /// Says it, unless it was said last time. A call that fails is left to the stream of events,
    /// which fails as well.
    pub(super) async fn say(&mut self, scheduler: &Scheduler, console: &Console) {
        let Some((seq, blockers)) = in_the_way(scheduler).await.unwrap_or_default() else {
            return;
        };
        let kinds = blockers.iter().map(|one| one.kind.as_ref());
        let kinds = kinds.map(|kind| kind.map(std::mem::discriminant)).collect();
        if std::mem::replace(&mut self.0, kinds) == self.0 {
            return;
        }
        let texts = blockers.iter().map(|one| plain(&one.text));
        let why = texts.collect::<Vec<_>>().join("; ");
        let handle = scheduler.handle();
        console.say(format!(
            "nothing runs: task {seq} waits: {}; `rallypoint explain {handle} {seq}` says more",
            api_words::translated(&why)
        ));
    }
}

/// A task that waits, and what for; `None`: some run, or none waits.
async fn in_the_way(
    scheduler: &Scheduler,
) -> rallypoint_client::Result<Option<(i64, Vec<Blocker>)>> {
    let it = scheduler.describe().await?;
    if it.running > 0 {
        return Ok(None);
    }
    // What waits for other tasks alone would say less.
    let state = match (it.queued > 0, it.retrying > 0) {
        (true, _) => TaskState::Queued,
        (false, true) => TaskState::Retrying,
        (false, false) => TaskState::Blocked,
    };
    let request = api::ListTasksRequest {
        page_size: 1,
        filter: Some(api::TaskFilter {
            states: vec![state.into()],
            ..api::TaskFilter::default()
        }),
        ..api::ListTasksRequest::default()
    };
    let found = scheduler.tasks(request).await?;
    let id = found.tasks.first().and_then(|task| task.id.as_ref());
    let Some(seq) = id.map(|id| id.seq) else {
        return Ok(None);
    };
    let answer = scheduler.explain(seq).await?;
    Ok((!answer.blockers.is_empty()).then_some((seq, answer.blockers)))
}
