//! The executor: what it reports of a statement, and that no statement is lost or outlives it.

mod availability;
mod exactly_once;
mod fences;
mod fixture;
mod full_server;
mod hostile;
mod interruption;
mod line;
mod login_limits;
mod logins;
mod namespaces;
mod options;
mod reconfiguration;
mod sessions;
mod text;
mod traffic;
mod waits;
