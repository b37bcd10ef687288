//! Large answers for which a caller gives no room, or hardly any: a server keeps a bounded part of
//! them and goes on serving others.

use super::{abuse::http2_abuse::with_window, half_sent::peak_kib};
use crate::harness::{cluster::Cluster, conversation::WAIT_TIMEOUT};
use prost::Message;
use rallypoint_client::{
    Client,
    api::{GetTaskRequest, NoopTask, SchedulerSettings, Task, TaskId, task::Kind},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const GET_TASK: &str = "/rallypoint.v1.SchedulerService/GetTask";
const ANSWER_BYTES: usize = 1_000_000;
/// So many answers of a caller on a connection are under way at a time.
const READS: u32 = 16;
/// What the server may need for those of one connection, each of them several times, and for calls
/// that wait.
const MAX_KIB: u64 = 150 << 10;
/// Frames of HTTP/2, and their flags.
const HEADERS: u8 = 1;
const PING: u8 = 6;
const ACK: u8 = 1;

/// Opens a connection whose streams have windows of so many bytes, and asks for the same answer on
/// each of them. Returns it when so many answers have begun.
async fn ask(to: &str, window: u8, message: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.expect("it listens");
    for piece in with_window(window, GET_TASK, message) {
        stream.write_all(&piece).await.expect("said");
    }
    let mut begun = 0;
    while begun < READS {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await.expect("a frame");
        match (head[3], head[4]) {
            (HEADERS, _) => begun += 1,
            (PING, 0) => {
                let answer = [&[0, 0, 8, PING, ACK, 0, 0, 0, 0], &payload[..]].concat();
                stream.write_all(&answer).await.expect("it is there");
            }
            _ => {}
        }
    }
    stream
}

/// A server with a task whose body is large, and the message that asks for it.
async fn with_large_task() -> (Cluster, GetTaskRequest) {
    let cluster = Cluster::start(1).await;
    let client = cluster.client(0);
    let scheduler = cluster.open(&client, SchedulerSettings::default()).await;
    let payload = vec![7; ANSWER_BYTES].into();
    let task = Task {
        kind: Some(Kind::Noop(NoopTask { payload })),
        ..Default::default()
    };
    let submitted = scheduler.scheduler.exec(vec![task]).await;
    let id = TaskId {
        handle: scheduler.handle().into(),
        seq: submitted.expect("accepted").first_seq,
    };
    scheduler.all_done().await;
    (cluster, GetTaskRequest { id: Some(id) })
}

async fn served(client: &Client, request: &GetTaskRequest) {
    let id = request.id.clone().expect("an id");
    let scheduler = client.scheduler(&id.handle);
    let task = timeout(WAIT_TIMEOUT, scheduler.task(id.seq)).await;
    let task = task.expect("in time").expect("an answer");
    assert!(task.encoded_len() > ANSWER_BYTES);
}

async fn large_answers_take_bounded_memory(window: u8) {
    let (cluster, request) = with_large_task().await;
    let address = cluster.url(0).trim_start_matches("http://").to_owned();
    served(&cluster.client(0), &request).await;
    let before = peak_kib(cluster.pid(0));
    // Most of a thousand wait.
    let message = request.encode_to_vec();
    let asked = ask(&address, window, &message);
    let asked = timeout(WAIT_TIMEOUT, asked).await.expect("answered");
    served(&cluster.client(0), &request).await;
    let needed = peak_kib(cluster.pid(0)) - before;
    println!("{} MiB with windows of {window}", needed >> 10);
    assert!(needed < MAX_KIB, "{needed} KiB");
    // What they held is free again when the connection is gone.
    drop(asked);
    let again = ask(&address, window, &message);
    timeout(WAIT_TIMEOUT, again).await.expect("answered");
    served(&cluster.client(0), &request).await;
}

#[tokio::test]
async fn answers_without_a_window_take_bounded_memory() {
    large_answers_take_bounded_memory(0).await;
}

#[tokio::test]
async fn answers_of_which_one_byte_is_read_take_bounded_memory() {
    large_answers_take_bounded_memory(1).await;
}
