//! Promises about retries: a task has one at most, whoever asks for it and how often, it does what
//! its task was to do, and a halt ends when its failures are repaired, and not before.

use super::{Facts, Verdict, copies::Copy};
use crate::history::{Answer, Done, Logged};
use rallypoint_client::api::Outcome;
use std::collections::{HashMap, HashSet};

const ONE_RETRY: &str = "a task has at most one retry";

pub(super) fn acknowledged_retries_are_kept(facts: &Facts, verdict: &mut Verdict) {
    for (call, retried) in facts.retries.answered() {
        let row = facts.logged(&call.handle, retried.copy);
        let kept = row.is_some_and(|row| row.retry_of == Some(retried.seq));
        verdict.expect("an acknowledged retry is kept", kept, || {
            format!(
                "{} in {}: {retried:?}, the log has {row:?}",
                call.request, call.handle
            )
        });
    }
    for call in &facts.retries.calls {
        let succeeded = |seq: i64| {
            let row = facts.logged(&call.handle, seq);
            row.and_then(outcome_of) == Some(Outcome::Succeeded)
        };
        if let (Some(seq), Answer::Refused(why)) = (call.seq, &call.answer)
            && why == "TASK_SUCCEEDED"
        {
            verdict.expect("an acknowledged retry is kept", succeeded(seq), || {
                format!("{}/{seq} was not retried: {why}", call.handle)
            });
        }
    }
}

/// By the log: each copy has an original, which knows it, ended before it, and has no other one.
pub(super) fn a_task_has_one_retry(facts: &Facts, verdict: &mut Verdict) {
    let mut retried = HashSet::new();
    for copy in &facts.retries.copies {
        let original = facts.logged(&copy.handle, copy.of);
        let one = retried.insert((&copy.handle, copy.of));
        let known = original.is_some_and(|row| row.retried_as == Some(copy.seq));
        verdict.expect(ONE_RETRY, one && known, || {
            format!("{}/{} is a copy of {original:?}", copy.handle, copy.seq)
        });
        let ended = original.and_then(|row| row.done.as_ref());
        let events = ended.zip(event_of(facts, copy));
        let in_vain = original.and_then(outcome_of) != Some(Outcome::Succeeded);
        let later = events.is_some_and(|(first, second)| first.done_no < second.done_no);
        verdict.expect(
            "a copy is as its original",
            copy.alike && in_vain && later,
            || {
                format!(
                    "{}/{} is a copy of {original:?}: {events:?}",
                    copy.handle, copy.seq
                )
            },
        );
    }
}

/// By the answers: all name the same copy, and one call at most has made it.
pub(super) fn asking_again_answers_the_same(facts: &Facts, verdict: &mut Verdict) {
    let mut answers: HashMap<(&str, i64), (u32, HashSet<i64>, HashSet<&str>)> = HashMap::new();
    for (call, retried) in facts.retries.answered() {
        let task = (call.handle.as_str(), retried.seq);
        let (count, copies, makers) = answers.entry(task).or_default();
        *count += 1;
        copies.insert(retried.copy);
        if !retried.already {
            makers.insert(&call.request);
        }
    }
    for (task, (count, copies, makers)) in answers {
        if count > 1 {
            let same = copies.len() == 1 && makers.len() <= 1;
            verdict.expect("a repeated retry is one", same, || {
                format!("{task:?} was retried as {copies:?} by {makers:?}")
            });
        }
    }
}

/// Each copy was asked for.
pub(super) fn copies_come_from_calls(facts: &Facts, verdict: &mut Verdict) {
    let calls = facts.retries.calls.iter();
    let asked: HashSet<(&str, Option<i64>)> = calls
        .filter(|call| !matches!(call.answer, Answer::Refused(_)))
        .map(|call| (call.handle.as_str(), call.seq))
        .collect();
    for copy in &facts.retries.copies {
        let by = |seq| asked.contains(&(copy.handle.as_str(), seq));
        let promise = "nothing comes from nowhere, or by half";
        verdict.expect(promise, by(Some(copy.of)) || by(None), || {
            format!("nobody retried {}/{} as {}", copy.handle, copy.of, copy.seq)
        });
    }
}

/// Of schedulers that a failure halts and whose failures are retried: nothing of a later order
/// starts before each failure has a retry that succeeded, and then it does, by itself.
pub(super) fn halts_end_with_their_failures(facts: &Facts, verdict: &mut Verdict) {
    let promise = "a halt ends when its failures are repaired";
    for handle in &facts.retries.repaired {
        let ignored = facts.retries.ignored.contains(handle);
        verdict.expect(promise, !ignored, || {
            format!("{handle} stays halted, whatever is retried")
        });
        let rows = facts.log.get(handle).map(Vec::as_slice).unwrap_or_default();
        for failed in rows.iter().filter(|row| is_failure(row)) {
            for held in rows.iter().filter(|held| started_behind(held, failed)) {
                let repair = repair_of(facts, failed);
                let early = repair.is_none_or(|repair| !is_before(facts, repair, held));
                verdict.expect(promise, !early, || {
                    format!("{handle}/{} starts: {failed:?}, then {repair:?}", held.seq)
                });
            }
        }
    }
}

fn is_failure(row: &Logged) -> bool {
    let failures = [Outcome::Failed, Outcome::TimedOut, Outcome::Exhausted];
    outcome_of(row).is_some_and(|outcome| failures.contains(&outcome))
}

/// It is of a later order, has started, and ended after this failure. An order that has begun
/// admits none below it, so it has also started after the failure.
fn started_behind(row: &Logged, failed: &Logged) -> bool {
    let pair = row.done.as_ref().zip(failed.done.as_ref());
    pair.is_some_and(|(done, failure)| {
        failure.order.is_some()
            && done.order > failure.order
            && done.started > 0
            && done.done_no > failure.done_no
    })
}

