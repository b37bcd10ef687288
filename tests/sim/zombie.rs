//! An owner that was paused, was overtaken, and goes on as if nothing had been, by a clock of its
//! own.
//!
//! It must write nothing, accept nothing, and step down when it finds out.

use crate::{callers::Callers, checks, journal::Journal, rng::Rng};
use rallypoint::{
    coordinator::machine::{Effect, Envelope, Event, Machine, Release},
    core::{Action, Reply, Ticket, Time},
    journal::{Batch, Commit},
};
use std::{sync::Arc, time::Duration};

const SKEW: Duration = Duration::from_secs(5);

pub(crate) struct Zombie {
    pub machine: Machine,
    /// What it had sent when it was paused.
    pub sent: Option<Arc<Batch>>,
    /// Calls it was asked after it woke up.
    asked: Vec<Ticket>,
    skew: Duration,
    fast: bool,
}

impl Zombie {
    pub(crate) fn new(machine: Machine, sent: Option<Arc<Batch>>, rng: &mut Rng) -> Self {
        Zombie {
            machine,
            sent,
            asked: Vec::new(),
            skew: rng.up_to(SKEW),
            fast: rng.percent(50),
        }
    }

    /// It acts; false: it knows that it owns nothing any more, and has told nobody anything wrong.
    pub(crate) fn act(
        &mut self,
        now: Time,
        call: Option<Envelope>,
        journal: &mut Journal,
        callers: &mut Callers,
        rng: &mut Rng,
    ) -> bool {
        let now = if self.fast {
            now + self.skew
        } else {
            now - self.skew
        };
        self.asked
            .extend(call.iter().filter_map(|envelope| envelope.ticket));
        let mut events: Vec<Event> = call.map(Event::Command).into_iter().collect();
        if let Some(batch) = self.sent.take_if(|_| rng.percent(70)) {
            let outcome = if rng.percent(20) {
                Commit::Unknown {
                    message: "no answer".into(),
                }
            } else {
                refused(journal, &batch)
            };
            events.push(Event::Commit(batch.no, outcome));
        }
        for effect in self.machine.step(now, events) {
            match effect {
                Effect::Append(batch, _) => self.sent = Some(batch),
                Effect::Release(release) => self.release(release, journal, callers),
                Effect::Discard(_) => {}
                Effect::Recover | Effect::StandBy => {
                    self.end(callers);
                    return false;
                }
            }
        }
        true
    }

    /// It is gone, and with it the answers it owed.
    pub(crate) fn end(&self, callers: &mut Callers) {
        callers.lose(&self.asked);
    }

    /// What rests on what it had written in time is true. Its executors are not asked: they refuse
    /// an older epoch.
    fn release(&mut self, release: Release, journal: &mut Journal, callers: &mut Callers) {
        if let Some(batch) = &release.batch {
            assert!(
                journal.holds(batch),
                "a zombie releases batch {}, which is not durable",
                batch.no.0
            );
        }
        for action in release.actions {
            let Action::Reply(ticket, reply) = action else {
                continue;
            };
            let Some(pending) = callers.pending.remove(&ticket) else {
                continue;
            };
            journal.oracle.answered_late(ticket, &reply);
            if matches!(reply, Reply::Submitted { .. } | Reply::Scheduler(_)) {
                checks::answered(journal, callers, &pending, &reply);
            }
        }
    }
}

/// The outcome of a zombie's batch: it may be known from earlier, and it is never written now.
fn refused(journal: &mut Journal, batch: &Batch) -> Commit {
    let before = journal.last_batch();
    let outcome = journal.append(batch);
    assert_eq!(
        journal.last_batch(),
        before,
        "a zombie writes batch {}",
        batch.no.0
    );
    outcome
}
