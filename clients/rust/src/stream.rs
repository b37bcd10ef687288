//! A Synchronization that survives lost connections and server restarts: it keeps the token of the
//! last message, and continues from there. Every event is returned exactly once, in
//! order.

use crate::{
    Client,
    api::{self, until::Kind},
    backoff::StreamBackoff,
    error::{Error, Result},
    outage::Outage,
    servers::Pick,
};
use std::mem;
use tonic::{Status, Streaming};

/// The events of a scheduler until a goal is met.
#[derive(Debug)]
pub struct DoneStream {
    client: Client,
    handle: String,
    cursor: i64,
    until: Option<Kind>,
    /// Of the last message; empty: none has come.
    resume_token: String,
    pending: i64,
    stream: Option<(Pick, Streaming<api::SynchronizationResponse>)>,
    end: Option<api::End>,
    outage: Outage,
    backoff: StreamBackoff,
}

impl DoneStream {
    pub(super) async fn open(
        client: Client,
        handle: String,
        after: i64,
        until: Option<Kind>,
    ) -> Result<Self> {
        let mut stream = DoneStream {
            backoff: StreamBackoff::new(client.retry_timeout()),
            client,
            handle,
            cursor: after,
            until,
            resume_token: String::new(),
            pending: 0,
            stream: None,
            end: None,
            outage: Outage::default(),
        };
        stream.connect(None).await?;
        // From here on it waits for tasks: what the time limit is for, opening it, is done.
        stream.client = stream.client.with_time_limit(None);
        stream.backoff = StreamBackoff::new(stream.client.retry_timeout());
        Ok(stream)
    }

    /// The next events, at least one; `None`: the stream has ended, see [`DoneStream::end`]. An
    /// error is final: it is returned only when reconnecting has failed or cannot help.
    pub async fn next(&mut self) -> Result<Option<Vec<api::AsyncDone>>> {
        while self.end.is_none() {
            if self.stream.is_none() {
                // Whoever waited for it to be opened again has given that up.
                self.connect(None).await?;
            }
            let done = match self.message().await {
                Ok(message) => self.take(message),
                Err(error) => {
                    self.connect(Some(error)).await?;
                    continue;
                }
            };
            if !done.is_empty() {
                return Ok(Some(done));
            }
        }
        Ok(None)
    }

    /// Number of the last event returned: pass it as `after` to continue later.
    pub fn cursor(&self) -> i64 {
        self.cursor
    }

    /// Unfinished tasks of the scheduler as of the last message.
    pub fn pending(&self) -> i64 {
        self.pending
    }

    /// Why the stream ended; `None` while it has not.
    pub fn end(&self) -> Option<&api::End> {
        self.end.as_ref()
    }

    /// Whether it is without a server at present.
    pub fn outage(&self) -> Outage {
        self.outage.clone()
    }

    async fn message(&mut self) -> Result<api::SynchronizationResponse> {
        let Some((pick, stream)) = &mut self.stream else {
            return Err(Status::unavailable("not connected").into());
        };
        let message = match stream.message().await {
            Ok(Some(message)) => return Ok(message),
            Ok(None) => Status::unavailable("the stream ended without a reason"),
            Err(status) => status,
        };
        Err(self.client.failed(*pick, message))
    }

    fn take(&mut self, message: api::SynchronizationResponse) -> Vec<api::AsyncDone> {
        self.backoff.received(!message.done.is_empty());
        self.resume_token = message.resume_token;
        self.pending = message.pending;
        if let Some(last) = message.done.last() {
            self.cursor = last.done_no;
        }
        self.end = message.end;
        message.done
    }

    /// Opens the stream, or opens it again after the error `broken`, until the retry timeout, which
    /// begins anew when the stream has come on.
    async fn connect(&mut self, broken: Option<Error>) -> Result<()> {
        self.stream = None;
        let mut broke = broken.is_some();
        if broke {
            self.backoff.broke();
        }
        let mut failed = broken;
        loop {
            if let Some(error) = failed.take() {
                // A server that answers is there, whatever it says.
                if mem::take(&mut broke) || error.transport {
                    self.outage.begin(&error);
                }
                self.backoff.wait(error).await?;
            }
            match self.client.open_stream(self.request()).await {
                Ok(stream) => {
                    self.stream = Some(stream);
                    self.backoff.opened();
                    self.outage.end();
                    return Ok(());
                }
                Err(error) => failed = Some(error),
            }
        }
    }

    fn request(&self) -> api::SynchronizationRequest {
        api::SynchronizationRequest {
            handle: self.handle.clone(),
            after: self.cursor,
            until: self.until.map(|kind| api::Until { kind: Some(kind) }),
            resume_token: self.resume_token.clone(),
        }
    }
}
