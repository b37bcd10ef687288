//! Sends spans to the collector, a batch at a time. While it takes none they wait in a queue with a
//! limit, and what is more is dropped: nobody waits for a collector.

use super::spans::Ended;
use crate::metrics::Metrics;
use anyhow::Context;
use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    SpanExporter, WithExportConfig, WithTonicConfig,
    tonic_types::transport::{Certificate, ClientTlsConfig},
};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter as _},
};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

/// Spans sent at once.
const BATCH: usize = 512;
/// How long a span waits for others.
const DELAY: Duration = Duration::from_secs(1);
const OF_SERVICE: &str = "OTEL_SERVICE_NAME";

/// Where spans go, and which calls have them.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// The collector, which speaks OTLP over gRPC: `http://` or `https://`, host and port.
    pub endpoint: String,
    /// Authorities of its certificate (PEM); `None`: the public ones.
    pub ca: Option<PathBuf>,
    /// Of calls without a traceparent, the share that begins a trace: 0 to 1.
    pub share: f64,
}

/// What the exporter is sent.
pub(super) enum Message {
    /// What so many spans are made of.
    Ended(Vec<Ended>, u64),
    /// Send everything that came before, and say when that is done.
    Flush(oneshot::Sender<()>),
}

/// The way to the collector.
pub(super) struct Exporter {
    to: SpanExporter,
    /// Spans that wait in the queue.
    waiting: Arc<AtomicU64>,
    metrics: Metrics,
    /// The last batch was not taken.
    failing: bool,
}

impl Exporter {
    pub(super) fn new(
        config: &TraceConfig,
        replica: &str,
        waiting: Arc<AtomicU64>,
        metrics: Metrics,
    ) -> anyhow::Result<Self> {
        let mut builder = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(&config.endpoint);
        if config.endpoint.starts_with("https:") {
            builder = builder.with_tls_config(tls(config)?);
        }
        let built = builder.build();
        let mut to = built.context("--otlp-endpoint cannot be used: write http://HOST:PORT")?;
        to.set_resource(&resource(replica));
        for outcome in ["exported", "failed", "dropped"] {
            metrics.traces.spans.of([outcome]);
        }
        Ok(Exporter {
            to,
            waiting,
            metrics,
            failing: false,
        })
    }

    /// Sends what it is told of, until nobody is left who could tell it.
    pub(super) async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        let mut spans = Vec::new();
        let mut due = Instant::now();
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    None => return self.export(&mut spans).await,
                    Some(Message::Flush(done)) => {
                        self.export(&mut spans).await;
                        let _ = done.send(());
                    }
                    Some(Message::Ended(ended, count)) => {
                        if spans.is_empty() {
                            due = Instant::now() + DELAY;
                        }
                        self.take(ended, &mut spans).await;
                        self.waiting.fetch_sub(count, Ordering::Relaxed);
                    }
                },
                () = sleep_until(due), if !spans.is_empty() => self.export(&mut spans).await,
            }
        }
    }

    /// Makes spans of what has ended, and sends those that fill a batch.
    async fn take(&mut self, ended: Vec<Ended>, spans: &mut Vec<SpanData>) {
        for one in ended {
            one.each(|span| spans.push(span));
        }
        let mut all = std::mem::take(spans).into_iter();
        while all.len() >= BATCH {
            let mut batch = all.by_ref().take(BATCH).collect();
            self.export(&mut batch).await;
        }
        spans.extend(all);
    }

    async fn export(&mut self, spans: &mut Vec<SpanData>) {
        if spans.is_empty() {
            return;
        }
        let count = spans.len() as u64;
        let sent = self.to.export(std::mem::take(spans)).await;
        let outcome = if sent.is_ok() { "exported" } else { "failed" };
        self.metrics.traces.spans.of([outcome]).inc_by(count);
        match (sent, self.failing) {
            (Err(error), false) => tracing::warn!(%error, "the collector takes no spans"),
            (Ok(()), true) => tracing::info!("the collector takes spans again"),
            _ => {}
        }
        self.failing = outcome == "failed";
    }
}

fn tls(config: &TraceConfig) -> anyhow::Result<ClientTlsConfig> {
    let Some(path) = &config.ca else {
        let public = webpki_roots::TLS_SERVER_ROOTS.iter().cloned();
        return Ok(ClientTlsConfig::new().trust_anchors(public));
    };
    let pem = std::fs::read(path);
    let pem = pem.with_context(|| format!("--otlp-ca: cannot read {}", path.display()))?;
    Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)))
}

/// Who sends the spans. OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say more, or otherwise.
fn resource(replica: &str) -> Resource {
    let replica = replica.to_owned();
    let mut builder = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", replica),
    ]);
    if std::env::var_os(OF_SERVICE).is_none() {
        builder = builder.with_service_name(env!("CARGO_PKG_NAME"));
    }
    builder.build()
}
