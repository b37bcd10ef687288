//! What the client makes of a replica that keeps its stream of claims open and grants nothing.

use super::refusals::refusal;
use crate::harness::{conversation::WAIT_TIMEOUT, fake_server::serve_claims, server::Server};
use rallypoint_client::{
    Client,
    api::{
        CallError, CreateResourceRequest, ManageClaimsResponse, ResourceSettings,
        manage_claims_response::Kind as Answer,
    },
};
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tonic::Code;

/// The address of a replica that does not reach the owner: it leaves the first call of each stream
/// of claims unanswered, and refuses the others.
async fn ownerless() -> String {
    serve_claims(|calls| {
        calls
            .skip(1)
            .map(|call| call.map(|call| refused(call.call)))
    })
    .await
}

fn refused(call: u64) -> ManageClaimsResponse {
    let status = refusal(Code::Unavailable, "NOT_OWNER", "none");
    let error = CallError {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: status.details().to_vec().into(),
    };
    ManageClaimsResponse {
        call,
        kind: Some(Answer::Error(error)),
    }
}

#[tokio::test]
async fn a_replica_that_refuses_what_is_claimed_is_left_with_all_that_is_awaited_there() {
    let server = Server::start().await;
    let settings = ResourceSettings {
        capacity: 1,
        ..ResourceSettings::default()
    };
    let request = CreateResourceRequest {
        name: "lot/*".into(),
        settings: Some(settings),
    };
    let created = server.client.create_resource(request).await;
    created.expect("created");
    let addresses = format!("{},{}", ownerless().await, server.url);
    let client = Client::connect(&addresses).await.expect("connected");
    let both = async { tokio::join!(client.acquire("lot/1"), client.acquire("lot/2")) };
    let (unanswered, refused) = timeout(WAIT_TIMEOUT, both).await.expect("in time");
    for hold in [unanswered, refused] {
        let hold = hold.expect("the other replica grants it");
        hold.release().await.expect("it was held");
    }
}
