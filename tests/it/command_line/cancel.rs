//! `cancel` by conditions: a count, then what it says, and what makes no sense.

use super::{code, lines, text};
use crate::harness::{
    process::PROGRAM,
    standalone::Standalone,
    work::{noop, sleep},
};
use nix::pty::openpty;
use rallypoint_client::{Client, Scheduler, api};
use std::{
    fs::File,
    io::Write,
    process::{Command, Output, Stdio},
};

async fn waiting(server: &Standalone) -> Scheduler {
    let client = Client::connect_lazy(&server.url).expect("a URL");
    let settings = api::SchedulerSettings::default();
    let scheduler = client.open(settings).await.expect("opened");
    let red = || noop().order(2).label("team", "red");
    let works = [sleep(600_000).order(1), red(), red(), noop().order(2)];
    let tasks = works.map(api::Task::from).into();
    scheduler.exec(tasks).await.expect("accepted");
    while scheduler.describe().await.expect("described").running == 0 {
        tokio::task::yield_now().await;
    }
    scheduler
}

#[tokio::test]
async fn a_count_comes_before_tasks_are_cancelled_by_conditions() {
    let server = Standalone::start();
    let scheduler = waiting(&server).await;
    let handle = scheduler.handle();
    let red = ["cancel", handle, "--order", "2", "--label", "team=red"];
    let count = server.run(&[&red[..], &["--dry-run"]].concat());
    let said = "tasks to cancel: 2 that wait, 0 that run\n";
    assert_eq!(text(&count.stdout), said, "{}", text(&count.stderr));
    let cancelled = server.run(&[&red[..], &["--json"]].concat());
    let answer = &lines(&cancelled)[0];
    let counts = (&answer["waiting"], &answer["running"], &answer["last_seq"]);
    assert_eq!(counts, (&2.into(), &0.into(), &4.into()));
    let waiting = server.run(&["cancel", handle, "--state", "waiting", "--since", "1h"]);
    let said = "tasks cancelled: 1 that waited, 0 that run and are being stopped\n";
    assert_eq!(text(&waiting.stdout), said);
    let all = server.run(&["cancel", handle, "--all", "--yes"]);
    let said = "tasks cancelled: 0 that waited, 1 that run and are being stopped\n";
    assert_eq!(text(&all.stdout), said);
    let mut events = scheduler.synchronize(0, None).await.expect("a stream");
    while events.next().await.expect("it goes on").is_some() {}
    let tasks = text(&server.run(&["tasks", handle]).stdout);
    assert_eq!(tasks.matches("CANCELLED").count(), 4, "{tasks}");
}

#[tokio::test]
async fn a_cancel_that_does_not_say_which_tasks_is_refused() {
    let server = Standalone::start();
    let scheduler = waiting(&server).await;
    let handle = scheduler.handle();
    for wrong in [
        &["cancel", handle][..],
        &["cancel", handle, "--dry-run"],
        &["cancel", handle, "2", "--order", "2"],
        &["cancel", handle, "2", "--dry-run"],
        &["cancel", handle, "--outcome", "failed"],
    ] {
        let refused = server.run(wrong);
        assert_eq!(code(&refused), 2, "{wrong:?}: {}", text(&refused.stderr));
    }
    let dry = text(&server.run(&["cancel", handle, "2", "--dry-run"]).stderr);
    assert!(dry.contains("leave out --dry-run"), "{dry}");
    let ended = server.run(&["cancel", handle, "--state", "done"]);
    assert_eq!(code(&ended), 1);
    assert!(text(&ended.stderr).contains("FILTER_INVALID"));
    assert_eq!(scheduler.describe().await.expect("described").done, 0);
}

/// What the program does on a terminal where a person types this.
fn on_terminal(server: &Standalone, arguments: &[&str], typed: &str) -> Output {
    let terminal = openpty(None, None).expect("a terminal");
    let ours = &mut File::from(terminal.master);
    ours.write_all(typed.as_bytes()).expect("typed");
    let theirs = terminal.slave.try_clone().expect("its other end");
    Command::new(PROGRAM)
        .args(["--server", &server.url])
        .args(arguments)
        .stdin(Stdio::from(theirs))
        .stderr(Stdio::from(terminal.slave))
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output())
        .expect("the program runs")
}

#[tokio::test]
async fn on_a_terminal_what_was_counted_is_what_is_cancelled() {
    let server = Standalone::start();
    let scheduler = waiting(&server).await;
    let handle = scheduler.handle();
    let none = ["cancel", handle, "--label", "team=blue"];
    let ended = on_terminal(&server, &none, "");
    assert_eq!(
        (code(&ended), text(&ended.stdout).as_str()),
        (0, "nothing to cancel\n")
    );
    // After a count of none nothing follows: it would meet what came since.
    let begins = "tasks are being cancelled by a filter";
    assert!(!server.log().contains(begins));
    let red = ["cancel", handle, "--label", "team=red"];
    assert_eq!(code(&on_terminal(&server, &red, "n\n")), 1);
    assert_eq!(scheduler.describe().await.expect("described").done, 0);
    let ended = on_terminal(&server, &red, "y\n");
    let said = "tasks cancelled: 2 that waited, 0 that run and are being stopped\n";
    assert_eq!(text(&ended.stdout), said);
    assert!(server.log().contains(begins));
}
