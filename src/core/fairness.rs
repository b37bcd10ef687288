//! Who is next, and how much a namespace may have.

pub(crate) mod fair_share;
pub(crate) mod line;
pub(crate) mod pool;
pub(crate) mod quota;
