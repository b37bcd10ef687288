//! What the loop and the hub of executors exchange: an ownership that begins, and what the core must
//! know of executors, in the order in which the hub decided it.

use super::{Loop, unasked};
use crate::{
    coordinator::{commands::QueuedCommand, machine::Event},
    core::{Epoch, Work},
};
use tokio::sync::oneshot;

impl Loop {
    /// An ownership begins; `inherited`: others have owned the shard since the last one, and had slots
    /// for these. Says what the core must know of executors.
    pub(crate) fn begin(&mut self, epoch: Epoch, inherited: Option<Vec<Work>>) -> Vec<Event> {
        if inherited.is_some() {
            self.driver.library.lock().drop_waiting();
        }
        self.driver.hub.begin(epoch, inherited);
        self.take_hub_commands()
    }

    /// What the core must know of executors.
    pub(crate) fn take_hub_commands(&mut self) -> Vec<Event> {
        let commands = self.driver.hub.take_commands();
        let mut events = Vec::with_capacity(commands.len());
        for one in commands {
            let Some(no) = one.asked else {
                events.push(unasked(one.command));
                continue;
            };
            let (reply, answer) = oneshot::channel();
            events.extend(self.admit(QueuedCommand {
                command: one.command,
                reply,
                _permit: None,
            }));
            self.driver.hub.await_answer(no, answer);
        }
        events
    }
}
