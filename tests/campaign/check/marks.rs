//! Promises checked against the marks that tasks left, in the order in which they were made and
//! without tolerance. No clock of a database is trusted.

use super::{Facts, Verdict, facts::Run};
use crate::{
    history::{Answer, Logged, Mark, Work},
    server::SLOTS,
};
use rallypoint_client::api::Outcome;
use std::collections::{BTreeSet, HashMap, HashSet};

/// SQLSTATE classes that say nothing of the task: connections, memory, disk, operator, system.
const ENVIRONMENT_ERRORS: [&str; 7] = ["08", "25", "53", "55", "57", "58", "XX"];

pub(super) fn outcomes_agree_with_the_witnesses(facts: &Facts, verdict: &mut Verdict) {
    for row in facts.log.values().flatten() {
        let (Some(asked), Some(done)) = (facts.asked.get(&row.token), &row.done) else {
            continue;
        };
        if row.token == 0 || facts.strays.contains(&row.handle) {
            continue;
        }
        let ran = facts.runs_of(row.token).next().is_some();
        let environment = ENVIRONMENT_ERRORS
            .iter()
            .any(|class| done.error.starts_with(class));
        let lost = done.outcome == Outcome::Exhausted as i32 && asked.at_most_once;
        let agrees = match (Outcome::try_from(done.outcome), asked.work) {
            (Ok(Outcome::Cancelled), _) => true,
            (Ok(Outcome::Succeeded), Work::Marked | Work::FailingOnce | Work::Exact) => ran,
            (Ok(Outcome::Failed), Work::Failing | Work::FailingOnce) => {
                done.error == "22012" || environment
            }
            (Ok(Outcome::TimedOut), Work::Endless) => true,
            _ => environment || lost,
        };
        verdict.expect("outcomes agree with the witnesses", agrees, || {
            format!(
                "{}/{}: {asked:?} {done:?} with marks {:?}",
                row.handle,
                row.seq,
                facts.marks_of(row.token)
            )
        });
    }
}

pub(super) fn at_most_once_is_at_most_once(facts: &Facts, verdict: &mut Verdict) {
    for asked in facts
        .asked
        .values()
        .filter(|asked| asked.at_most_once && asked.token > 0)
    {
        let starts = facts.starts_of(asked.token).count();
        if starts > 0 {
            verdict.expect("at most once is at most once", starts <= 1, || {
                format!("task {} started {starts} times", asked.token)
            });
        }
    }
}

/// What an exactly-once task does is there once if it has succeeded, and not at all otherwise.
pub(super) fn exactly_once_is_exactly_once(facts: &Facts, verdict: &mut Verdict) {
    for row in facts.log.values().flatten() {
        let (Some(asked), Some(done)) = (facts.asked.get(&row.token), &row.done) else {
            continue;
        };
        if asked.work != Work::Exact {
            continue;
        }
        let succeeded = done.outcome == Outcome::Succeeded as i32;
        let marks = facts.marks_of(row.token);
        let agrees = marks.len() == 2 * usize::from(succeeded);
        verdict.expect("exactly once is exactly once", agrees, || {
            format!("{}/{}: {done:?} with marks {marks:?}", row.handle, row.seq)
        });
    }
}

/// Each start is an attempt of its own: the service has taken the one before for failed, lost or
/// given back.
pub(super) fn nothing_begins_again_without_a_reason(facts: &Facts, verdict: &mut Verdict) {
    for row in facts.log.values().flatten() {
        let starts: Vec<&Mark> = facts.starts_of(row.token).collect();
        let is_again = row.token > 0 && starts.len() > 1;
        let Some(done) = row.done.as_ref().filter(|_| is_again) else {
            continue;
        };
        let promise = "nothing begins again without a reason";
        verdict.expect(promise, starts.len() as i32 <= done.attempt, || {
            format!(
                "{}/{}: {done:?} began more often: {starts:?}",
                row.handle, row.seq
            )
        });
    }
}

/// What a server runs to which nothing happens survives the owner that gave it to it. Not always:
/// one that is slow to report to a new owner is fenced, too, and how slow one may be on a machine
/// that has other things to do is not judged. It must hold at half of the takeovers or more.
pub(super) fn what_others_run_survives_its_owner(facts: &Facts, verdict: &mut Verdict) {
    let mut lost = BTreeSet::new();
    for asked in facts.asked.values().filter(|asked| asked.token > 0) {
        let starts: Vec<&Mark> = facts.starts_of(asked.token).collect();
        let groundless: Vec<_> = starts
            .windows(2)
            .filter(|pair| !facts.was_hurt(pair[0].server, pair[0], pair[1]))
            .filter(|pair| !facts.crashed_unplanned(pair[0], pair[1]))
            .collect();
        if groundless.len() as i32 >= asked.attempts {
            lost.extend(groundless.iter().map(|pair| facts.ownership(pair[1])));
        }
    }
    let promise = "what others run survives its owner";
    let takeovers = facts.batches.len().saturating_sub(1);
    verdict.expect(promise, 2 * lost.len() <= takeovers, || {
        format!("{takeovers} takeovers, and things lost without a fault under owners {lost:?}")
    });
}

