//! The `rallypoint` program: the command line and the allocator, nothing else.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    rallypoint::cli::main()
}
