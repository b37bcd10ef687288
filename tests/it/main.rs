//! What Rallypoint promises, checked against real parts.

mod bad_input;
mod client;
mod command_line;
mod crash;
mod executor;
mod fairness;
mod harness;
mod journal;
mod overload;
mod peers;
mod private_postgres;
pub mod promises;
mod python;
mod remote;
mod replicas;
mod served;
mod sql;
mod streams;
mod tidy;
