//! Abuse of HTTP/2 by somebody: calls that are reset at once, headers without end, answers for
//! which there is no room, messages that are half sent, errors whose answers nobody reads, and
//! sockets that say nothing. Whoever is hung up on comes back.

use rallypoint::server::raise_descriptor_limit;
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, copy, sink},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::sleep,
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
/// Flags of frames.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: u8 = 4;
const CANCEL: [u8; 4] = [0, 0, 0, 8];

pub(crate) const LIST: &str = "/rallypoint.v1.SchedulerService/ListSchedulers";

const RESETS: u32 = 20_000;
const HEADER_BYTES: usize = 64 << 20;
const STREAMS: u32 = 1_000;
/// Of each message that has so many, so many are sent: all streams together stay within the window
/// of a connection.
const MESSAGE_BYTES: u32 = 4 << 20;
const SENT_BYTES: usize = 1_000;
/// Streams that never were, and of how many something is said at a time.
const UNKNOWN_STREAMS: u32 = 1_000_000;
const AT_A_TIME: u32 = 1_000;
/// Connections of each kind.
const CONNECTIONS: usize = 4;
/// How soon somebody comes back who was hung up on.
const PAUSE: Duration = Duration::from_millis(20);
/// Sockets that say nothing.
const SILENT: usize = 10_000;
/// They come from several addresses, each of which has so many ports to spare.
const SILENT_PER_ADDRESS: usize = 2_500;
/// Open files that stay for others in this process.
const OTHER_FILES: u64 = 4_000;

/// A kind of abuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abuse {
    /// Calls are reset as soon as they are made.
    RapidReset,
    /// The headers of a call have no end.
    HeaderFlood,
    /// A thousand calls leave no room for their answers.
    ZeroWindow,
    /// A thousand calls send a part of their messages.
    HalfSent,
    /// Errors on a million streams, each of which is answered by a reset that nobody reads.
    UnreadErrors,
    /// Ten thousand sockets say nothing.
    SilentSockets,
}

impl Abuse {
    pub(crate) const ALL: [Abuse; 6] = [
        Abuse::RapidReset,
        Abuse::HeaderFlood,
        Abuse::ZeroWindow,
        Abuse::HalfSent,
        Abuse::UnreadErrors,
        Abuse::SilentSockets,
    ];
}

/// Abuse that goes on until this is dropped.
pub(crate) struct Abusers {
    /// Dropped with this, they end.
    _tasks: JoinSet<()>,
    opened: Arc<AtomicUsize>,
    silent: usize,
}

impl Abusers {
    /// Has all of these done to a server at once.
    pub(crate) fn begin(address: SocketAddr, kinds: &[Abuse]) -> Abusers {
        let mut tasks = JoinSet::new();
        let opened = Arc::new(AtomicUsize::new(0));
        let mut silent = 0;
        for kind in kinds {
            if *kind == Abuse::SilentSockets {
                silent = silent_sockets();
                tasks.spawn(say_nothing(address, silent, opened.clone()));
                continue;
            }
            for _ in 0..CONNECTIONS {
                tasks.spawn(say_again(address, *kind));
            }
        }
        Abusers {
            _tasks: tasks,
            opened,
            silent,
        }
    }

    /// How many silent sockets there were so far, and are to be.
    pub(crate) fn silent(&self) -> (usize, usize) {
        (self.opened.load(Ordering::Relaxed), self.silent)
    }
}

/// As many as are wanted, or as the limit of open files leaves for them.
fn silent_sockets() -> usize {
    let room = raise_descriptor_limit().saturating_sub(OTHER_FILES);
    SILENT.min(room as usize)
}

async fn say_nothing(to: SocketAddr, count: usize, opened: Arc<AtomicUsize>) {
    let mut silent = Vec::with_capacity(count);
    for number in 0..count {
        let from = Ipv4Addr::new(127, 0, 0, 2 + (number / SILENT_PER_ADDRESS) as u8);
        let socket = TcpSocket::new_v4().expect("a socket");
        // Where an address cannot be had any address will do.
        let _ = socket.bind((from, 0).into());
        silent.extend(socket.connect(to).await);
        opened.store(number + 1, Ordering::Relaxed);
    }
    // They stay for as long as the server keeps them.
    std::future::pending::<()>().await;
}

async fn say_again(to: SocketAddr, kind: Abuse) {
    loop {
        match kind {
            Abuse::RapidReset => say(to, resets()).await,
            Abuse::HeaderFlood => say(to, headers()).await,
            Abuse::ZeroWindow => say(to, with_window(0, LIST, &[])).await,
            Abuse::HalfSent => say(to, half_sent()).await,
            Abuse::UnreadErrors => say_unread(to, errors()).await,
            Abuse::SilentSockets => {}
        }
        sleep(PAUSE).await;
    }
}

