//! What an error says is to be done next.

use super::{code, exec_file, run, text};
use crate::harness::{process::PROGRAM, standalone::Standalone, terminal::wait_for};
use std::process::Command;

const FILE: &str = "[jobs.a]\nschedule.cron = \"0 3 * * *\"\n\
                    steps = [{ order = 1, statement = \"select 1\" }]\n\
                    [jobs.\"b c\"]\nschedule.after = \"a\"\n\
                    steps = [{ statement = \"select 1\" }]\n";

/// A server with the jobs of a file.
fn with_jobs(jobs: &str) -> Standalone {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    std::fs::write(&file, jobs).expect("written");
    let applied = server.run(&["jobs", "apply", "-f", &file.display().to_string()]);
    assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
    server
}

#[test]
fn a_call_about_a_job_that_is_refused_says_what_to_do() {
    let server = with_jobs(FILE);
    for (call, next) in [
        (
            "delete a",
            "`rallypoint jobs delete 'b c'` deletes that one",
        ),
        (
            "backfill a --from 2026-01-26 --until 2026-01-01",
            "give --until a later time than --from",
        ),
        (
            "backfill a --from 1976-01-01 --until 2026-01-01",
            "repeat the command for parts of that time",
        ),
        (
            "run a --from-order 7",
            "give --from-order the order of a step, or leave it out: `rallypoint jobs get a`",
        ),
        (
            "log a 2026-01-26",
            "give the due time of a run with its time of day",
        ),
    ] {
        let words: Vec<&str> = ["jobs"].into_iter().chain(call.split(' ')).collect();
        let refused = server.run(&words);
        let said = text(&refused.stderr);
        assert_eq!(code(&refused), 1, "{call}: {said}");
        assert!(said.contains(&format!("  next: {next}")), "{call}: {said}");
    }
}

#[test]
fn the_name_of_a_job_in_the_place_of_a_scheduler_is_answered_by_its_runs() {
    let server = with_jobs(FILE);
    for verb in [&["tasks", "a"][..], &["explain", "a", "1"], &["wait", "a"]] {
        let said = text(&server.run(verb).stderr);
        let next = "  next: a is a job: `rallypoint jobs runs a` lists its runs";
        assert!(said.contains(next), "{verb:?}: {said}");
    }
}

#[test]
fn a_command_that_comes_next_has_names_as_a_shell_takes_them() {
    let server = Standalone::start();
    let file = "100, select 1/0\n200, select 1\n";
    let options = ["--name", "night&day", "--on-failure", "halt"];
    let failed = exec_file(&server, file, &options);
    assert_eq!(code(&failed), 3, "{}", text(&failed.stderr));
    let tasks = "`rallypoint tasks 'night&day'` lists the tasks";
    for (words, exit, next) in [
        (
            &["wait", "night&day"][..],
            3,
            "`rallypoint retry 'night&day' --failed` has succeeded",
        ),
        (
            &["pause", "night&day"],
            0,
            "`rallypoint resume 'night&day'`",
        ),
        (&["cancel", "night&day", "9"], 1, tasks),
        (&["explain", "night&day", "9"], 1, tasks),
        (&["retry", "night&day", "9"], 1, tasks),
        (&["forecast", "night&day", "9"], 1, tasks),
        (
            &["resource", "get", "big orders"],
            1,
            "`rallypoint resource create 'big orders'` adds one",
        ),
    ] {
        let output = server.run(words);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(code(&output), exit, "{words:?}: {said}");
        assert!(said.contains(next), "{words:?}: {said}");
    }
}

#[test]
fn what_a_run_waits_for_and_when_it_goes_on_is_said() {
    let server = with_jobs(
        "[jobs.bad]\nschedule.cron = \"@yearly\"\nrerun = { max = 3, delay = \"1h\" }\n\
         steps = [{ statement = \"select 1/0\" }]\n\
         [jobs.long]\nschedule.cron = \"@yearly\"\noverlap = \"QUEUE_ALL\"\n\
         steps = [{ statement = \"select pg_sleep(600)\" }]\n\
         [jobs.free]\nschedule.cron = \"@yearly\"\nclaimed = true\n",
    );
    let said = |words: &[&str]| text(&server.run(&[&["jobs"], words].concat()).stdout);
    let claimed = said(&["claim", "free", "--", "true"]);
    assert!(
        claimed.contains("nothing is due yet; the next run is due 20"),
        "{claimed}"
    );
    for (stopping, going_on, why) in [
        (
            &["stop-agent", "--reason", "night"][..],
            &["start-agent"][..],
            "; the agent is stopped",
        ),
        (
            &["pause", "free", "--reason", "night"],
            &["resume", "free"],
            "; the job is paused since 20",
        ),
    ] {
        said(stopping);
        let claimed = said(&["claim", "free", "--", "true"]);
        assert!(claimed.contains(why), "{claimed}");
        said(going_on);
    }
    said(&["run", "bad"]);
    wait_for("its failure", || {
        said(&["runs", "bad"]).contains("1 task failed; the next attempt is at 20")
    });
    said(&["run", "long"]);
    let behind = "its turn: runs before it are not over";
    for shown in [said(&["run", "long"]), said(&["runs", "long"])] {
        assert!(shown.contains(behind), "{shown}");
    }
    let offered = said(&["run", "free"]);
    assert!(
        offered.contains(": waiting: to be claimed, in its turn"),
        "{offered}"
    );
}

#[test]
fn what_an_option_or_a_word_is_not_for_is_told_with_what_to_write() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, tasks) in [("night.sql", "select 1;"), ("lines", "1, select 1")] {
        std::fs::write(folder.path().join(name), tasks).expect("written");
    }
    for (line, why, next) in [
        (
            "exec -f night.sql --param 5",
            "--param is for",
            "exec 'select $1'",
        ),
        (
            "exec --order 5 night.sql",
            "--order is for",
            "`-- @order N`",
        ),
        (
            "exec -f lines --param 5",
            "--param is for",
            "\"params\": [\"5\"]",
        ),
        ("exec -f lines --order 5", "--order is for", "`N, SQL`"),
        (
            "retry x 1 --statement night.sql",
            "is a file",
            "$(cat FILE)",
        ),
        ("retry x 1,2", "`1,2` is not", "with spaces between"),
        ("retry 1 night", "`night` is not", "task behind it: night 1"),
        (
            "explain 2 night",
            "`night` is not",
            "task behind it: night 2",
        ),
    ] {
        let words = line.split(' ');
        let output = Command::new(PROGRAM)
            .args(words)
            .current_dir(folder.path())
            .output()
            .expect("the program runs");
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{line}: {said}");
        assert!(said.contains(why), "{line}: {said}");
        let advice = said.split("next: ").nth(1).unwrap_or_default();
        assert!(advice.contains(next), "{line}: {said}");
    }
    let one = run(&["retry", "x", "1", "--order", "2"]);
    let said = text(&one.stderr);
    assert!(
        said.contains("--order") && !said.contains("--label"),
        "{said}"
    );
}
