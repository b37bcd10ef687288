//! Calls that are refused before all of them has arrived: what still comes of them harms no other
//! call on their connection.

use super::abuse::http2_abuse::{
    DATA, END_HEADERS, END_STREAM, HEADERS, LIST, RST_STREAM, call, frame, settings,
};
use crate::harness::{conversation::WAIT_TIMEOUT, server::Server};
use std::collections::BTreeSet;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const NOBODY: &str = "/rallypoint.v1.Nobody/Nothing";
/// Of 50 streams at a time a server remembers that they are over; what comes on others is an error,
/// of which hyper stands 1024 unless it is told otherwise.
const CALLS: u32 = 3_000;
/// Fewer than a connection may have at a time.
const AT_A_TIME: usize = 100;
/// Frames of HTTP/2, and a flag.
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;

/// What is known of a frame of the server.
struct Said {
    kind: u8,
    flags: u8,
    stream: u32,
    bytes: usize,
}

impl Said {
    fn ends_stream(&self) -> bool {
        match self.kind {
            DATA | HEADERS => self.flags & END_STREAM != 0,
            kind => kind == RST_STREAM,
        }
    }
}

/// The next frame, on a connection that goes on.
async fn next(connection: &mut TcpStream) -> Said {
    let mut head = [0; 9];
    let read = connection.read_exact(&mut head).await;
    read.expect("it is open");
    let [a, b, c, kind, flags, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    let read = connection.read_exact(&mut payload).await;
    read.expect("it is open");
    let why = String::from_utf8_lossy(&payload);
    assert_ne!(kind, GOAWAY, "the connection ends: {why}");
    if (kind, flags) == (PING, 0) {
        say(connection, &frame(PING, ACK, 0, &payload)).await;
    }
    Said {
        kind,
        flags,
        stream: u32::from_be_bytes(stream),
        bytes: payload.len(),
    }
}

async fn say(connection: &mut TcpStream, frames: &[u8]) {
    let said = connection.write_all(frames).await;
    said.expect("it is open");
}

/// Begins a call on each of these streams, and waits until all are refused.
async fn refused(connection: &mut TcpStream, streams: &[u32]) {
    let begin = |stream: &u32| frame(HEADERS, END_HEADERS, *stream, &call(NOBODY));
    let calls: Vec<u8> = streams.iter().flat_map(begin).collect();
    say(connection, &calls).await;
    let mut open: BTreeSet<u32> = streams.iter().copied().collect();
    while !open.is_empty() {
        let said = next(connection).await;
        if said.ends_stream() {
            open.remove(&said.stream);
        }
    }
}

#[tokio::test]
async fn what_comes_of_calls_that_are_refused_already_ends_no_connection() {
    let server = Server::start().await;
    let address = server.url.trim_start_matches("http://");
    let connected = TcpStream::connect(address).await;
    let mut connection = connected.expect("it listens");
    let streams: Vec<u32> = (0..CALLS).map(|number| 2 * number + 1).collect();
    let conversation = async {
        say(&mut connection, &settings(&[])).await;
        for some in streams.chunks(AT_A_TIME) {
            refused(&mut connection, some).await;
        }
        let rest = |stream: &u32| frame(DATA, END_STREAM, *stream, &[0]);
        let rests: Vec<u8> = streams.iter().flat_map(rest).collect();
        say(&mut connection, &rests).await;
        let other = 2 * CALLS + 1;
        let begin = frame(HEADERS, END_HEADERS, other, &call(LIST));
        // A message without fields.
        let rest = frame(DATA, END_STREAM, other, &[0; 5]);
        say(&mut connection, &[begin, rest].concat()).await;
        loop {
            let said = next(&mut connection).await;
            if said.stream == other && said.kind == DATA && said.bytes > 0 {
                break;
            }
        }
    };
    let answered = timeout(WAIT_TIMEOUT, conversation).await;
    answered.expect("the other call is answered with a message");
}
