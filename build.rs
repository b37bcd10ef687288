//! Compiles `proto/` without protoc, and writes the descriptor for server reflection.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(
        [
            "rallypoint/v1/scheduler.proto",
            "rallypoint/v1/status.proto",
        ],
        ["proto"],
    )?;
    let peers = protox::compile(
        [
            "rallypoint/peer/v1/peer.proto",
            "rallypoint/peer/v1/executor.proto",
        ],
        ["proto"],
    )?;
    let descriptor = PathBuf::from(env::var("OUT_DIR")?).join("descriptor.bin");
    fs::write(descriptor, prost::Message::encode_to_vec(&files))?;
    tonic_prost_build::configure()
        .bytes(".rallypoint.v1")
        .compile_fds(files)?;
    tonic_prost_build::configure()
        .bytes(".rallypoint.peer.v1")
        .compile_fds(peers)?;
    Ok(())
}
