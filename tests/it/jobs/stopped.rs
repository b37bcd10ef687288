//! Commands that stand still: one that does a run of a job, for longer than its claim is kept, and
//! those that wait for a run which nothing lets begin.

use crate::harness::{
    process::PROGRAM,
    standalone::Standalone,
    terminal::{on_terminal, wait_for},
};
use serde_json::Value;
use std::{fs, io::Write};

/// How many runs somebody does.
fn running(server: &Standalone) -> usize {
    let output = server.run(&["--json", "jobs", "runs", "tick"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let runs = answer["runs"].as_array().into_iter().flatten();
    let states = runs.filter_map(|run| run["state"].as_str());
    states.filter(|state| state.ends_with("RUNNING")).count()
}

#[test]
fn a_command_that_was_stopped_beyond_its_lease_does_not_go_on() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let [file, ticks, stopped, go] =
        ["jobs.toml", "ticks", "stopped", "go"].map(|name| folder.path().join(name));
    let jobs = "[jobs.tick]\nschedule.interval = { every = \"2s\" }\nclaimed = true\n";
    fs::write(&file, jobs).expect("written");
    let applied = server.run(&["jobs", "apply", "-f", &file.display().to_string()]);
    assert!(applied.status.success(), "{applied:?}");
    let (url, ticked) = (&server.url, ticks.display());
    let claim = format!("{PROGRAM} --server {url} jobs claim tick --wait 60s --lease 2s");
    // Not `sh`: a shell that begins its commands by vfork does not stop amid that.
    let ticking = format!("while :; do echo >> {ticked}; sleep 0.02; done");
    let script = format!(
        "set -m; {claim} -- bash -c '{ticking}'; echo 1 > {}; until test -e {}; do sleep 0.02; done; fg",
        stopped.display(),
        go.display()
    );
    let mut run = on_terminal(&script);
    let mut keys = run.stdin.take().expect("a terminal");
    wait_for("the command runs", || ticks.exists());
    assert_eq!(
        running(&server),
        1,
        "{:?}",
        server.run(&["--json", "jobs", "runs", "tick"])
    );
    keys.write_all(b"\x1a").expect("Ctrl-Z");
    wait_for("the shell goes on", || stopped.exists());
    wait_for("the lease is over", || running(&server) == 0);
    let written = fs::read(&ticks).expect("ticks").len();
    fs::write(&go, "").expect("written");
    let output = run.wait_with_output().expect("it ends");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("the claim is lost"), "{shown}");
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert_eq!(fs::read(&ticks).expect("ticks").len(), written);
}

#[test]
fn who_waits_for_a_run_is_told_that_none_may_come() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let jobs = "[jobs.night]\nschedule.cron = \"@yearly\"\nclaimed = true\n";
    fs::write(&file, jobs).expect("written");
    let applied = server.run(&["jobs", "apply", "-f", &file.display().to_string()]);
    assert!(applied.status.success(), "{applied:?}");
    let claim = |options: &[&str]| {
        let run = ["jobs", "claim", "night", "--wait", "3s", "--", "true"];
        let output = server.run(&[options, &run].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(claim(&[]), "");
    for (hold, why) in [
        (&["jobs", "stop-agent"][..], "the agent is stopped"),
        (&["jobs", "pause", "night"], "the job is paused since "),
    ] {
        let held = server.run(hold);
        assert!(held.status.success(), "{held:?}");
        let outputs: [&[&str]; 2] = [&[], &["--json"]];
        for options in outputs {
            let said = claim(options);
            let expected = format!("night: no run comes: {why}");
            assert!(said.contains(&expected), "{said}");
        }
    }
}
