//! The outbox as the parts of an executor share it, and the way of its reports to the owner of the
//! shard.
//!
//! Nobody who ends a task ever waits: a report goes straight into the link when there is room, and
//! else stays in the outbox until the forwarder has carried it there.

use super::Outbox;
use crate::{
    core::{Completion, Epoch, Work},
    executor_protocol::{Event, ExecutorReport, HeldAssignment, Link, Snapshot, Token},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, mpsc::error::TrySendError},
    time::sleep,
};

/// Interval between checks for what is not acknowledged yet.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Default)]
pub(crate) struct SharedOutbox {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    outbox: Outbox,
    link: Option<Link>,
    /// A send is in flight; later events must queue behind it.
    sending: bool,
    finished: bool,
}

impl SharedOutbox {
    pub(crate) fn start() -> Arc<Self> {
        let shared = Arc::new(SharedOutbox::default());
        tokio::spawn(forward(Arc::clone(&shared)));
        shared
    }

    /// From now on everything goes to this owner; `None`: there is a younger one, or the executor
    /// has ended.
    pub(crate) fn attach(&self, link: Link, enrolled_under: Epoch) -> Option<Snapshot> {
        let mut state = self.state();
        if state.finished {
            return None;
        }
        let snapshot = state.outbox.attach(link.epoch, enrolled_under)?;
        state.link = Some(link);
        Some(snapshot)
    }

    /// Keeps an assignment; false: it is not taken.
    pub(crate) fn take(&self, held: HeldAssignment, numbered: bool) -> bool {
        self.state().outbox.take(held, numbered)
    }

    pub(crate) fn complete(&self, token: Token, completion: Completion) {
        let mut state = self.state();
        state.outbox.complete(token, completion);
        self.send_what_fits(&mut state);
    }

    pub(crate) fn set_slots(&self, work: Work, total: u32) {
        let mut state = self.state();
        state.outbox.set_slots(work, total);
        self.send_what_fits(&mut state);
    }

    pub(crate) fn acknowledge(&self, tokens: &[Token]) {
        self.state().outbox.acknowledge(tokens);
    }

    pub(crate) fn give_up(&self) {
        self.state().outbox.give_up();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().outbox.is_empty()
    }

    /// Waits until everything is acknowledged, at most so long.
    pub(crate) async fn drain(&self, longest: Duration) {
        let end = Instant::now() + longest;
        while Instant::now() < end && !self.is_empty() {
            sleep(DRAIN_POLL_INTERVAL).await;
        }
        self.finish();
    }

    /// Ends the forwarder, and the link.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.finished = true;
        state.link = None;
        state.outbox.detach();
        self.wake.notify_one();
    }

    /// Straight into the link, when there is room and nothing is on its way there.
    fn send_what_fits(&self, state: &mut State) {
        let Some(link) = state.link.as_ref().filter(|_| !state.sending) else {
            return;
        };
        let events = state.outbox.next_events();
        if events.is_empty() {
            return;
        }
        let member = link.member;
        if let Err(TrySendError::Full(report)) =
            link.out.try_send(ExecutorReport::of(member, events))
        {
            state.outbox.put_back(report.events);
            self.wake.notify_one();
        }
    }

    /// What is next on its way to the owner, for the forwarder.
    fn next(&self) -> Option<(Link, Vec<Event>)> {
        let mut state = self.state();
        let link = state.link.clone();
        let next = link.map(|link| (link, state.outbox.next_events()));
        let next = next.filter(|(_, events)| !events.is_empty());
        state.sending = next.is_some();
        next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn forward(shared: Arc<SharedOutbox>) {
    while !shared.state().finished {
        shared.wake.notified().await;
        while let Some((link, events)) = shared.next() {
            let member = link.member;
            // A link that is over loses nothing: the next owner gets a snapshot.
            let _ = link.out.send(ExecutorReport::of(member, events)).await;
        }
    }
}
