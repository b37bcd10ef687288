//! What Rallypoint promises, checked against real parts.

mod executor;
mod harness;
mod private_postgres;
