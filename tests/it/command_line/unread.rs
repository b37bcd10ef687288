//! What becomes of a command whose reader has closed the pipe: everything that it was to do is
//! done, and what has failed is no success.

use super::{code, text};
use crate::harness::{process::PROGRAM, standalone::Standalone, terminal::wait_for};
use std::{
    fs,
    process::{Command, Output},
};

/// Runs the program while nobody reads what it prints.
fn unread(server: &Standalone, arguments: &[&str]) -> Output {
    let (reader, stdout) = std::io::pipe().expect("a pipe");
    drop(reader);
    Command::new(PROGRAM)
        .args(["--server", &server.url])
        .args(arguments)
        .stdout(stdout)
        .output()
        .expect("the program runs")
}

#[test]
fn all_jobs_of_a_file_are_applied_and_a_refused_one_is_a_failure() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let job = |name: &str, target: &str| {
        format!(
            "[jobs.{name}]\nschedule.cron = \"@yearly\"\n\
             steps = [{{ statement = \"select 1\", target = \"{target}\" }}]\n"
        )
    };
    let name = file.display().to_string();
    let write = |jobs: &[String]| fs::write(&file, jobs.concat()).expect("written");
    write(&["a", "b", "c"].map(|name| job(name, "app")));
    let applied = unread(&server, &["jobs", "apply", "-f", &name]);
    assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
    let again = text(&server.run(&["jobs", "apply", "-f", &name]).stdout);
    assert_eq!(again, "a: unchanged\nb: unchanged\nc: unchanged\n");
    write(&[job("a", "app"), job("b", "nowhere")]);
    for format in ["table", "json"] {
        let dry = ["jobs", "apply", "--dry-run", "-o", format, "-f", &name];
        let refused = unread(&server, &dry);
        assert_eq!(code(&refused), 1, "{format}: {}", text(&refused.stderr));
    }
}

#[test]
fn all_tasks_that_are_named_are_retried() {
    let server = Standalone::start();
    let failed = server.run(&["exec", "--name", "n", "select 1/0", "select 1/0"]);
    assert_eq!(code(&failed), 3, "{}", text(&failed.stderr));
    for format in ["table", "json"] {
        let retried = unread(&server, &["retry", "n", "1", "2", "-o", format]);
        let said = text(&retried.stderr);
        // The second time both have retries, the first of which has failed as well.
        let expected = i32::from(format == "json");
        assert_eq!(code(&retried), expected, "{format}: {said}");
        wait_for("the retries", || {
            let tasks = text(&server.run(&["tasks", "n", "--state", "done"]).stdout);
            tasks.contains("retried as 3") && tasks.contains("retried as 4")
        });
        wait_for("their end", || {
            let tasks = text(&server.run(&["tasks", "n", "--state", "done"]).stdout);
            tasks.contains("retry of 1") && tasks.contains("retry of 2")
        });
    }
}
