//! An open connection: a stream whose first bytes have been read already, its place among those
//! allowed, and what the calls on it share.

use bytes::{Buf, Bytes};
use std::{
    fmt, io,
    pin::Pin,
    sync::{Arc, atomic::AtomicUsize},
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
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
    _permit: OwnedSemaphorePermit,
}

/// What a call can ask about its connection: it is among the extensions of the request.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The addresses of both sides.
    pub tcp: TcpConnectInfo,
    /// The name that the certificate of the other side gives it.
    pub certified: Option<Arc<str>>,
    /// Room that the messages of all its calls hold.
    pub message_bytes: Arc<AtomicUsize>,
}

impl Connection {
    pub(super) fn new(
        stream: Box<dyn Stream>,
        info: ConnectionInfo,
        first: Bytes,
        permit: OwnedSemaphorePermit,
    ) -> Connection {
        Connection {
            stream,
            first,
            info,
            _permit: permit,
        }
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
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
