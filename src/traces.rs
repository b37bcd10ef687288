//! Traces for OpenTelemetry: what becomes of the tasks of a call, as spans below the span of its
//! caller, sent to a collector by OTLP.
//!
//! Spans are made when they are over, from what the core has noted of them and released. Whoever
//! has something for them never waits: what is more than can be sent is dropped, and counted.
//! Nothing of a text, a parameter, a result or a message of an error gets here.

mod call;
mod exporter;
mod spans;

pub use call::{BegunCall, CalledMethod};
pub use exporter::TraceConfig;

use crate::{
    clock::Clock,
    core::{
        SpanContext, Time, Trace, Traced, TracedEnd, Traceparent, model::diagnostics::Diagnostics,
    },
    metrics::Metrics,
};
use exporter::{Exporter, Message};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use spans::Ended;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Messages that may wait to become spans.
const MAX_MESSAGES: usize = 4_096;
/// Spans that may wait in them.
const MAX_SPANS: u64 = 65_536;

/// Where whatever is traced is reported. Cheap to clone; `default` reports nothing.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Tracing>>);

struct Tracing {
    ended: mpsc::Sender<Message>,
    /// Spans that wait.
    waiting: Arc<AtomicU64>,
    /// A call without a traceparent is traced if the trace it would begin has an id whose last 63
    /// bits are less.
    sampled: u64,
    clock: Clock,
    metrics: Metrics,
}

impl Traces {
    /// Begins to send spans. `replica` names this server. Fails when the collector is not named as
    /// it must be; it need not be there.
    pub fn start(
        config: &TraceConfig,
        replica: &str,
        clock: Clock,
        metrics: Metrics,
    ) -> anyhow::Result<Traces> {
        let waiting = Arc::new(AtomicU64::new(0));
        let exporter = Exporter::new(config, replica, waiting.clone(), metrics.clone())?;
        let (ended, messages) = mpsc::channel(MAX_MESSAGES);
        tokio::spawn(exporter.run(messages));
        Ok(Traces(Some(Arc::new(Tracing {
            ended,
            waiting,
            sampled: (config.share * (1u64 << 63) as f64) as u64,
            clock,
            metrics,
        }))))
    }

    /// A call that submits tasks begins: `Some` if it is traced. That is as its caller says; where
    /// it says nothing, the call begins a trace of its own, or, mostly, none.
    pub fn call(&self, method: CalledMethod, parent: Option<Traceparent>) -> Option<BegunCall> {
        let tracing = self.0.as_ref()?;
        if parent.is_some_and(|parent| !parent.sampled) {
            return None;
        }
        let parent = parent.map(|parent| parent.span);
        let span = new_span(parent);
        // Every program that samples by the id of a trace takes these same bits.
        let is_sampled = parent.is_some() || (span.trace_id as u64 >> 1) < tracing.sampled;
        is_sampled.then(|| BegunCall::new(method, span, parent, tracing.clock.now()))
    }

    /// A call begins that submits tasks of a trace once more: in a trace of their own.
    pub fn retry(
        &self,
        method: CalledMethod,
        retried: SpanContext,
        caller: Option<Traceparent>,
    ) -> Option<(BegunCall, Trace)> {
        let tracing = self.0.as_ref()?;
        let call = new_span(None);
        let mut begun = BegunCall::new(method, call, None, tracing.clock.now());
        begun.link = caller.filter(|caller| caller.sampled).map(|one| one.span);
        let retried = Some(retried);
        Some((begun, Trace { call, retried }))
    }

    /// A call has been answered.
    pub fn answered(&self, call: BegunCall) {
        if let Some(tracing) = &self.0 {
            let at = tracing.clock.now();
            tracing.report(1, || vec![Ended::Call { call, at }]);
        }
    }

    /// What has ended of traced tasks is durable.
    pub fn released(&self, all: Vec<Traced>, at: Time) {
        let Some(tracing) = &self.0 else {
            return;
        };
        if all.is_empty() {
            return;
        }
        let work = |mut traced: Traced| {
            let executor = match &mut traced.what {
                // What the target has said would wait here, too.
                TracedEnd::Attempt(attempt) => executor(&std::mem::take(&mut attempt.diagnostics)),
                TracedEnd::Task { .. } => String::new(),
            };
            Ended::Work {
                traced,
                executor,
                at,
            }
        };
        let spans = all.iter().map(spans::count).sum();
        tracing.report(spans, || all.into_iter().map(work).collect());
    }

    /// Sends what is still to be sent, or gives up after `limit`.
    pub async fn flush(&self, limit: Duration) {
        let Some(tracing) = &self.0 else {
            return;
        };
        let (done, flushed) = oneshot::channel();
        let flush = async {
            if tracing.ended.send(Message::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        if tokio::time::timeout(limit, flush).await.is_err() {
            tracing::warn!("stopped before the last spans of traces were sent");
        }
    }
}

impl Tracing {
    /// Passes on what so many spans are made of, or drops it. However many of them end together,
    /// they have room when nothing else waits.
    fn report(&self, spans: u64, ended: impl FnOnce() -> Vec<Ended>) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let has_room = waiting == 0 || waiting + spans <= MAX_SPANS;
        match self.ended.try_reserve() {
            Ok(place) if has_room => {
                self.waiting.fetch_add(spans, Ordering::Relaxed);
                place.send(Message::Ended(ended(), spans));
            }
            _ => {
                let all = &self.metrics.traces.spans;
                all.of(["dropped"]).inc_by(spans);
            }
        }
    }
}

/// A span below `parent`; without one, the first of a new trace.
fn new_span(parent: Option<SpanContext>) -> SpanContext {
    let random = RandomIdGenerator::default();
    let trace_id = || u128::from_be_bytes(random.new_trace_id().to_bytes());
    SpanContext {
        trace_id: parent.map_or_else(trace_id, |parent| parent.trace_id),
        span_id: u64::from_be_bytes(random.new_span_id().to_bytes()),
    }
}

/// Which replica ran an attempt; empty: not known.
fn executor(diagnostics: &[u8]) -> String {
    let known = serde_json::from_slice::<Diagnostics>(diagnostics);
    known.map(|known| known.replica).unwrap_or_default()
}
