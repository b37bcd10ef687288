//! What Rallypoint promises, checked against real parts.

mod bad_input;
mod client;
mod command_line;
mod executor;
mod harness;
mod journal;
mod private_postgres;
mod promises_limits;
mod promises_orders;
mod python;
mod served;
mod sql;
mod streams;
mod tidy;
