//! Claims of resources and of runs on the command line: what is said of them, and what signals do.

use super::{begin, code, signal, text};
use crate::harness::{
    fake_server::serve_claims, process::PROGRAM, standalone::Standalone, terminal::wait_for,
};
use nix::sys::signal::Signal;
use rallypoint_client::api::{
    AcquireResponse, Claim, ClaimEnd, ClaimState, ManageClaimsRequest, ManageClaimsResponse,
    ReleaseResponse, RenewResponse, manage_claims_request::Kind as Call,
    manage_claims_response::Kind as Answer,
};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    os::unix::ffi::OsStrExt,
    process::Command,
    time::{Duration, Instant},
};
use tokio::time::sleep;
use tokio_stream::StreamExt;

#[test]
fn a_claim_that_has_ended_is_released_again_and_one_that_holds_needs_its_token() {
    let server = Standalone::start();
    assert_eq!(code(&server.run(&["resource", "create", "dock"])), 0);
    let locked = server.run(&["lock", "run", "dock", "--", "true"]);
    assert_eq!(code(&locked), 0, "{}", text(&locked.stderr));
    let released = server.run(&["resource", "release", "1"]);
    assert_eq!(code(&released), 0, "{}", text(&released.stderr));
    assert_eq!(text(&released.stdout), "claim 1: had ended before\n");
    let holder = begin(&server.url, &["lock", "run", "dock", "--", "sleep", "600"]);
    wait_for("the hold", || {
        text(&server.run(&["resource", "claim", "2"]).stdout).contains("held")
    });
    let refused = server.run(&["resource", "release", "2"]);
    let said = text(&refused.stderr);
    assert_eq!(code(&refused), 1, "{said}");
    assert!(
        said.contains("give the token of the hold with --token (`rallypoint resource queue dock`"),
        "{said}"
    );
    signal(&holder, Signal::SIGTERM);
    holder.wait_with_output().expect("it ends");
}

#[test]
fn a_lock_that_is_taken_is_not_waited_for_if_that_is_said() {
    let server = Standalone::start();
    assert_eq!(code(&server.run(&["resource", "create", "dock"])), 0);
    let at_once = ["lock", "run", "dock", "--wait", "0", "--", "true"];
    let free = server.run(&at_once);
    assert_eq!(code(&free), 0, "{}", text(&free.stderr));
    let holder = begin(&server.url, &["lock", "run", "dock", "--", "sleep", "600"]);
    wait_for("the hold", || {
        text(&server.run(&["resource", "claim", "2"]).stdout).contains("held")
    });
    let taken = server.run(&at_once);
    let said = text(&taken.stderr);
    assert_eq!(code(&taken), 1, "{said}");
    assert!(said.contains("the time to wait is over"), "{said}");
    signal(&holder, Signal::SIGTERM);
    holder.wait_with_output().expect("it ends");
}

#[test]
fn the_log_of_a_run_that_a_program_did_says_where_it_is_shown() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let job = "[jobs.nightly]\nschedule.cron = \"@daily\"\nclaimed = true\n";
    fs::write(&file, job).expect("written");
    let file = file.display().to_string();
    for arguments in [
        &["jobs", "apply", "-f", &file][..],
        &["jobs", "run", "nightly"],
        &["jobs", "claim", "nightly", "--", "true"],
    ] {
        let output = server.run(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", text(&output.stderr));
    }
    let log = server.run(&["jobs", "log", "nightly"]);
    let said = text(&log.stderr);
    let (_, command) = said.split_once("`rallypoint ").expect(&said);
    let (command, _) = command.split_once('`').expect(&said);
    let shown = server.run(&command.split(' ').collect::<Vec<_>>());
    assert_eq!(code(&shown), 0, "{command}: {}", text(&shown.stderr));
    assert!(
        text(&log.stdout).contains("succeeded"),
        "{}",
        text(&log.stdout)
    );
}

#[test]
fn a_program_that_is_not_there_is_told_with_what_to_do() {
    let server = Standalone::start();
    server.run(&["resource", "create", "dock"]);
    let none = server.run(&["lock", "run", "dock", "--", "./nosuch.sh"]);
    let said = text(&none.stderr);
    assert!(said.contains("next: behind `--` comes a program"), "{said}");
    // Before a run is taken for it, which would have failed.
    let none = server.run(&["jobs", "claim", "anything", "--", "nosuchprogram"]);
    let said = text(&none.stderr);
    assert!(
        said.contains("cannot run nosuchprogram") && said.contains("next: behind `--` comes"),
        "{said}"
    );
    let exists = server.run(&["resource", "create", "dock", "--capacity", "3"]);
    let said = text(&exists.stderr);
    assert!(
        said.contains("RESOURCE_EXISTS") && said.contains("next: "),
        "{said}"
    );
}

