//! `docs/schedules.md` as its reader would try it: its blocks of TOML are a file, and its commands
//! print what stands below them.

use super::{code, text};
use crate::harness::{
    conversation::WAIT_TIMEOUT, process::PROGRAM, standalone::Standalone, terminal::wait_for,
};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
    thread::sleep,
    time::{Duration, Instant},
};

fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    let output = command.args(arguments).current_dir(folder).output();
    output.expect("the program runs")
}

#[test]
fn the_commands_of_the_page_on_schedules_print_what_it_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schedules.md");
    let page = fs::read_to_string(page).expect("the page");
    let blocks: Vec<&str> = page.split("```").skip(1).step_by(2).collect();
    let toml = blocks
        .iter()
        .filter_map(|block| block.strip_prefix("toml\n"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = toml.collect::<Vec<_>>().join("\n");
    fs::write(folder.path().join("jobs.toml"), file).expect("written");
    let commands = blocks
        .iter()
        .filter_map(|block| block.strip_prefix("\n$ rallypoint "));
    let mut run = 0;
    for command in commands {
        let (command, expected) = command.split_once('\n').expect("a command");
        let arguments: Vec<&str> = command.split(' ').collect();
        let output = run_in(folder.path(), &arguments);
        let printed = (code(&output), text(&output.stdout));
        assert_eq!(printed, (0, expected.to_owned()), "{command}: {output:?}");
        run += 1;
    }
    assert_eq!(run, 4);
}

#[test]
fn a_file_that_makes_no_sense_is_refused_with_every_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = "[jobs.a]\nschedule.cron = \"0 0 31 2 *\"\nsteps = [{}]\n";
    fs::write(folder.path().join("jobs.toml"), file).expect("written");
    for verb in ["check", "preview"] {
        let output = run_in(folder.path(), &["jobs", verb]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{said}");
        assert!(
            said.contains("line 2: jobs.a.schedule.cron: never fires"),
            "{said}"
        );
        assert!(
            said.contains("line 3: jobs.a.steps[1].statement: missing"),
            "{said}"
        );
    }
    let fine = "[jobs.a]\nschedule.cron = \"@daily\"\nsteps = [{ statement = \"select 1\" }]\n";
    fs::write(folder.path().join("fine.toml"), fine).expect("written");
    let other = run_in(folder.path(), &["jobs", "preview", "b", "-f", "fine.toml"]);
    let said = text(&other.stderr);
    assert_eq!(code(&other), 2, "{said}");
    assert!(
        said.contains("has no job `b`") && said.contains("it has a"),
        "{said}"
    );
}

#[test]
fn a_file_of_jobs_may_be_named_without_an_option() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = "[jobs.a]\nschedule = \"0 3 * * *\"\n";
    fs::write(folder.path().join("other.toml"), file).expect("written");
    for verb in ["check", "apply"] {
        let output = run_in(folder.path(), &["jobs", verb, "other.toml"]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{said}");
        assert!(
            said.contains("other.toml line 2: jobs.a.schedule: a schedule is a table"),
            "{said}"
        );
        let both = run_in(folder.path(), &["jobs", verb, "-f", "a", "b"]);
        assert_eq!(code(&both), 2, "{both:?}");
    }
}

#[test]
fn a_job_without_steps_is_found_without_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = "[jobs.a]\nschedule.cron = \"@daily\"\nsteps = []\n";
    fs::write(folder.path().join("jobs.toml"), file).expect("written");
    for verb in ["check", "apply"] {
        let output = run_in(folder.path(), &["jobs", verb]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{said}");
        assert!(
            said.contains("line 3: jobs.a.steps: missing: add `steps = [{ statement"),
            "{said}"
        );
    }
}

#[test]
fn what_was_applied_before_a_job_failed_is_said() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let job = |name: &str, more: &str| {
        format!(
            "[jobs.{name}]\nschedule.cron = \"@daily\"\n\
             steps = [{{ statement = \"select 1\"{more} }}]\n"
        )
    };
    let elsewhere = job("c", ", target = \"nowhere\"");
    let jobs = job("a", "") + &job("b", "") + &elsewhere + &job("d", "");
    let file = folder.path().join("jobs.toml");
    fs::write(&file, jobs).expect("written");
    let file = file.display().to_string();
    let applied = server.run(&["jobs", "apply", "-f", &file]);
    let (printed, said) = (text(&applied.stdout), text(&applied.stderr));
    assert_ne!(code(&applied), 0, "{said}");
    assert_eq!(printed, "a: created\nb: created\n");
    assert!(
        said.contains("2 of 4 jobs are as in the file") && said.contains("cannot apply job c"),
        "{said}"
    );
    assert!(
        said.contains("jobs.c.steps[1].target")
            && said.contains(&format!(
                "change line 9 of {file} and `rallypoint jobs apply"
            )),
        "{said}"
    );
    let again = server.run(&["jobs", "apply", "-o", "json", "-f", &file]);
    let printed = text(&again.stdout);
    assert!(
        printed.contains("unchanged") && printed.lines().count() == 1,
        "{printed}"
    );
}

