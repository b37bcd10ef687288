//! A call that another replica answers goes there with the identity of its caller.

use super::{Grant, describe, token};
use crate::harness::cluster::Cluster;
use rallypoint_client::api;
use tempfile::TempDir;

const GRANTS: &[Grant] = &[
    Grant {
        name: "root",
        namespaces: &["*"],
        role: "admin",
    },
    Grant {
        name: "etl",
        namespaces: &["etl"],
        role: "submitter",
    },
    Grant {
        name: "sales",
        namespaces: &["sales"],
        role: "submitter",
    },
];

#[tokio::test]
async fn whoever_answers_knows_who_calls() {
    let folder = TempDir::new().expect("a directory");
    describe(folder.path(), GRANTS, "");
    let path = folder.path().join("rallypoint.toml");
    let path = path.to_str().expect("UTF-8");
    let options = ["--config", path, "--insecure"];
    let cluster = Cluster::with_token(2, &options, &token("root")).await;
    let owner = cluster.owner().await;
    for replica in [owner, 1 - owner] {
        let client = |name| {
            let token = token(name).into();
            cluster.client(replica).with_token(&token).expect("a token")
        };
        let etl = client("etl").with_caller("somebody-else").expect("a name");
        let etl = etl.with_namespace("etl").expect("a name");
        let opened = etl.open(api::SchedulerSettings::default()).await;
        let scheduler = opened.expect("opened");
        let noop = api::Task {
            kind: Some(api::task::Kind::Noop(api::NoopTask::default())),
            ..Default::default()
        };
        let submitted = scheduler.exec(vec![noop]).await.expect("submitted");
        let view = scheduler.task(submitted.first_seq).await.expect("a task");
        assert_eq!(view.submitted_by.as_deref(), Some("token:etl"));
        let sales = client("sales").scheduler(scheduler.handle());
        let hidden = sales.describe().await.map(drop).expect_err("of others");
        assert!(hidden.is("HANDLE_NOT_FOUND"), "{hidden}");
        let sales = client("sales").with_namespace("etl").expect("a name");
        let refused = sales
            .schedulers(api::ListSchedulersRequest::default())
            .await;
        let refused = refused.map(drop).expect_err("not its namespace");
        assert!(refused.is("NAMESPACE_NOT_ALLOWED"), "{refused}");
    }
}
