//! Streams of events as cursors: they read recent events from a buffer in memory, and older ones
//! from the journal.

pub(crate) mod cursor;
pub(crate) mod ended_schedulers;
pub(crate) mod event_buffer;
mod event_ring;
pub(crate) mod goal;