/// The retry that succeeded at last: of the task, or of its retry.
fn repair_of<'a>(facts: &'a Facts, failed: &'a Logged) -> Option<&'a Logged> {
    let mut row = failed;
    while outcome_of(row) != Some(Outcome::Succeeded) {
        let retry = row.retried_as.filter(|retry| *retry > row.seq)?;
        row = facts.logged(&row.handle, retry)?;
    }
    Some(row)
}

/// The event of one is ahead of that of the other, and so are the marks of its end.
fn is_before(facts: &Facts, repair: &Logged, held: &Logged) -> bool {
    let number = |row: &Logged| row.done.as_ref().map(|done| done.done_no);
    let repaired = facts.runs_of(repair.token).map(|run| run.end).min();
    let mut starts = facts.starts_of(held.token);
    number(repair) < number(held)
        && repaired.is_none_or(|end| starts.all(|start| end < start.number))
}

fn event_of<'a>(facts: &'a Facts, copy: &Copy) -> Option<&'a Done> {
    let row = facts.logged(&copy.handle, copy.seq)?;
    row.done.as_ref()
}

fn outcome_of(row: &Logged) -> Option<Outcome> {
    let done = row.done.as_ref()?;
    Outcome::try_from(done.outcome).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Entry, Retried};

    /// A task, by number, order, outcome, event, and what it is a copy of and what is one of it.
    fn row(
        (seq, order): (i64, i64),
        (outcome, done_no): (Outcome, i64),
        retry_of: Option<i64>,
        retried_as: Option<i64>,
    ) -> Logged {
        let done = Done {
            done_no,
            seq,
            order: Some(order),
            outcome: outcome.into(),
            attempt: 1,
            started: 1,
            ended: 2,
            error: String::new(),
            retry_of,
        };
        Logged {
            handle: "a".into(),
            seq,
            token: 7,
            kind: "sql".into(),
            submitted: 0,
            retry_of,
            retried_as,
            done: Some(done),
        }
    }

    fn retry(request: &str, copy: i64, already: bool) -> Entry {
        Entry::Retry {
            begun: 0,
            ended: 1,
            handle: "a".into(),
            request: request.into(),
            seq: Some(1),
            answer: Answer::Ok(vec![Retried {
                seq: 1,
                copy,
                already,
            }]),
        }
    }

    /// What is broken of the promises above when the task 1 failed and task 2 is of a later order.
    fn broken(copies: &[Logged], calls: Vec<Entry>) -> Vec<&'static str> {
        let opened = Entry::Opened {
            handle: "a".into(),
            limit: None,
            repaired: true,
        };
        let first = copies.first().map(|copy| copy.seq);
        let failed = row((1, 100), (Outcome::Failed, 1), None, first);
        let held = row((2, 200), (Outcome::Succeeded, 3), None, None);
        let rows = [failed, held].into_iter().chain(copies.iter().cloned());
        let entries = [opened].into_iter().chain(calls);
        let facts = Facts::gather(entries.chain(rows.map(Entry::Logged)));
        let mut verdict = Verdict::default();
        acknowledged_retries_are_kept(&facts, &mut verdict);
        a_task_has_one_retry(&facts, &mut verdict);
        asking_again_answers_the_same(&facts, &mut verdict);
        copies_come_from_calls(&facts, &mut verdict);
        halts_end_with_their_failures(&facts, &mut verdict);
        verdict.violations.into_keys().collect()
    }

    #[test]
    fn a_retry_that_succeeds_ends_the_halt() {
        let copy = |outcome, done_no| row((3, 100), (outcome, done_no), Some(1), None);
        let calls = || vec![retry("r", 3, false), retry("s", 3, true)];
        assert_eq!(broken(&[copy(Outcome::Succeeded, 2)], calls()), [""; 0]);
        let promise = ["a halt ends when its failures are repaired"];
        assert_eq!(broken(&[copy(Outcome::Succeeded, 4)], calls()), promise);
        assert_eq!(broken(&[copy(Outcome::Failed, 2)], calls()), promise);
        assert_eq!(broken(&[], vec![]), promise);
        let ignored = Entry::FailuresIgnored { handle: "a".into() };
        let calls = calls().into_iter().chain([ignored]).collect();
        assert_eq!(broken(&[copy(Outcome::Succeeded, 2)], calls), promise);
    }

    #[test]
    fn two_copies_of_one_task_are_noticed() {
        let copy = |seq, done_no| row((seq, 100), (Outcome::Succeeded, done_no), Some(1), None);
        let calls = vec![retry("r", 3, false), retry("s", 4, false)];
        let copies = [copy(3, 2), copy(4, 4)];
        assert_eq!(
            broken(&copies, calls),
            ["a repeated retry is one", ONE_RETRY]
        );
        let calls = vec![retry("r", 3, false), retry("s", 3, false)];
        assert_eq!(broken(&copies[..1], calls), ["a repeated retry is one"]);
    }

    #[test]
    fn copies_that_nobody_asked_for_or_that_are_lost_are_noticed() {
        let copy = row((3, 100), (Outcome::Succeeded, 2), Some(1), None);
        let nowhere = ["nothing comes from nowhere, or by half"];
        assert_eq!(broken(std::slice::from_ref(&copy), vec![]), nowhere);
        let lost = broken(&[copy], vec![retry("r", 3, false), retry("s", 9, true)]);
        assert_eq!(
            lost,
            ["a repeated retry is one", "an acknowledged retry is kept"]
        );
    }
}
