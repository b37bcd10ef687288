//! Connections that have begun as they must get a place among those that are allowed, and wait for
//! it if they have to: for a place, and because of their address (`usefulness`). One that has to
//! wait for neither passes those that do.

use super::{
    certified::Certified,
    connection::{Connection, ConnectionInfo, Stream},
    strangers::Stranger,
    usefulness::{Use, Usefulness},
};
use bytes::{BufMut, BytesMut};
use std::{io, net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    io::AsyncReadExt,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tonic::transport::server::TcpConnectInfo;

/// Connections that may wait at a time; another one that would have to is dropped.
const MAX_WAITING: usize = 1_024;
/// How long one may wait for a place.
const PLACE_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read of a connection that waits, to notice its end.
const MAX_FIRST_BYTES: usize = 16 << 10;

/// Gives connections their places. Clones give the same.
#[derive(Clone)]
pub(super) struct Admission {
    permits: Arc<Semaphore>,
    usefulness: Option<Usefulness>,
    waiting: Arc<Semaphore>,
}

/// A connection that has begun as it must.
pub(super) struct Opened {
    pub stream: Box<dyn Stream>,
    /// What has been read of it.
    pub first: BytesMut,
    pub tcp: TcpConnectInfo,
    pub certified: Option<Certified>,
    pub stranger: Option<Arc<Stranger>>,
}

impl Admission {
    pub(super) fn new(permits: Arc<Semaphore>, usefulness: Option<Usefulness>) -> Admission {
        Admission {
            permits,
            usefulness,
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
        }
    }

    /// The connection with its place. Fails when that takes too long, and when the other side does
    /// not want it any more: neither counts against its address.
    pub(super) async fn admit(&self, mut opened: Opened) -> io::Result<Connection> {
        let from = opened.tcp.remote_addr().map(|address| address.ip());
        let permit = match self.at_once(from) {
            Some(permit) => permit,
            None => self.wait(from, &mut opened).await?,
        };
        let used = match (&self.usefulness, from) {
            (Some(usefulness), Some(from)) => usefulness.begin(from, opened.stranger.clone()),
            _ => Use::default(),
        };
        let info = ConnectionInfo {
            tcp: opened.tcp,
            certified: opened.certified,
            stranger: opened.stranger,
            held_bytes: Arc::default(),
            held_event_bytes: Arc::default(),
            turns: Arc::default(),
            used: Arc::new(used),
        };
        let first = opened.first.freeze();
        Ok(Connection::new(opened.stream, info, first, permit))
    }

    fn at_once(&self, from: Option<IpAddr>) -> Option<OwnedSemaphorePermit> {
        let has_to_wait = !self.pause(from).is_zero();
        let permit = (!has_to_wait).then(|| self.permits.clone().try_acquire_owned());
        permit?.ok()
    }

    async fn wait(
        &self,
        from: Option<IpAddr>,
        opened: &mut Opened,
    ) -> io::Result<OwnedSemaphorePermit> {
        let _waiting = self
            .waiting
            .try_acquire()
            .map_err(|_| io::Error::other("too many connections wait"))?;
        let place = async {
            sleep(self.pause(from)).await;
            timeout(PLACE_TIMEOUT, self.permits.clone().acquire_owned()).await
        };
        tokio::select! {
            biased;
            error = end(opened) => Err(error),
            place = place => place?.map_err(io::Error::other),
        }
    }

    /// How long a connection from there has to wait because of its address.
    fn pause(&self, from: Option<IpAddr>) -> Duration {
        let pause = self.usefulness.as_ref().zip(from);
        pause.map_or(Duration::ZERO, |(usefulness, from)| usefulness.wait(from))
    }
}

/// Resolves when a connection has ended. What it says until then is kept, as far as there is room:
/// of one that says more the end is not noticed.
async fn end(opened: &mut Opened) -> io::Error {
    while opened.first.len() < MAX_FIRST_BYTES {
        let left = MAX_FIRST_BYTES - opened.first.len();
        let mut first = (&mut opened.first).limit(left);
        match opened.stream.read_buf(&mut first).await {
            Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
            Ok(_) => {}
            Err(error) => return error,
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncWriteExt, DuplexStream, duplex},
        time::Instant,
    };

    const FROM: [u8; 4] = [192, 0, 2, 7];

    fn opened() -> (Opened, DuplexStream) {
        let (ours, theirs) = duplex(64 << 10);
        let opened = Opened {
            stream: Box::new(ours),
            first: BytesMut::from("said "),
            tcp: TcpConnectInfo {
                local_addr: None,
                remote_addr: Some((FROM, 7).into()),
            },
            certified: None,
            stranger: None,
        };
        (opened, theirs)
    }

    /// With so many places, for addresses of which that of the tests waits for so long.
    fn admission(places: usize, wait: Duration) -> (Admission, Usefulness) {
        let usefulness = Usefulness::default();
        usefulness.spend(FROM.into(), wait);
        let permits = Arc::new(Semaphore::new(places));
        let admission = Admission::new(permits, Some(usefulness.clone()));
        (admission, usefulness)
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_connection_says_while_it_waits_is_kept() {
        let wait = Duration::from_secs(2);
        let (admission, _) = admission(1, wait);
        let (opened, mut theirs) = opened();
        let begun = Instant::now();
        let long = [b'x'; MAX_FIRST_BYTES];
        theirs.write_all(&long).await.expect("said");
        let mut admitted = admission.admit(opened).await.expect("a place");
        assert_eq!(begun.elapsed().as_millis(), wait.as_millis());
        let mut said = [0; 5 + MAX_FIRST_BYTES];
        admitted.read_exact(&mut said).await.expect("all of it");
        assert_eq!((&said[..5], &said[5..]), (&b"said "[..], &long[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_while_it_waits_is_not_charged() {
        let wait = Duration::from_secs(1);
        let (admission, usefulness) = admission(1, wait);
        let (opened, theirs) = opened();
        let admitting = admission.admit(opened);
        let giving_up = async {
            sleep(wait / 2).await;
            drop(theirs);
        };
        let (admitted, ()) = tokio::join!(admitting, giving_up);
        let error = admitted.expect_err("nobody is there");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(usefulness.wait(FROM.into()), wait / 2);
        assert_eq!(admission.permits.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gets_no_place_is_not_charged() {
        let (admission, usefulness) = admission(0, Duration::from_secs(1));
        let (opened, _theirs) = opened();
        let begun = Instant::now();
        let error = admission.admit(opened).await.expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), 1 + PLACE_TIMEOUT.as_secs());
        assert_eq!(usefulness.wait(FROM.into()), Duration::ZERO);
        let burst = (0..50).map(|_| usefulness.begin(FROM.into(), None));
        drop(burst.collect::<Vec<Use>>());
        assert_eq!(usefulness.wait(FROM.into()), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn others_pass_while_as_many_as_may_wait() {
        let (admission, usefulness) = admission(2, Duration::from_secs(1));
        let waiting = admission.waiting.clone();
        let all = waiting.acquire_many(MAX_WAITING as u32).await;
        let (one_more, _theirs) = opened();
        assert!(admission.admit(one_more).await.is_err(), "it is dropped");
        usefulness.spend(FROM.into(), Duration::ZERO);
        let (other, _theirs) = opened();
        assert!(admission.admit(other).await.is_ok());
        drop(all);
    }
}
