//! Who submitted a task and what it is to do is shown wherever tasks are listed, and a task that
//! runs looks like one.

use crate::{
    bad_input::{Answer, answer},
    harness::{
        conversation::Conversation,
        postgres::connect,
        server::{Server, Setup},
        work::{failing, noop, sql},
    },
};
use rallypoint_client::api::{
    self, ExecutionState, ListExecutionsRequest, ListTasksRequest, SchedulerSettings, TaskView,
    status_service_client::StatusServiceClient,
};
use sqlx::Executor;
use tonic::Code;

/// The scheduler as somebody else uses it.
fn used_by(server: &Server, scheduler: &Conversation, caller: &str) -> Conversation {
    let client = server.client.clone().with_caller(caller).expect("a caller");
    Conversation {
        scheduler: client.scheduler(scheduler.handle()),
        ..scheduler.clone()
    }
}

async fn listed(scheduler: &Conversation) -> Vec<TaskView> {
    let mut tasks = scheduler
        .scheduler
        .tasks(ListTasksRequest::default())
        .await
        .expect("a list")
        .tasks;
    tasks.reverse();
    tasks
}

fn whose(tasks: &[TaskView]) -> Vec<(Option<&str>, &str)> {
    let tasks = tasks.iter();
    tasks
        .map(|task| (task.submitted_by.as_deref(), &*task.statement_preview))
        .collect()
}

#[tokio::test]
async fn a_task_shows_who_submitted_it_wherever_it_is_listed() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let long = format!("select '{}'", "ü".repeat(300));
    used_by(&server, &scheduler, "etl")
        .submit([failing(), sql(&long), noop()])
        .await;
    scheduler.all_done().await;
    let retry = used_by(&server, &scheduler, "night shift");
    retry.scheduler.retry(1).await.expect("retried");
    scheduler.all_done().await;
    let beginning = format!("{}…", long.chars().take(200).collect::<String>());
    let expected = [
        (Some("etl"), "select 1/0"),
        (Some("etl"), &*beginning),
        (Some("etl"), ""),
        (Some("night shift"), "select 1/0"),
    ];
    assert_eq!(whose(&listed(&scheduler).await), expected);
    for (seq, (caller, _)) in (1..).zip(expected) {
        let task = scheduler.task(seq).await;
        assert_eq!(task.submitted_by.as_deref(), caller);
        assert_eq!(task.statement_preview, "", "it has the whole statement");
    }
    let log = "select string_agg(concat_ws('|', seq, state, submitted_by, length(statement)), ' ' order by seq)
        from rallypoint_log.execution_log";
    let mut psql = connect(&server.journal).await;
    let log: String = sqlx::query_scalar(log)
        .fetch_one(&mut psql)
        .await
        .expect("the log");
    assert_eq!(
        log,
        "1|done|etl|10 2|done|etl|200 3|done|etl 4|done|night shift|10"
    );
    // As a version of before leaves it.
    let older = "update submission set caller = null";
    psql.execute(older).await.expect("updated");
    let tasks = listed(&scheduler).await;
    assert!(tasks.iter().all(|task| task.submitted_by.is_none()));
}

#[tokio::test]
async fn a_task_is_explained_with_its_statement_and_how_it_ended() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let etl = used_by(&server, &scheduler, "etl");
    let gate = server.gate().await;
    etl.submit([gate.task().order(1), failing().order(2)]).await;
    scheduler.until(|now| now.running == 1).await;
    let explained = |seq| {
        let scheduler = &scheduler.scheduler;
        async move { scheduler.explain(seq).await.expect("explained") }
    };
    let waits = explained(2).await;
    assert_eq!(waits.submitted_by.as_deref(), Some("etl"));
    assert_eq!(
        (&*waits.statement_preview, waits.done),
        ("select 1/0", None)
    );
    gate.open().await;
    scheduler.all_done().await;
    let failed = explained(2).await;
    assert!(
        failed.text.starts_with("it failed, in attempt 1, ")
            && failed
                .text
                .ends_with(" on replica test: 22012 division by zero"),
        "{}",
        failed.text
    );
    let done = failed.done.expect("its event");
    assert_eq!((done.seq, done.outcome()), (2, api::Outcome::Failed));
    let succeeded = explained(1).await;
    assert!(
        succeeded.text.starts_with("it succeeded, in attempt 1, "),
        "{}",
        succeeded.text
    );
}

#[tokio::test]
async fn slots_come_in_pages() {
    let server = Server::with(Setup {
        slots: 3,
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    scheduler.submit([gate.task()]).await;
    gate.reached_by(1).await;
    let mut client = StatusServiceClient::new(server.client.channel());
    let mut request = ListExecutionsRequest {
        page_size: 1,
        ..Default::default()
    };
    let mut slots = Vec::new();
    loop {
        let page = client.list_executions(request.clone()).await;
        let page = page.expect("a page").into_inner();
        assert!(page.executions.len() == 1 && page.unreachable.is_empty());
        slots.extend(page.executions);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    let all = server.client.executions().await.expect("all").executions;
    let timeless = |slots: Vec<api::Execution>| -> Vec<api::Execution> {
        let slots = slots.into_iter();
        slots
            .map(|slot| api::Execution {
                elapsed: None,
                ..slot
            })
            .collect()
    };
    let slots = timeless(slots);
    assert_eq!(slots, timeless(all));
    let numbers: Vec<i32> = slots.iter().map(|slot| slot.slot).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let states = slots.iter().map(|slot| slot.state());
    assert_eq!(
        states
            .filter(|state| *state == ExecutionState::Running)
            .count(),
        1
    );
    gate.open().await;
    scheduler.all_done().await;
}

fn page(page_size: i32, page_token: &str) -> ListExecutionsRequest {
    ListExecutionsRequest {
        page_size,
        page_token: page_token.into(),
    }
}

#[tokio::test]
async fn pages_of_slots_that_make_no_sense_are_refused() {
    let server = Server::start().await;
    let mut client = StatusServiceClient::new(server.client.channel());
    for (wrong, reason, field) in [
        (page(1_001, ""), "PAGE_SIZE_OUT_OF_RANGE", "page_size"),
        (page(-1, ""), "PAGE_SIZE_OUT_OF_RANGE", "page_size"),
        (page(1, "x"), "PAGE_TOKEN_INVALID", "page_token"),
    ] {
        let expected = Answer {
            code: Code::InvalidArgument,
            reason: reason.into(),
            fields: vec![field.into()],
        };
        assert_eq!(answer(client.list_executions(wrong).await), expected);
    }
}
