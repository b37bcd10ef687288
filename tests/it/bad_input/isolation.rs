//! A caller learns nothing of the schedulers of another namespace, not even that they exist.

use super::{
    answer_of, every_call,
    live::{from, noop, opened, schedulers},
};
use rallypoint_client::api;
use tonic::{Code, Status};

const UNKNOWN: &str = "01890a5d-ac96-7000-8000-000000000001";

#[tokio::test]
async fn what_is_not_there_and_what_is_not_yours_get_the_same_answer() {
    let mut client = schedulers().await;
    let theirs = opened(&mut client, Default::default()).await;
    let exec = api::ExecAsyncRequest {
        handle: theirs.clone(),
        tasks: vec![noop(None)],
        ..Default::default()
    };
    client.exec_async(exec).await.expect("it takes a task");
    let mut answers = Vec::new();
    for handle in [UNKNOWN, &theirs] {
        let errors = every_call::errors(&mut client, "others", handle).await;
        answers.push(
            errors
                .iter()
                .map(|(_, error)| bytes(error))
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(answers[0], answers[1]);
    let all = client
        .list_schedulers(from("others", api::ListSchedulersRequest::default()))
        .await
        .expect("a list")
        .into_inner();
    assert_eq!(all.schedulers.len(), 0);
}

/// The whole error: a caller cannot distinguish two that are equal.
fn bytes(status: &Status) -> (Code, String, Vec<u8>) {
    assert_eq!(answer_of(status).reason, "HANDLE_NOT_FOUND");
    (
        status.code(),
        status.message().to_owned(),
        status.details().to_vec(),
    )
}
