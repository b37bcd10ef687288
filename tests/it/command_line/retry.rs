//! `retry`: which task was retried as which, for people and for scripts.

use super::{code, lines, text};
use crate::harness::{
    standalone::Standalone,
    work::{failing, noop},
};
use rallypoint_client::{Client, Scheduler, api};

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
