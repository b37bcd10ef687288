//! What callers do once they are known: in their own namespaces, under their own names.

use super::{Grant, Secured};
use rallypoint_client::{Client, api};

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
];

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