#[test]
fn the_log_of_a_job_shows_its_tasks_and_says_how_long_its_runs_may_take() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let jobs = "[jobs.a]\nschedule.cron = \"0 3 * * *\"\n\
                steps = [{ statement = \"select 'seen'\" }]\n\
                [jobs.new]\nschedule.cron = \"0 3 * * *\"\n\
                steps = [{ statement = \"select 1\" }]\n";
    let file = folder.path().join("jobs.toml");
    fs::write(&file, jobs).expect("written");
    let file = file.display().to_string();
    let run = |arguments: &[&str]| {
        let output = server.run(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {output:?}");
        (text(&output.stdout), text(&output.stderr))
    };
    run(&["jobs", "apply", "-f", &file]);
    let (_, ahead) = run(&["jobs", "backfill", "a", "--from", "2999-01-01"]);
    assert!(
        ahead.contains("nothing to do: the range is in the future"),
        "{ahead}"
    );
    let range = ["--from", "2026-01-01", "--until", "2026-01-26T00:00:00Z"];
    run(&[&["jobs", "backfill", "a"], &range[..]].concat());
    let succeeded = || {
        let (runs, _) = run(&["jobs", "runs", "a", "--limit", "100"]);
        runs.matches(" SUCCEEDED ").count()
    };
    let begun = Instant::now();
    while succeeded() < 25 {
        assert!(begun.elapsed() < WAIT_TIMEOUT, "{} runs", succeeded());
        sleep(Duration::from_millis(100));
    }
    let (found, noted) = run(&["jobs", "check", "--from-log", "--factor", "5", "-f", &file]);
    assert!(
        found.contains("line 1: a: 99 of 100 runs take up to 0.")
            && found.contains("(25 runs in the log)")
            && found.contains("`max_runtime = \"1s\"` would be 5 times that"),
        "{found}"
    );
    assert!(
        noted.contains("fewer than 20 runs in the log: new (0)"),
        "{noted}"
    );
    let (last, _) = run(&["jobs", "log", "a"]);
    assert!(
        last.starts_with("a 2026-01-25T03:00:00Z: SUCCEEDED") && last.contains("select 'seen'"),
        "{last}"
    );
    let (one, _) = run(&["jobs", "log", "a", "--due", "2026-01-02T03:00:00Z"]);
    assert!(
        one.starts_with("a 2026-01-02T03:00:00Z: SUCCEEDED"),
        "{one}"
    );
    let (none, noted) = run(&["jobs", "log", "new"]);
    assert!(none.is_empty(), "{none}");
    assert!(noted.contains("no run of new has begun yet"), "{noted}");
}

#[test]
fn a_job_is_shown_with_its_last_run_and_whether_it_is_paused() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let job = "[jobs.a]\nschedule.cron = \"@yearly\"\nsteps = [{ statement = \"select 1\" }]\n";
    fs::write(&file, job).expect("written");
    let run = |arguments: &[&str]| {
        let output = server.run(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {output:?}");
        text(&output.stdout)
    };
    run(&["jobs", "apply", &file.display().to_string()]);
    let shown = run(&["jobs", "get", "a"]);
    assert!(
        shown.contains("  last run     -") && shown.contains("  paused       no"),
        "{shown}"
    );
    run(&["jobs", "run", "a"]);
    wait_for("its end", || {
        run(&["jobs", "get", "a"]).contains("Z SUCCEEDED")
    });
    run(&["jobs", "pause", "a", "--reason", "too dear"]);
    let shown = run(&["jobs", "get", "a"]);
    assert!(
        shown.contains("  paused       20") && shown.contains("too dear"),
        "{shown}"
    );
}