#[test]
fn what_is_to_be_changed_of_a_name_of_a_pattern_is_the_pattern() {
    let server = Standalone::start();
    server.run(&["resource", "create", "tenant/*", "--capacity", "2"]);
    let of_pattern = "comes from the pattern \"tenant/*\" and has no settings of its own";
    let capacity = ["resource", "update", "tenant/a", "--capacity", "3"];
    let lock = ["lock", "run", "tenant/a", "--permits", "3", "--", "true"];
    for (command, why) in [
        (&capacity[..], of_pattern),
        (&["resource", "delete", "tenant/a"], of_pattern),
        (&lock, "of pattern \"tenant/*\", has a capacity of 2"),
    ] {
        let said = text(&server.run(command).stderr);
        assert!(said.contains(why), "{said}");
        let next = "next: `rallypoint resource update 'tenant/*'";
        assert!(said.contains(next), "{said}");
    }
    let own = server.run(&["resource", "create", "tenant/a", "--capacity", "5"]);
    assert_eq!(code(&own), 0, "{}", text(&own.stderr));
    assert_eq!(code(&server.run(&capacity)), 0);
    assert_eq!(code(&server.run(&["resource", "delete", "tenant/a"])), 0);
}

#[test]
fn a_limit_of_a_resource_can_be_taken_away_again() {
    let server = Standalone::start();
    let get = || text(&server.run(&["resource", "get", "api"]).stdout);
    let limited = ["--max-hold", "1h", "--refill", "10/1s"];
    let create = [&["resource", "create", "api"], &limited[..]].concat();
    assert_eq!(code(&server.run(&create)), 0);
    let limits = ["longest hold", "refill"];
    assert!(
        limits.iter().all(|limit| get().contains(limit)),
        "{}",
        get()
    );
    for (limit, option) in limits.iter().zip(["--max-hold", "--refill"]) {
        let updated = server.run(&["resource", "update", "api", option, "none"]);
        assert_eq!(code(&updated), 0, "{}", text(&updated.stderr));
        assert!(!get().contains(limit), "{}", get());
    }
}

#[test]
fn a_signal_is_passed_on_to_the_command_of_a_run_which_says_how_that_ends() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let job = "[jobs.nightly]\nschedule.cron = \"@yearly\"\nclaimed = true\noverlap = \"ALLOW\"\n";
    fs::write(&file, job).expect("written");
    let applied = server.run(&["jobs", "apply", "-f", &file.display().to_string()]);
    assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
    let begun = folder.path().join("begun");
    let script = format!(
        "for s in HUP INT QUIT TERM; do trap \"exit 7\" $s; done; \
         touch {}; while :; do sleep 0.05; done",
        begun.display()
    );
    let signals = [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
    ];
    for (runs, stopped_by) in (1..).zip(signals) {
        assert_eq!(code(&server.run(&["jobs", "run", "nightly"])), 0);
        let claim = begin(
            &server.url,
            &["jobs", "claim", "nightly", "--", "sh", "-c", &script],
        );
        wait_for("the command", || begun.exists());
        fs::remove_file(&begun).expect("it was there");
        signal(&claim, stopped_by);
        let output = claim.wait_with_output().expect("it ends");
        let said = text(&output.stderr);
        assert_eq!(code(&output), 7, "{stopped_by}: {said}");
        let shown = text(&server.run(&["jobs", "runs", "nightly"]).stdout);
        let failed = shown.matches("sh ended with 7").count();
        assert_eq!(failed, runs, "{stopped_by}: {shown}");
    }
}

