//! A stock Python client: its stubs are generated from `proto/` with grpcio-tools, and nothing else
//! of this repository is used.

use crate::harness::standalone::Standalone;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

const PACKAGES: [&str; 2] = ["grpcio", "grpcio-tools"];

#[test]
fn a_stock_python_client_runs_the_series_and_receives_every_event() {
    let server = Standalone::start();
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let address = server.url.trim_start_matches("http://");
    let output = Command::new(python())
        .arg(top.join("tests/python/series.py"))
        .args([address, "--scale", "0.02"])
        .output()
        .expect("python runs");
    let report = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{report}");
    println!("{report}");
}

/// A Python that has grpcio-tools: the one of the system, or one in a virtual environment that is
/// made once and used again.
fn python() -> PathBuf {
    let system = PathBuf::from("python3");
    if has_tools(&system) {
        return system;
    }
    let folder = cache().join("python");
    let python = folder.join("bin/python");
    if !has_tools(&python) {
        must(
            Command::new(&system)
                .args(["-m", "venv", "--clear"])
                .arg(&folder),
            "needs python3 with venv: run `make setup-test`",
        );
        must(
            Command::new(&python)
                .args(["-m", "pip", "install", "--quiet"])
                .args(PACKAGES),
            "needs pip to reach a package index",
        );
    }
    python
}

fn has_tools(python: &Path) -> bool {
    Command::new(python)
        .args(["-c", "import grpc, grpc_tools.protoc"])
        .output()
        .is_ok_and(|output| output.status.success())
}

fn cache() -> PathBuf {
    let home = env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_else(env::temp_dir);
    env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .unwrap_or_else(|| home.join(".cache"))
        .join("rallypoint")
}

#[track_caller]
fn must(command: &mut Command, remedy: &str) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; {remedy}"));
    assert!(
        output.status.success(),
        "{command:?}: {}; {remedy}",
        String::from_utf8_lossy(&output.stderr)
    );
}
