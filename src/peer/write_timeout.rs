//! A socket that ends when the other side reads nothing for too long. Keep-alive does not notice
//! that: the other side is there, and HTTP/1 has no pings of its own.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// How long not a byte may be written while some are to be. A ping of HTTP/2 may take as long, from
/// the one before to its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A stream whose writes end with `TimedOut` when none gets on for [`WRITE_TIMEOUT`].
pub(super) struct WriteTimeout<S> {
    stream: S,
    /// Runs since a write had to wait, until one gets on.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S) -> WriteTimeout<S> {
        WriteTimeout {
            stream,
            timer: None,
        }
    }

    fn timed(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        if timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let error = "the other side has read nothing for 30 s";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, error)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// A socket has nothing to flush.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::Instant,
    };

    #[tokio::test(start_paused = true)]
    async fn a_write_ends_when_the_other_side_reads_nothing() {
        let (ours, _theirs) = duplex(64);
        let begun = Instant::now();
        let written = WriteTimeout::new(ours).write_all(&[0; 65]).await;
        let error = written.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), WRITE_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_slowly_may_take_any_time() {
        let (ours, mut theirs) = duplex(64);
        let mut ours = WriteTimeout::new(ours);
        let read = async {
            for _ in 0..10 {
                sleep(WRITE_TIMEOUT - Duration::from_secs(1)).await;
                theirs.read_exact(&mut [0; 64]).await.expect("bytes");
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[0; 640]), read);
        assert!(written.is_ok());
        assert!(ours.timer.is_none());
    }
}
