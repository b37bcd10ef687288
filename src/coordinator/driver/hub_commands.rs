//! What the loop and the hub of executors exchange: the beginning of an ownership, and commands for
//! the core in the order in which the hub decided them.

use super::Loop;
use crate::{
    coordinator::{commands::QueuedCommand, machine::Event},
    core::{Epoch, Work},
};
use tokio::sync::oneshot;

impl Loop {
    /// An ownership begins; `inherited`: other replicas have owned the shard since the last one,
    /// and had slots for these. Returns what the core must know of executors.
    pub(super) fn begin(&mut self, epoch: Epoch, inherited: Option<Vec<Work>>) -> Vec<Event> {
        if inherited.is_some() {
            self.driver.bodies.lock().drop_waiting();
        }
        self.driver.hub.begin(epoch, inherited);
        self.take_hub_commands()
    }

    /// What the core must know of executors.
    pub(super) fn take_hub_commands(&mut self) -> Vec<Event> {
        let commands = self.driver.hub.take_commands();
        let mut events = Vec::with_capacity(commands.len());
        for one in commands {
            let Some(no) = one.asked else {
                events.push(Event::internal(one.command));
                continue;
            };
            let (reply, answer) = oneshot::channel();
            // While nothing becomes durable the hub asks again and again. It hears so at once, and
            // the loop does not keep each of its questions.
            if !self.driver.state.is_stalled() {
                events.extend(self.admit(QueuedCommand {
                    command: one.command,
                    reply,
                    _permit: None,
                }));
            }
            self.driver.hub.await_answer(no, answer);
        }
        events
    }
}
