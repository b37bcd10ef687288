//! One connection to a server, from its login on.
//!
//! Invariant: what is sent leaves in one write as far as the server takes it, the rest while its
//! answers are read, and answers are read in the order in which they come. When a future of this
//! file is dropped before its end, the connection must be dropped too: nobody knows then what it
//! will say next.

use super::{
    error::{Error, Report},
    frames::{Frame, Frames},
    login::Login,
    stream::{self, Stream},
};
use bytes::{Buf, BytesMut};
use fallible_iterator::FallibleIterator;
use futures_util::FutureExt;
use postgres_protocol::{
    authentication::{
        md5_hash,
        sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256},
    },
    message::{
        backend::{AuthenticationSaslBody, DataRowBody, Message},
        frontend,
    },
};
use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWrite},
    task::{spawn_blocking, unconstrained},
    time::timeout,
};

/// How long a server may take to open a connection, its login included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may take to hang up.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Room for what arrives.
const READ_BYTES: usize = 8 << 10;

/// An open connection.
pub(crate) struct Connection {
    stream: Stream,
    frames: Frames,
    /// What is to be sent, or has not been taken yet.
    out: BytesMut,
}

/// One row of an answer to ourselves, as text.
pub(crate) type Row = Vec<Option<String>>;

impl Connection {
    /// Opens one in bounded time.
    pub(crate) async fn open(login: &Login) -> Result<Self, Error> {
        let opened = within(CONNECT_TIMEOUT, async {
            let mut connection = Connection {
                stream: stream::dial(login).await?,
                frames: Frames::default(),
                out: BytesMut::new(),
            };
            connection.log_in(login).await?;
            Ok(connection)
        });
        opened.await.map_err(|error| match error {
            Error::Protocol(said) => Error::NoPostgres(said),
            error => error,
        })
    }

    /// Where messages are put that leave with the next [`Connection::send`].
    pub(crate) fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// Sends what was put into `out`, in one write. What the server does not take at once leaves
    /// with [`Connection::receive`].
    pub(crate) async fn send(&mut self) -> Result<(), Error> {
        let begun = poll_fn(|context| match self.poll_sent(context) {
            Poll::Pending => Poll::Ready(Ok(())),
            sent => sent,
        });
        Ok(begun.await?)
    }

    /// The next message that belongs to an answer. What the server says unasked is dropped:
    /// notifications, which nobody here waits for, and the values of its settings.
    pub(crate) async fn receive(&mut self) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.arrived()? {
                return Ok(frame);
            }
            if poll_fn(|context| self.poll_arrival(context)).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Whether nothing has happened to an idle connection so far as this side can see: it is open,
    /// and the server has not ended it.
    pub(crate) fn is_quiet(&mut self) -> bool {
        loop {
            match unconstrained(self.receive()).now_or_never() {
                None => return true,
                Some(Ok(Frame::Message(Message::NoticeResponse(_)))) => {}
                Some(_) => return false,
            }
        }
    }

    /// Makes sure that the server still answers.
    pub(crate) async fn ping(&mut self) -> Result<(), Error> {
        frontend::sync(&mut self.out);
        self.send().await?;
        self.completed().await
    }

    /// Runs a statement of ours.
    pub(crate) async fn run(&mut self, statement: &str) -> Result<(), Error> {
        frontend::query(statement, &mut self.out)?;
        self.send().await?;
        self.completed().await
    }

    /// Reads one answer up to its end, and keeps nothing of it but an error.
    pub(crate) async fn completed(&mut self) -> Result<(), Error> {
        self.rows().await.map(drop)
    }

    /// Runs a query of ours, which returns one row, with the rights of the login itself.
    pub(crate) async fn row(&mut self, query: &str) -> Result<Row, Error> {
        let mut rows = self.query(&format!("set local role none; {query}")).await?;
        rows.pop().ok_or_else(|| Error::unexpected("no row"))
    }

    /// Runs queries of ours. Their names mean what they mean to the server, whatever somebody has
    /// put ahead of that for this login.
    pub(crate) async fn query(&mut self, queries: &str) -> Result<Vec<Row>, Error> {
        // One message is one transaction, which is how long the path counts.
        let queries = format!("set local search_path = pg_catalog, pg_temp; {queries}");
        frontend::query(&queries, &mut self.out)?;
        self.send().await?;
        self.rows().await
    }

    /// Ends it in order. Its place is free then, unless the server takes its time.
    pub(crate) async fn close(mut self) {
        frontend::terminate(&mut self.out);
        let hung_up = async {
            let sent = self.send().await;
            while sent.is_ok() && self.receive().await.is_ok() {}
        };
        // It ends in any case.
        let _ = timeout(CLOSE_TIMEOUT, hung_up).await;
    }

    async fn rows(&mut self) -> Result<Vec<Row>, Error> {
        let (mut rows, mut failed) = (Vec::new(), None);
        loop {
            let Frame::Message(message) = self.receive().await? else {
                continue;
            };
            match message {
                Message::DataRow(row) => rows.push(texts(&row)?),
                Message::ErrorResponse(body) => {
                    let report = Box::new(Report::of(body.fields()));
                    if report.is_fatal() {
                        return Err(Error::Reported(report));
                    }
                    failed.get_or_insert(Error::Reported(report));
                }
                Message::ReadyForQuery(_) => return failed.map_or(Ok(rows), Err),
                _ => {}
            }
        }
    }

