//! Everybody who runs tasks, here or on another replica: who is connected, what each was given, how they come,
//! and how those that are gone are shown dead before their work is started again.

pub(crate) mod fencing;
pub(crate) mod pool;
pub(crate) mod registration;
pub(crate) mod session;
