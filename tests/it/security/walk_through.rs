//! The commands of `docs/security.md`, run as they stand there.

use crate::harness::{
    process::{PROGRAM, free_address},
    standalone::folder,
};
use std::{env, fs, path::Path, process::Command};

/// All commands of the page, one behind the other.
fn commands() -> String {
    let page = include_str!("../../../docs/security.md");
    let blocks = page.split("```bash\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    blocks.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_walk_through_does_what_it_says() {
    let address = free_address().to_string();
    let (_, port) = address.rsplit_once(':').expect("a port");
    let commands = commands().replace("50071", port);
    let folder = folder();
    fs::create_dir(&folder).expect("a directory");
    let program = Path::new(PROGRAM).parent().expect("a directory");
    let path = env::var("PATH").unwrap_or_default();
    // Whatever fails, the server ends with the shell.
    let script = format!("trap 'kill $(jobs -p) 2> /dev/null || :' EXIT\n{commands}");
    let output = Command::new("timeout")
        .args(["120", "bash", "-euo", "pipefail", "-c", &script])
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
    let token = fs::read_to_string(folder.join("nightly.token")).unwrap_or_default();
    fs::remove_dir_all(&folder).expect("removed");
    assert!(output.status.success(), "{commands}\n{said}\n{log}");
    assert!(
        said.contains("IDENTITY_MISSING"),
        "a stranger gets nothing: {said}"
    );
    assert!(
        said.contains("ROLE_MISSING"),
        "a caller gets its role only: {said}"
    );
    assert!(token.len() > 60 && !said.contains(token.trim()), "{said}");
}
