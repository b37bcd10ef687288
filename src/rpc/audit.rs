//! The audit of calls: each that changes something is written down with who made it, what it was
//! about and what became of it, and so is each that was refused.
//!
//! A call that needs an operator is answered when its row is durable, and not before, unless its
//! deadline passes: it is told so then, and its row is written all the same. What callers do to
//! their own schedulers is written a moment after the answer; the log says it, too. `rows` says
//! which rows have how much room.

mod rows;

pub(crate) use rows::Audit;

use super::{
    deadline::deadline,
    errors::{self, reason::NO_EFFECT},
};
use crate::{
    core::Caller,
    identity::{Audited, audited},
    journal::AuditEntry,
    peer::ConnectionInfo,
};
use futures_util::future::{BoxFuture, Either, FutureExt};
use rows::{Room, WRITE_TIMEOUT};
use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};
use tokio::time::{Instant, timeout_at};
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::{Request, Response},
};
use tonic_types::StatusExt;
use tower::Service;
use uuid::Uuid;

/// Bytes kept of what a caller says.
const MAX_TEXT_BYTES: usize = 1_024;
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
    /// Set when it only says what it would do.
    dry: OnceLock<()>,
}

impl Subject {
    /// A call of `caller` is about something.
    pub(crate) fn note(&self, caller: &Caller, (object, reason): (String, String)) {
        // What is known already, by the door, is the same.
        let _ = self.caller.set(caller.name.clone());
        let _ = self.namespace.set(caller.namespace.0.clone());
        let _ = self.object.set((object, reason));
    }

    /// The call only says what it would do, so it has a row only if it is refused.
    pub(crate) fn note_dry(&self) {
        let _ = self.dry.set(());
    }

    fn is_dry(&self) -> bool {
        self.dry.get().is_some()
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
            deadline: deadline(request.headers()),
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
    /// When it is to be answered by, whether its row is durable or not.
    deadline: Option<Instant>,
    is_written: bool,
}

impl Call {
    /// Writes the row of an answer, and returns what is answered.
    async fn answered(mut self, answer: Response<Body>) -> Response<Body> {
        self.is_written = true;
        let (outcome, refused) = outcome(&answer);
        if outcome == OK && (self.rule == Audited::IfRefused || self.subject.is_dry()) {
            return answer;
        }
        let room = match self.rule {
            _ if refused => Room::Refused,
            Audited::BeforeTheAnswer => Room::Operators,
            Audited::Later | Audited::IfRefused => Room::Callers,
        };
        let is_done = outcome == OK;
        let entry = self.entry(outcome);
        let row = self.audit.queue(entry, room);
        if room != Room::Operators {
            return answer;
        }
        let durable = async { row?.await.ok() };
        let latest = Instant::now() + WRITE_TIMEOUT;
        let until = self
            .deadline
            .map_or(latest, |deadline| deadline.min(latest));
        match timeout_at(until, durable).await {
            Ok(Some(())) => answer,
            // It says already that its effect is not known, and why.
            _ if !is_done => answer,
            Err(_) if until < latest => errors::deadline_exceeded().into_http(),
            _ => errors::not_audited().into_http(),
        }
    }

    fn entry(&mut self, outcome: String) -> AuditEntry {
        let subject = &self.subject;
        let (object, reason) = subject.object.get().cloned().unwrap_or_default();
        AuditEntry {
            id: Uuid::now_v7(),
            at: self.audit.now(),
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
        if !self.is_written && self.subject.object.get().is_some() && !self.subject.is_dry() {
            let entry = self.entry(UNKNOWN.to_owned());
            self.audit.queue(entry, Room::Callers);
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
    use crate::rpc::deadline::TIMEOUT;
    use tower::service_fn;

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

    #[tokio::test]
    async fn without_a_row_a_call_that_was_done_counts_as_unanswered_and_an_error_stays() {
        let answered = async |answer: Response<Body>| {
            let call = Call {
                audit: Audit::closed(),
                subject: Arc::default(),
                method: ("JobService", "PauseJob"),
                rule: Audited::BeforeTheAnswer,
                address: None,
                deadline: None,
                is_written: false,
            };
            outcome(&call.answered(answer).await).0
        };
        let done = answered(Response::new(Body::empty())).await;
        assert_eq!(done, "TEMPORARILY_UNAVAILABLE");
        let late = answered(errors::deadline_exceeded().into_http()).await;
        assert_eq!(late, "DEADLINE_EXCEEDED");
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_that_waits_keeps_no_answer_past_the_deadline() {
        let (audit, _unwritten) = Audit::unwritten();
        let done = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
        let mut service = Auditing::new(service_fn(done), audit);
        let mut request = Request::new(Body::empty());
        let path = "/rallypoint.v1.JobService/PauseJob";
        *request.uri_mut() = path.parse().expect("a path");
        let timeout = "1S".parse().expect("a value");
        request.headers_mut().insert(TIMEOUT, timeout);
        let begun = Instant::now();
        let Ok(answer) = service.call(request).await;
        assert_eq!(outcome(&answer).0, "DEADLINE_EXCEEDED");
        assert!(begun.elapsed() < WRITE_TIMEOUT, "{:?}", begun.elapsed());
    }
}
