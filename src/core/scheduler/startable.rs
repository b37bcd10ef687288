//! How many tasks of a scheduler would start at once if there were slots enough: what another
//! executor would be good for.

use super::Scheduler;
use crate::core::fairness::slot_kinds::KindId;

impl Scheduler {
    /// Puts into `by_kind` how many tasks of each kind would start at once if there were slots
    /// enough: none that an order, a time, a pause, a halt or the limit of the scheduler holds
    /// back. Of tasks that want resources, the first ones of those lines that could have them. A
    /// kind may come twice.
    pub(crate) fn count_startable(&self, by_kind: &mut Vec<(KindId, i64)>) {
        by_kind.clear();
        let mut room = i64::from(self.capacity());
        if room == 0 {
            return;
        }
        let plain = self.queue.plain_counts(self.start_limit());
        for (kind, count) in plain.chain(self.lines.ready_counts()) {
            let count = count.min(room);
            room -= count;
            if count > 0 {
                by_kind.push((kind, count));
            }
        }
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
