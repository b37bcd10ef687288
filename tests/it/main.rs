//! What Rallypoint promises, checked against the real parts: servers, Postgres, clients and the
//! sources themselves.

mod bad_input;
mod bounds;
mod calendar;
mod client;
mod command_line;
mod configuration;
mod contained;
mod crash;
mod exactly_once;
mod executor;
mod explain;
mod fairness;
mod fences;
mod forecast;
mod guard;
mod harness;
mod http;
mod jobs;
mod journal;
mod metrics;
mod overload;
mod page;
mod peers;
mod private_postgres;
mod promises;
mod python;
mod remote;
mod replicas;
mod resources;
#[path = "../sim/rng.rs"]
#[allow(dead_code)] // A crash needs one number only.
mod rng;
mod security;
mod sql;
mod startup;
mod streams;
mod target_pauses;
mod tidy;
mod top;
mod traces;
mod unreadable;
