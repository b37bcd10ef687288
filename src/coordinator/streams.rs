//! Streams of events as cursors: from the buffer of recent events, or from the journal.

pub(crate) mod cursor;
pub(crate) mod ended;
pub(crate) mod event_buffer;
