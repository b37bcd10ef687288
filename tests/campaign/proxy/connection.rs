//! One connection through a proxy: two directions, and what happens to the messages on them.

use super::{
    Purpose, Shared,
    framing::{Message, Messages},
};
use bytes::BytesMut;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

pub(super) struct Connection {
    number: u64,
    /// It speaks the protocol of Postgres.
    understood: bool,
    /// Set when it is known.
    purpose: OnceLock<Purpose>,
    /// Pieces that have passed in either direction.
    passed: AtomicU64,
    shared: Arc<Shared>,
}

/// The connection has ended.
struct Closed;

/// Why a direction ended.
enum End {
    HungUp,
    /// The connection has gone silent, as this one of those that have.
    Silent(usize),
}

impl Connection {
    /// A connection of this number; `None`: its first message says what it is for.
    pub(super) fn new(number: u64, purpose: Option<Purpose>, shared: Arc<Shared>) -> Connection {
        Connection {
            number,
            understood: purpose.is_none(),
            purpose: purpose.map_or_else(OnceLock::new, OnceLock::from),
            passed: AtomicU64::new(0),
            shared,
        }
    }

    /// Runs until one side hangs up or the conditions close it.
    pub(super) async fn run(
        &self,
        client: TcpStream,
        mut server_in: impl AsyncRead + Unpin,
        mut server_out: impl AsyncWrite + Unpin,
    ) {
        let (mut client_in, mut client_out) = client.into_split();
        let counters = &self.shared.counters;
        let (end, counter) = tokio::select! {
            // First: a connection that is closed while it is silent passes nothing on.
            biased;
            () = self.closed() => (End::HungUp, &counters.closed),
            end = self.to_upstream(&mut client_in, &mut server_out) => (end, &counters.hung_up),
            end = self.to_client(&mut server_in, &mut client_out) => (end, &counters.lost),
        };
        match end {
            End::HungUp => _ = counter.fetch_add(1, Relaxed),
            End::Silent(number) => {
                let half_opens = &self.shared.half_opens;
                let (client, server) = ((client_in, client_out), (server_in, server_out));
                half_opens.swallow(number, client, server).await;
            }
        }
    }

    /// From the server to Postgres.
    async fn to_upstream(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> End {
        let (mut messages, mut out) = (Messages::of_client(), BytesMut::new());
        while let Ok(1..) = from.read_buf(&mut messages.bytes).await {
            if !self.understood {
                out.unsplit(messages.bytes.split());
            }
            while let Some(message) = messages.next() {
                if let Some(purpose) = message.opens() {
                    let _ = self.purpose.set(purpose);
                }
                if message.executes()
                    && self.is_writer()
                    && self.shared.armed_cuts.statement.swap(false, Relaxed)
                {
                    self.shared.counters.statements_cut.fetch_add(1, Relaxed);
                    return End::HungUp;
                }
                out.extend_from_slice(&message.bytes);
            }
            if let Some(number) = self.goes_silent() {
                return End::Silent(number);
            }
            if self.pass(&mut out, to).await.is_err() {
                break;
            }
        }
        End::HungUp
    }

    /// From Postgres to the server.
    async fn to_client(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> End {
        let (mut messages, mut out, mut wrote) = (Messages::default(), BytesMut::new(), false);
        // The marker of an exactly-once task is complete.
        let mut marked = false;
        while let Ok(1..) = from.read_buf(&mut messages.bytes).await {
            if !self.understood {
                out.unsplit(messages.bytes.split());
            }
            while let Some(message) = messages.next() {
                wrote |= self.is_writer() && message.wrote_a_batch();
                marked |= message.is_done("CALL");
                if self.cuts(&message, wrote) || marked && self.cuts_commit(&message) {
                    return End::HungUp;
                }
                wrote &= !message.is_ready();
                marked &= !message.is_ready();
                out.extend_from_slice(&message.bytes);
            }
            if let Some(number) = self.goes_silent() {
                return End::Silent(number);
            }
            // The result of a batch waits for its commit, so that both can be cut off.
            if !wrote && self.pass(&mut out, to).await.is_err() {
                break;
            }
        }
        End::HungUp
    }

    fn is_writer(&self) -> bool {
        self.purpose.get() == Some(&Purpose::Writer)
    }

    /// Whether it goes silent before the piece that has just been read.
    fn goes_silent(&self) -> Option<usize> {
        let passed = self.passed.fetch_add(1, Relaxed);
        let half_opens = &self.shared.half_opens;
        half_opens.goes_silent(*self.purpose.get()?, passed)
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

    fn cuts_commit(&self, message: &Message) -> bool {
        let cuts = self.purpose.get() == Some(&Purpose::Target)
            && message.is_done("COMMIT")
            && self.shared.armed_cuts.commit.swap(false, Relaxed);
        if cuts {
            self.shared.counters.commits_cut.fetch_add(1, Relaxed);
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
