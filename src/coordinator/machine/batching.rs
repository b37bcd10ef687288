//! How commands become batches: applied while there is space, sealed when the previous batch is
//! durable, unless they linger (`linger`).
//!
//! One batch is in flight and one is open, never more. A batch without records is released at once,
//! and so are the starts that depend on nothing that is still to be durable.

use super::{
    Decided, InFlight, Machine, State,
    commit::RESEND_MIN,
    envelope,
    event::{Effect, Release},
};
use crate::{
    core::{Output, Tally, Time},
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

    /// Gives away the slots that have become free while a batch is in flight. Like everything that
    /// rests on no record of its own this needs the lease.
    pub(super) fn start_meanwhile(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if let State::Working(core) = &mut self.state
            && let Some(flight) = &self.in_flight
            && !self.isolating
            && self.lease_holds
        {
            core.start_meanwhile(now, Some(&flight.unwritten), &mut self.open);
            self.release_early(now, effects);
        }
    }

    /// Releases what depends on nothing undurable.
    pub(super) fn release_early(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let actions = std::mem::take(&mut self.open.early);
        if !actions.is_empty() {
            let over = self.executors.released(now, &[], &actions);
            effects.push(Effect::Release(Release {
                batch: None,
                actions,
                progress: Vec::new(),
                over,
                tally: Tally::default(),
            }));
        }
    }

    /// Closes the open batch and sends it, or releases it at once when it has no records. Returns
    /// whether it did the latter, so that another batch may follow.
    pub(super) fn seal(&mut self, now: Time, effects: &mut Vec<Effect>) -> bool {
        let State::Working(core) = &mut self.state else {
            return false;
        };
        if self.isolating {
            core.carry_out_jobs(now, &mut self.open);
        } else {
            core.settle(now, &mut self.open);
            if self.lease_holds {
                self.release_early(now, effects);
            }
        }
        if self.open.is_empty() && self.open_commands.is_empty() {
            return false;
        }
        if self.open.records.is_empty() && !self.lease_holds {
            return false;
        }
        let State::Working(core) = &self.state else {
            return false;
        };
        let mut output = std::mem::take(&mut self.open);
        let progress = output
            .touched
            .iter()
            .filter_map(|handle| Some((*handle, core.progress(*handle)?)))
            .collect();
        let decided = Decided {
            commands: std::mem::take(&mut self.open_commands),
            actions: output.take_actions(),
            progress,
            tally: std::mem::take(&mut output.tally),
        };
        self.open_bytes = 0;
        if output.records.is_empty() {
            self.isolating = false;
            let over = self
                .executors
                .released(now, &decided.commands, &decided.actions);
            effects.push(decided.release(None, over));
            return true;
        }
        self.send(now, output, decided, effects);
        false
    }

    /// Sends a batch for the first time.
    fn send(&mut self, now: Time, output: Output, decided: Decided, effects: &mut Vec<Effect>) {
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
            unwritten: output.unwritten,
            pause: RESEND_MIN,
            refusals: 0,
            uncertain: false,
            sent_at: self.steady(now),
        });
    }
}

fn has_space(open: &Output, bytes: usize) -> bool {
    let records = &open.records;
    records.submissions.len()
        + records.completions.len()
        + records.attempts.len()
        + records.resources.claims.len()
        + records.jobs.jobs.len()
        + records.jobs.runs.len()
        + records.jobs.claims.len()
        + open.actions.len()
        < BATCH_RECORDS
        && bytes < BATCH_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        coordinator::machine::fixture::{NOW, asks, durable, ended, owner, runs, starts, waiting},
        core::{
            Caller, Command, JobSettings, JobVerb, Misfire, Namespace, NewJob, Overlap, Packed,
            Seq, SlotCounts, Submit,
            schedule::{RuleText, ScheduleText},
        },
    };

    #[test]
    fn jobs_with_large_steps_are_spread_over_batches() {
        let job = large_job();
        let creates = (0..40).map(|no| {
            let name = format!("job {no}").into();
            let verb = JobVerb::Create {
                name,
                job: job.clone(),
            };
            let caller = Caller {
                namespace: Namespace::default_namespace(),
                name: "test".into(),
            };
            asks(no, Command::Job { caller, verb })
        });
        let effects = owner().step(NOW, creates.collect::<Vec<_>>());
        let appended = effects.iter().find_map(|effect| match effect {
            Effect::Append(batch, _) => Some(batch.records.jobs.jobs.len()),
            _ => None,
        });
        assert_eq!(appended, Some(16), "as many as make 16 MiB");
    }

    /// Two texts of half a MiB each.
    fn large_job() -> Arc<NewJob> {
        let text = vec![b'a'; 1 << 19];
        let settings = JobSettings {
            schedule: ScheduleText {
                rule: RuleText::Cron("@daily".into()),
                time_zone: "UTC".into(),
                dst_gap: None,
                dst_fold: None,
                jitter: Duration::ZERO,
                start: String::new(),
                end: String::new(),
                exclude: Vec::new(),
            },
            overlap: Overlap::Skip,
            misfire: Misfire::Skip,
            rerun: None,
            max_runtime: None,
            pause_after_failures: None,
            scheduler: Arc::default(),
            claimed: false,
        };
        let tasks = Arc::new(Submit {
            runs: vec![waiting(1)],
            bodies: Packed::new([&*text]),
            ..Submit::none()
        });
        Arc::new(NewJob {
            settings: Arc::new(settings),
            steps: tasks.clone(),
            on_failure: tasks,
        })
    }

    /// An owner with one slot, of which a task runs and two wait.
    fn one_runs() -> Machine {
        let window = SlotCounts {
            window: 4,
            ..SlotCounts::of(1)
        };
        runs(window, 3)
    }

    #[test]
    fn a_slot_is_given_away_before_the_end_of_its_last_task_is_durable() {
        let mut machine = one_runs();
        let effects = machine.step(NOW, [ended(1)]);
        assert!(matches!(effects[0], Effect::Append(..)), "{effects:?}");
        assert_eq!(starts(&effects), [2]);
        assert_eq!(starts(&machine.step(NOW, [ended(2)])), [3]);
        assert!(starts(&machine.step(NOW, [durable(3)])).is_empty());
    }

    #[test]
    fn a_slot_is_given_away_early_only_under_the_lease() {
        let mut machine = one_runs();
        machine.set_lease(false);
        assert!(starts(&machine.step(NOW, [ended(1)])).is_empty());
        assert_eq!(starts(&machine.step(NOW, [durable(3)])), [2]);
    }

    #[test]
    fn a_rebuilt_core_knows_what_was_given_away_early() {
        let mut machine = one_runs();
        machine.step(NOW, [ended(1)]);
        let replayed = machine.executors.replay();
        let knows = |command: &Command| match command {
            Command::Reported(all) => all.iter().any(|one| one.first == Seq(2)),
            _ => false,
        };
        assert!(replayed.iter().any(knows), "{replayed:?}");
    }
}
