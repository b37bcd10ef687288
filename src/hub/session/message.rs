//! What the two sides of a session say to each other, and how long either may be silent.

use crate::executor_protocol::{Event, Hello, Instruction};
use std::time::Duration;

/// Both sides say something at least so often.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A side of which nothing arrives for so long, not even part of a message, is gone.
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);
/// Largest message: a body or a result, and what belongs to it.
pub(crate) const MESSAGE_BYTES: usize = 8 << 20;

/// From the executor to the owner.
#[derive(Clone, Debug)]
pub enum ToOwner {
    /// The first message, and only that. The completions of its snapshot follow as events.
    Hello(Hello),
    Event(Event),
    Heartbeat,
}

/// From the owner to the executor.
#[derive(Clone, Debug)]
pub enum ToExecutor {
    /// It is admitted.
    Welcome,
    /// It has been fenced: it must give up what it has and come as its next incarnation.
    Fenced,
    Instruction(Instruction),
    Heartbeat,
}
