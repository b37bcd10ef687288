//! Tasks that callers cancel: one, or all of a few that a filter means, the newest first.

use super::questions::place;
use crate::{rng::Rng, tables::Tables};
use rallypoint::core::{Cancel, Seq, TaskRange, TaskRef, Verb};
use std::sync::Arc;

/// One task, perhaps none that there is.
pub(super) fn cancel_one(tables: Option<&Tables>, rng: &mut Rng) -> Verb {
    let seq = rng.below(tables.map_or(1, |t| t.highest() as u64 + 1)) as i64;
    Verb::Cancel(Arc::new(Cancel::one(place(tables, seq))))
}

/// A page of CancelTasks: those among a few consecutive tasks that a filter admits, whatever the
/// filter, and those of them that wait, that run, or both.
pub(super) fn cancel_some(tables: Option<&Tables>, rng: &mut Rng) -> Verb {
    let highest = tables.map_or(0, Tables::highest);
    let newest = match rng.percent(50) {
        true => highest,
        false => rng.below(highest as u64 + 1) as i64,
    };
    let oldest = (newest - rng.below(12) as i64).max(1);
    let admitted = if rng.percent(50) { 100 } else { 60 };
    let tasks: Vec<TaskRef> = (oldest..=newest)
        .rev()
        .filter(|_| rng.percent(admitted))
        .map(|seq| place(tables, seq))
        .collect();
    let (waiting, running) = *rng.one_of(&[(true, true), (true, false), (false, true)]);
    Verb::Cancel(Arc::new(Cancel {
        tasks: ranges(&tasks),
        waiting,
        running,
        dry_run: rng.percent(20),
        filter: Some("of the simulation".into()),
    }))
}

/// Tasks, newest first, as ranges of one order.
fn ranges(tasks: &[TaskRef]) -> Vec<TaskRange> {
    let continues = |later: &TaskRef, earlier: &TaskRef| {
        (later.seq, later.order) == (Seq(earlier.seq.0 + 1), earlier.order)
    };
    let range = |part: &[TaskRef]| TaskRange {
        first: part[part.len() - 1].seq,
        last: part[0].seq,
        order: part[0].order,
    };
    tasks.chunk_by(continues).map(range).collect()
}
