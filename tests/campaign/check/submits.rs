//! Promises about calls: what is acknowledged is kept, a repeated call has its effect once, a
//! refused one has none, and every task was asked for.

use super::{Facts, Verdict};
use crate::history::{Answer, Work};
use std::collections::{HashMap, HashSet};

pub(super) fn acknowledged_submits_are_kept(facts: &Facts, verdict: &mut Verdict) {
    for (id, request) in &facts.requests {
        let Some((first, count)) = request.accepted() else {
            continue;
        };
        verdict.expect(
            "an acknowledged submit is kept",
            count as usize == request.tasks.len(),
            || {
                format!(
                    "request {id} brought {} tasks and was acknowledged with {count}",
                    request.tasks.len()
                )
            },
        );
        for (seq, asked) in (first..).zip(&request.tasks) {
            let row = facts.logged(&request.handle, seq);
            let same = row.is_some_and(|row| {
                row.token == asked.token && (row.kind == "noop") == (asked.work == Work::Noop)
            });
            verdict.expect("an acknowledged submit is kept", same, || {
                format!(
                    "task {}/{seq} (request {id}, token {}) is not in the log: {row:?}",
                    request.handle, asked.token
                )
            });
        }
    }
}

pub(super) fn repeated_submits_are_one(facts: &Facts, verdict: &mut Verdict) {
    let promise = "a repeated submit is one";
    for (id, request) in &facts.requests {
        let answers: HashSet<_> = request
            .tries
            .iter()
            .filter_map(|one| {
                if let Answer::Ok(ok) = one.answer {
                    Some(ok)
                } else {
                    None
                }
            })
            .collect();
        if request.is_repeated() {
            verdict.expect(promise, answers.len() <= 1, || {
                format!("request {id} was answered {answers:?}")
            });
        }
    }
    let repeated = facts
        .requests
        .values()
        .filter(|request| request.is_repeated());
    let repeated: HashSet<i64> = repeated
        .flat_map(|request| request.tasks.iter().map(|asked| asked.token))
        .collect();
    let mut rows: HashMap<i64, (&str, i64)> = HashMap::new();
    for row in facts.log.values().flatten().filter(|row| row.token > 0) {
        let other = rows
            .insert(row.token, (&row.handle, row.seq))
            .filter(|other| *other != (row.handle.as_str(), row.seq));
        // A task that was asked for once has no reason to be there twice either.
        let promise = match repeated.contains(&row.token) {
            true => promise,
            false => "nothing comes from nowhere, or by half",
        };
        verdict.expect(promise, other.is_none(), || {
            format!("{}/{} and {other:?} are one task", row.handle, row.seq)
        });
    }
    for (handle, id, answer) in &facts.reused {
        let allowed = matches!(answer, Answer::Unknown(_))
            || *answer == Answer::Refused("REQUEST_ID_REUSED".into());
        verdict.expect(promise, allowed, || {
            format!("request {id} of {handle} with another payload: {answer:?}")
        });
    }
}

pub(super) fn refused_means_nothing_was_done(facts: &Facts, verdict: &mut Verdict) {
    let logged: HashSet<i64> = facts.log.values().flatten().map(|row| row.token).collect();
    for (id, request) in &facts.requests {
        if request.accepted().is_none() && !request.is_unknown() {
            let done = request
                .tasks
                .iter()
                .find(|asked| asked.token > 0 && logged.contains(&asked.token));
            verdict.expect(
                "refused means that nothing was done",
                done.is_none(),
                || format!("request {id} was refused: {done:?}"),
            );
        }
    }
}

