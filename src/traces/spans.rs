//! What has ended, as spans. This is the one place that says what they are called and what they
//! show; `docs/traces.md` describes them.

use super::call::BegunCall;
use crate::core::{
    Attempt, AttemptEnd, Outcome, Seq, SpanContext, TaskId, TaskSpan, Time, Trace, Traced,
    TracedAttempt, TracedEnd, Work,
};
use opentelemetry::{
    InstrumentationScope, KeyValue, SpanId, TraceFlags, TraceId,
    trace::{self, Link, SpanKind, Status, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

/// Something that has ended, and what is known of it besides.
pub(super) enum Ended {
    /// A call.
    Call {
        call: BegunCall,
        /// When it was answered.
        at: Time,
    },
    /// An attempt, or tasks.
    Work {
        traced: Traced,
        /// Which replica ran the attempt.
        executor: String,
        /// When that was durable.
        at: Time,
    },
}

/// A span, as far as they differ.
struct Described {
    name: Cow<'static, str>,
    kind: SpanKind,
    span: SpanContext,
    /// `None`: it begins the trace.
    parent: Option<SpanContext>,
    times: (Time, Time),
    attributes: Vec<KeyValue>,
    link: Option<SpanContext>,
    /// The code of what went wrong.
    error: Option<String>,
}

/// How many spans an attempt, or tasks, are.
pub(super) fn count(traced: &Traced) -> u64 {
    let of_one = match &traced.what {
        TracedEnd::Attempt(attempt) => {
            let wait = attempt.attempt == Attempt(1);
            1 + u64::from(wait) + u64::from(traced.spec.work.has_session())
        }
        TracedEnd::Task { attempt, .. } => 2 + u64::from(attempt.0 == 0),
    };
    of_one * u64::from(traced.count)
}

impl Ended {
    /// Hands its spans to `take`.
    pub(super) fn each(&self, mut take: impl FnMut(SpanData)) {
        match self {
            Ended::Call { call, at } => take(of_call(call, *at).into_data()),
            Ended::Work {
                traced,
                executor,
                at,
            } => {
                let Some(trace) = &traced.spec.trace else {
                    return;
                };
                for index in 0..traced.count {
                    let seq = traced.first.plus(index);
                    let task = TracedTask { traced, trace, seq };
                    let all = match &traced.what {
                        TracedEnd::Attempt(attempt) => task.attempt(attempt, executor),
                        TracedEnd::Task { .. } => task.end(*at),
                    };
                    all.into_iter()
                        .map(Described::into_data)
                        .for_each(&mut take);
                }
            }
        }
    }
}

fn of_call(call: &BegunCall, at: Time) -> Described {
    let path = call.method.path();
    let mut attributes = vec![
        KeyValue::new("rpc.system.name", "grpc"),
        KeyValue::new("rpc.method", path),
    ];
    if let Some(namespace) = &call.namespace {
        let namespace = namespace.0.to_string();
        attributes.push(KeyValue::new("rallypoint.namespace", namespace));
    }
    if let Some(handle) = call.handle {
        attributes.push(KeyValue::new("rallypoint.handle", handle.to_string()));
    }
    if let Some((first, count)) = call.tasks {
        attributes.push(KeyValue::new("rallypoint.first_seq", first.0));
        attributes.push(KeyValue::new("rallypoint.tasks", i64::from(count)));
    }
    Described {
        name: path.into(),
        kind: SpanKind::Server,
        span: call.span,
        parent: call.parent,
        times: (call.begun, at),
        attributes,
        link: call.link,
        error: call.error.clone(),
    }
}

/// One of the tasks of which something has ended.
struct TracedTask<'a> {
    traced: &'a Traced,
    trace: &'a Trace,
    seq: Seq,
}

impl TracedTask<'_> {
    fn attempt(&self, attempt: &TracedAttempt, executor: &str) -> Vec<Described> {
        let number = attempt.attempt;
        let mut spans = Vec::with_capacity(3);
        if number == Attempt(1) {
            spans.push(self.wait(attempt.handed_out));
        }
        let mut attributes = self.attributes();
        attributes.push(KeyValue::new("rallypoint.attempt", i64::from(number.0)));
        attributes.push(KeyValue::new("rallypoint.outcome", end(attempt.end)));
        if !executor.is_empty() {
            let executor = executor.to_owned();
            attributes.push(KeyValue::new("rallypoint.executor", executor));
            let slot = i64::from(attempt.slot);
            attributes.push(KeyValue::new("rallypoint.slot", slot));
        }
        let times = (attempt.handed_out, attempt.ended);
        spans.push(Described {
            attributes,
            error: attempt.error.clone(),
            ..self.span("attempt", TaskSpan::Attempt(number), times)
        });
        if let Work::Sql { target } = &self.traced.spec.work {
            spans.push(self.statement(attempt, target));
        }
        spans
    }

    /// What ran on the target. The text is not shown: it may hold what nobody else is to see.
    fn statement(&self, attempt: &TracedAttempt, target: &str) -> Described {
        let mut attributes = vec![
            KeyValue::new("db.system.name", "postgresql"),
            KeyValue::new("rallypoint.target", target.to_owned()),
        ];
        if attempt.backend_pid != 0 {
            let pid = i64::from(attempt.backend_pid);
            attributes.push(KeyValue::new("rallypoint.backend_pid", pid));
        }
        if let Some(code) = attempt.error.as_ref().filter(|code| code.len() == 5) {
            let code = code.clone();
            attributes.push(KeyValue::new("db.response.status_code", code));
        }
        let number = attempt.attempt;
        let times = (attempt.started, attempt.ended);
        Described {
            name: self.traced.spec.work.to_string().into(),
            kind: SpanKind::Client,
            parent: Some(self.context(TaskSpan::Attempt(number))),
            attributes,
            error: attempt.error.clone(),
            ..self.span("", TaskSpan::Statement(number), times)
        }
    }

    /// The task itself, and how long its end took to be durable by `at`.
    fn end(&self, at: Time) -> Vec<Described> {
        let TracedEnd::Task {
            outcome,
            error,
            attempt,
            ended,
            copies,
        } = &self.traced.what
        else {
            return Vec::new();
        };
        let mut spans = Vec::with_capacity(3);
        if attempt.0 == 0 {
            spans.push(self.wait(*ended));
        }
        spans.push(self.span("done", TaskSpan::Done, (*ended, at)));
        let mut attributes = self.attributes();
        attributes.push(KeyValue::new("rallypoint.attempts", i64::from(attempt.0)));
        attributes.push(KeyValue::new("rallypoint.outcome", word(*outcome)));
        let copied = copies.iter().find(|(copy, _)| *copy == self.seq);
        let retried = copied.zip(self.trace.retried).map(|((_, of), trace)| {
            attributes.push(KeyValue::new("rallypoint.retry_of", of.0));
            trace.of(self.id(*of), TaskSpan::Task)
        });
        spans.push(Described {
            parent: Some(self.trace.call),
            attributes,
            link: retried,
            error: error.clone(),
            ..self.span("task", TaskSpan::Task, (self.traced.submitted_at, at))
        });
        spans
    }

    fn wait(&self, until: Time) -> Described {
        let times = (self.traced.submitted_at, until);
        self.span("wait", TaskSpan::Wait, times)
    }

    /// A span below that of the task.
    fn span(&self, name: &'static str, span: TaskSpan, times: (Time, Time)) -> Described {
        Described {
            name: name.into(),
            kind: SpanKind::Internal,
            span: self.context(span),
            parent: Some(self.context(TaskSpan::Task)),
            times,
            attributes: Vec::new(),
            link: None,
            error: None,
        }
    }

    fn context(&self, span: TaskSpan) -> SpanContext {
        self.trace.call.of(self.id(self.seq), span)
    }

    fn id(&self, seq: Seq) -> TaskId {
        let handle = self.traced.handle;
        TaskId { handle, seq }
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let traced = self.traced;
        let mut attributes = vec![
            KeyValue::new("rallypoint.handle", traced.handle.to_string()),
            KeyValue::new("rallypoint.seq", self.seq.0),
            KeyValue::new("rallypoint.work", traced.spec.work.to_string()),
        ];
        if let Some(order) = traced.order {
            attributes.push(KeyValue::new("rallypoint.order", order.0));
        }
        attributes
    }
}

