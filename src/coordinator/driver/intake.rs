//! What the loop takes in: whatever has arrived in its queues, in one go.
//!
//! Every queue is taken from in bounded portions, so that none can keep the others waiting.

use super::{InFlight, Loop, effects::log_outcome};
use crate::{
    coordinator::{
        commands::QueuedCommand,
        machine::{Envelope, Event},
        ownership::role::Role,
    },
    core::{BatchNo, Ticket, Time},
    journal::{Commit, Writer},
};
use std::time::Duration;
use tokio::time::Instant;

/// Batches of reports, and ended streams, taken at once.
const MAX_TAKEN: usize = 1_024;
/// Commands the machine may hold undecided before no more are taken from the queue.
const MAX_UNDECIDED: usize = 4_096;
/// The longest sleep: a bound on what a missed timer could cost.
const MAX_SLEEP: Duration = Duration::from_secs(1);

impl Loop {
    /// Waits for something to happen and takes everything that has; `None`: the last handle was
    /// dropped. While a batch is in flight, only its outcome, events of the ownership and reports
    /// of executors are waited for: no other batch could be sealed, so what else arrives stays in
    /// its queue and costs one wake-up instead of one each. A report leaves a slot free, and the
    /// next task need not wait.
    pub(super) async fn gather(&mut self) -> Option<Vec<Event>> {
        self.set_alarm();
        let driver = &mut self.driver;
        let can_decide = !driver.machine.waits_for_journal();
        let can_start = can_decide || driver.machine.can_start_tasks();
        let (mut events, mut commands) = (Vec::new(), Vec::new());
        let (mut finished, mut is_alarm) = (None, false);
        let ready = !self.abandoned_streams.is_empty() || can_decide && driver.hub.has_commands();
        tokio::select! {
            outcome = outcome(&mut self.in_flight) => finished = Some(outcome),
            Some(event) = driver.ownership_events.recv() => events.push(event),
            () = std::future::ready(()), if ready => {}
            Some(report) = driver.reports.recv(), if can_start => driver.hub.take_in(report),
            () = driver.hub.ready(), if can_decide => {}
            Some(command) = driver.closed_streams.recv(), if can_decide => {
                events.push(Event::internal(command));
            },
            command = driver.commands.recv(), if can_decide => commands.push(command?),
            () = &mut self.alarm => is_alarm = true,
        }
        if let Some((writer, no, commit)) = finished {
            (self.in_flight, self.writer) = (None, Some(writer));
            self.counting.answered(&commit);
            log_outcome(no, &commit, &driver.state, &mut self.logged);
            events.push(Event::Commit(no, commit));
        }
        events.extend(commands.into_iter().filter_map(|queued| self.admit(queued)));
        events.extend(self.take_arrived(can_decide || !is_alarm));
        Some(events)
    }

    /// Everything that has arrived, without waiting. Commands can be left in their queue, where
    /// their callers may still give them up: an alarm alone takes none while a batch is in flight.
    pub(super) fn take_arrived(&mut self, takes_commands: bool) -> Vec<Event> {
        let driver = &mut self.driver;
        let (mut events, mut commands) = (std::mem::take(&mut self.abandoned_streams), Vec::new());
        while let Ok(event) = driver.ownership_events.try_recv() {
            events.push(event);
        }
        for _ in 0..MAX_TAKEN {
            let Ok(report) = driver.reports.try_recv() else {
                break;
            };
            driver.hub.take_in(report);
        }
        events.extend(self.take_hub_commands());
        let driver = &mut self.driver;
        for _ in 0..MAX_TAKEN {
            let Ok(command) = driver.closed_streams.try_recv() else {
                break;
            };
            events.push(Event::internal(command));
        }
        let space = match takes_commands {
            true => MAX_UNDECIDED.saturating_sub(driver.machine.backlog()),
            false => 0,
        };
        for _ in 0..space {
            let Ok(command) = driver.commands.try_recv() else {
                break;
            };
            commands.push(command);
        }
        events.extend(commands.into_iter().filter_map(|queued| self.admit(queued)));
        events
    }

    /// Nothing has become durable for too long: waiting callers learn that the effect is unknown,
    /// and commands in the queue are dropped before they are decided.
    pub(super) fn refuse_all(&mut self) {
        self.waiting.clear();
        while self.driver.commands.try_recv().is_ok() {}
    }

    /// An alarm that goes off too early costs a step without events; setting one costs as much, so
    /// it is set only when it is needed earlier.
    fn set_alarm(&mut self) {
        let sleep = match self.driver.machine.next_due() {
            Time::NEVER => MAX_SLEEP,
            due => due.since(self.driver.clock.now()).min(MAX_SLEEP),
        };
        let due = Instant::now() + sleep;
        if self.alarm.is_elapsed() || due < self.alarm.deadline() {
            self.alarm.as_mut().reset(due);
        }
    }

    /// A command whose caller has gone, or that belongs to another replica, is dropped before it is
    /// decided. One that comes while this replica takes the shard over waits for the journal to be
    /// read: callers are sent here from then on.
    pub(super) fn admit(&mut self, queued: QueuedCommand) -> Option<Event> {
        let driver = &mut self.driver;
        if driver.machine.stands_by() && driver.state.role() != Role::Standby {
            driver.machine.expect_recovery();
        }
        if queued.reply.is_closed() || driver.machine.stands_by() {
            return None;
        }
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.waiting.insert(ticket, queued.reply);
        Some(Event::Command(Envelope {
            ticket: Some(ticket),
            command: queued.command,
        }))
    }
}

/// The outcome of the batch in flight; never resolves when there is none.
async fn outcome(in_flight: &mut Option<InFlight>) -> (Box<Writer>, BatchNo, Commit) {
    match in_flight {
        Some(in_flight) => in_flight.await,
        None => std::future::pending().await,
    }
}
