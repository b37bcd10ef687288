//! A command on its way to the loop, with a place for its answer.

use super::admission::Permit;
use crate::core::{Command, Reply};
use tokio::sync::oneshot;

/// A command on its way to the loop.
#[derive(Debug)]
pub(crate) struct Asked {
    pub command: Command,
    pub reply: oneshot::Sender<Reply>,
    /// Its share of the queue.
    pub _place: Option<Permit>,
}
