//! Accepts connections. Each must first show that somebody speaks HTTP behind it (and on a port
//! with TLS, who), within a time limit and without holding a place of those that have: silent
//! connections block nobody. When no file descriptor is free, the listener pauses instead of
//! spinning.

use super::{
    caller_tls::CallerTls,
    certified::Certified,
    connection::{Connection, ConnectionInfo, Stream},
    strangers::Strangers,
    tls::{Tls, has_name},
    usefulness::{Use, Usefulness},
};
use crate::socket;
use std::{collections::VecDeque, io, sync::Arc, time::Duration};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    task::AbortHandle,
    time::{sleep, timeout},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::CertificateDer},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// Pause after an accept failed.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long a new connection may take until its first bytes of HTTP have arrived.
const OPENING_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that may be opening at a time; for another one the oldest is dropped.
const MAX_OPENING: usize = 1_024;
/// What a client of HTTP/2 sends first. No request of HTTP/1 with a host is shorter.
const PREFACE_BYTES: usize = 24;

/// What a new connection has to begin with.
#[derive(Clone)]
pub enum Accept {
    /// HTTP.
    Plain,
    /// TLS, by which a caller may say who it is.
    Callers(CallerTls),
    /// TLS, by which a replica shows that it is one: by its certificate, and one of these names in
    /// it if there are any.
    Replicas(Tls, Arc<[String]>),
}

impl Accept {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        match self {
            Accept::Plain => None,
            Accept::Callers(tls) => Some(tls.server()),
            Accept::Replicas(tls, _) => Some(tls.server()),
        }
    }

    /// Who has shown these certificates, where callers do.
    fn certified(&self, shown: &[CertificateDer<'_>]) -> Option<Certified> {
        match self {
            Accept::Callers(tls) => Certified::of(shown, tls.clone()),
            Accept::Plain | Accept::Replicas(..) => None,
        }
    }

    /// Whether the owner of a certificate is wanted here.
    fn admits(&self, certificate: Option<&CertificateDer<'_>>) -> bool {
        match self {
            Accept::Replicas(_, names) if !names.is_empty() => {
                certificate.is_some_and(|certificate| has_name(certificate, names))
            }
            _ => true,
        }
    }
}

/// Answers that a connection may leave unfetched before its calls wait, streams aside.
const UNFETCHED_ANSWERS: usize = 128;

/// The connections of `listener`, each with one of `permits`, that have begun as they must.
/// `strangers`: those on which nobody shows who calls are few, and do not last. `usefulness`:
/// addresses whose connections are of no use wait for new ones.
pub fn connections(
    listener: TcpListener,
    permits: Arc<Semaphore>,
    accept: Accept,
    strangers: Option<Strangers>,
    usefulness: Option<Usefulness>,
) -> ReceiverStream<io::Result<Connection>> {
    let (opened, connections) = mpsc::channel(1);
    let opening = Opening {
        accept,
        permits,
        strangers,
        usefulness,
        opened,
    };
    tokio::spawn(accept_all(listener, opening));
    ReceiverStream::new(connections)
}

/// Accepts until nobody wants connections any more, and then closes the port.
async fn accept_all(listener: TcpListener, opening: Opening) {
    let mut openings = VecDeque::<AbortHandle>::new();
    loop {
        let stream = tokio::select! {
            stream = accept(&listener) => stream,
            () = opening.opened.closed() => return,
        };
        if openings.len() >= MAX_OPENING {
            openings.retain(|opening| !opening.is_finished());
        }
        if openings.len() >= MAX_OPENING
            && let Some(oldest) = openings.pop_front()
        {
            oldest.abort();
        }
        openings.push_back(tokio::spawn(opening.clone().finish(stream)).abort_handle());
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// What a new connection goes through.
#[derive(Clone)]
struct Opening {
    accept: Accept,
    permits: Arc<Semaphore>,
    strangers: Option<Strangers>,
    usefulness: Option<Usefulness>,
    opened: mpsc::Sender<io::Result<Connection>>,
}

impl Opening {
    /// Passes the connection on, or drops it when it fails or takes too long.
    async fn finish(self, stream: TcpStream) {
        match timeout(OPENING_TIMEOUT, self.open(stream)).await {
            Ok(Ok(connection)) => {
                // Nobody wants it when the server has stopped meanwhile.
                let _ = self.opened.send(Ok(connection)).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a connection failed while it was opened"),
            Err(_) => tracing::debug!("a connection took too long to be opened"),
        }
    }

    async fn open(&self, stream: TcpStream) -> io::Result<Connection> {
        socket::configure(&stream);
        let tcp = stream.connect_info();
        let mut certified = None;
        let mut stream: Box<dyn Stream> = match self.accept.tls() {
            Some(tls) => {
                let stream = TlsAcceptor::from(tls).accept(stream).await?;
                let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
                if !self.accept.admits(shown.first()) {
                    tracing::warn!(
                        peer = ?tcp.remote_addr(),
                        "refused a certificate that names no replica (--peer-name)"
                    );
                    return Err(io::Error::other("the certificate names no replica"));
                }
                certified = self.accept.certified(shown);
                Box::new(stream)
            }
            None => Box::new(stream),
        };
        let mut preface = [0; PREFACE_BYTES];
        stream.read_exact(&mut preface).await?;
        let stranger = match (&self.strangers, tcp.remote_addr()) {
            (Some(strangers), Some(from)) => {
                let admitted = strangers.admit(from.ip());
                Some(admitted.ok_or_else(|| io::Error::other("too many strangers from there"))?)
            }
            _ => None,
        };
        let used = match (&self.usefulness, tcp.remote_addr()) {
            (Some(usefulness), Some(from)) => {
                sleep(usefulness.wait(from.ip())).await;
                usefulness.begin(from.ip())
            }
            _ => Use::default(),
        };
        let permits = self.permits.clone();
        let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
        let info = ConnectionInfo {
            tcp,
            certified,
            stranger,
            message_bytes: Arc::default(),
            turns: Arc::new(Semaphore::new(UNFETCHED_ANSWERS)),
            used: Arc::new(used),
        };
        Ok(Connection::new(
            stream,
            info,
            preface.to_vec().into(),
            permit,
        ))
    }
}
