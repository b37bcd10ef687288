//! What callers ask about single tasks.

use crate::{rng::Rng, tables::Tables};
use rallypoint::core::{Order, Phase, Seq, TaskRef, Verb};

pub(super) fn select(tables: Option<&Tables>, rng: &mut Rng) -> Verb {
    let phases = [
        Phase::Blocked,
        Phase::Queued,
        Phase::Running,
        Phase::Retrying,
        Phase::Done,
    ];
    let highest = tables.map_or(0, Tables::highest) as u64;
    let first = rng.place(phases.len());
    let phases = phases[first..(first + 1 + rng.place(2)).min(phases.len())].to_vec();
    let order = rng
        .percent(30)
        .then(|| Order(1 + rng.below(4) as i64))
        .filter(|_| !phases.contains(&Phase::Done) && !phases.contains(&Phase::Blocked));
    Verb::Select {
        before: Seq(1 + rng.below(highest + 2) as i64),
        phases,
        order,
        limit: 1 + rng.place(6),
    }
}

/// Where the journal says a task is; 0: there is none.
pub(super) fn place(tables: Option<&Tables>, seq: i64) -> TaskRef {
    let order = tables
        .filter(|_| seq > 0)
        .and_then(|tables| tables.task(Seq(seq)).order);
    TaskRef {
        seq: Seq(seq),
        order: order.map(Order),
    }
}
