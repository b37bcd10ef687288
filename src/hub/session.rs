//! Executors across replicas: the session between an executor and the replica that owns the shard.
//!
//! The owner's side hands what it hears to the coordinator's door for executors, and takes what the pool sends; the
//! executor's side looks for the owner, reports to it, and does what it says. Neither decides anything about tasks.

pub(crate) mod client;
pub(crate) mod server;
pub(crate) mod wire;

pub(crate) use client::Remote;
pub(crate) use server::Sessions;

use std::time::Duration;

/// Both sides say something so often.
const BEAT: Duration = Duration::from_secs(1);
/// Who says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(3);
/// Bytes of one message: a body or a result, and what belongs to it.
const MESSAGE_BYTES: usize = 8 << 20;
