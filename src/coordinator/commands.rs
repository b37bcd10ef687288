//! The queue of commands before the loop: everybody who wants something of the core sends it here
//! and awaits the reply.
//!
//! A reply is given only when everything it rests on is durable. The loop ends when the last
//! [`CommandSender`] is dropped; background tasks hold a [`WeakCommandSender`], so that they do not
//! keep it running.

use super::admission::Permit;
use crate::core::{Command, Reply};
use tokio::sync::{mpsc, oneshot};

/// A command on its way to the loop.
#[derive(Debug)]
pub(crate) struct QueuedCommand {
    pub command: Command,
    pub reply: oneshot::Sender<Reply>,
    /// The caller's share of the queue, given back when the loop takes the command in.
    pub _permit: Option<Permit>,
}

/// Why a command got no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// The queue is full. The command had no effect.
    Full,
    /// The loop has ended. The command had no effect.
    Closed,
    /// The loop dropped the command, before or after it was decided: its effect is unknown.
    Dropped,
}

/// Sends commands to the loop, and keeps it running. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CommandSender(mpsc::Sender<QueuedCommand>);

/// Sends commands of the service itself, which need no permit because they are few. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct WeakCommandSender(mpsc::WeakSender<QueuedCommand>);

impl CommandSender {
    /// A queue of `capacity` commands.
    pub(crate) fn channel(capacity: usize) -> (Self, mpsc::Receiver<QueuedCommand>) {
        let (commands, queued) = mpsc::channel(capacity);
        (CommandSender(commands), queued)
    }

    pub(crate) fn downgrade(&self) -> WeakCommandSender {
        WeakCommandSender(self.0.downgrade())
    }

    /// Queues a command, if there is space, and awaits its reply.
    pub(crate) async fn try_call(
        &self,
        command: Command,
        permit: Option<Permit>,
    ) -> Result<Reply, NoReply> {
        let (queued, reply) = queued(command, permit);
        self.0.try_send(queued).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NoReply::Full,
            mpsc::error::TrySendError::Closed(_) => NoReply::Closed,
        })?;
        reply.await.map_err(|_| NoReply::Dropped)
    }
}

impl WeakCommandSender {
    /// Waits for space in the queue and for the reply. Never [`NoReply::Full`].
    pub(crate) async fn call(&self, command: Command) -> Result<Reply, NoReply> {
        let commands = self.0.upgrade().ok_or(NoReply::Closed)?;
        let (queued, reply) = queued(command, None);
        commands.send(queued).await.map_err(|_| NoReply::Closed)?;
        reply.await.map_err(|_| NoReply::Dropped)
    }
}

fn queued(command: Command, permit: Option<Permit>) -> (QueuedCommand, oneshot::Receiver<Reply>) {
    let (reply, receiver) = oneshot::channel();
    let queued = QueuedCommand {
        command,
        reply,
        _permit: permit,
    };
    (queued, receiver)
}
