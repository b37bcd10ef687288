//! The program runs as the manifests have it run: with an account of no rights, a root that cannot
//! be written and holds nothing but the program, and no network but its own.

use crate::harness::{postgres::durable, process::PROGRAM};
use rallypoint::postgres::{COORDINATION, TARGET};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};
use tempfile::TempDir;

/// Whether this kernel and this account may make namespaces.
fn has_namespaces() -> bool {
    let tried = Command::new("unshare")
        .args(["--net", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
        .output();
    let works = tried.as_ref().is_ok_and(|tried| tried.status.success());
    if !works {
        let why = format!("no namespaces here, as root on Linux has them: {tried:?}");
        assert!(std::env::var_os("CI").is_none(), "{why}");
        println!("left out: {why}");
    }
    works
}

/// Lets another account than that of Postgres connect.
fn open_to_others(sockets: &Path) {
    let inside = fs::read_dir(sockets).expect("ours");
    let inside = inside.map(|entry| entry.expect("an entry").path());
    for path in inside.chain([sockets.to_owned()]) {
        fs::set_permissions(path, Permissions::from_mode(0o777)).expect("ours");
    }
}

#[test]
fn it_runs_without_rights_on_a_root_it_cannot_write_and_in_a_network_of_its_own() {
    if !has_namespaces() {
        return;
    }
    let (postgres, root) = (durable(Vec::new()), TempDir::new().expect("a directory"));
    let sockets = postgres.socket_dir();
    open_to_others(sockets);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/contained/run");
    let target = format!("app={}", postgres.url_for(TARGET, TARGET));
    let output = Command::new("unshare")
        .args(["--net", "--mount"])
        .arg(script)
        .arg(PROGRAM)
        .args([sockets, root.path()])
        // As the image and the manifests have it.
        .env("RALLYPOINT_LISTEN", "0.0.0.0:50051")
        .env("RALLYPOINT_ADMIN_LISTEN", "0.0.0.0:50053")
        .env("RALLYPOINT_LOG_FORMAT", "json")
        .env("RALLYPOINT_INSECURE", "true")
        .env(
            "RALLYPOINT_DATABASE",
            postgres.url_for(COORDINATION, COORDINATION),
        )
        .env("RALLYPOINT_TARGETS", target)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{log}");
    let said: Vec<String> = said
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for expected in [
        "Uid: 65532 65532 65532 65532",
        "Groups:",
        "CapEff: 0000000000000000",
        "NoNewPrivs: 1",
        "interfaces: lo",
        "root: ro",
        "it ends with 0",
    ] {
        assert!(
            said.iter().any(|line| line == expected),
            "{expected}: {said:#?}\n{log}"
        );
    }
    let shown = said.join("\n");
    assert!(!shown.contains("a file can be made"), "{shown}");
    assert!(shown.contains("task 1 order - succeeded"), "{shown}");
}
