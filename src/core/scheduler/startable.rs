//! How many tasks of a scheduler would start at once if there were slots enough: what another
//! executor would be good for.

use super::Scheduler;
use crate::core::fairness::slot_kinds::KindId;

/// Tasks of one kind that would start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Startable {
    /// Tasks that want no resource.
    pub plain: i64,
    /// First tasks of lines each of which could have what it wants: all schedulers together have as
    /// many as the resources admit (`core/resources/ready_lines.rs`).
    pub in_lines: i64,
}

impl Scheduler {
    /// Puts into `by_kind` how many tasks of each kind would start at once if there were slots
    /// enough: none that an order, a time, a pause, a halt or the limit of the scheduler holds
    /// back. A kind may come twice.
    pub(crate) fn count_startable(&self, by_kind: &mut Vec<(KindId, Startable)>) {
        by_kind.clear();
        let mut room = i64::from(self.capacity());
        if room == 0 {
            return;
        }
        let mut within = |count: i64| {
            let count = count.min(room);
            room -= count;
            count
        };
        for (kind, count) in self.queue.plain_counts(self.start_limit()) {
            let plain = within(count);
            by_kind.push((kind, Startable { plain, in_lines: 0 }));
        }
        for (kind, count) in self.lines.ready_counts() {
            let in_lines = within(count);
            by_kind.push((kind, Startable { plain: 0, in_lines }));
        }
        by_kind.retain(|(_, count)| *count != Startable::default());
    }
}

#[cfg(test)]
mod tests {
    use crate::core::{
        Verb,
        tests::world::{World, free, order, plain},
    };

    /// What would start, of all kinds.
    fn startable(w: &mut World) -> i64 {
        w.status().startable.iter().map(|(_, count)| count).sum()
    }

    #[test]
    fn what_an_order_a_pause_or_a_limit_holds_back_needs_no_slot() {
        let mut w = World::new(0);
        let s = w.open(plain);
        w.submit(s, [free(), order(1), order(1), order(2)]);
        assert_eq!(startable(&mut w), 3, "order 2 waits for order 1");
        w.call(s, Verb::Pause);
        assert_eq!(startable(&mut w), 0);
        let limited = w.open(|settings| settings.max_parallelism = Some(2));
        w.submit(limited, [free(), free(), free()]);
        assert_eq!(startable(&mut w), 2);
        w.set_slots(100);
        assert_eq!(startable(&mut w), 0, "they run");
    }
}
