//! The executor: what it reports of a statement, and that no statement is lost or outlives it.

mod availability;
mod fences;
mod fixture;
mod interruption;
mod sessions;
mod text;
