//! Connections of callers are retired when other authorities may sign the certificates of callers:
//! those that are open take no new calls, and calls that go on, go on. The next calls come by new
//! connections, on which callers show the certificates that they have then.

use crate::peer::{CallerTls, Connection};
use futures_util::{Stream, StreamExt, stream::FuturesUnordered};
use std::{
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// New connections. Whoever has asked last gets the next one.
#[derive(Clone)]
pub(super) struct Incoming(Arc<Mutex<ReceiverStream<io::Result<Connection>>>>);

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        connections.poll_next_unpin(context)
    }
}

/// Serves connections by `serve`, which takes new ones until its future resolves and then waits for
/// the calls on those that it has. After `shutdown` none is taken, and `stopping` says so.
pub(super) async fn serve<F, E>(
    tls: Option<&CallerTls>,
    connections: ReceiverStream<io::Result<Connection>>,
    shutdown: impl Future<Output = ()>,
    stopping: &CancellationToken,
    serve: impl Fn(Incoming, WaitForCancellationFutureOwned) -> F,
) -> Result<(), E>
where
    F: Future<Output = Result<(), E>>,
{
    let connections = Incoming(Arc::new(Mutex::new(connections)));
    let mut shutdown = pin!(shutdown);
    let mut served = FuturesUnordered::new();
    loop {
        let others = tls.map(CallerTls::other_authorities);
        let retired = stopping.child_token();
        let ending = retired.clone().cancelled_owned();
        served.push(serve(connections.clone(), ending));
        let mut others = pin!(async {
            match others {
                Some(others) => others.await,
                None => std::future::pending().await,
            }
        });
        loop {
            tokio::select! {
                ended = served.next() => match ended {
                    Some(Ok(())) if !served.is_empty() => {}
                    ended => return ended.unwrap_or(Ok(())),
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
