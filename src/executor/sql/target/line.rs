//! The line for the slots of a target.

use super::{
    super::target_slots::{Given, Slot},
    Target, lock,
};
use crate::{core::SessionReset, executor_protocol::Token};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::timeout;

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
        self.slots.line_up(self.clock.now(), given, leaves_free);
        drop(unavailable);
        let begin = self.next_in_line();
        if begin.is_empty() {
            self.lined_up.notify_one();
        }
        Ok(begin)
    }

    /// Who begins on the slots that are free. While the target is away nobody does.
    pub(super) fn next_in_line(&self) -> Vec<(Slot, Given)> {
        if lock(&self.unavailable).is_some() {
            return Vec::new();
        }
        let settings = self.settings();
        self.slots.next_in_line(|assignment| {
            let used_by = match settings.reset(assignment) {
                SessionReset::Task => None,
                SessionReset::Scheduler => Some(assignment.handle),
            };
            (used_by, settings.login_of(assignment))
        })
    }

    /// Takes somebody out of the line.
    pub(crate) fn take_out(&self, token: Token) -> Option<Given> {
        self.slots.take_out(token)
    }

    /// Returns who begins because there are more slots now, or the target is back, and who has
    /// stood in line for too long: what runs takes longer than the owner of the shard thought, or
    /// there is nothing to run on.
    pub(crate) async fn line_moves(&self) -> (Vec<(Slot, Given)>, Vec<Given>) {
        loop {
            let begin = self.next_in_line();
            let now = self.clock.now();
            let leave = self.slots.leave_line(now, LINE_TIMEOUT);
            if !begin.is_empty() || !leave.is_empty() {
                return (begin, leave);
            }
            match self.slots.in_line_since() {
                None => self.lined_up.notified().await,
                Some(since) => {
                    let left = LINE_TIMEOUT.saturating_sub(now.since(since));
                    let _ = timeout(left, self.slots_added.notified()).await;
                }
            }
        }
    }

    /// Everybody leaves the line.
    pub(crate) fn clear_line(&self) -> Vec<Given> {
        self.slots.leave_line(self.clock.now(), Duration::ZERO)
    }
}
