//! The audit of calls: each that changes something is written down with who made it, what it was
//! about and what became of it, and so is each that was refused.
//!
//! A call that needs an operator is answered when its row is durable, and not before. What callers
//! do to their own schedulers is written a moment after the answer; the log says it, too. Rows of
//! refused calls have the room that is left, so that strangers cannot push out what others did.

use super::errors::{self, reason::NO_EFFECT};
use crate::{
    clock::Clock,
    core::Caller,
    identity::{Audited, audited},
    journal::{AuditEntry, Reader},
    peer::ConnectionInfo,
};
use futures_util::future::{BoxFuture, Either, FutureExt};
use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::{Request, Response},
};
use tonic_types::StatusExt;
use tower::Service;
use uuid::Uuid;

/// Rows that may wait to be written.
const MAX_QUEUED: usize = 10_000;
/// Of them, rows of refused calls.
const MAX_REFUSED: usize = 2_000;
/// Rows of refused calls that are written in a second: strangers fill no disk.
const REFUSED_PER_SECOND: u32 = 100;
/// Rows in one statement.
const MAX_WRITTEN: usize = 500;
/// Bytes kept of what a caller says.
const MAX_TEXT_BYTES: usize = 1_024;
/// How long an operator's call waits for its row.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a statement that failed is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
const OK: &str = "OK";
/// The caller left before the answer.
const UNKNOWN: &str = "UNKNOWN";

/// What is known of a call while it is carried out: its handler says what it is about.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    /// Who makes it.
    pub caller: OnceLock<Arc<str>>,
    /// In which namespace.
    pub namespace: OnceLock<Arc<str>>,
    /// What it is about, and why.
    pub object: OnceLock<(String, String)>,
}

impl Subject {
    /// A call of `caller` is about something.
    pub(crate) fn note(&self, caller: &Caller, (object, reason): (String, String)) {
        // What is known already, by the door, is the same.
        let _ = self.caller.set(caller.name.clone());
        let _ = self.namespace.set(caller.namespace.0.clone());
        let _ = self.object.set((object, reason));
    }
}

/// A row, and whom to tell when it is durable, with all before it.
struct Queued {
    entry: Option<AuditEntry>,
    durable: Option<oneshot::Sender<()>>,
}

/// The rows that wait to be written. Clones share them.
#[derive(Clone)]
pub(crate) struct Audit {
    rows: mpsc::Sender<Queued>,
    clock: Clock,
    left_out: Arc<AtomicU32>,
    /// Refused calls within a second, and when it began.
    refused: Arc<Mutex<(Instant, u32)>>,
}

impl Audit {
    /// Starts writing. It ends with the last clone, when all is written.
    pub(crate) fn start(reader: Reader, clock: Clock, replica: Arc<str>) -> Audit {
        let (rows, queued) = mpsc::channel(MAX_QUEUED);
        tokio::spawn(write(queued, reader, replica));
        Audit {
            rows,
            clock,
            left_out: Arc::default(),
            refused: Arc::new(Mutex::new((Instant::now(), 0))),
        }
    }

    /// Returns when everything so far is durable, or after a while.
    pub(crate) async fn flush(&self) {
        let written = async {
            let (durable, written) = oneshot::channel();
            let last = Queued {
                entry: None,
                durable: Some(durable),
            };
            if self.rows.send(last).await.is_ok() {
                let _ = written.await;
            }
        };
        if timeout(WRITE_TIMEOUT, written).await.is_err() {
            tracing::warn!("the audit of the last calls could not be written");
        }
    }

    /// Queues a row. Returns the receiver that hears when it is durable; `None`: nobody waits for
    /// that, or there is no room.
    fn queue(
        &self,
        mut entry: AuditEntry,
        refused: bool,
        waits: bool,
    ) -> Option<oneshot::Receiver<()>> {
        if refused && !self.has_room_for_refused() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        entry.left_out = self.left_out.swap(0, Ordering::Relaxed);
        let (durable, written) = oneshot::channel();
        let row = Queued {
            entry: Some(entry),
            durable: waits.then_some(durable),
        };
        match self.rows.try_send(row) {
            Ok(()) => waits.then_some(written),
            Err(error) => {
                let entry = error.into_inner().entry;
                let lost = entry.map_or(0, |entry| entry.left_out) + 1;
                self.left_out.fetch_add(lost, Ordering::Relaxed);
                None
            }
        }
    }

