//! Who is next, and how much a namespace may have.

pub(crate) mod allowance;
pub(crate) mod fair_queue;
pub(crate) mod fair_share;
pub(crate) mod quota;
pub(crate) mod slot_kinds;
