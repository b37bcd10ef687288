//! Messages of which only a part is sent: a server holds a bounded part of them, whoever sends
//! them, and goes on serving others.

use crate::harness::{cluster::Cluster, conversation::WAIT_TIMEOUT, work::noop};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use rallypoint_client::api::SchedulerSettings;
use std::{convert::Infallible, fs};
use tokio::{task::JoinSet, time::timeout};
use tonic::{
    Code, Status,
    codegen::http::{Request, Response},
};

const MESSAGES: usize = 300;
const MESSAGE_BYTES: usize = 5 << 20;
const PIECE: &[u8] = &[0; 64 << 10];
/// What a server may hold of 1.5 GiB, and what it needs for itself.
const MAX_KIB: u64 = 400 << 10;

/// All of a message but its last piece, and then nothing for ever.
fn half() -> StreamBody<impl futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>>> {
    let length = (MESSAGE_BYTES as u32).to_be_bytes();
    let prefix = Bytes::from([&[0][..], &length].concat());
    let pieces = MESSAGE_BYTES / PIECE.len() - 1;
    let sent =
        stream::iter([prefix]).chain(stream::iter((0..pieces).map(|_| Bytes::from_static(PIECE))));
    let sent = sent.map(|bytes| Ok(Frame::data(bytes)));
    StreamBody::new(sent.chain(stream::pending()))
}

#[tokio::test]
async fn messages_that_are_half_sent_do_not_fill_memory() {
    let cluster = Cluster::start(1).await;
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http();
    let url = cluster.url(0) + "/rallypoint.v1.SchedulerService/ExecAsync";
    let mut calls = JoinSet::new();
    for _ in 0..MESSAGES {
        let request = Request::post(&url).header("content-type", "application/grpc");
        let request = request.body(half()).expect("a request");
        calls.spawn(client.request(request));
    }
    // Those for which there is room wait for the rest of their messages.
    let mut refused = 0;
    while refused < MESSAGES / 2 {
        let answer = timeout(WAIT_TIMEOUT, calls.join_next())
            .await
            .expect("most are refused at once")
            .expect("a call")
            .expect("no panic");
        let answer: Response<_> = answer.expect("an answer");
        let status = Status::from_header_map(answer.headers()).expect("an error");
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        refused += 1;
    }
    let held = peak_kib(cluster.pid(0));
    assert!(held < MAX_KIB, "{held} KiB");
    let other = cluster.client(0);
    let scheduler = cluster.open(&other, SchedulerSettings::default()).await;
    scheduler.submit([noop()]).await;
    assert_eq!(scheduler.all_done().await.len(), 1);
}

/// The most memory that a process has had, in KiB.
pub(super) fn peak_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("a number of KiB")
}
