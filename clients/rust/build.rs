//! Compiles `proto/` without protoc: the API's types and client stubs, and for the server (feature
//! `server`) its stubs, the replicas' own protocol, and the descriptor for server reflection.

use std::{env, error::Error, fs, path::PathBuf};

const PROTO: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let server = env::var_os("CARGO_FEATURE_SERVER").is_some();
    let api = [
        "rallypoint/v1/error.proto",
        "rallypoint/v1/job.proto",
        "rallypoint/v1/operator.proto",
        "rallypoint/v1/resource.proto",
        "rallypoint/v1/scheduler.proto",
        "rallypoint/v1/status.proto",
    ];
    let api = protox::compile(api, [PROTO])?;
    if server {
        let descriptor = PathBuf::from(env::var("OUT_DIR")?).join("descriptor.bin");
        fs::write(descriptor, prost::Message::encode_to_vec(&api))?;
        let peer = [
            "rallypoint/peer/v1/peer.proto",
            "rallypoint/peer/v1/executor.proto",
        ];
        let peer = protox::compile(peer, [PROTO])?;
        tonic_prost_build::configure()
            .bytes(".rallypoint.peer.v1")
            .extern_path(".rallypoint.v1", "crate::api")
            .compile_fds(peer)?;
    }
    let mut generator = tonic_prost_build::configure()
        .bytes(".rallypoint.v1")
        .build_server(server);
    if server {
        generator = generator.codec_path("crate::strict_codec::StrictCodec");
    }
    let mut messages = prost_build::Config::new();
    messages.enable_type_names();
    generator.compile_fds_with_config(api, messages)?;
    Ok(())
}
