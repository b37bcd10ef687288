//! What Rallypoint promises, checked against real parts.

mod executor;
mod harness;
mod journal;
mod private_postgres;
