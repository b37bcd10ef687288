//! What the tests share: the private Postgres, servers on it, and the words of a test.
//!
//! Servers are started in three ways and no other: in this process (`server`), as processes on one
//! durable Postgres (`cluster`), and as a newcomer starts one (`standalone`). What no server
//! says, clients hear from a `fake_server`.

pub(crate) mod authority;
#[path = "../campaign/clock.rs"]
#[allow(dead_code)]
pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod collector;
pub(crate) mod conversation;
pub(crate) mod fake_server;
pub(crate) mod gate;
pub(crate) mod in_process;
pub(crate) mod log;
pub(crate) mod network;
pub(crate) mod page;
pub(crate) mod postgres;
#[path = "../support/process.rs"]
pub(crate) mod process;
#[path = "../campaign/proxy.rs"]
#[allow(dead_code)]
pub(crate) mod proxy;
pub(crate) mod screen;
pub(crate) mod server;
pub(crate) mod standalone;
#[path = "../support/stock_client.rs"]
pub(crate) mod stock_client;
pub(crate) mod terminal;
pub(crate) mod work;
