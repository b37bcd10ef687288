//! The limits of a scenario: the sizes of slices are small in many of them, and so are the quotas
//! in some.

use crate::rng::Rng;
use rallypoint::core::model::limits::Limits;

pub(super) fn limits(rng: &mut Rng) -> Limits {
    let default = Limits::DEFAULT;
    let mut limits = Limits {
        // The journal answers for most of those that are over.
        ended_schedulers: 1,
        slice: *rng.one_of(&[1, 2, 5, default.slice]),
        timers_per_batch: *rng.one_of(&[1, 3, default.timers_per_batch]),
        halt_failed: *rng.one_of(&[1, 3, default.halt_failed]),
        listing_steps: *rng.one_of(&[1, 4, default.listing_steps]),
        checkpoint_tasks: *rng.one_of(&[8, 64, default.checkpoint_tasks]),
        checkpoint_total: *rng.one_of(&[16, default.checkpoint_total]),
        checkpoint_ranges: *rng.one_of(&[1, default.checkpoint_ranges]),
        checkpoint_min: *rng.one_of(&[4, default.checkpoint_min]),
        row_cost: *rng.one_of(&[1, default.row_cost]),
        range_cost: *rng.one_of(&[1, default.range_cost]),
        ..default
    };
    if rng.percent(30) {
        match rng.below(6) {
            0 => limits.queued_tasks = 4 + rng.below(30) as i64,
            1 => limits.queued_bytes = (4 + rng.below(30) as i64) << 10,
            2 => limits.submit_rate = Some(1 + rng.below(8) as u32),
            3 => limits.open_schedulers = 1 + rng.place(2),
            4 => limits.streams = 1 + rng.below(2) as u32,
            _ => limits.unfinished_orders = 1 + rng.place(6),
        }
    }
    limits
}
