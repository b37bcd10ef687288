//! What the README promises, one file a subject.

pub mod calls;
pub mod limits;
pub mod log;
pub mod memory;
pub mod orders;
pub mod outage;
pub mod quotas;
pub mod release;
pub mod retention;
