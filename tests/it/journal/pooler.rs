//! A pooler between the service and Postgres may lend its sessions to several, and forgets what a
//! session was asked for at its start. Neither costs anybody what was acknowledged.

use super::{config, database, replica, take_over};
use crate::harness::postgres::POSTGRES;
use rallypoint::{
    core::{BatchNo, Records, ShardId},
    journal::*,
    postgres::COORDINATION,
};
use sqlx::postgres::PgConnectOptions;
use std::{io, path::PathBuf, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
    sync::Mutex,
};

/// Whom a session of the server is lent to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lends {
    /// One client for as long as it is connected.
    BySession,
    /// Whoever comes next, transaction by transaction.
    ByTransaction,
}

/// The options of a connection to `database` through a pooler.
async fn through_a_pooler(database: &PgConnectOptions, lends: Lends) -> PgConnectOptions {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let name = database.get_database().expect("a name").to_owned();
    let options = format!("postgres://{COORDINATION}@{address}/{name}?sslmode=disable");
    tokio::spawn(async move {
        let shared = Arc::new(Mutex::new(session(&name).await.unwrap()));
        while let Ok((client, _)) = listener.accept().await {
            let session = match lends {
                Lends::ByTransaction => shared.clone(),
                Lends::BySession => Arc::new(Mutex::new(session(&name).await.unwrap())),
            };
            tokio::spawn(serve(client, session));
        }
    });
    options.parse().unwrap()
}

/// A session of the server, without any option.
async fn session(database: &str) -> io::Result<UnixStream> {
    let socket: PathBuf = POSTGRES.socket_dir().join(".s.PGSQL.5432");
    let mut server = UnixStream::connect(socket).await?;
    let login = format!("user\0{COORDINATION}\0database\0{database}\0\0");
    server.write_i32(8 + login.len() as i32).await?;
    server.write_i32(3 << 16).await?;
    server.write_all(login.as_bytes()).await?;
    while message(&mut server).await?.0 != b'Z' {}
    Ok(server)
}

/// Serves one client until it hangs up.
async fn serve(mut client: TcpStream, session: Arc<Mutex<UnixStream>>) -> io::Result<()> {
    let rest = client.read_i32().await? - 4;
    client.read_exact(&mut vec![0; rest as usize]).await?;
    // Welcome, without a password; and ready.
    client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await?;
    loop {
        let mut asked = Vec::new();
        loop {
            let (kind, bytes) = message(&mut client).await?;
            if kind == b'X' {
                return Ok(());
            }
            asked.extend(bytes);
            if matches!(kind, b'Q' | b'S') {
                break;
            }
        }
        let mut server = session.lock().await;
        server.write_all(&asked).await?;
        loop {
            let (kind, bytes) = message(&mut *server).await?;
            client.write_all(&bytes).await?;
            if kind == b'Z' {
                break;
            }
        }
    }
}

/// The kind of the next message, and its bytes.
async fn message(from: &mut (impl AsyncReadExt + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let (kind, length) = (from.read_u8().await?, from.read_i32().await?);
    let mut bytes = vec![0; 1 + length as usize];
    bytes[0] = kind;
    bytes[1..5].copy_from_slice(&length.to_be_bytes());
    from.read_exact(&mut bytes[5..]).await?;
    Ok((kind, bytes))
}

#[tokio::test]
async fn a_pooler_that_lends_its_sessions_by_the_transaction_is_refused() {
    let pooled = through_a_pooler(&database(), Lends::ByTransaction).await;
    let error = Journal::open(config(&pooled)).await.expect_err("refused");
    assert!(
        matches!(&error, JournalError::Unsafe(text) if text.contains("session mode")),
        "{error}"
    );
}

#[tokio::test]
async fn nothing_is_acknowledged_on_a_connection_that_may_lose_commits() {
    let direct = database();
    let pooled = through_a_pooler(&direct, Lends::BySession).await;
    let journal = Journal::open(config(&pooled)).await.unwrap();
    let replica = replica("one");
    let owned = take_over(&journal, &replica).await;
    let batch = Batch {
        shard: ShardId(0),
        epoch: owned.epoch,
        no: BatchNo(owned.last_batch.0 + 1),
        day: owned.now.day(),
        records: Records::default(),
    };
    let commit = journal.writer(&replica).append(&batch).await;
    assert!(
        matches!(&commit, Commit::Unknown { message } if message.contains("synchronous_commit")),
        "{commit:?}"
    );
}

#[tokio::test]
async fn the_doctor_finds_a_pooler_that_lends_its_sessions_by_the_transaction() {
    for (lends, verdict) in [
        (Lends::BySession, Verdict::Good),
        (Lends::ByTransaction, Verdict::Bad),
    ] {
        let options = through_a_pooler(&database(), lends).await;
        let findings = examine(&options).await;
        let pooler = findings.iter().find(|finding| finding.check == "pooler");
        assert_eq!(pooler.map(|one| one.verdict), Some(verdict), "{findings:?}");
    }
}