pub(super) fn no_task_overlaps_itself(facts: &Facts, verdict: &mut Verdict) {
    for token in facts.marks.keys() {
        for run in facts.runs_of(*token) {
            let other = facts
                .starts_of(*token)
                .find(|start| run.start < start.number && start.number < run.end);
            verdict.expect("no task runs twice at a time", other.is_none(), || {
                format!(
                    "task {token} starts at mark {} while it runs from {} to {}",
                    other.map_or(0, |o| o.number),
                    run.start,
                    run.end
                )
            });
        }
    }
}

/// Nothing of a higher order starts between the marks of an earlier task of a lower order.
pub(super) fn orders_never_overlap(facts: &Facts, verdict: &mut Verdict) {
    for (handle, rows) in facts.conversations() {
        let order_of = |row: &Logged| row.done.as_ref().and_then(|done| done.order);
        let ordered: Vec<(i64, &Logged)> = rows
            .iter()
            .filter_map(|row| order_of(row).map(|order| (order, row)))
            .collect();
        let runs: Vec<(i64, &Logged, Run)> = ordered
            .iter()
            .flat_map(|(order, row)| facts.runs_of(row.token).map(move |run| (*order, *row, run)))
            .collect();
        for (order, row) in &ordered {
            for start in facts.starts_of(row.token) {
                let below = |(low, _, run): &&(i64, &Logged, Run)| {
                    low < order && run.start < start.number && start.number < run.end
                };
                let early = runs.iter().find(below);
                verdict.expect("orders never overlap", early.is_none(), || {
                    format!(
                        "{handle}/{} of order {order} starts at mark {} during {:?}",
                        row.seq,
                        start.number,
                        early.map(|e| e.1.seq)
                    )
                });
            }
        }
    }
}

/// No more tasks of a scheduler run at any time than its limit allows.
pub(super) fn limits_hold(facts: &Facts, verdict: &mut Verdict) {
    for (handle, rows) in facts.conversations() {
        let Some(Some(limit)) = facts.limits.get(handle) else {
            continue;
        };
        let most = most_at_a_time(rows.iter().flat_map(|row| facts.runs_of(row.token)));
        if most > 0 {
            verdict.expect("limits hold", most <= *limit, || {
                format!("{handle} ran {most} tasks at a time, {limit} are allowed")
            });
        }
    }
}

/// No more tasks run at any time than all servers together have slots.
pub(super) fn slots_are_enough(facts: &Facts, verdict: &mut Verdict) {
    let most = most_at_a_time(facts.marks.keys().flat_map(|token| facts.runs_of(*token)));
    // Every server is called more than once.
    let servers: HashSet<usize> = facts
        .final_calls
        .iter()
        .map(|(server, _)| *server)
        .collect();
    let slots = SLOTS as i32 * servers.len() as i32;
    if most > 0 {
        verdict.expect("no more runs than there are slots", most <= slots, || {
            format!("{most} tasks at a time on {slots} slots")
        });
    }
}

fn most_at_a_time(runs: impl Iterator<Item = Run>) -> i32 {
    let mut changes: Vec<(i64, i32)> = runs
        .flat_map(|run| [(run.start, 1), (run.end, -1)])
        .collect();
    changes.sort_unstable();
    let mut running = 0;
    changes
        .iter()
        .map(|(_, change)| {
            running += change;
            running
        })
        .max()
        .unwrap_or(0)
}

/// A task cancelled before its start does not start, and the log agrees with the answer to the
/// cancel.
pub(super) fn cancelled_means_cancelled(facts: &Facts, verdict: &mut Verdict) {
    let promise = "cancelled means cancelled";
    for cancel in facts.cancels.iter().filter(|cancel| cancel.outcome != 0) {
        let Some(row) = facts.logged(&cancel.handle, cancel.seq) else {
            continue;
        };
        let outcome = row.done.as_ref().map(|done| done.outcome);
        verdict.expect(promise, outcome == Some(cancel.outcome), || {
            format!(
                "{}/{} was said to be {}, and is {outcome:?}",
                cancel.handle, cancel.seq, cancel.outcome
            )
        });
        let late = facts
            .starts_of(row.token)
            .find(|start| row.token > 0 && facts.moments.earliest(start.number) > cancel.ended);
        verdict.expect(promise, late.is_none(), || {
            format!(
                "{}/{} starts after it was cancelled: {late:?}",
                cancel.handle, cancel.seq
            )
        });
    }
}

/// When a stream says that a task has succeeded, its effect is visible.
pub(super) fn nothing_is_reported_before_it_is_done(facts: &Facts, verdict: &mut Verdict) {
    let tokens: HashMap<(&str, i64), i64> = facts
        .conversations()
        .flat_map(|(handle, rows)| {
            rows.iter()
                .map(move |row| ((handle.as_str(), row.seq), row.token))
        })
        .collect();
    for stream in facts
        .streams
        .values()
        .filter(|stream| !matches!(stream.answer, Some(Answer::Refused(_))))
    {
        for (at, done) in stream
            .done
            .iter()
            .filter(|(_, done)| done.outcome == Outcome::Succeeded as i32)
        {
            let Some(token) = tokens
                .get(&(stream.handle.as_str(), done.seq))
                .filter(|token| **token > 0)
            else {
                continue;
            };
            let mut runs = facts.runs_of(*token);
            let seen = runs.any(|run| facts.moments.earliest(run.end) <= *at);
            verdict.expect("nothing is reported before it is done", seen, || {
                format!("{}/{} at {at}", stream.handle, done.seq)
            });
        }
    }
}

#[cfg(test)]
mod tests;
