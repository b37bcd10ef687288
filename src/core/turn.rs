//! One step of the core: the time at which it happens and what it yields.
//!
//! Every rule takes a `Turn` instead of a time and an output, so that within one step there is only
//! one time.

use super::{Handle, Output, Time};

/// The time of a step, and what it yields.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub now: Time,
    pub out: &'a mut Output,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(now: Time, out: &'a mut Output) -> Self {
        Turn { now, out }
    }

    /// Tells streams that a scheduler's progress has changed.
    pub(crate) fn progressed(&mut self, handle: Handle) {
        self.out.touched.insert(handle);
    }
}
