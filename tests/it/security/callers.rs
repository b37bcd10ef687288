//! What callers do once they are known: in their own namespaces, under their own names.

use super::{Grant, Secured, token};
use crate::harness::{conversation::WAIT_TIMEOUT, process::PROGRAM};
use rallypoint_client::{
    Client,
    api::{self, scheduler_service_client::SchedulerServiceClient},
};
use std::process::Command;
use tokio::time::timeout;
use tonic::{Code, Request};

const GRANTS: &[Grant] = &[
    Grant {
        name: "etl",
        namespaces: &["etl"],
        role: "submitter",
    },
    Grant {
        name: "both",
        namespaces: &["etl", "sales"],
        role: "submitter",
    },
    Grant {
        name: "sales",
        namespaces: &["sales"],
        role: "submitter",
    },
    Grant {
        name: "all",
        namespaces: &["*"],
        role: "reader",
    },
    Grant {
        name: "root",
        namespaces: &["*"],
        role: "operator",
    },
];

/// What the command line says to a caller, on both streams.
fn said(server: &Secured, name: &str, verb: &[&str]) -> String {
    let output = Command::new(PROGRAM)
        .args(["--server", &server.server.url()])
        .args(verb)
        .env("RALLYPOINT_AUTH_TOKEN", token(name))
        .output()
        .expect("the program runs");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_reads_who_it_is_and_where() {
    let server = Secured::start(GRANTS, "", None);
    let nothing = |name: &str, more: &[&str]| said(&server, name, &[&["list"], more].concat());
    let here = "no schedulers in namespace default (--namespace NAME)\n";
    assert_eq!(nothing("all", &[]), here);
    assert_eq!(nothing("all", &["--namespace", "etl"]), "no schedulers\n");
    assert_eq!(nothing("etl", &[]), "no schedulers\n");
    let refused = nothing("etl", &["--namespace", "hr"]);
    let expected = "`token:etl` has no role in namespace hr (NAMESPACE_NOT_ALLOWED)";
    assert!(refused.contains(expected), "{refused}");
    let pause = ["pause-target", "app", "--reason", "a test"];
    let refused = said(&server, "etl", &pause);
    let expected = "[[access]] with namespaces = [\"*\"]";
    assert!(refused.contains(expected), "{refused}");
}

fn sql() -> api::Task {
    let sql = api::SqlTask {
        statement: "select 1".into(),
        ..Default::default()
    };
    api::Task {
        kind: Some(api::task::Kind::Sql(sql)),
        ..Default::default()
    }
}

async fn open(client: &Client) -> rallypoint_client::Result<rallypoint_client::Scheduler> {
    client.open(api::SchedulerSettings::default()).await
}

#[tokio::test]
async fn a_caller_works_in_its_namespace_under_its_own_name() {
    let server = Secured::start(GRANTS, "", None);
    let etl = server
        .client("etl")
        .with_caller("somebody-else")
        .expect("a name");
    let scheduler = open(&etl).await.expect("opened");
    let submitted = scheduler.exec(vec![sql()]).await.expect("submitted");
    scheduler
        .release(api::ReleaseMode::Finish, true)
        .await
        .expect("it ran");
    let view = scheduler.task(submitted.first_seq).await.expect("a task");
    assert_eq!(view.submitted_by.as_deref(), Some("token:etl"));
}

/// Who paused the target of the first task, as its explanation says it, in numbers and in words.
async fn pause_of(scheduler: &rallypoint_client::Scheduler) -> (api::TargetPause, String) {
    let explained = scheduler.explain(1).await.expect("explained");
    let kinds = explained.blockers.into_iter().filter_map(|one| one.kind);
    let mut pauses = kinds.filter_map(|kind| match kind {
        api::blocker::Kind::TargetPaused(pause) => Some(pause),
        _ => None,
    });
    (pauses.next().expect("it is paused"), explained.text)
}

#[tokio::test]
async fn what_operators_say_is_explained_to_who_sees_all_namespaces() {
    let server = Secured::start(GRANTS, "", None);
    let request = api::PauseTargetRequest {
        scope: Some(api::pause_target_request::Scope::Target("app".into())),
        reason: "Ann moves the disk".into(),
        ..Default::default()
    };
    let paused = server.client("root").pause_target(request).await;
    paused.expect("paused");
    let scheduler = open(&server.client("etl")).await.expect("opened");
    scheduler.exec(vec![sql()]).await.expect("submitted");
    let (pause, text) = pause_of(&scheduler).await;
    assert_eq!((&*pause.paused_by, &*pause.reason), ("", ""));
    assert!(pause.since.is_some());
    assert!(text.contains("target app is paused since"), "{text}");
    assert!(!text.contains("root") && !text.contains("Ann"), "{text}");
    let all = server.client("all").with_namespace("etl").expect("a name");
    let (pause, text) = pause_of(&all.scheduler(scheduler.handle())).await;
    assert_eq!(pause.paused_by, "token:root");
    let said = "by token:root (Ann moves the disk)";
    assert!(text.contains(said), "{text}");
}

#[tokio::test]
async fn what_is_of_another_namespace_cannot_be_told_from_what_is_not_there() {
    let server = Secured::start(GRANTS, "", None);
    let theirs = open(&server.client("etl")).await.expect("opened");
    let (sales, nobody) = (
        server.client("sales"),
        "01890000-0000-7000-8000-000000000000",
    );
    let mut answers = Vec::new();
    for handle in [theirs.handle(), nobody] {
        let scheduler = sales.scheduler(handle);
        let mut said = Vec::new();
        said.push(
            scheduler
                .describe()
                .await
                .map(drop)
                .expect_err("hidden")
                .to_string(),
        );
        said.push(
            scheduler
                .exec(vec![sql()])
                .await
                .map(drop)
                .expect_err("hidden")
                .to_string(),
        );
        said.push(
            scheduler
                .pause()
                .await
                .map(drop)
                .expect_err("hidden")
                .to_string(),
        );
        said.push(
            scheduler
                .task(1)
                .await
                .map(drop)
                .expect_err("hidden")
                .to_string(),
        );
        answers.push(said);
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn a_target_is_there_for_the_namespaces_that_may_use_it() {
    let server = Secured::start(GRANTS, "", None);
    let sales = open(&server.client("sales")).await.expect("opened");
    let refused = sales
        .exec(vec![sql()])
        .await
        .map(drop)
        .expect_err("refused");
    assert!(refused.is("TARGET_UNKNOWN"), "{refused}");
}

#[tokio::test]
async fn who_has_several_namespaces_says_which() {
    let server = Secured::start(GRANTS, "", None);
    let both = server.client("both");
    let refused = open(&both).await.map(drop).expect_err("which?");
    assert!(refused.is("NAMESPACE_MISSING"), "{refused}");
    for (namespace, is_own) in [("etl", true), ("sales", true), ("hr", false)] {
        let client = both.clone().with_namespace(namespace).expect("a name");
        let opened = open(&client).await.map(drop);
        match opened {
            Ok(()) => assert!(is_own, "{namespace}"),
            Err(error) => assert!(!is_own && error.is("NAMESPACE_NOT_ALLOWED"), "{error}"),
        }
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_caller_loses_its_role() {
    let server = Secured::start(GRANTS, "", None);
    let etl = server.client("etl");
    let scheduler = open(&etl).await.expect("opened");
    let mut request = Request::new(api::SynchronizationRequest {
        handle: scheduler.handle().to_owned(),
        until: Some(api::Until {
            kind: Some(api::until::Kind::Forever(())),
        }),
        ..Default::default()
    });
    let bearer = format!("Bearer {}", token("etl")).parse().expect("a token");
    request.metadata_mut().insert("authorization", bearer);
    let mut raw = SchedulerServiceClient::new(etl.channel());
    let opened = raw.synchronization(request).await;
    let mut stream = opened.expect("opened").into_inner();
    // Nothing of the caller changes: the stream goes on.
    server.change(GRANTS);
    scheduler.exec(vec![sql()]).await.expect("submitted");
    let done = async {
        loop {
            let message = stream
                .message()
                .await
                .expect("it goes on")
                .expect("a message");
            if !message.done.is_empty() {
                return;
            }
        }
    };
    timeout(WAIT_TIMEOUT, done).await.expect("the task ends");
    server.change(&GRANTS[1..]);
    let ended = async {
        loop {
            if let Err(status) = stream.message().await {
                return status;
            }
        }
    };
    let status = timeout(WAIT_TIMEOUT, ended).await.expect("it ends");
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    let refused = scheduler
        .describe()
        .await
        .map(drop)
        .expect_err("nor may it call");
    assert!(refused.is("IDENTITY_INVALID"), "{refused}");
}