/// Says what it has to, as far as the server lets it, and hears whatever comes, for as long as the
/// server keeps the connection.
async fn say(to: SocketAddr, pieces: impl Iterator<Item = Vec<u8>>) {
    let Ok(stream) = TcpStream::connect(to).await else {
        return;
    };
    let (mut from, mut to) = stream.into_split();
    let mut nowhere = sink();
    let hearing = copy(&mut from, &mut nowhere);
    let (_, _) = tokio::join!(speak(&mut to, pieces), hearing);
}

/// Says what it has to, and hears nothing.
async fn say_unread(to: SocketAddr, pieces: impl Iterator<Item = Vec<u8>>) {
    if let Ok(mut stream) = TcpStream::connect(to).await {
        speak(&mut stream, pieces).await;
    }
}

async fn speak(to: &mut (impl AsyncWrite + Unpin), pieces: impl Iterator<Item = Vec<u8>>) {
    for piece in pieces {
        // A server that has had enough of it hangs up.
        if to.write_all(&piece).await.is_err() {
            break;
        }
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// The headers of a call, in HPACK.
pub(crate) fn call(path: &str) -> Vec<u8> {
    // POST, http; the path, the host and the content type as they are.
    let mut block = vec![0x83, 0x86];
    for (name, value) in [
        (&[0x04][..], path.as_bytes()),
        (&[0x01], b"here"),
        (&[0x0f, 0x10], b"application/grpc"),
    ] {
        block.extend(name);
        block.push(value.len() as u8);
        block.extend(value);
    }
    block
}

pub(crate) fn settings(payload: &[u8]) -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, payload)].concat()
}

/// What is said on each of so many streams, after these settings.
fn streams(
    count: u32,
    first: Vec<u8>,
    one: impl Fn(u32) -> Vec<u8>,
) -> impl Iterator<Item = Vec<u8>> {
    let all = (0..count).map(move |number| one(2 * number + 1));
    [first].into_iter().chain(all)
}

/// Calls that are reset at once.
fn resets() -> impl Iterator<Item = Vec<u8>> {
    streams(RESETS, settings(&[]), |stream| {
        let headers = frame(HEADERS, END_HEADERS, stream, &call(LIST));
        [headers, frame(RST_STREAM, 0, stream, &CANCEL)].concat()
    })
}

/// Headers of one call that have no end.
fn headers() -> impl Iterator<Item = Vec<u8>> {
    // A header that is not kept: `x`, with a value of 100 bytes.
    let more = [&[0x00, 1, b'x', 100][..], &[b'y'; 100]]
        .concat()
        .repeat(150);
    let times = HEADER_BYTES / more.len();
    let begin = [settings(&[]), frame(HEADERS, 0, 1, &call(LIST))].concat();
    let more = (0..times).map(move |_| frame(CONTINUATION, 0, 1, &more));
    [begin].into_iter().chain(more)
}

/// A thousand calls with this message, to each of whose answers the caller gives so many bytes of
/// room.
pub(crate) fn with_window(
    bytes: u8,
    path: &'static str,
    message: &[u8],
) -> impl Iterator<Item = Vec<u8>> {
    let window = [0, INITIAL_WINDOW_SIZE, 0, 0, 0, bytes];
    let length = (message.len() as u32).to_be_bytes();
    let message = [&[0][..], &length, message].concat();
    streams(STREAMS, settings(&window), move |stream| {
        let headers = frame(HEADERS, END_HEADERS, stream, &call(path));
        [headers, frame(DATA, END_STREAM, stream, &message)].concat()
    })
}

/// Calls with the beginnings of messages.
fn half_sent() -> impl Iterator<Item = Vec<u8>> {
    streams(STREAMS, settings(&[]), |stream| {
        let mut message = vec![0];
        message.extend(MESSAGE_BYTES.to_be_bytes());
        message.resize(SENT_BYTES, 0);
        let headers = frame(HEADERS, END_HEADERS, stream, &call(LIST));
        [headers, frame(DATA, 0, stream, &message)].concat()
    })
}

/// Data of streams that may have been there, since a later one is: each is an error.
fn errors() -> impl Iterator<Item = Vec<u8>> {
    let last = frame(HEADERS, END_HEADERS, 2 * UNKNOWN_STREAMS + 1, &call(LIST));
    let begin = [settings(&[]), last].concat();
    let more = (0..UNKNOWN_STREAMS / AT_A_TIME).map(|piece| {
        let streams = AT_A_TIME * piece..AT_A_TIME * (piece + 1);
        streams
            .flat_map(|number| frame(DATA, 0, 2 * number + 1, &[]))
            .collect()
    });
    [begin].into_iter().chain(more)
}
