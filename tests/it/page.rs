//! The page of the server, in a real browser: `tests/browser/page.js`, and `page/new_user.js`.

use crate::{harness::standalone::Standalone, http::Knowing};
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// The browser, and the folder of Node's modules that drive it.
fn installed() -> (String, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/browser");
    let output = Command::new(script).stderr(Stdio::inherit()).output();
    let said = String::from_utf8(output.expect("a shell").stdout).expect("text");
    let lines = said.trim().split_once('\n');
    let (browser, modules) = lines.expect("a browser cannot be installed: run `make setup-test`");
    (browser.to_owned(), modules.to_owned())
}

fn run(script: &str, url: &str) {
    let (browser, modules) = installed();
    let output = Command::new("node")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
        .args([url, &browser])
        .env("NODE_PATH", modules)
        .output()
        .expect("node runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}

#[test]
fn every_view_opens_filters_drills_and_acts_in_a_browser() {
    run("tests/browser/page.js", &Standalone::start().url);
}

#[test]
fn a_reader_signs_in_and_sees_no_buttons() {
    run("tests/browser/sign_in.js", &Knowing::start().server.url);
}

#[test]
fn a_new_user_finds_failures_names_and_what_is_wrong_with_a_field() {
    run("tests/it/page/new_user.js", &Standalone::start().url);
}
