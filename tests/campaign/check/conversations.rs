//! Promises that the log alone can break: one outcome for each task, events without a gap, no
//! overlap of orders, batches one after another.

use super::{Facts, Verdict};
use crate::history::{Answer, Done, Logged};

/// The error of times in the log: servers measure the time of the database with a round trip, which
/// the proxies make long. Marks of witnesses are checked without it.
const CLOCK_ERROR_US: i64 = 400_000;

pub(super) fn every_task_has_one_outcome(facts: &Facts, verdict: &mut Verdict) {
    for rows in facts.log.values() {
        for (row, next) in rows.iter().zip(rows[1..].iter().map(Some).chain([None])) {
            let one = row.done.is_some() && next.is_none_or(|next| next.seq > row.seq);
            verdict.expect("every task has exactly one outcome", one, || {
                format!(
                    "{}/{}: {:?}, then {:?}",
                    row.handle,
                    row.seq,
                    row.done,
                    next.map(|next| next.seq)
                )
            });
        }
    }
}

pub(super) fn events_are_numbered_without_a_gap(facts: &Facts, verdict: &mut Verdict) {
    for (handle, rows) in &facts.log {
        let mut numbers: Vec<i64> = rows
            .iter()
            .filter_map(|row| row.done.as_ref())
            .map(|done| done.done_no)
            .collect();
        numbers.sort_unstable();
        for (number, wanted) in numbers.into_iter().zip(1..) {
            verdict.expect(
                "events are numbered without a gap",
                number == wanted,
                || format!("{handle} has number {number} where {wanted} belongs"),
            );
        }
    }
}

/// Tasks of a lower order that were there have ended before any of a higher one starts: by the
/// numbers of tasks and events, and by the times in the log for as long as nobody sets the clock
/// they are by.
pub(super) fn orders_never_overlap(facts: &Facts, verdict: &mut Verdict) {
    let clock_set = facts.clock_set();
    for (handle, rows) in &facts.log {
        let ran = |row: &&Logged| {
            row.done
                .as_ref()
                .is_some_and(|done| done.order.is_some() && done.started > 0)
        };
        let mut ran: Vec<(&Logged, &Done)> = rows
            .iter()
            .filter(ran)
            .filter_map(|row| Some((row, row.done.as_ref()?)))
            .collect();
        ran.sort_by_key(|(_, done)| done.order);
        for (at, (high, done)) in ran.iter().enumerate() {
            let late = |(low, lower): &&(&Logged, &Done)| {
                let numbered = low.seq < high.seq && lower.done_no > done.done_no;
                let timed = lower.ended.max(done.started) < clock_set
                    && lower.ended > done.started + CLOCK_ERROR_US
                    && low.submitted < done.started - CLOCK_ERROR_US;
                lower.order < done.order && (numbered || timed)
            };
            let early = ran[..at].iter().find(late);
            verdict.expect("orders never overlap in the log", early.is_none(), || {
                format!(
                    "{handle}/{} of order {:?} starts before {}",
                    high.seq,
                    done.order,
                    early.map_or(0, |(low, _)| low.seq)
                )
            });
        }
    }
}

/// Epochs rise, and no batch is missing or written twice.
pub(super) fn batches_follow_one_another(facts: &Facts, verdict: &mut Verdict) {
    for (at, (first, last, rows, epoch)) in facts.batches.iter().enumerate() {
        let whole = last - first + 1 == *rows;
        let follows = at == 0 || facts.batches[at - 1].1 + 1 == *first;
        verdict.expect(
            "batches follow one another, epoch by epoch",
            whole && follows,
            || {
                format!(
                    "epoch {epoch}: batches {first} to {last} ({rows}) after {:?}",
                    facts.batches.get(at.wrapping_sub(1))
                )
            },
        );
    }
}

pub(super) fn everything_is_well_in_the_end(facts: &Facts, verdict: &mut Verdict) {
    let promise = "everything is well after the last fault";
    let idle = facts.idle_in_transaction;
    verdict.expect(promise, idle == 0, || {
        format!("{idle} sessions idle in a transaction")
    });
    for (server, answer) in &facts.final_calls {
        verdict.expect(promise, *answer == Answer::Ok(()), || {
            format!("server {server}: {answer:?}")
        });
    }
}

/// A server ends when a fault ends it, and goes on otherwise.
pub(super) fn servers_go_on(facts: &Facts, verdict: &mut Verdict) {
    for (server, complaints) in &facts.complaints {
        verdict.expect(
            "servers neither panic nor end by themselves",
            complaints.is_empty(),
            || format!("server {server} {}", complaints.join(", ")),
        );
    }
}
