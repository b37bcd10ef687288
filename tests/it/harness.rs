//! What the tests share: a Postgres, a server on it, and the words in which promises are put to the test.

pub mod cluster;
pub mod conversation;
pub mod gate;
pub mod log;
pub mod postgres;
pub mod process;
pub mod server;
pub mod work;
