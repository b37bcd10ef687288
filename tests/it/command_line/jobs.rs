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

/// A file of jobs, and its name.
fn jobs_file(folder: &Path, jobs: &str) -> String {
    let file = folder.join("jobs.toml");
    fs::write(&file, jobs).expect("written");
    file.display().to_string()
}

fn daily(name: &str, more: &str) -> String {
    format!(
        "[jobs.{name}]\nschedule.cron = \"@daily\"\n\
         steps = [{{ statement = \"select 1\"{more} }}]\n"
    )
}

#[test]
fn what_is_refused_of_any_job_is_said_of_all_before_one_is_changed() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let elsewhere = ", target = \"nowhere\"";
    let jobs = daily("a", "") + &daily("b", elsewhere) + &daily("c", "") + &daily("d", elsewhere);
    let file = jobs_file(folder.path(), &jobs);
    for more in [&[][..], &["--dry-run"]] {
        let apply = [&["jobs", "apply", "-f", &file], more].concat();
        let applied = server.run(&apply);
        let said = text(&applied.stderr);
        let is_dry = !more.is_empty();
        let printed = ["", "a: would be created\nc: would be created\n"][usize::from(is_dry)];
        let expected = (1, printed.to_owned());
        assert_eq!((code(&applied), text(&applied.stdout)), expected);
        for part in [
            "cannot apply 2 of 4 jobs",
            "jobs.b.steps[1].target: no such target",
            "jobs.d.steps[1].target: no such target",
            "change lines 6, 12 of",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let unchanged = said.contains("all jobs are as they were");
        assert_eq!(unchanged, !is_dry, "{said}");
    }
    let fine = jobs_file(folder.path(), &daily("a", ""));
    let applied = server.run(&["jobs", "apply", "-f", &fine]);
    assert_eq!(text(&applied.stdout), "a: created\n");
    let one = jobs_file(folder.path(), &(daily("a", "") + &daily("b", elsewhere)));
    let said = text(&server.run(&["jobs", "apply", "-f", &one]).stderr);
    let next = format!("change line 6 of {one} and `rallypoint jobs apply");
    assert!(
        said.contains("cannot apply job b") && said.contains(&next),
        "{said}"
    );
}

#[test]
fn what_was_applied_before_a_job_failed_is_said() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let follows = |name: &str| daily(name, "").replace("cron = \"@daily\"", "after = \"a\"");
    let followers: String = (0..1_000)
        .map(|number| follows(&format!("f{number}")))
        .collect();
    let before = daily("a", "") + &followers + &daily("c", "");
    let file = jobs_file(folder.path(), &before);
    server.run(&["jobs", "apply", "-f", &file]);
    // No more than a thousand follow one.
    let after = daily("a", ", name = \"one\"") + &follows("b") + &daily("c", ", name = \"one\"");
    let file = jobs_file(folder.path(), &after);
    let applied = server.run(&["jobs", "apply", "-f", &file]);
    let (printed, said) = (text(&applied.stdout), text(&applied.stderr));
    assert_eq!(code(&applied), 1, "{said}");
    assert!(printed.starts_with("a: changed\n"), "{printed}");
    assert!(
        said.contains("1 of 3 jobs are as in the file") && said.contains("cannot apply job b"),
        "{said}"
    );
    let again = server.run(&["jobs", "apply", "-o", "json", "-f", &file]);
    let (printed, said) = (text(&again.stdout), text(&again.stderr));
    assert!(
        printed.contains("unchanged") && printed.lines().count() == 1,
        "{printed}"
    );
    assert!(said.contains("\"effect\":\"none\""), "{said}");
    let after = after.replace("\"one\"", "\"two\"");
    let file = jobs_file(folder.path(), &after);
    let changed = server.run(&["jobs", "apply", "-o", "json", "-f", &file]);
    let said = text(&changed.stderr);
    assert!(said.contains("\"effect\":\"unknown\""), "{said}");
}