    /// Reads, and writes meanwhile what is left of `out`: a server that says more than is on its
    /// way to us at a time takes nothing until we have read it.
    fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Err(error)) = self.poll_sent(context) {
            return Poll::Ready(Err(error));
        }
        self.frames.bytes.reserve(READ_BYTES);
        pin!(self.stream.read_buf(&mut self.frames.bytes)).poll(context)
    }

    /// Writes what is left of `out`.
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.out))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(written);
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn arrived(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            let next = self.frames.next();
            // Not what the network did, but what the server said.
            match next.map_err(|error| Error::Protocol(error.to_string()))? {
                Some(Frame::Message(
                    Message::NotificationResponse(_) | Message::ParameterStatus(_),
                )) => {}
                next => return Ok(next),
            }
        }
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), Error> {
        let settings = login.settings.iter();
        let settings = settings.map(|(name, value)| (name.as_str(), value.as_str()));
        let who = [("user", login.user.as_str()), ("database", &login.database)];
        frontend::startup_message(who.into_iter().chain(settings), &mut self.out)?;
        self.send().await?;
        loop {
            match self.answer().await? {
                Message::AuthenticationOk | Message::BackendKeyData(_) => {}
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(password(login)?.as_bytes(), &mut self.out)?;
                    self.send().await?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let (user, password) = (login.user.as_bytes(), password(login)?.as_bytes());
                    let hash = md5_hash(user, password, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut self.out)?;
                    self.send().await?;
                }
                Message::AuthenticationSasl(body) => self.scram(login, &body).await?,
                Message::ReadyForQuery(_) => return Ok(()),
                Message::NoticeResponse(_) => {}
                _ => {
                    return Err(Error::Login(
                        "the server asks for a way to log in that a target cannot use: \
                         it takes scram-sha-256, md5, password, cert, peer and trust"
                            .into(),
                    ));
                }
            }
        }
    }

    async fn scram(&mut self, login: &Login, body: &AuthenticationSaslBody) -> Result<(), Error> {
        let offered = body.mechanisms().any(|one| Ok(one == SCRAM_SHA_256))?;
        if !offered {
            return Err(Error::Login(
                "the server offers no SCRAM-SHA-256 without channel binding".into(),
            ));
        }
        let secret = password(login)?.as_bytes();
        let mut scram = ScramSha256::new(secret, ChannelBinding::unsupported());
        frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut self.out)?;
        self.send().await?;
        let Message::AuthenticationSaslContinue(body) = self.answer().await? else {
            return Err(Error::unexpected("no challenge"));
        };
        // The server says how many rounds of hashing it takes.
        let hashed = spawn_blocking(move || scram.update(body.data()).map(|()| scram));
        let mut scram = hashed.await.map_err(io::Error::other)??;
        frontend::sasl_response(scram.message(), &mut self.out)?;
        self.send().await?;
        let Message::AuthenticationSaslFinal(body) = self.answer().await? else {
            return Err(Error::unexpected("no proof"));
        };
        Ok(scram.finish(body.data())?)
    }

    /// The next message of the login.
    async fn answer(&mut self) -> Result<Message, Error> {
        match self.receive().await? {
            Frame::Message(Message::ErrorResponse(body)) => {
                Err(Error::Reported(Box::new(Report::of(body.fields()))))
            }
            Frame::Message(message) => Ok(message),
            Frame::Oversized(_) => Err(Error::unexpected("a huge message")),
        }
    }
}

/// Limits the time of `work`. The connection must not be used again after a timeout.
pub(crate) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

fn password(login: &Login) -> Result<&str, Error> {
    login.password.as_deref().ok_or_else(|| {
        let what =
            "the server asks for a password, and neither the URL nor a `password_file` has one";
        Error::Login(what.into())
    })
}

fn texts(row: &DataRowBody) -> Result<Row, Error> {
    let text =
        |range: std::ops::Range<usize>| String::from_utf8_lossy(&row.buffer()[range]).into_owned();
    Ok(row.ranges().map(|range| Ok(range.map(text))).collect()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;
    use tokio::{
        io::{AsyncWriteExt, duplex},
        join,
        net::TcpListener,
    };

    /// Much more than is on its way at a time.
    const MUCH: usize = 100 << 10;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut message = vec![tag];
        message.put_u32(body.len() as u32 + 4);
        message.extend_from_slice(body);
        message
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_much_before_it_has_read_all_blocks_nobody() {
        let (near, mut server) = duplex(1 << 10);
        let mut connection = Connection {
            stream: Box::new(near),
            frames: Frames::default(),
            out: BytesMut::new(),
        };
        let statement = "x".repeat(MUCH);
        let asked = connection.run(&statement);
        let answered = async {
            let notice = message(b'N', b"SNOTICE\0Mmuch\0\0");
            for _ in 0..MUCH / notice.len() {
                server.write_all(&notice).await?;
            }
            let mut query = vec![0; message(b'Q', statement.as_bytes()).len() + 1];
            server.read_exact(&mut query).await?;
            server.write_all(&message(b'Z', b"I")).await?;
            Ok::<_, io::Error>(query)
        };
        let both = timeout(CONNECT_TIMEOUT, async { join!(asked, answered) });
        let (asked, query) = both.await.expect("nobody waits for ever");
        asked.expect("an answer");
        assert!(query.expect("all of it").ends_with(b"xxx\0"));
    }

    #[tokio::test]
    async fn what_speaks_something_else_is_said_to_be_no_postgres() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        for mode in ["prefer", "disable"] {
            let url = format!("postgres://u@127.0.0.1:{port}/d?sslmode={mode}");
            let login: Login = url.parse().expect("a login");
            let web = async {
                let (mut client, _) = listener.accept().await?;
                let refusal = b"HTTP/1.1 400 Bad Request\r\n\r\n";
                client.write_all(refusal).await?;
                // Until the other side has hung up.
                client.read_to_end(&mut Vec::new()).await
            };
            let (opened, _) = join!(Connection::open(&login), web);
            assert!(matches!(opened, Err(Error::NoPostgres(_))), "{mode}");
        }
    }
}
