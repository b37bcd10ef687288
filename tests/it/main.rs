//! What Rallypoint promises, checked against real parts.

mod harness;
mod journal;
mod private_postgres;
