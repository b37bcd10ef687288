//! What the loop does for the machine: append, release, recover, stand by.
//!
//! Work is handed out first; callers and streams learn of a durable batch a moment later.

use super::{Driver, InFlight, Loop};
use crate::{
    coordinator::{
        machine::{Effect, Event, Release},
        ownership::{OwnershipRequest, logged_error::LoggedError, replica_state::ReplicaState},
    },
    core::{Action, BatchNo, Command, Reply, Report},
    journal::{Batch, Commit, Writer},
};
use futures_util::FutureExt;
use std::{sync::Arc, time::Duration};
use tokio::task::spawn_blocking;

/// What an append may take: there is one for each batch (decision 0229).
const MOST_APPEND_BYTES: usize = 2 << 10;

impl Loop {
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append(batch, pause) => self.append(batch, pause),
                Effect::Release(release) => self.release(release),
                Effect::Discard(core) => drop(spawn_blocking(move || drop(core))),
                Effect::Recover => self.recover(),
                Effect::StandBy => self.stand_by(),
            }
        }
        let machine = &self.driver.machine;
        self.driver
            .state
            .stepped(machine.waits_for_journal() || machine.waits_for_lease());
    }

    /// Sends a batch before anything else is done.
    fn append(&mut self, batch: Arc<Batch>, pause: Duration) {
        let writer = self
            .writer
            .take()
            .expect("one batch is in flight at a time");
        self.counting.sent(pause);
        let append = append(writer, batch, pause);
        debug_assert!(
            size_of_val(&append) <= MOST_APPEND_BYTES,
            "box what is rare in an append: {} bytes",
            size_of_val(&append)
        );
        let mut in_flight: InFlight = Box::pin(append);
        // The first poll encodes and sends. An outcome that is there already is taken up by the
        // next poll.
        self.in_flight = match (&mut in_flight).now_or_never() {
            Some(outcome) => Some(Box::pin(std::future::ready(outcome))),
            None => Some(in_flight),
        };
    }

    fn recover(&mut self) {
        // What has become durable before is still published.
        self.publish();
        // Dropping the senders tells waiting callers that the effect is unknown. Commands that are
        // still to be decided keep theirs.
        let undecided = self.driver.machine.undecided_tickets();
        self.waiting.retain(|ticket, _| undecided.contains(ticket));
        // When the queue is full, a rebuild has been requested already.
        let _ = self
            .driver
            .ownership_requests
            .try_send(OwnershipRequest::Rebuild(self.driver.machine.epoch()));
    }

    /// A database that has lost commits gives their numbers again: streams have told events that no
    /// longer exist, and each is to find out when it is opened anew.
    pub(super) fn notice_lost_batches(&mut self) {
        let lost = self.driver.state.take_lost_batches();
        if lost == 0 {
            return;
        }
        self.counting.lost(lost);
        tracing::error!(
            lost,
            "the coordination database has lost batches that it had acknowledged: was an older copy \
             of it put in place, or a standby that lacked them?"
        );
        self.driver
            .state
            .set_error(format!("the database has lost {lost} acknowledged batches"));
        self.driver.buffers.move_away();
        self.abandoned_streams.clear();
        self.driver.machine.forget_streams();
    }

    /// Another replica owns the shard: waiting callers learn that the effect is unknown, streams
    /// continue and executors report there. A batch in flight is left alone: it becomes durable
    /// only if its number is still free.
    fn stand_by(&mut self) {
        self.publish();
        self.abandoned_streams.clear();
        self.in_flight = None;
        // The first batch of a later ownership is not the end of these failures.
        self.logged = LoggedError::default();
        let Driver {
            journal, replica, ..
        } = &self.driver;
        self.writer = Some(Box::new(journal.writer(replica)));
        self.waiting.clear();
        self.driver.bodies.lock().recovered(&[]);
        self.driver.bodies.lock().drop_waiting();
        self.driver.buffers.move_away();
        self.driver.hub.disband();
    }

    /// Hands out the work of a durable batch. Its replies are sent by [`Loop::publish`], a moment
    /// later.
    fn release(&mut self, mut release: Release) {
        self.counting.released(&release);
        let traced = std::mem::take(&mut release.tally.traced);
        if !traced.is_empty() {
            self.driver.traces.released(traced, self.driver.clock.now());
        }
        let Driver {
            bodies, hub, state, ..
        } = &self.driver;
        hub.over(std::mem::take(&mut release.over));
        let mut bodies = bodies.lock();
        if let Some(batch) = &release.batch {
            state.batch_durable(batch.epoch, batch.no);
            bodies.durable(&batch.records);
        }
        let mut work = Vec::new();
        for action in std::mem::take(&mut release.actions) {
            match action {
                Action::Reply(ticket, reply) => self.replies.push((ticket, reply)),
                Action::Dispatch(assignment) if !assignment.spec.work.has_session() => {
                    work.push((assignment, None))
                }
                Action::Dispatch(assignment) => {
                    self.has_begun = true;
                    work.extend(bodies.take(assignment));
                }
                Action::Stop {
                    handle,
                    first,
                    attempt,
                } => match bodies.stop(handle, first, attempt) {
                    Some(assignment) => hub.decline(assignment, Report::NotStarted),
                    None => {
                        // It may be among these.
                        hub.dispatch(std::mem::take(&mut work));
                        hub.stop(handle, first, attempt);
                    }
                },
                Action::Resolve(unresolved) => hub.resolve(unresolved),
            }
        }
        hub.dispatch(work);
        for (handle, _) in release
            .progress
            .iter()
            .filter(|(_, progress)| progress.pending == 0)
        {
            bodies.forget(*handle);
        }
        drop(bodies);
        self.released.push(release);
    }

    /// Shows streams and callers what has become durable.
    pub(super) fn publish(&mut self) {
        for release in self.released.drain(..) {
            self.driver.buffers.publish(&release);
        }
        for (ticket, reply) in self.replies.drain(..) {
            let stream = if let Reply::Watching { handle, .. } = reply {
                Some(handle)
            } else {
                None
            };
            let sent = self
                .waiting
                .remove(&ticket)
                .is_some_and(|waiting| waiting.send(reply).is_ok());
            // A caller that has gone misses only the reply; a stream that was opened for it would
            // count forever.
            if let Some(handle) = stream.filter(|_| !sent) {
                self.abandoned_streams
                    .push(Event::internal(Command::StreamClosed(handle)));
            }
        }
    }
}

