//! What the tests share: a Postgres, a server on it, and the words in which promises are put to the test.

pub(crate) mod cluster;
pub(crate) mod conversation;
pub(crate) mod gate;
pub(crate) mod log;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod server;
pub(crate) mod work;
