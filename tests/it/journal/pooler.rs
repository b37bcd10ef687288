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
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
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

/// A pooler in front of a database.
#[derive(Clone)]
struct Pooler {
    lends: Lends,
    /// A session begins with what its client asks for.
    passes_options: Arc<AtomicBool>,
}

impl Pooler {
    fn new(lends: Lends, passes_options: bool) -> Pooler {
        Pooler {
            lends,
            passes_options: Arc::new(AtomicBool::new(passes_options)),
        }
    }
}

/// The options of a connection to `database` through a pooler.
async fn through(pooler: &Pooler, database: &PgConnectOptions) -> PgConnectOptions {
    let pooler = pooler.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let name = database.get_database().expect("a name").to_owned();
    let options = format!("postgres://{COORDINATION}@{address}/{name}?sslmode=disable");
    tokio::spawn(async move {
        let login = format!("user\0{COORDINATION}\0database\0{name}\0\0");
        let plain = [&(3_i32 << 16).to_be_bytes()[..], login.as_bytes()].concat();
        let shared = Arc::new(Mutex::new(session(&plain).await.unwrap()));
        while let Ok((mut client, _)) = listener.accept().await {
            let asked = startup(&mut client).await.unwrap();
            let begin = match pooler.passes_options.load(Ordering::Relaxed) {
                true => &asked,
                false => &plain,
            };
            let session = match pooler.lends {
                Lends::ByTransaction => shared.clone(),
                Lends::BySession => Arc::new(Mutex::new(session(begin).await.unwrap())),
            };
            tokio::spawn(serve(client, session));
        }
    });
    options.parse().unwrap()
}

/// What a client begins with, without the length.
async fn startup(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = client.read_i32().await? - 4;
    let mut asked = vec![0; length as usize];
    client.read_exact(&mut asked).await?;
    Ok(asked)
}

/// A session of the server that begins with this.
async fn session(startup: &[u8]) -> io::Result<UnixStream> {
    let socket: PathBuf = POSTGRES.socket_dir().join(".s.PGSQL.5432");
    let mut server = UnixStream::connect(socket).await?;
    server.write_i32(4 + startup.len() as i32).await?;
    server.write_all(startup).await?;
    while message(&mut server).await?.0 != b'Z' {}
    Ok(server)
}

/// Serves one client until it hangs up.
async fn serve(mut client: TcpStream, session: Arc<Mutex<UnixStream>>) -> io::Result<()> {
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
    let pooler = Pooler::new(Lends::ByTransaction, false);
    let pooled = through(&pooler, &database()).await;
    let error = Journal::open(config(&pooled)).await.expect_err("refused");
    assert!(
        matches!(&error, JournalError::Unsafe(text) if text.contains("by the transaction")),
        "{error}"
    );
}

#[tokio::test]
async fn a_pooler_that_drops_what_sessions_are_asked_for_is_refused_at_the_start() {
    let pooler = Pooler::new(Lends::BySession, false);
    let pooled = through(&pooler, &database()).await;
    let error = Journal::open(config(&pooled)).await.expect_err("refused");
    assert!(
        matches!(&error, JournalError::Unsafe(text) if text.contains("drops the connection option")),
        "{error}"
    );
}

#[tokio::test]
async fn a_pooler_that_refuses_what_sessions_are_asked_for_is_no_outage() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            startup(&mut client).await.unwrap();
            let said = "SFATAL\0C08P01\0Munsupported startup parameter: options\0\0";
            client.write_u8(b'E').await.unwrap();
            client.write_i32(4 + said.len() as i32).await.unwrap();
            client.write_all(said.as_bytes()).await.unwrap();
        }
    });
    let options = format!("postgres://anybody@{address}/any?sslmode=disable");
    let opened = Journal::open(config(&options.parse().unwrap())).await;
    let error = opened.expect_err("refused");
    assert!(
        matches!(&error, JournalError::Unsafe(text) if text.contains("connect directly")),
        "{error}"
    );
    assert!(!error.is_outage());
}

#[tokio::test]
async fn nothing_is_acknowledged_on_a_connection_that_may_lose_commits() {
    let pooler = Pooler::new(Lends::BySession, true);
    let pooled = through(&pooler, &database()).await;
    let journal = Journal::open(config(&pooled)).await.unwrap();
    let replica = replica("one");
    let owned = take_over(&journal, &replica).await;
    // It was set up anew meanwhile.
    pooler.passes_options.store(false, Ordering::Relaxed);
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
async fn the_doctor_finds_a_pooler_that_lends_its_sessions_or_drops_what_they_are_asked_for() {
    for (lends, passes_options, verdict) in [
        (Lends::BySession, true, Verdict::Good),
        (Lends::BySession, false, Verdict::Bad),
        (Lends::ByTransaction, false, Verdict::Bad),
    ] {
        let pooler = Pooler::new(lends, passes_options);
        let options = through(&pooler, &database()).await;
        let findings = examine(&options).await;
        let pooler = findings.iter().find(|finding| finding.check == "pooler");
        assert_eq!(pooler.map(|one| one.verdict), Some(verdict), "{findings:?}");
    }
}
