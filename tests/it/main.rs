//! All integration tests in one binary. Each file is named after what it promises.

mod command_line;
mod journal;
mod python;
mod served;
mod tidy;
