//! The bytes between this process and a server: TCP or a Unix socket, with TLS as the login says.

use super::{
    error::Error,
    login::{Host, Login, SslMode},
    tls,
};
use crate::{
    database_url::{NO_TLS, by_default},
    socket,
};
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::io;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

/// Where bytes come from and go to.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

pub(super) type Stream = Box<dyn Duplex>;

pub(super) async fn dial(login: &Login) -> Result<Stream, Error> {
    tls::check_files(&login.ssl).await?;
    let host = match &login.host {
        Host::Socket(directory) => {
            let path = directory.join(format!(".s.PGSQL.{}", login.port));
            let stream = UnixStream::connect(&path).await;
            let stream = stream.map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
            return Ok(Box::new(stream));
        }
        Host::Name(host) => host,
    };
    let mut stream = TcpStream::connect((host.as_str(), login.port)).await?;
    socket::configure(&stream);
    if login.ssl.mode.asks() && takes_tls(&mut stream).await? {
        return Ok(Box::new(tls::connect(&login.ssl, host, stream).await?));
    }
    match login.ssl.mode {
        SslMode::Disable | SslMode::Prefer => Ok(Box::new(stream)),
        mode => Err(Error::Login(format!(
            "{NO_TLS}{}",
            by_default(mode == SslMode::VerifyFull)
        ))),
    }
}

/// Asks the server. Exactly one byte is read, so that nothing that came before TLS is taken for
/// what came through it.
async fn takes_tls(stream: &mut TcpStream) -> Result<bool, Error> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request).await?;
    match stream.read_u8().await? {
        b'S' => Ok(true),
        b'N' => Ok(false),
        // As a server answers that has no process to spare. What it says of it nobody vouches for.
        b'E' => Err(io::Error::other("the server takes no connections at the moment").into()),
        // Our own request: a connection to an unused port of this machine may lead to itself.
        0 => Err(io::Error::other("nobody listens there").into()),
        other => Err(Error::unexpected(char::from(other))),
    }
}
