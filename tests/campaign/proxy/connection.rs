//! One connection through a proxy: two directions, and what happens to the messages on them.

use super::{
    Shared,
    framing::{Message, Messages},
};
use bytes::BytesMut;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

pub(super) struct Connection {
    pub number: u64,
    /// It speaks the protocol of Postgres.
    pub understood: bool,
    pub shared: Arc<Shared>,
}

/// The connection has ended.
struct Closed;

impl Connection {
    /// Runs until one side hangs up or the conditions close it.
    pub(super) async fn run(
        &self,
        client: TcpStream,
        server_in: impl AsyncRead + Unpin,
        server_out: impl AsyncWrite + Unpin,
    ) {
        let (client_in, client_out) = client.into_split();
        let writer = AtomicBool::new(false);
        tokio::select! {
            // First: a connection that is closed while it is silent passes nothing on.
            biased;
            () = self.closed() => {
                self.shared.counters.closed.fetch_add(1, Relaxed);
            }
            () = self.to_upstream(client_in, server_out, &writer) => {
                self.shared.counters.hung_up.fetch_add(1, Relaxed);
            }
            () = self.to_client(server_in, client_out, &writer) => {
                self.shared.counters.lost.fetch_add(1, Relaxed);
            }
        }
    }

    /// From the server to Postgres.
    async fn to_upstream(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        writer: &AtomicBool,
    ) {
        let (mut messages, mut out) = (Messages::of_client(), BytesMut::new());
        while let Ok(1..) = from.read_buf(&mut messages.bytes).await {
            if !self.understood {
                out.unsplit(messages.bytes.split());
            }
            while let Some(message) = messages.next() {
                if message.opens_the_writer() {
                    writer.store(true, Relaxed);
                }
                if message.executes()
                    && writer.load(Relaxed)
                    && self.shared.armed_cuts.statement.swap(false, Relaxed)
                {
                    self.shared.counters.statements_cut.fetch_add(1, Relaxed);
                    return;
                }
                out.extend_from_slice(&message.bytes);
            }
            if self.pass(&mut out, &mut to).await.is_err() {
                return;
            }
        }
    }

    /// From Postgres to the server.
    async fn to_client(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        writer: &AtomicBool,
    ) {
        let (mut messages, mut out, mut wrote) = (Messages::default(), BytesMut::new(), false);
        while let Ok(1..) = from.read_buf(&mut messages.bytes).await {
            if !self.understood {
                out.unsplit(messages.bytes.split());
            }
            while let Some(message) = messages.next() {
                wrote |= writer.load(Relaxed) && message.wrote_a_batch();
                if self.cuts(&message, wrote) {
                    return;
                }
                wrote &= !message.is_ready();
                out.extend_from_slice(&message.bytes);
            }
            // The result of a batch waits for its commit, so that both can be cut off.
            if !wrote && self.pass(&mut out, &mut to).await.is_err() {
                return;
            }
        }
    }

    fn cuts(&self, message: &Message, wrote: bool) -> bool {
        let cuts = wrote
            && message.is_ready()
            && self.shared.armed_cuts.acknowledgement.swap(false, Relaxed);
        if cuts {
            self.shared
                .counters
                .acknowledgements_cut
                .fetch_add(1, Relaxed);
        }
        cuts
    }

    async fn pass(
        &self,
        out: &mut BytesMut,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), Closed> {
        if out.is_empty() {
            return Ok(());
        }
        let mut conditions = self.shared.conditions.subscribe();
        self.wait_until_heard(&mut conditions).await?;
        let latency = conditions.borrow().latency;
        if !latency.is_zero() {
            self.shared.counters.delayed.fetch_add(1, Relaxed);
            tokio::time::sleep(latency).await;
        }
        to.write_all_buf(out).await.map_err(|_| Closed)
    }

    /// Returns when this connection is not silent.
    async fn wait_until_heard(
        &self,
        conditions: &mut watch::Receiver<super::Conditions>,
    ) -> Result<(), Closed> {
        if self.number < conditions.borrow_and_update().silent_below {
            self.shared.counters.withheld.fetch_add(1, Relaxed);
        }
        conditions
            .wait_for(|conditions| self.number >= conditions.silent_below)
            .await
            .map(drop)
            .map_err(|_| Closed)
    }

    /// Returns when the conditions close this connection.
    async fn closed(&self) {
        let mut conditions = self.shared.conditions.subscribe();
        // The sender lives as long as this connection.
        let _ = conditions
            .wait_for(|conditions| self.number < conditions.closed_below)
            .await;
    }
}
