//! How commands become batches: applied while there is space, sealed when the previous batch is
//! durable.
//!
//! One batch is in flight and one is open, never more. A batch without records is released at once.

use super::{
    Decided, InFlight, Machine, State,
    commit::RESEND_MIN,
    envelope,
    event::{Effect, Release},
};
use crate::{
    core::{Output, Time},
    journal::Batch,
};
use std::{sync::Arc, time::Duration};

/// Commands and outcomes in one batch, approximately: what Postgres takes in one go without a
/// stall.
const BATCH_RECORDS: usize = 5_000;
/// Weight of the commands in one batch, approximately: bytes of their bodies, and something for
/// each task.
const BATCH_BYTES: usize = 16 << 20;

impl Machine {
    /// Applies waiting commands to the open batch, as far as it has space.
    pub(super) fn fill(&mut self, now: Time) {
        while !self.isolating && has_space(&self.open, self.open_bytes) {
            let State::Working(core) = &mut self.state else {
                return;
            };
            let occupied = self.in_flight.is_some() || !self.open_commands.is_empty();
            if occupied && !self.isolated.is_empty() {
                return;
            }
            self.isolating = !self.isolated.is_empty();
            let Some(envelope) = self.isolated.pop_front().or_else(|| self.inbox.pop_front())
            else {
                return;
            };
            if self.executors.is_stale(&envelope.command) {
                self.isolating = false;
                continue;
            }
            self.open_bytes += envelope::bytes(&envelope.command);
            core.apply(now, envelope.ticket, &envelope.command, &mut self.open);
            self.executors.observe(&envelope.command);
            self.open_commands.push(envelope);
        }
    }

    /// Closes the open batch and sends it, or releases it at once when it has no records. Returns
    /// whether it did the latter, so that another batch may follow.
    pub(super) fn seal(&mut self, now: Time, effects: &mut Vec<Effect>) -> bool {
        let State::Working(core) = &mut self.state else {
            return false;
        };
        if !self.isolating {
            core.settle(now, &mut self.open);
        }
        if self.open.is_empty() && self.open_commands.is_empty() {
            return false;
        }
        if self.open.records.is_empty() && !self.lease_holds {
            return false;
        }
        let output = std::mem::take(&mut self.open);
        let progress = output
            .touched
            .iter()
            .filter_map(|handle| Some((*handle, core.progress(*handle)?)))
            .collect();
        let decided = Decided {
            commands: std::mem::take(&mut self.open_commands),
            actions: output.actions,
            progress,
        };
        self.open_bytes = 0;
        if output.records.is_empty() {
            self.isolating = false;
            let over = self
                .executors
                .released(now, &decided.commands, &decided.actions);
            let Decided {
                actions, progress, ..
            } = decided;
            effects.push(Effect::Release(Release {
                batch: None,
                actions,
                progress,
                over,
            }));
            return true;
        }
        let batch = Arc::new(Batch {
            shard: self.shard,
            epoch: self.epoch,
            no: self.next_batch,
            day: now.day(),
            records: output.records,
        });
        self.next_batch.0 += 1;
        effects.push(Effect::Append(batch.clone(), Duration::ZERO));
        self.in_flight = Some(InFlight {
            batch,
            decided,
            pause: RESEND_MIN,
            refusals: 0,
            uncertain: false,
        });
        false
    }
}

fn has_space(open: &Output, bytes: usize) -> bool {
    let records = &open.records;
    records.submissions.len()
        + records.completions.len()
        + records.attempts.len()
        + open.actions.len()
        < BATCH_RECORDS
        && bytes < BATCH_BYTES
}