#[test]
fn a_job_whose_runs_somebody_else_would_do_is_refused_before_one_is_changed() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = jobs_file(folder.path(), &(daily("a", "") + &daily("b", "")));
    server.run(&["jobs", "apply", "-f", &file]);
    let claimed = "[jobs.b]\nschedule.cron = \"@daily\"\nclaimed = true\n";
    let file = jobs_file(folder.path(), &(daily("a", ", name = \"one\"") + claimed));
    let again = format!("another name in the file) and `rallypoint jobs apply -f {file}` again");
    for more in [&["--dry-run"][..], &[]] {
        let applied = server.run(&[&["jobs", "apply", "-f", &file], more].concat());
        let said = text(&applied.stderr);
        assert_eq!(code(&applied), 1, "{said}");
        for part in [
            "jobs.b.claimed: who does the runs of a job cannot be changed (JOB_INVALID)",
            "next: `rallypoint jobs delete b` (or",
            &again,
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    let shown = text(&server.run(&["jobs", "get", "a", "-o", "json"]).stdout);
    assert!(!shown.contains("\"one\""), "{shown}");
    // Where programs finish their runs is a setting like others.
    let claimed = claimed.replace("jobs.b", "jobs.c");
    for (more, done) in [
        ("", "c: created\n"),
        ("finish_target = \"app\"\n", "c: changed\n"),
    ] {
        let file = jobs_file(folder.path(), &format!("{claimed}{more}"));
        let applied = server.run(&["jobs", "apply", "-f", &file]);
        let printed = text(&applied.stdout);
        assert!(printed.starts_with(done), "{printed} {applied:?}");
    }
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
        runs.matches(" succeeded ").count()
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
        last.starts_with("a 2026-01-25T03:00:00Z: succeeded") && last.contains("select 'seen'"),
        "{last}"
    );
    let (one, _) = run(&["jobs", "log", "a", "2026-01-02T03:00:00Z"]);
    assert!(
        one.starts_with("a 2026-01-02T03:00:00Z: succeeded"),
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
        run(&["jobs", "get", "a"]).contains("Z succeeded")
    });
    run(&["jobs", "pause", "a", "--reason", "too dear"]);
    let shown = run(&["jobs", "get", "a"]);
    assert!(
        shown.contains("  paused       20") && shown.contains("too dear"),
        "{shown}"
    );
}

#[test]
fn a_job_that_is_not_there_and_a_run_that_is_in_the_way_are_answered_by_what_to_do() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let job = "[jobs.nightly]\nschedule.cron = \"@yearly\"\nrerun = { max = 3, delay = \"1h\" }\n\
               steps = [{ statement = \"select 1/0\" }]\n";
    let file = jobs_file(folder.path(), job);
    assert_eq!(code(&server.run(&["jobs", "apply", &file])), 0);
    let refused = |arguments: &[&str]| {
        let output = server.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 1, "{arguments:?}: {said}");
        said
    };
    let unknown = refused(&["jobs", "get", "nihgtly"]);
    assert!(unknown.contains("did you mean `nightly`?"), "{unknown}");
    server.run(&["jobs", "run", "nightly"]);
    wait_for("its next attempt is to come", || {
        text(&server.run(&["jobs", "runs", "nightly"]).stdout).contains("retrying")
    });
    server.run(&["jobs", "pause", "nightly"]);
    let runs = server.run(&["jobs", "runs", "nightly", "--json"]);
    let runs: serde_json::Value = serde_json::from_slice(&runs.stdout).expect("JSON");
    let due = runs["runs"][0]["due"].as_str().expect("a due time");
    // JSON has more digits than people are shown.
    let due = &format!("{:.6}", due.parse::<jiff::Timestamp>().expect("a time"));
    let held = refused(&["jobs", "run", "nightly"]);
    let cancel = format!("`rallypoint jobs cancel-run nightly {due}`");
    assert!(held.contains(&cancel), "{held}");
    server.run(&["jobs", "stop-agent"]);
    let stopped = refused(&["jobs", "run", "nightly"]);
    assert!(
        stopped.contains("`jobs start-agent`") && !stopped.contains("cancel-run"),
        "{stopped}"
    );
    server.run(&["jobs", "start-agent"]);
    assert_eq!(
        code(&server.run(&["jobs", "cancel-run", "nightly", due])),
        0
    );
    assert_eq!(code(&server.run(&["jobs", "run", "nightly"])), 0);
    let deleted = text(&server.run(&["jobs", "delete", "nightly"]).stderr);
    assert!(!deleted.contains("goes on"), "{deleted}");
    let again = refused(&["jobs", "delete", "nightly"]);
    assert!(
        again.contains("JOB_NOT_FOUND") && again.contains("if it was deleted before, nothing is"),
        "{again}"
    );
    let slow = job.replace("select 1/0", "select pg_sleep(600)");
    let file = jobs_file(folder.path(), &slow);
    assert_eq!(code(&server.run(&["jobs", "apply", &file])), 0);
    server.run(&["jobs", "run", "nightly"]);
    let deleted = text(&server.run(&["jobs", "delete", "nightly"]).stderr);
    assert!(
        deleted.contains("goes on: `rallypoint jobs cancel-run nightly "),
        "{deleted}"
    );
}

#[test]
fn the_next_due_time_is_the_same_in_the_list_and_in_the_status() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let job = daily("a", "").replace("steps", "schedule.jitter = \"1h\"\nsteps");
    let file = jobs_file(folder.path(), &job);
    assert_eq!(code(&server.run(&["jobs", "apply", &file])), 0);
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&server.run(arguments).stdout).expect("JSON")
    };
    let listed = json(&["jobs", "list", "--json"])["jobs"][0]["next_due"].clone();
    assert!(listed.is_string());
    assert_eq!(json(&["status", "--json"])["jobs"]["next_due"], listed);
}
