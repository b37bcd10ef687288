//! A collector of OpenTelemetry: takes spans over OTLP and shows them to a test.

use super::conversation::WAIT_TIMEOUT;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{net::TcpListener, time::timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

/// A collector that listens until the runtime of its test ends.
#[derive(Clone)]
pub(crate) struct Collector {
    address: SocketAddr,
    received: Received,
}

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().expect("spans").push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    pub(crate) async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let received = Received::default();
        let service = TraceServiceServer::new(received.clone());
        let incoming = TcpListenerStream::new(listener);
        let serving = Server::builder().add_service(service);
        tokio::spawn(serving.serve_with_incoming(incoming));
        Collector { address, received }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans of a trace, as far as they have come.
    pub(crate) fn trace(&self, trace_id: &str) -> Trace {
        let is_of_trace = |span: &Span| hex(&span.trace_id) == trace_id;
        Trace(self.spans().into_iter().filter(is_of_trace).collect())
    }

    fn spans(&self) -> Vec<Span> {
        let all = self.received.0.lock().expect("spans");
        let all = all.iter().flat_map(|request| &request.resource_spans);
        let all = all.flat_map(|resource| &resource.scope_spans);
        all.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// How many spans have come.
    pub(crate) fn count(&self) -> usize {
        self.spans().len()
    }

    /// Waits for the span that has a link to this one.
    pub(crate) async fn linked_to(&self, of: &Span) -> Span {
        let is_linked = |span: &Span| {
            let mut links = span.links.iter();
            links.any(|link| (&link.trace_id, &link.span_id) == (&of.trace_id, &of.span_id))
        };
        let wait = async {
            loop {
                match self.spans().into_iter().find(is_linked) {
                    Some(span) => return span,
                    None => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        timeout(WAIT_TIMEOUT, wait).await.expect("a link")
    }

    /// Waits until a trace has so many spans.
    pub(crate) async fn whole_trace(&self, trace_id: &str, count: usize) -> Trace {
        let wait = async {
            while self.trace(trace_id).0.len() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = timeout(WAIT_TIMEOUT, wait).await;
        let trace = self.trace(trace_id);
        assert!(waited.is_ok(), "{count} spans, not {:#?}", trace.names());
        trace
    }

    /// Everything that has come, as text.
    pub(crate) fn everything(&self) -> String {
        format!("{:?}", self.received.0.lock().expect("spans"))
    }

    /// The attributes of whoever has sent the spans that came first.
    pub(crate) fn first_resource(&self) -> Vec<(String, String)> {
        let all = self.received.0.lock().expect("spans");
        let resource = all[0].resource_spans[0].resource.clone();
        resource
            .expect("a resource")
            .attributes
            .iter()
            .map(pair)
            .collect()
    }
}

/// The spans of a trace.
pub(crate) struct Trace(pub Vec<Span>);

impl Trace {
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().map(|span| &span.name[..]).collect();
        names.sort_unstable();
        names
    }

    /// The only span of this name.
    pub(crate) fn span(&self, name: &str) -> &Span {
        let mut named = self.0.iter().filter(|span| span.name == name);
        match (named.next(), named.next()) {
            (Some(span), None) => span,
            (None, _) => panic!("no {name} among {:?}", self.names()),
            (Some(_), Some(_)) => panic!("more than one {name} among {:?}", self.names()),
        }
    }

    /// The spans below a span.
    pub(crate) fn below(&self, parent: &Span) -> Trace {
        let below = |span: &&Span| span.parent_span_id == parent.span_id;
        Trace(self.0.iter().filter(below).cloned().collect())
    }
}

/// The value of an attribute, as text.
pub(crate) fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|one| one.key == key)?;
    Some(pair(found).1)
}

pub(crate) fn kind(span: &Span) -> SpanKind {
    span.kind()
}

/// Whether a span says that something went wrong.
pub(crate) fn has_failed(span: &Span) -> bool {
    let status = span.status.as_ref();
    status.is_some_and(|status| status.code() == StatusCode::Error)
}

pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pair(one: &KeyValue) -> (String, String) {
    let value = one.value.as_ref().and_then(|value| value.value.as_ref());
    let text = match value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    (one.key.clone(), text)
}
