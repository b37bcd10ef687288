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
mod promises_calls;
mod promises_limits;
mod promises_log;
mod promises_old;
mod promises_orders;
mod promises_outage;
mod promises_quotas;
mod promises_release;
mod python;
mod remote;
mod replicas;
mod served;
mod sql;
mod streams;
mod tidy;
