//! Events on their way to the coordinator, in the order in which they happened.
//!
//! Pushing never blocks. What the channel has no room for waits here: at most one completion per slot, and a change of
//! slots only follows a completion, so it is bounded without a limit of its own.

use super::Event;
use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::{
        Notify,
        mpsc::{self, error::TrySendError},
    },
    time::sleep,
};

const DRAIN_PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Outbox {
    out: mpsc::Sender<Vec<Event>>,
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    waiting: Vec<Event>,
    /// A batch stands at the channel's door: later events must not overtake it.
    sending: bool,
    finished: bool,
}

impl Outbox {
    pub(super) fn start(out: mpsc::Sender<Vec<Event>>) -> Arc<Self> {
        let outbox = Arc::new(Outbox { out, state: Mutex::default(), wake: Notify::new() });
        tokio::spawn(forward(Arc::clone(&outbox)));
        outbox
    }

    /// Straight into the channel, when there is room and nothing waits.
    pub(super) fn push(&self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let mut state = self.state();
        if state.sending || !state.waiting.is_empty() {
            state.waiting.extend(events);
        } else if let Err(TrySendError::Full(events)) = self.out.try_send(events) {
            state.waiting = events;
            self.wake.notify_one();
        }
    }

    /// Waits until nothing waits any more, or nobody takes it.
    pub(super) async fn drain(&self) {
        let end = Instant::now() + DRAIN_PATIENCE;
        while !self.out.is_closed() && Instant::now() < end && !self.is_empty() {
            sleep(Duration::from_millis(2)).await;
        }
        self.finish();
    }

    /// Ends the forwarder, so that the channel ends with the last sender.
    pub(super) fn finish(&self) {
        self.state().finished = true;
        self.wake.notify_one();
    }

    fn is_empty(&self) -> bool {
        let state = self.state();
        state.waiting.is_empty() && !state.sending
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<Event> {
        let mut state = self.state();
        state.sending = !state.waiting.is_empty();
        mem::take(&mut state.waiting)
    }
}

async fn forward(outbox: Arc<Outbox>) {
    loop {
        tokio::select! {
            () = outbox.wake.notified() => {}
            () = outbox.out.closed() => return,
        }
        loop {
            let batch = outbox.take();
            if batch.is_empty() {
                break;
            }
            if outbox.out.send(batch).await.is_err() {
                return;
            }
        }
        if outbox.state().finished {
            return;
        }
    }
}
