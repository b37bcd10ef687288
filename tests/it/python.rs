//! A stock Python client: its stubs are generated from `proto/` with grpcio-tools, and nothing else
//! of this repository is used.

use crate::harness::{standalone::Standalone, stock_client};
use std::{path::Path, process::Command};

#[test]
fn a_stock_python_client_runs_the_series_and_receives_every_event() {
    let server = Standalone::start();
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let address = server.url.trim_start_matches("http://");
    let output = Command::new(stock_client::installed().0)
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
