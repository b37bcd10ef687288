//! The executor: what it reports of a text, and that it never loses, leaks or outlives one.

mod availability;
mod fixture;
mod interruption;
mod sessions;
mod text;
