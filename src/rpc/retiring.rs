//! Connections of callers are retired when other authorities may sign the certificates of callers:
//! those that are open take no new calls, and calls that go on, go on. The next calls come by new
//! connections, on which callers show the certificates that they have then.

use crate::peer::{CallerTls, Connection};
use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use std::{
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

/// How long a server that takes no more connections goes on as before: one that is told to end its
/// connections closes those on which nothing was said yet, and the call that comes would fail.
const OPENING_GRACE: Duration = Duration::from_secs(1);

type Connections = Arc<Mutex<ReceiverStream<io::Result<Connection>>>>;

/// New connections, until others take them.
pub(super) struct Incoming {
    connections: Connections,
    retired: CancellationToken,
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Whoever asks last is woken: that must not be one who takes none.
        if self.retired.is_cancelled() {
            return Poll::Pending;
        }
        let mut connections = self.connections.lock();
        let connections = connections
            .as_mut()
            .unwrap_or_else(|poisoned| poisoned.get_mut());
        loop {
            match connections.poll_next_unpin(context) {
                // Those that are open are told, and this one was not yet.
                Poll::Ready(Some(Ok(one))) if one.is_withdrawn() => {}
                polled => return polled,
            }
        }
    }
}

/// Serves connections by `serve`, which takes new ones until its future resolves and then waits for
/// the calls on those that it has. After `shutdown` none is taken, and `stopping` says so.
pub(super) async fn serve<F>(
    tls: Option<&CallerTls>,
    connections: ReceiverStream<io::Result<Connection>>,
    shutdown: impl Future<Output = ()>,
    stopping: &CancellationToken,
    serve: impl Fn(Incoming, BoxFuture<'static, ()>) -> F,
) where
    F: Future<Output = ()>,
{
    let connections: Connections = Arc::new(Mutex::new(connections));
    let mut shutdown = pin!(shutdown);
    let mut served = FuturesUnordered::new();
    loop {
        let others = tls.map(CallerTls::other_authorities);
        let retired = stopping.child_token();
        let incoming = Incoming {
            connections: connections.clone(),
            retired: retired.clone(),
        };
        served.push(serve(
            incoming,
            ending(retired.clone(), stopping.clone()).boxed(),
        ));
        let mut others = pin!(async {
            match others {
                Some(others) => others.await,
                None => std::future::pending().await,
            }
        });
        loop {
            tokio::select! {
                ended = served.next() => match ended {
                    Some(()) if !served.is_empty() => {}
                    _ => return,
                },
                () = &mut shutdown, if !stopping.is_cancelled() => stopping.cancel(),
                () = &mut others, if !stopping.is_cancelled() => {
                    tracing::info!("callers come by new connections: others sign certificates");
                    retired.cancel();
                    break;
                }
            }
        }
    }
}

/// Resolves when a server is to end its connections.
async fn ending(retired: CancellationToken, stopping: CancellationToken) {
    retired.cancelled().await;
    let _ = tokio::time::timeout(OPENING_GRACE, stopping.cancelled()).await;
}
