//! `retry`: which task was retried as which, for people and for scripts.

use super::{code, lines, text};
use crate::harness::{
    conversation::WAIT_TIMEOUT,
    standalone::Standalone,
    terminal::wait_for,
    work::{failing, noop, sql},
};
use rallypoint_client::{Client, Scheduler, api};
use std::time::Instant;

async fn three_failed(server: &Standalone) -> Scheduler {
    let client = Client::connect_lazy(&server.url).expect("a URL");
    let settings = api::SchedulerSettings::default();
    let scheduler = client.open(settings).await.expect("opened");
    let works = [failing().order(1), failing().order(2), failing(), noop()];
    let tasks = works.map(api::Task::from).into();
    scheduler.exec(tasks).await.expect("accepted");
    all_ended(&scheduler).await;
    scheduler
}

async fn all_ended(scheduler: &Scheduler) {
    let mut events = scheduler.synchronize(0, None).await.expect("a stream");
    while events.next().await.expect("it goes on").is_some() {}
}

#[tokio::test]
async fn retry_names_each_task_with_its_retry() {
    let server = Standalone::start();
    let scheduler = three_failed(&server).await;
    let handle = scheduler.handle();
    let output = server.run(&["retry", handle, "3", "-o", "json"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let answer = &lines(&output)[0];
    assert_eq!(
        (&answer["seq"], &answer["already_retried"]),
        (&5.into(), &false.into())
    );
    all_ended(&scheduler).await;
    let again = server.run(&["retry", handle, "3"]);
    assert_eq!(text(&again.stdout), "task 3 was retried before as task 5\n");
    // Which has failed as well: a retry of it is what is wanted.
    assert_eq!(code(&again), 1);
    let next = format!("rallypoint retry {handle} 5");
    assert!(
        text(&again.stderr).contains(&next),
        "{}",
        text(&again.stderr)
    );
    let of_order = server.run(&["retry", handle, "--failed", "--order", "2", "-o", "json"]);
    let answer = &lines(&of_order)[0];
    assert_eq!(
        (&answer["retried"], &answer["first_seq"]),
        (&[2].into(), &6.into())
    );
    all_ended(&scheduler).await;
    let rest = server.run(&["retry", handle, "--failed", "--code", "22012"]);
    let shown = "task 1 was retried as task 7\n\
                 task 5 was retried as task 8\n\
                 task 6 was retried as task 9\n";
    assert_eq!(text(&rest.stdout), shown);
    assert!(text(&rest.stderr).contains("3 tasks retried"));
    let tasks = text(&server.run(&["tasks", handle]).stdout);
    assert!(tasks.contains("retry of 3; retried as 8"), "{tasks}");
}

#[tokio::test]
async fn what_cannot_be_retried_exits_1_and_a_wrong_command_line_2() {
    let server = Standalone::start();
    let scheduler = three_failed(&server).await;
    let handle = scheduler.handle();
    let succeeded = server.run(&["retry", handle, "4"]);
    assert_eq!(code(&succeeded), 1);
    assert!(text(&succeeded.stderr).contains("TASK_SUCCEEDED"));
    let succeeded = server.run(&["retry", handle, "--failed", "--outcome", "succeeded"]);
    assert_eq!(code(&succeeded), 1);
    assert!(text(&succeeded.stderr).contains("FILTER_INVALID"));
    for wrong in [
        &["retry", handle][..],
        &["retry", handle, "1", "--failed"],
        &["retry", handle, "1", "--order", "2"],
        &["retry", handle, "--failed", "--label", "team"],
    ] {
        let refused = server.run(wrong);
        assert_eq!(code(&refused), 2, "{wrong:?}: {}", text(&refused.stderr));
    }
}

#[tokio::test]
async fn what_was_done_before_an_error_is_said() {
    let server = Standalone::start();
    let scheduler = three_failed(&server).await;
    let handle = scheduler.handle();
    // Nothing is done where one of several cannot be retried, whatever number the others' retries
    // would have.
    let refused = server.run(&["--json", "retry", handle, "3", "5"]);
    assert_eq!((code(&refused), lines(&refused).len()), (1, 0));
    let error = text(&refused.stderr);
    let error: serde_json::Value = serde_json::from_str(error.trim()).expect("an object");
    assert_eq!(error["reason"], "TASK_NOT_FOUND");
    let next = error["next"].as_str().expect("advice");
    assert!(
        next.contains(&format!("`rallypoint tasks {handle}`")),
        "{next}"
    );
    assert_eq!(error["effect"], "none", "{error}");
    let succeeded = text(&server.run(&["retry", handle, "3", "4"]).stderr);
    assert!(
        succeeded.contains("/4\n") && succeeded.contains("it has succeeded"),
        "{succeeded}"
    );
    assert_eq!(code(&server.run(&["retry", handle, "3"])), 0);
    all_ended(&scheduler).await;
    // Repeated, the command would stop at the same task, whose retry has failed.
    let stopped = text(&server.run(&["retry", handle, "1", "3", "2"]).stderr);
    let next = format!("retry the others: `rallypoint retry {handle} 2`");
    assert!(
        stopped.contains("1 task was retried before") && stopped.contains(&next),
        "{stopped}"
    );
    // Where none can be retried, the others cannot.
    assert_eq!(code(&server.run(&["release", handle])), 0);
    let released = text(&server.run(&["retry", handle, "2", "1"]).stderr);
    assert!(
        released.contains("HANDLE_RELEASED") && !released.contains("retry the others"),
        "{released}"
    );
}

#[tokio::test]
async fn another_statement_is_not_dropped_in_silence_and_may_have_parameters() {
    let server = Standalone::start();
    let client = Client::connect_lazy(&server.url).expect("a URL");
    let scheduler = client.open(api::SchedulerSettings::default()).await;
    let scheduler = scheduler.expect("opened");
    let handle = scheduler.handle();
    let wrong = || sql("select 1 / $1::int").params(&["0"]).rows(1);
    let tasks = [wrong(), wrong(), wrong()].map(api::Task::from);
    scheduler.exec(tasks.into()).await.expect("accepted");
    all_ended(&scheduler).await;
    assert_eq!(code(&server.run(&["retry", handle, "1"])), 0);
    all_ended(&scheduler).await;
    let statement = ["--statement", "select 5 / nullif($1::int, 0) as a"];
    let right = |rest: &[&str]| server.run(&[&["retry", handle], rest, &statement].concat());
    let refused = right(&["1"]);
    let why = text(&refused.stderr);
    assert_eq!(code(&refused), 1, "{why}");
    let next = format!("next: retry that one: `rallypoint retry {handle} 4 --statement SQL`");
    assert!(
        why.contains("ALREADY_RETRIED") && why.contains(&next),
        "{why}"
    );
    // The parameters of the task, unless there are others.
    for (seq, more, shown) in [
        ("4", &[][..], "{\"a\":null}"),
        ("2", &["--param", "5"], "{\"a\":1}"),
    ] {
        let retried = right(&[&[seq], more].concat());
        assert_eq!(code(&retried), 0, "{}", text(&retried.stderr));
        let again = right(&[&[seq], more].concat());
        assert_eq!(code(&again), 0, "{}", text(&again.stderr));
        assert!(text(&again.stdout).contains("retried before"));
        all_ended(&scheduler).await;
        let copy = scheduler.task(seq.parse().expect("a number")).await;
        let copy = copy.expect("a task").retried_as.expect("a retry");
        let copy = scheduler.task(copy).await.expect("a task");
        let rows = copy.done.and_then(|done| done.result).expect("rows");
        assert_eq!(rows.rows_json, format!("[{shown}]"));
    }
    let away = server.run(&["retry", handle, "3", "--target", "nowhere"]);
    assert_eq!(code(&away), 2);
    let away = right(&["3", "--target", "nowhere"]);
    assert!(text(&away.stderr).contains("TARGET_UNKNOWN"));
    let plain = [
        "retry",
        handle,
        "3",
        "--no-params",
        "--statement",
        "select 3",
    ];
    assert_eq!(code(&server.run(&plain)), 0);
    all_ended(&scheduler).await;
    let tasks = text(&server.run(&["tasks", handle, "--state", "done"]).stdout);
    assert!(
        tasks.contains("select 3") && tasks.contains("retry of 3"),
        "{tasks}"
    );
    assert_eq!(tasks.matches("failed").count(), 4, "{tasks}");
}

#[test]
fn a_run_of_a_job_is_run_again_rather_than_retried() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    let job = "[jobs.nightly]\nschedule.cron = \"0 3 1 1 *\"\nmax_runtime = \"2m\"\n\
               steps = [{ order = 200, statement = \"select 1/0\" }]\n";
    std::fs::write(&file, job).expect("written");
    let file = file.display().to_string();
    let said = |arguments: &[&str]| text(&server.run(arguments).stdout);
    said(&["jobs", "apply", "-f", &file]);
    let shown = said(&["jobs", "get", "nightly"]);
    for line in [
        "  overlap      SKIP",
        "  misfire      RUN_ONCE",
        "  max runtime  2m",
        "   1    200  app     select 1/0",
    ] {
        assert!(shown.contains(line), "no `{line}` in\n{shown}");
    }
    said(&["jobs", "run", "nightly"]);
    let begun = Instant::now();
    let mut runs = String::new();
    while !runs.contains("  failed ") {
        assert!(begun.elapsed() < WAIT_TIMEOUT, "{runs}");
        runs = said(&["jobs", "runs", "nightly"]);
    }
    let handle = runs.split_whitespace().last().expect("a handle");
    for retry in [&["retry", handle, "--failed"][..], &["retry", handle, "1"]] {
        let output = server.run(retry);
        assert_eq!(code(&output), 1, "{output:?}");
        let next = "`rallypoint jobs run nightly` runs the job again";
        assert!(text(&output.stderr).contains(next), "{output:?}");
    }
    let named = server.run(&["retry", handle, "east"]);
    let next = format!("give its number, which `rallypoint tasks {handle}` shows");
    assert!(text(&named.stderr).contains(&next), "{named:?}");
}

#[test]
fn a_retry_with_too_many_values_is_answered_by_the_options_of_retry() {
    let server = Standalone::start();
    let failed = server.run(&["exec", "--name", "n", "--param", "0", "select 1 / $1::int"]);
    assert_eq!(code(&failed), 3, "{}", text(&failed.stderr));
    let retried = server.run(&["retry", "n", "1", "--statement", "select 3"]);
    assert_eq!(code(&retried), 0, "{}", text(&retried.stderr));
    for verb in ["wait", "tasks"] {
        let said = text(&server.run(&[verb, "n"]).stdout);
        assert!(said.contains("PARAMS_INVALID"), "{verb}: {said}");
        assert!(said.contains("--no-params none"), "{verb}: {said}");
    }
}

#[test]
fn a_retry_of_what_has_not_ended_says_where_that_stands() {
    let server = Standalone::start();
    let failed = server.run(&["exec", "--name", "n", "select 1/0"]);
    assert_eq!(code(&failed), 3, "{}", text(&failed.stderr));
    let retried = server.run(&["retry", "n", "1", "--statement", "select pg_sleep(600)"]);
    assert_eq!(code(&retried), 0, "{}", text(&retried.stderr));
    wait_for("its start", || {
        text(&server.run(&["tasks", "n"]).stdout).contains("running")
    });
    let refused = |arguments: &[&str]| {
        let output = server.run(&[&["retry", "n"], arguments].concat());
        assert_eq!(code(&output), 1, "{arguments:?}");
        text(&output.stderr)
    };
    let itself = refused(&["2"]);
    assert!(itself.contains("state of task 2: running"), "{itself}");
    assert!(itself.contains("`rallypoint cancel n 2`"), "{itself}");
    let other = refused(&["1", "--statement", "select 2"]);
    assert!(other.contains("state of task 2: running"), "{other}");
    assert!(other.contains("`rallypoint wait n`"), "{other}");
}

#[test]
fn a_retry_of_what_a_halt_blocks_is_answered_by_what_halts_it() {
    let server = Standalone::start();
    let night = ["--name", "night", "--on-failure", "halt", "--order"];
    server.run(&[&["exec"][..], &night, &["1", "select 1/0"]].concat());
    server.run(&[&["exec", "--detach"][..], &night, &["2", "select 2"]].concat());
    let said = text(&server.run(&["retry", "night", "2"]).stderr);
    for next in [
        "it has not run yet: `rallypoint explain night 2`",
        "`rallypoint retry night --failed`",
    ] {
        assert!(said.contains(next), "{said}");
    }
    let unknown = ["retry", "night", "--failed", "--code", "division_by_zero"];
    let said = text(&server.run(&unknown).stderr);
    assert!(said.contains("five characters like 22012"), "{said}");
}
