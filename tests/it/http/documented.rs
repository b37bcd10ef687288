//! The commands of `docs/http.md`, run as they stand there.

use crate::harness::{
    page::blocks,
    process::{PROGRAM, free_address},
    standalone::folder,
};
use std::{env, fs, path::Path, process::Command};

#[test]
fn curl_alone_opens_submits_follows_and_releases() {
    let address = free_address().to_string();
    let (_, port) = address.rsplit_once(':').expect("a port");
    let page = include_str!("../../../docs/http.md");
    let commands = blocks(page, "bash").join("\n").replace("50081", port);
    let folder = folder();
    fs::create_dir(&folder).expect("a directory");
    let program = Path::new(PROGRAM).parent().expect("a directory");
    let path = env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &commands])
        .current_dir(&folder)
        .env("PATH", format!("{}:{path}", program.display()))
        .output()
        .expect("bash runs");
    let said = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let log = fs::read_to_string(folder.join("server.log")).unwrap_or_default();
    fs::remove_dir_all(&folder).expect("removed");
    assert!(output.status.success(), "{commands}\n{said}\n{log}");
    for shown in [
        r#""first_seq":1"#,
        r#"[{\"one\":1}]"#,
        "OUTCOME_FAILED",
        "22012",
        "REASON_GOAL",
        "SCHEDULER_STATE_RELEASED",
    ] {
        assert!(said.contains(shown), "{shown}: {said}");
    }
}
