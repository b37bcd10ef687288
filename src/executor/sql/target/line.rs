//! The line for the slots of a target.

use super::{
    super::target_slots::{Given, Slot},
    Target, lock,
};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::sleep;

/// How long a task stands in line before it is given back: many times as long as tasks last that
/// are handed out so.
const LINE_TIMEOUT: Duration = Duration::from_millis(50);

impl Target {
    /// Has it stand in line for a slot; see
    /// [`Dispatch::leaves_free`](crate::executor_protocol::Dispatch::leaves_free). Returns who
    /// begins now. Fails when the target is unavailable, or takes nothing more.
    pub(crate) fn line_up(
        &self,
        given: Given,
        leaves_free: Option<u32>,
    ) -> Result<Vec<(Slot, Given)>, Box<Given>> {
        let unavailable = lock(&self.unavailable);
        if unavailable.is_some() || self.closing.load(Ordering::Acquire) {
            return Err(Box::new(given));
        }
        let begin = self.slots.line_up(given, leaves_free);
        drop(unavailable);
        self.lined_up.notify_one();
        Ok(begin)
    }

    /// Gives a slot to who is next in line, or back. While the target is away nobody begins.
    pub(crate) fn pass_on(&self, slot: Slot) -> Option<(Slot, Given)> {
        if lock(&self.unavailable).is_some() {
            self.put_slot(slot);
            return None;
        }
        if let Some(next) = self.slots.next_in_line(&slot) {
            return Some((slot, next));
        }
        self.put_slot(slot);
        // Somebody may have lined up meanwhile.
        self.slots.take_next()
    }

    /// Returns who has stood in line for too long, as soon as there is somebody: what runs takes
    /// longer than the owner of the shard thought, or there is nothing to run on.
    pub(crate) async fn leave_line(&self) -> Vec<Given> {
        loop {
            match self.slots.leave_line(LINE_TIMEOUT) {
                Ok(left) => return left,
                Err(Some(stood)) => sleep(LINE_TIMEOUT - stood).await,
                Err(None) => self.lined_up.notified().await,
            }
        }
    }

    /// Everybody leaves the line.
    pub(crate) fn clear_line(&self) -> Vec<Given> {
        self.slots.leave_line(Duration::ZERO).unwrap_or_default()
    }
}
