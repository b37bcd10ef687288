//! An open connection: a stream whose first bytes have been read already, its place among those
//! allowed, and what the calls on it share.

use super::{
    certified::Certified,
    strangers::{FIRST_CALL_TIMEOUT, Stranger},
    turns::Turns,
    usefulness::Use,
};
use bytes::{Buf, Bytes};
use std::{
    fmt, io,
    pin::Pin,
    sync::{Arc, atomic::AtomicUsize},
    task::{Context, Poll},
    time::SystemTime,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
    time::{Sleep, sleep},
};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Plain text, or TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection of a server.
pub struct Connection {
    stream: Box<dyn Stream>,
    /// Read already, and not yet by the server.
    first: Bytes,
    info: ConnectionInfo,
    /// When it ends if it is still a stranger's.
    deadline: Option<Pin<Box<Sleep>>>,
    _permit: OwnedSemaphorePermit,
}

/// What a call can ask about its connection: it is among the extensions of the request.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The addresses of both sides.
    pub tcp: TcpConnectInfo,
    /// What the certificate of the other side says.
    pub certified: Option<Certified>,
    /// It is a stranger's until a call on it is known to come from somebody; `None`: nobody has to
    /// say who calls.
    pub stranger: Option<Arc<Stranger>>,
    /// Room that the messages and answers of its calls hold, for callers who are not known.
    pub held_bytes: Arc<AtomicUsize>,
    /// The same of events of their streams.
    pub held_event_bytes: Arc<AtomicUsize>,
    /// Who may have answers under way.
    pub turns: Arc<Turns>,
    /// Whether an answer was fetched.
    pub used: Arc<Use>,
}

impl Connection {
    /// Its certificate has lost its authority since it was shown.
    pub(crate) fn is_withdrawn(&self) -> bool {
        let certified = self.info.certified.as_ref();
        certified.is_some_and(|certified| certified.withdrawn_since().is_some())
    }

    pub(super) fn new(
        stream: Box<dyn Stream>,
        info: ConnectionInfo,
        first: Bytes,
        permit: OwnedSemaphorePermit,
    ) -> Connection {
        let stranger = info.stranger.as_ref();
        Connection {
            deadline: stranger.map(|_| Box::pin(sleep(FIRST_CALL_TIMEOUT))),
            stream,
            first,
            info,
            _permit: permit,
        }
    }
}

impl ConnectionInfo {
    /// The name in the certificate of the other side, and until when that is valid.
    pub fn certificate(&self) -> Option<(&str, SystemTime)> {
        let certified = self.certified.as_ref()?;
        Some((&*certified.name, certified.not_after))
    }
}

impl Connection {
    /// The stream, unless it has been a stranger's for too long. Whoever does not read what is
    /// written is asked when it is to be written: the server reads nothing from it meanwhile.
    fn stream(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut Box<dyn Stream>>> {
        if let Some(deadline) = &mut self.deadline {
            if self.info.stranger.as_ref().is_none_or(|one| one.is_known()) {
                self.deadline = None;
            } else if deadline.as_mut().poll(cx).is_ready() {
                let error = "nobody has said in time who calls";
                return Err(io::Error::new(io::ErrorKind::TimedOut, error));
            }
        }
        Ok(Pin::new(&mut self.stream))
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.info).finish()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream(cx)?;
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let length = self.first.len().min(buf.remaining());
        buf.put_slice(&self.first[..length]);
        self.first.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream(cx)?.poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream(cx)?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::strangers::Strangers, *};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        sync::Semaphore,
    };

    async fn connection(stranger: Arc<Stranger>) -> (Connection, tokio::io::DuplexStream) {
        let (ours, theirs) = duplex(64);
        let info = ConnectionInfo {
            tcp: TcpConnectInfo {
                local_addr: None,
                remote_addr: None,
            },
            certified: None,
            stranger: Some(stranger),
            held_bytes: Arc::default(),
            held_event_bytes: Arc::default(),
            turns: Arc::default(),
            used: Arc::default(),
        };
        let permit = Arc::new(Semaphore::new(1)).acquire_owned().await;
        let permit = permit.expect("a place");
        (
            Connection::new(Box::new(ours), info, Bytes::new(), permit),
            theirs,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_stays_for_a_while_and_a_caller_for_as_long_as_it_likes() {
        let admit = || {
            Strangers::default()
                .admit([192, 0, 2, 7].into())
                .expect("room")
        };
        let (mut silent, _theirs) = connection(admit()).await;
        let ended = silent.read_u8().await.expect_err("it has had its time");
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        let caller = admit();
        let (mut known, _theirs) = connection(caller.clone()).await;
        caller.is_somebody();
        let read = tokio::time::timeout(FIRST_CALL_TIMEOUT * 10, known.read_u8());
        assert!(read.await.is_err(), "it goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_who_reads_nothing_stays_no_longer() {
        let admit = || Strangers::default().admit([192, 0, 2, 7].into());
        let (mut silent, _theirs) = connection(admit().expect("room")).await;
        let written = silent.write_all(&[0; 65]).await;
        let ended = written.expect_err("it has had its time");
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        assert!(silent.flush().await.is_err());
    }
}