impl Described {
    fn into_data(mut self) -> SpanData {
        let status = match &self.error {
            None => Status::Unset,
            Some(code) => {
                let code = KeyValue::new("error.type", code.clone());
                self.attributes.push(code);
                Status::error("")
            }
        };
        let mut links = SpanLinks::default();
        let link = self.link.map(|span| Link::with_context(context(span)));
        links.links.extend(link);
        let (start, end) = self.times;
        SpanData {
            span_context: context(self.span),
            parent_span_id: self
                .parent
                .map_or(SpanId::INVALID, |parent| id(parent.span_id)),
            parent_span_is_remote: self.kind == SpanKind::Server && self.parent.is_some(),
            span_kind: self.kind,
            name: self.name,
            start_time: system_time(start),
            end_time: system_time(end.max(start)),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            status,
            instrumentation_scope: scope(),
        }
    }
}

fn scope() -> InstrumentationScope {
    let builder = InstrumentationScope::builder(env!("CARGO_PKG_NAME"));
    builder.with_version(env!("CARGO_PKG_VERSION")).build()
}

fn context(span: SpanContext) -> trace::SpanContext {
    trace::SpanContext::new(
        TraceId::from_bytes(span.trace_id.to_be_bytes()),
        id(span.span_id),
        TraceFlags::SAMPLED,
        false,
        TraceState::NONE,
    )
}

fn id(span_id: u64) -> SpanId {
    SpanId::from_bytes(span_id.to_be_bytes())
}

fn system_time(Time(micros): Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros.max(0) as u64)
}

fn end(end: AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::Last(outcome) => word(outcome),
        AttemptEnd::Failed => "failed",
        AttemptEnd::Lost => "lost",
        AttemptEnd::HandedBack => "handed_back",
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::TimedOut => "timed_out",
        Outcome::Exhausted => "exhausted",
    }
}
