//! Accepts connections. Each must first show that somebody speaks HTTP behind it (and on a port
//! with TLS, who), within a time limit and without holding a place of those that have: silent
//! connections block nobody. Then `admission` gives it a place. When no file descriptor is free,
//! the listener pauses instead of spinning.

use super::{
    admission::{Admission, Opened},
    caller_tls::CallerTls,
    certified::Certified,
    connection::{Connection, Stream},
    strangers::Strangers,
    tls::{Tls, has_name},
    usefulness::Usefulness,
    write_timeout::WriteTimeout,
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
        strangers,
        admission: Admission::new(permits, usefulness),
        opened,
    };
    tokio::spawn(accept_all(listener, opening, MAX_OPENING));
    ReceiverStream::new(connections)
}

/// Accepts until nobody wants connections any more, and then closes the port. `most` may be opening
/// at a time.
async fn accept_all(listener: TcpListener, opening: Opening, most: usize) {
    let mut openings = VecDeque::<AbortHandle>::new();
    loop {
        let stream = tokio::select! {
            stream = accept(&listener) => stream,
            () = opening.opened.closed() => return,
        };
        if openings.len() >= most {
            openings.retain(|opening| !opening.is_finished());
        }
        if openings.len() >= most
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
    strangers: Option<Strangers>,
    admission: Admission,
    opened: mpsc::Sender<io::Result<Connection>>,
}

impl Opening {
    /// Passes the connection on, or drops it when it fails or takes too long. Once it has begun as
    /// it must it is no opening any more: those that say nothing do not push it out.
    async fn finish(self, stream: TcpStream) {
        match timeout(OPENING_TIMEOUT, self.open(stream)).await {
            Ok(Ok(opened)) => {
                tokio::spawn(self.pass_on(opened));
            }
            Ok(Err(error)) => tracing::debug!(%error, "a connection failed while it was opened"),
            Err(_) => tracing::debug!("a connection took too long to be opened"),
        }
    }

    async fn pass_on(self, opened: Opened) {
        match self.admission.admit(opened).await {
            Ok(connection) => {
                // Nobody wants it when the server has stopped meanwhile.
                let _ = self.opened.send(Ok(connection)).await;
            }
            Err(error) => tracing::debug!(%error, "a connection was not let in"),
        }
    }

    async fn open(&self, stream: TcpStream) -> io::Result<Opened> {
        socket::configure(&stream);
        let tcp = stream.connect_info();
        let stream = WriteTimeout::new(stream);
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
        Ok(Opened {
            stream,
            first: preface[..].into(),
            tcp,
            certified,
            stranger,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use tokio::{io::AsyncWriteExt, time::Instant};
    use tokio_stream::StreamExt;

    const PREFACE: &[u8; PREFACE_BYTES] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const SOON: Duration = Duration::from_secs(10);

    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((HERE, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        (listener, address)
    }

    async fn begun(to: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(to).await.expect("it listens");
        stream.write_all(PREFACE).await.expect("it is read");
        stream
    }

    #[tokio::test]
    async fn an_address_waits_and_is_charged_for_what_it_was_given() {
        let usefulness = Usefulness::default();
        let (listener, address) = listener().await;
        let places = Arc::new(Semaphore::new(10));
        let given = Some(usefulness.clone());
        let mut accepted = connections(listener, places, Accept::Plain, None, given);
        let wait = Duration::from_millis(400);
        usefulness.spend(HERE, wait);
        let since = Instant::now();
        // Nobody is there any more when these would be let in.
        for _ in 0..5 {
            drop(begun(address).await);
        }
        let _waiting = begun(address).await;
        let connection = timeout(SOON, accepted.next()).await.expect("in time");
        assert!(since.elapsed() >= wait, "it was let in at once");
        assert_eq!(usefulness.wait(HERE), Duration::ZERO);
        usefulness.spend(HERE, wait);
        drop(connection);
        assert!(usefulness.wait(HERE) > wait, "it was of no use");
        assert!(timeout(wait / 4, accepted.next()).await.is_err(), "others");
    }

    #[tokio::test]
    async fn silent_connections_do_not_push_out_one_that_waits() {
        let usefulness = Usefulness::default();
        usefulness.spend(HERE, Duration::from_millis(400));
        let (listener, address) = listener().await;
        let (opened, mut accepted) = mpsc::channel(1);
        let opening = Opening {
            accept: Accept::Plain,
            strangers: None,
            admission: Admission::new(Arc::new(Semaphore::new(1)), Some(usefulness)),
            opened,
        };
        tokio::spawn(accept_all(listener, opening, 4));
        let _waiting = begun(address).await;
        sleep(Duration::from_millis(100)).await;
        let mut silent = Vec::new();
        for _ in 0..12 {
            silent.push(TcpStream::connect(address).await.expect("it listens"));
        }
        let connection = timeout(SOON, accepted.recv()).await.expect("in time");
        assert!(connection.is_some_and(|connection| connection.is_ok()));
    }
}
