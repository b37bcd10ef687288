//! The bad-input table, by subject: for each wrong request its reason and the field it names, and
//! the good requests beside them.

mod fixtures;
mod identifiers;
mod options;
mod packing;
mod pages;
mod settings;
mod streams;
mod tasks;
