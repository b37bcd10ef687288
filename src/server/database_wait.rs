//! Waits for the coordination database at the start: an outage is no reason to end. Meanwhile the
//! server is not ready and says why; what waiting cannot mend (a login that is refused, a database
//! that is not there, an unsafe one, something else that listens in its place) ends it.

use crate::{
    core::Work,
    journal::{Journal, JournalConfig, JournalError, Replica, Sessions},
    peer::Accept,
    rpc,
};
use std::{
    pin::Pin,
    time::{Duration, Instant},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long callers wait for a start that says nothing.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Between two tries.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Between two lines of the log about the wait.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What somebody can do who has named a database that never comes.
const ADVICE: &str = "`rallypoint doctor --database URL` tells more";

/// Opens the journal and enrols the executor of this replica, so that an owner can fence it.
pub(super) async fn open(
    database: &JournalConfig,
    replica: &Replica,
    capacity: &[(Work, u32)],
) -> Result<(Journal, Sessions), JournalError> {
    let journal = Journal::open(database.clone()).await?;
    let sessions = journal.sessions(replica.clone());
    sessions.enrol(capacity).await?;
    Ok((journal, sessions))
}

/// What a start needs of the database, or `None` when a shutdown came first. While it waits,
/// callers are answered on `listener` that the server is not ready.
pub(super) async fn wait<T, F>(
    listener: &TcpListener,
    port: (Accept, rpc::Hosts),
    mut shutdown: Pin<&mut (impl Future<Output = ()> + Send)>,
    attempt: impl Fn() -> F,
) -> anyhow::Result<Option<T>>
where
    F: Future<Output = Result<T, JournalError>>,
{
    let first = attempt();
    tokio::pin!(first);
    let ended = tokio::select! {
        ended = &mut first => Some(ended),
        () = shutdown.as_mut() => return Ok(None),
        () = tokio::time::sleep(FIRST_WAIT) => None,
    };
    let under_way = match ended {
        Some(Err(error)) if error.is_outage() => {
            tracing::warn!(
                %error,
                "waiting for the coordination database; not ready until it is there"
            );
            false
        }
        Some(opened) => return Ok(Some(opened?)),
        None => {
            // Of a new database the tables are created.
            tracing::info!("opening the coordination database; not ready until it is open");
            true
        }
    };
    let over = CancellationToken::new();
    let answering = tokio::spawn(rpc::serve_unready(clone(listener)?, port, over.clone()));
    let opened = tokio::select! {
        opened = go_on(under_way.then_some(first), attempt) => opened.map(Some),
        () = shutdown => Ok(None),
    };
    over.cancel();
    answering.await?;
    Ok(opened?)
}

/// Waits for the attempt under way, if there is one, and then for those that follow.
async fn go_on<T, F>(first: Option<Pin<&mut F>>, attempt: impl Fn() -> F) -> Result<T, JournalError>
where
    F: Future<Output = Result<T, JournalError>>,
{
    match first {
        Some(first) => match patiently(first).await {
            Err(error) if error.is_outage() => repeat(attempt).await,
            opened => opened,
        },
        None => repeat(attempt).await,
    }
}

/// Waits for an attempt, and warns when it takes longer than what a first start takes.
async fn patiently<F: Future>(mut attempt: Pin<&mut F>) -> F::Output {
    if let Ok(ended) = tokio::time::timeout(LOG_INTERVAL, attempt.as_mut()).await {
        return ended;
    }
    tracing::warn!(
        next = ADVICE,
        "the coordination database has not answered yet; not ready until then"
    );
    attempt.await
}

async fn repeat<T, F>(attempt: impl Fn() -> F) -> Result<T, JournalError>
where
    F: Future<Output = Result<T, JournalError>>,
{
    let (begun, mut logged) = (Instant::now(), Instant::now());
    let mut advice = Some(ADVICE);
    loop {
        tokio::time::sleep(RETRY_INTERVAL).await;
        match attempt().await {
            Err(error) if error.is_outage() => {
                if logged.elapsed() >= LOG_INTERVAL {
                    logged = Instant::now();
                    let waited_s = begun.elapsed().as_secs();
                    tracing::warn!(
                        %error,
                        waited_s,
                        next = advice.take(),
                        "still waiting for the coordination database"
                    );
                }
            }
            other => return other,
        }
    }
}

/// The same socket, for as long as somebody else takes its connections.
fn clone(listener: &TcpListener) -> std::io::Result<TcpListener> {
    let socket = std::os::fd::AsFd::as_fd(listener).try_clone_to_owned()?;
    TcpListener::from_std(socket.into())
}
