//! Whether a process at an address is gone: its machine answers for it, and refuses.

use std::{io::ErrorKind, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// How long a machine may take to refuse a connection; one that takes longer is not known to be
/// without the process.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(300);

/// Whether a connection to this address is refused, so that nobody listens there any more. A
/// machine that is down refuses nothing, and a paused process keeps its socket.
pub(crate) async fn refuses(address: &str) -> bool {
    let answer = timeout(REFUSAL_TIMEOUT, TcpStream::connect(address)).await;
    let refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
    answer.is_ok_and(|answer| answer.is_err_and(refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_refuses_when_nobody_listens_any_more() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert!(!refuses(&address).await);
        drop(listener);
        assert!(refuses(&address).await);
    }
}
