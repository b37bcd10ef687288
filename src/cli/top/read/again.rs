//! What a reading takes over from the one before, as asking it again would cost the server more
//! than it is likely to tell: never what a key or an action waits for, and never for long.

use super::super::{
    filter,
    seen::{OneScheduler, OneTask, Query, Seen},
};
use rallypoint_client::api::{Scheduler, TaskFilter, TaskView};

/// For so long, in microseconds, an answer may be shown again.
const AGE: i64 = 4_000_000;

fn is_fresh(query: &Query, at: i64) -> bool {
    !query.is_awaited && (0..AGE).contains(&(query.now - at))
}

/// The list of tasks of the reading before, which holds as long as the scheduler is the same: of a
/// filter that the service applies, which looks at many tasks to find some. A list without one is
/// read each time.
pub(super) fn filtered(query: &Query) -> Option<&OneScheduler> {
    let Some(Seen::Scheduler(before)) = query.before.as_deref() else {
        return None;
    };
    let asked = filter::of_tasks(&query.filter).0 != TaskFilter::default();
    let is_same = before.filter == query.filter && before.page_token == query.page_token;
    (asked && is_same && is_fresh(query, before.listed_at)).then_some(&**before)
}

/// The reading before, whose explanation holds: the task is as it was then, and so is what keeps
/// its scheduler from starting it. Locks are looked for on the target, which is the dear part.
pub(super) fn explained<'a>(
    query: &'a Query,
    one: &Scheduler,
    task: &TaskView,
) -> Option<&'a OneTask> {
    let Some(Seen::Task(before)) = query.before.as_deref() else {
        return None;
    };
    let then = &before.scheduler;
    let is_same = before.task == *task && then.paused == one.paused && then.halt == one.halt;
    (is_same && is_fresh(query, before.explained_at)).then_some(&**before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::place::Place;
    use rallypoint_client::api::TaskState;
    use std::sync::Arc;

    const NOW: i64 = 1_772_366_400_000_000;

    fn after(before: Seen, filter: &str) -> Query {
        Query {
            place: Place::Scheduler("h".to_owned()),
            filter: filter.to_owned(),
            page_token: String::new(),
            before: Some(Arc::new(before)),
            visible: Vec::new(),
            is_awaited: false,
            now: NOW + 1_000_000,
        }
    }

    fn list(filter: &str) -> Seen {
        Seen::Scheduler(Box::new(OneScheduler {
            filter: filter.to_owned(),
            listed_at: NOW,
            ..OneScheduler::default()
        }))
    }

    #[test]
    fn a_filtered_list_is_taken_over_only_for_the_same_question_and_not_for_long() {
        assert!(filtered(&after(list("failed"), "failed")).is_some());
        assert!(filtered(&after(list("failed"), "running")).is_none());
        for cheap in ["", "a word of the row"] {
            assert!(filtered(&after(list(cheap), cheap)).is_none(), "{cheap}");
        }
        let query = || after(list("failed"), "failed");
        let is_awaited = Query {
            is_awaited: true,
            ..query()
        };
        let turned = Query {
            page_token: "older".to_owned(),
            ..query()
        };
        let late = Query {
            now: NOW + AGE,
            ..query()
        };
        for query in [is_awaited, turned, late] {
            assert!(filtered(&query).is_none(), "{query:?}");
        }
    }

    #[test]
    fn a_task_is_explained_again_when_it_has_changed_or_after_a_while() {
        let before = OneTask {
            explained_at: NOW,
            ..OneTask::default()
        };
        let (one, task) = (before.scheduler.clone(), before.task.clone());
        let query = after(Seen::Task(Box::new(before)), "");
        assert!(explained(&query, &one, &task).is_some());
        let paused = Scheduler {
            paused: true,
            ..one.clone()
        };
        assert!(explained(&query, &paused, &task).is_none());
        let runs = TaskView {
            state: TaskState::Running.into(),
            ..task.clone()
        };
        assert!(explained(&query, &one, &runs).is_none());
        let asked: Vec<bool> = (1..=5)
            .map(|second| Query {
                now: NOW + second * 1_000_000,
                ..query.clone()
            })
            .map(|query| explained(&query, &one, &task).is_none())
            .collect();
        assert_eq!(asked, [false, false, false, true, true]);
    }
}
