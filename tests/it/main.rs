//! What Rallypoint promises, checked against real parts.

mod harness;
mod private_postgres;
