//! `resource release`: what is said of a claim that has ended, and of one whose token is missing.

use super::{code, text};
use crate::harness::{process::PROGRAM, standalone::Standalone, terminal::wait_for};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::process::Command;

#[test]
fn a_claim_that_has_ended_is_released_again_and_one_that_holds_needs_its_token() {
    let server = Standalone::start();
    assert_eq!(code(&server.run(&["resource", "create", "dock"])), 0);
    let locked = server.run(&["lock", "run", "dock", "--", "true"]);
    assert_eq!(code(&locked), 0, "{}", text(&locked.stderr));
    let released = server.run(&["resource", "release", "1"]);
    assert_eq!(code(&released), 0, "{}", text(&released.stderr));
    assert_eq!(text(&released.stdout), "claim 1: had ended before\n");
    let mut holder = Command::new(PROGRAM)
        .args([
            "--server",
            &server.url,
            "lock",
            "run",
            "dock",
            "--",
            "sleep",
            "600",
        ])
        .spawn()
        .expect("the program starts");
    wait_for("the hold", || {
        text(&server.run(&["resource", "claim", "2"]).stdout).contains("held")
    });
    let refused = server.run(&["resource", "release", "2"]);
    let said = text(&refused.stderr);
    assert_eq!(code(&refused), 1, "{said}");
    assert!(
        said.contains("next: `rallypoint resource queue dock` lists claims and tokens"),
        "{said}"
    );
    let pid = Pid::from_raw(holder.id().try_into().expect("a pid"));
    kill(pid, Signal::SIGTERM).expect("our own child");
    holder.wait().expect("it ends");
}
