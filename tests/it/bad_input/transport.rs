//! Calls that never reach a handler: messages that are too large or malformed, unknown methods,
//! deadlines that have passed.

use super::{
    Answer, answer, answer_of,
    live::{channel, noop, opened, schedulers, sql, still_answers},
    refusal,
};
use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use rallypoint_client::api;
use std::time::Duration;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
};

/// Sends bytes as they are.
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

async fn raw(path: &'static str, message: Vec<u8>) -> Result<Bytes, Status> {
    let mut grpc = Grpc::new(channel().await);
    grpc.ready().await.expect("connected");
    let response = grpc
        .unary(
            Request::new(message.into()),
            PathAndQuery::from_static(path),
            Raw,
        )
        .await?;
    Ok(response.into_inner())
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_with_a_reason() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    let tasks = vec![sql(&"x".repeat(1 << 20), None); 6];
    let request = api::ExecAsyncRequest {
        handle: handle.clone(),
        tasks,
        ..Default::default()
    };
    assert_eq!(
        answer(client.exec_async(request).await),
        refusal(Code::InvalidArgument, "CALL_TOO_LARGE")
    );
    let huge = api::DescribeSchedulerRequest {
        handle: "x".repeat(10_000_000),
        ..Default::default()
    };
    assert_eq!(
        answer(client.describe_scheduler(huge).await),
        refusal(Code::InvalidArgument, "CALL_TOO_LARGE")
    );
    still_answers().await;
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused_with_a_reason() {
    let invalid_utf8 = vec![0x0a, 2, 0xff, 0xfe];
    let wrong_wire_type = vec![0x08, 1];
    let truncated = vec![0x0a, 200, b'x'];
    let nested = [0x1a, 0x7f].repeat(200);
    for message in [
        invalid_utf8,
        wrong_wire_type,
        truncated,
        nested,
        vec![0xff; 64],
    ] {
        let result = raw("/rallypoint.v1.SchedulerService/ExecAsync", message.clone()).await;
        assert_eq!(
            answer(result),
            refusal(Code::InvalidArgument, "MESSAGE_MALFORMED"),
            "{message:?}"
        );
    }
    still_answers().await;
}

#[tokio::test]
async fn unknown_methods_and_services_are_unimplemented() {
    for path in [
        "/rallypoint.v1.SchedulerService/DropTables",
        "/rallypoint.v1.Nobody/Nothing",
        "/x",
    ] {
        let status = raw(path, Vec::new())
            .await
            .expect_err("there is no such method");
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
    }
}

#[tokio::test]
async fn a_field_that_the_server_does_not_know_is_refused_and_named() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    let call = api::ExecAsyncRequest {
        handle: handle.clone(),
        tasks: vec![noop(None)],
        ..Default::default()
    };
    let mut message = call.encode_to_vec();
    // Field 2047, a varint.
    message.extend([0xf8, 0x7f, 1]);
    let path = "/rallypoint.v1.SchedulerService/ExecAsync";
    let refused = raw(path, message).await.expect_err("it is not known");
    let expected = Answer {
        fields: vec!["2047".into()],
        ..refusal(Code::InvalidArgument, "FIELD_UNKNOWN")
    };
    assert_eq!(answer_of(&refused), expected);
    let scheduler = api::DescribeSchedulerRequest {
        handle,
        ..Default::default()
    };
    let described = client
        .describe_scheduler(scheduler)
        .await
        .expect("it is there");
    let submitted = described.into_inner().scheduler.map(|it| it.submitted);
    assert_eq!(submitted, Some(0));
}

#[tokio::test]
async fn no_deadline_holds_or_harms_the_server() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    for timeout in ["0n", "1n"] {
        let exec = api::ExecAsyncRequest {
            handle: handle.clone(),
            tasks: vec![noop(None)],
            ..Default::default()
        };
        let mut request = Request::new(exec);
        request
            .metadata_mut()
            .insert("grpc-timeout", timeout.parse().expect("ASCII"));
        // A call that is quicker than its deadline may also succeed.
        if let Err(status) = client.exec_async(request).await {
            assert!(
                matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled),
                "{status:?}"
            );
        }
    }
    let mut request = Request::new(api::DescribeSchedulerRequest {
        handle,
        ..Default::default()
    });
    request
        .metadata_mut()
        .insert("grpc-timeout", "99999999H".parse().expect("ASCII"));
    let answer =
        tokio::time::timeout(Duration::from_secs(10), client.describe_scheduler(request)).await;
    answer.expect("it answers at once").expect("it answers");
    still_answers().await;
}

#[tokio::test]
async fn large_headers_do_not_reach_a_handler() {
    let mut client = schedulers().await;
    let mut request = Request::new(api::ListSchedulersRequest::default());
    request
        .metadata_mut()
        .insert("x-large", "x".repeat(64 << 10).parse().expect("ASCII"));
    client
        .list_schedulers(request)
        .await
        .expect_err("too large");
    still_answers().await;
}