/// Appends a batch and returns the writer. Never cancelled while the ownership lasts.
async fn append(
    mut writer: Box<Writer>,
    batch: Arc<Batch>,
    pause: Duration,
) -> (Box<Writer>, BatchNo, Commit) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    let commit = writer.append(&batch).await;
    (writer, batch.no, commit)
}

pub(super) fn log_outcome(
    no: BatchNo,
    commit: &Commit,
    state: &ReplicaState,
    logged: &mut LoggedError,
) {
    match commit {
        Commit::Durable if logged.is_over() => {
            tracing::info!(batch = no.0, "batches are durable again");
        }
        Commit::Durable => {}
        Commit::Fenced => tracing::warn!(
            batch = no.0,
            "the shard is owned elsewhere, or the database has lost commits"
        ),
        Commit::Rejected { sqlstate, message } => {
            tracing::error!(batch = no.0, %sqlstate, %message, "the database rejected a batch");
            state.set_error(message.clone());
        }
        Commit::RolledBack {
            sqlstate, message, ..
        } => {
            if logged.is_due(message) {
                tracing::error!(
                    batch = no.0,
                    %sqlstate,
                    %message,
                    "the database did not accept a batch; it is sent again"
                );
            }
            state.set_error(message.clone());
        }
        Commit::Unknown { message } => {
            if logged.is_due(message) {
                tracing::warn!(
                    batch = no.0,
                    %message,
                    "the outcome of a batch is unknown; it is sent again"
                );
            }
            state.set_error(message.clone());
        }
    }
}