#[test]
fn whoever_is_gone_does_not_stand_in_line() {
    let server = Standalone::start();
    assert_eq!(code(&server.run(&["resource", "create", "dock"])), 0);
    let holder = begin(&server.url, &["lock", "run", "dock", "--", "sleep", "600"]);
    let counted = |what: &str| -> Value {
        let output = server.run(&["--json", "resource", "queue", "dock"]);
        let queue: Value = serde_json::from_slice(&output.stdout).expect("a document");
        queue["resource"][what].clone()
    };
    wait_for("the hold", || counted("holds") == 1);
    for (gone_by, expected) in [(Signal::SIGHUP, 129), (Signal::SIGQUIT, 131)] {
        let waits = begin(&server.url, &["lock", "run", "dock", "--", "true"]);
        wait_for("the claim", || counted("waiting") == 1);
        signal(&waits, gone_by);
        let output = waits.wait_with_output().expect("it ends");
        assert_eq!(code(&output), expected, "{}", text(&output.stderr));
        assert_eq!(counted("waiting"), 0);
    }
    signal(&holder, Signal::SIGTERM);
    holder.wait_with_output().expect("it ends");
}

/// The answer to a claim, which waits; other calls have none.
fn waiting(call: ManageClaimsRequest) -> Option<ManageClaimsResponse> {
    let Some(Call::Acquire(_)) = call.kind else {
        return None;
    };
    let claim = Claim {
        claim: 1,
        state: ClaimState::Waiting.into(),
        position: 1,
        expected_wait: Some(prost_types::Duration::default()),
        ..Claim::default()
    };
    let answer = AcquireResponse { claim: Some(claim) };
    Some(ManageClaimsResponse {
        call: call.call,
        kind: Some(Answer::Acquire(answer)),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_lock_that_waits_though_the_server_does_not_answer() {
    // Its connections live, so that no call fails.
    let silent = serve_claims(|calls| calls.filter_map(|call| call.map(waiting).transpose()));
    let url = silent.await;
    let lock = ["lock", "run", "dock", "--request-timeout", "10m"];
    for (sent, expected) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGQUIT, 131),
    ] {
        let mut waits = begin(&url, &[&lock[..], &["--", "true"]].concat());
        let said = BufReader::new(waits.stderr.take().expect("stderr is piped"));
        let mut lines = said.lines().map(|line| line.expect("text"));
        assert!(lines.any(|line| line.starts_with("claim 1 waits")));
        let begun = Instant::now();
        // One that comes with the first is the same.
        let ended = loop {
            signal(&waits, sent);
            if let Some(ended) = waits.try_wait().expect("our own child") {
                break ended;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it never ends");
            sleep(Duration::from_millis(200)).await;
        };
        assert_eq!(ended.code(), Some(expected), "{sent}");
    }
}

/// The answers to a claim that is granted at once, and has ended by itself when it is given back.
fn lost(call: ManageClaimsRequest) -> ManageClaimsResponse {
    let held = Claim {
        claim: 1,
        token: 1,
        state: ClaimState::Held.into(),
        ..Claim::default()
    };
    let ended = Claim {
        state: ClaimState::Ended.into(),
        end: ClaimEnd::Expired.into(),
        ..held.clone()
    };
    let kind = match call.kind {
        Some(Call::Release(_)) => Answer::Release(ReleaseResponse {
            claim: Some(ended),
            already_ended: true,
        }),
        Some(Call::Renew(_)) => Answer::Renew(RenewResponse { claim: Some(held) }),
        _ => Answer::Acquire(AcquireResponse { claim: Some(held) }),
    };
    ManageClaimsResponse {
        call: call.call,
        kind: Some(kind),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_lost_when_its_command_had_ended_is_no_success() {
    let url = serve_claims(|calls| calls.map(|call| call.map(lost))).await;
    let run = begin(&url, &["lock", "run", "dock", "--", "true"]);
    let output = run.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert_eq!(code(&output), 1, "{said}");
    assert!(
        said.contains("its lock was lost") && said.contains("see `rallypoint resource claim 1`"),
        "{said}"
    );
}

#[test]
fn the_command_under_a_lock_may_be_given_any_bytes() {
    let server = Standalone::start();
    assert_eq!(code(&server.run(&["resource", "create", "dock"])), 0);
    let name = OsStr::from_bytes(b"caf\xe9");
    let server_is = ["--server", &server.url];
    let lock = ["lock", "run", "dock", "--", "echo", "-n"];
    let program = || Command::new(PROGRAM);
    let echoed = program().args(server_is).args(lock).arg(name).output();
    assert_eq!(echoed.expect("it runs").stdout, name.as_bytes());
    let wrong = program().args(server_is).arg("exec").arg(name).output();
    let wrong = wrong.expect("it runs");
    assert_eq!(code(&wrong), 2, "{}", text(&wrong.stderr));
}