    fn has_room_for_refused(&self) -> bool {
        let queued = MAX_QUEUED - self.rows.capacity();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = &mut *refused;
        if since.elapsed() >= Duration::from_secs(1) {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        queued < MAX_REFUSED && *count <= REFUSED_PER_SECOND
    }
}

/// Writes what is queued, in groups, until nobody can queue any more.
async fn write(mut queued: mpsc::Receiver<Queued>, reader: Reader, replica: Arc<str>) {
    let mut group = Vec::new();
    let mut warned = false;
    while queued.recv_many(&mut group, MAX_WRITTEN).await > 0 {
        let entries: Vec<AuditEntry> = group.iter().filter_map(|row| row.entry.clone()).collect();
        while let Err(error) = reader.write_audit(&replica, &entries).await {
            if !std::mem::replace(&mut warned, true) {
                tracing::warn!(%error, "the audit cannot be written; it is tried again");
            }
            sleep(RETRY_PAUSE).await;
        }
        warned = false;
        for row in group.drain(..) {
            // Who waited may have given up.
            let _ = row.durable.map(|durable| durable.send(()));
        }
    }
}

/// Has calls written down.
#[derive(Clone)]
pub(super) struct Auditing<S> {
    inner: S,
    audit: Audit,
}

impl<S> Auditing<S> {
    pub(super) fn new(inner: S, audit: Audit) -> Self {
        Auditing { inner, audit }
    }
}

impl<S> Service<Request<Body>> for Auditing<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some((service, method, rule)) = audited(request.uri().path()) else {
            return Either::Left(self.inner.call(request));
        };
        let info = request.extensions().get::<ConnectionInfo>();
        let address = info.and_then(|info| info.tcp.remote_addr());
        let subject = Arc::<Subject>::default();
        request.extensions_mut().insert(subject.clone());
        let call = Call {
            audit: self.audit.clone(),
            subject,
            method: (service, method),
            rule,
            address: address.map(|address| address.ip().to_string()),
            is_written: false,
        };
        let answer = self.inner.call(request);
        Either::Right(async move { Ok(call.answered(answer.await?).await) }.boxed())
    }
}

/// A call that is carried out.
struct Call {
    audit: Audit,
    subject: Arc<Subject>,
    method: (&'static str, &'static str),
    rule: Audited,
    address: Option<String>,
    is_written: bool,
}

impl Call {
    /// Writes the row of an answer, and returns what is answered.
    async fn answered(mut self, answer: Response<Body>) -> Response<Body> {
        self.is_written = true;
        let (outcome, refused) = outcome(&answer);
        if outcome == OK && self.rule == Audited::IfRefused {
            return answer;
        }
        let waits = self.rule == Audited::BeforeTheAnswer && !refused;
        let entry = self.entry(outcome);
        let row = self.audit.queue(entry, refused, waits);
        if !waits {
            return answer;
        }
        let durable = async { row?.await.ok() };
        match timeout(WRITE_TIMEOUT, durable).await {
            Ok(Some(())) => answer,
            _ => errors::not_audited().into_http(),
        }
    }

    fn entry(&mut self, outcome: String) -> AuditEntry {
        let subject = &self.subject;
        let (object, reason) = subject.object.get().cloned().unwrap_or_default();
        AuditEntry {
            id: Uuid::now_v7(),
            at: self.audit.clock.now(),
            caller: subject.caller.get().cloned().unwrap_or_default(),
            address: self.address.take().unwrap_or_default(),
            namespace: subject.namespace.get().cloned().unwrap_or_default(),
            method: format!("{}/{}", self.method.0, self.method.1),
            object: cut(object),
            reason: cut(reason),
            outcome,
            left_out: 0,
        }
    }
}

impl Drop for Call {
    /// A caller that leaves early keeps nothing secret.
    fn drop(&mut self) {
        if !self.is_written && self.subject.object.get().is_some() {
            let entry = self.entry(UNKNOWN.to_owned());
            self.audit.queue(entry, false, false);
        }
    }
}

/// What the row says of an answer, and whether the call was refused: it had no effect.
fn outcome(answer: &Response<Body>) -> (String, bool) {
    let status = Status::from_header_map(answer.headers());
    let Some(status) = status.filter(|status| status.code() != Code::Ok) else {
        return (OK.to_owned(), false);
    };
    match status.get_details_error_info() {
        Some(info) => {
            let refused = info
                .metadata
                .get("effect")
                .is_some_and(|is| is == NO_EFFECT);
            (cut(info.reason), refused)
        }
        None => (format!("{:?}", status.code()), true),
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_refused_when_it_had_no_effect() {
        let of = |status: Status| outcome(&status.into_http());
        let late = of(errors::deadline_exceeded());
        assert_eq!(late, ("DEADLINE_EXCEEDED".to_owned(), false));
        let denied = of(errors::task_not_found());
        assert!(denied.1, "{denied:?}");
        let bare = of(Status::unimplemented("no such method"));
        assert_eq!(bare, ("Unimplemented".to_owned(), true));
    }

    fn entry(outcome: &str) -> AuditEntry {
        AuditEntry {
            id: Uuid::now_v7(),
            at: Clock::new().now(),
            caller: "".into(),
            address: "192.0.2.7".into(),
            namespace: "".into(),
            method: "JobService/PauseJob".into(),
            object: String::new(),
            reason: String::new(),
            outcome: outcome.into(),
            left_out: 0,
        }
    }

    #[tokio::test]
    async fn strangers_fill_neither_the_queue_nor_the_disk() {
        let (rows, mut queued) = mpsc::channel(MAX_QUEUED);
        let audit = Audit {
            rows,
            clock: Clock::new(),
            left_out: Arc::default(),
            refused: Arc::new(Mutex::new((Instant::now(), 0))),
        };
        const CALLS: u32 = 50_000;
        for _ in 0..CALLS {
            audit.queue(entry("IDENTITY_MISSING"), true, false);
        }
        assert!(
            audit.queue(entry(OK), false, true).is_some(),
            "there is room"
        );
        let mut kept = Vec::new();
        while let Ok(row) = queued.try_recv() {
            kept.extend(row.entry);
        }
        let refused = kept.len() as u32 - 1;
        assert!(refused <= MAX_REFUSED as u32, "{refused}");
        let left_out: u32 = kept.iter().map(|row| row.left_out).sum();
        assert_eq!(refused + left_out, CALLS, "each of them is counted");
    }
}