pub(super) fn nothing_comes_from_nowhere(facts: &Facts, verdict: &mut Verdict) {
    let promise = "nothing comes from nowhere, or by half";
    let by_handle = facts.requests_by_handle();
    for (handle, rows) in facts.conversations() {
        let requests = by_handle
            .get(handle.as_str())
            .map(Vec::as_slice)
            .unwrap_or_default();
        let covered: HashSet<i64> = requests
            .iter()
            .filter_map(|r| r.accepted())
            .flat_map(|(f, n)| f..f + i64::from(n))
            .collect();
        let mut noops = 0;
        let mut present: HashSet<i64> = HashSet::new();
        // Copies are judged by the calls that retry.
        let submitted = rows.iter().filter(|row| row.retry_of.is_none());
        for row in submitted.filter(|row| !covered.contains(&row.seq)) {
            let known = row.kind == "noop" || facts.asked.contains_key(&row.token);
            verdict.expect(promise, known, || {
                format!("{handle}/{} was never asked for", row.seq)
            });
            noops += usize::from(row.kind == "noop");
            present.insert(row.token);
        }
        let mut possible = 0;
        for request in requests.iter().filter(|request| request.is_unknown()) {
            let tokens = || request.tasks.iter().filter(|asked| asked.token > 0);
            let there = tokens()
                .filter(|asked| present.contains(&asked.token))
                .count();
            verdict.expect(promise, there == 0 || there == tokens().count(), || {
                format!("{handle} has {there} tasks of a call")
            });
            possible += request.tasks.len() - tokens().count();
        }
        verdict.expect(promise, noops <= possible, || {
            format!("{handle} has {noops} no-op tasks nobody asked for")
        });
    }
}

pub(super) fn nothing_is_accepted_after_a_release(facts: &Facts, verdict: &mut Verdict) {
    for (id, request) in &facts.requests {
        let Some(released) = facts.released.get(&request.handle) else {
            continue;
        };
        if request.tries.iter().all(|one| one.begun > *released) {
            let accepted = request.accepted();
            verdict.expect(
                "nothing is accepted after a release",
                accepted.is_none(),
                || format!("request {id}: {accepted:?}"),
            );
        }
    }
}

/// Neither UNKNOWN nor INTERNAL, and CANCELLED only when they have cancelled.
pub(super) fn stock_clients_see_no_fault_of_the_server(facts: &Facts, verdict: &mut Verdict) {
    let promise = "stock clients see no fault of the server";
    for (answer, count) in &facts.stock_calls {
        verdict.expect(promise, answer.is_allowed(), || {
            format!("{count} times {answer:?}")
        });
    }
    let families = ["python", "node"];
    let has_calls = |family: &&str| {
        let mut calls = facts.stock_calls.iter();
        calls.any(|(answer, _)| answer.family == **family && answer.is_wanted())
    };
    let calling = families.iter().filter(|family| has_calls(family)).count();
    if !facts.stock_calls.is_empty() {
        verdict.expect(promise, calling == families.len(), || {
            format!("only {calling} of {families:?} were answered")
        });
    }
}

/// The client retries for longer than any fault lasts, and its callers ask for nothing that could
/// be refused.
pub(super) fn the_client_never_fails(facts: &Facts, verdict: &mut Verdict) {
    for (call, begun, answer) in &facts.client_calls {
        verdict.expect(
            "calls through the Rust client never fail",
            *answer == Answer::Ok(()),
            || format!("{call} begun at {begun}: {answer:?}"),
        );
    }
}

/// The callers of the campaign try for longer than any fault lasts.
pub(super) fn no_call_is_given_up(facts: &Facts, verdict: &mut Verdict) {
    if let Some(given_up) = facts.given_up {
        verdict.expect("no call is given up", given_up == 0, || {
            format!("{given_up} calls or streams were given up")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Asked, Entry};

    /// One task, submitted so often with the same answer, which never started.
    fn submitted(times: usize) -> Facts {
        let asked = Asked {
            token: 1,
            work: Work::Marked,
            order: None,
            at_most_once: true,
            attempts: 1,
            uses: None,
        };
        let submit = |number| Entry::Submit {
            begun: 0,
            ended: 1,
            handle: "a".into(),
            request: "r".into(),
            tasks: if number == 0 { vec![asked] } else { Vec::new() },
            answer: Answer::Ok((1, 1)),
        };
        Facts::gather((0..times).map(submit))
    }

    #[test]
    fn what_did_not_happen_is_not_checked() {
        let is_checked = |times, promise| {
            let verdict = Verdict::of(&submitted(times));
            verdict.checked.contains_key(promise)
        };
        assert!(!is_checked(1, "a repeated submit is one"));
        assert!(is_checked(2, "a repeated submit is one"));
        assert!(!is_checked(2, "at most once is at most once"));
        assert!(!is_checked(2, "stock clients see no fault of the server"));
        assert!(!is_checked(2, "no call is given up"));
    }
}
