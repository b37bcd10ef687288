//! Forwards unary calls to the owner of the shard: the bytes are passed on unchanged, with the
//! caller in the metadata.
//!
//! A call is sent again only when it had no effect or can have one only once; calls that create
//! something are given a request id first. Streams are forwarded by `scheduler::resumable_stream`,
//! which knows their cursor.

use super::route::{self, Destination, OWNER_WAITS, OwnerAddress, Route};
use crate::rpc::{
    auth::{Auth, CALLER, NAMESPACE},
    errors,
};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use prost::Message;
use rallypoint_client::api::scheduler_service_server::SchedulerServiceServer;
use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};
use tonic::{
    Status,
    body::Body,
    codegen::http::{HeaderMap, HeaderValue, Request, Response, request::Parts},
    server::NamedService,
};
use tower::{Layer, Service, ServiceExt};
use uuid::Uuid;

/// Limit of a response; none of this service is larger.
const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// gRPC puts five bytes before each message: a compression flag and the length.
const PREFIX_BYTES: usize = 5;

/// Puts a [`Forward`] before the services.
#[derive(Clone)]
pub(crate) struct ForwardLayer {
    route: Route,
    auth: Auth,
    request_bytes: usize,
}

impl ForwardLayer {
    /// Forwards along `route` requests of at most `request_bytes`; `auth` identifies the caller.
    pub(crate) fn new(route: Route, auth: Auth, request_bytes: usize) -> Self {
        ForwardLayer {
            route,
            auth,
            request_bytes,
        }
    }
}

impl<S> Layer<S> for ForwardLayer {
    type Service = Forward<S>;

    fn layer(&self, inner: S) -> Forward<S> {
        Forward {
            inner,
            layer: self.clone(),
        }
    }
}

/// Handles calls on this replica or has the owner handle them.
#[derive(Clone)]
pub(crate) struct Forward<S> {
    inner: S,
    layer: ForwardLayer,
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for Forward<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        if !self.layer.route.has_peers() || !is_forwarded(request.uri().path()) {
            return Box::pin(self.inner.call(request));
        }
        // `poll_ready` holds for this instance only, so it takes the call and its clone stays.
        let inner = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, inner);
        Box::pin(handle(ready, self.layer.clone(), request))
    }
}

fn is_forwarded(path: &str) -> bool {
    let service = SchedulerServiceServer::<()>::NAME;
    let method = path
        .strip_prefix('/')
        .and_then(|path| path.strip_prefix(service))
        .and_then(|path| path.strip_prefix('/'));
    method.is_some_and(|method| method != "Synchronization")
}

async fn handle<S>(
    inner: S,
    layer: ForwardLayer,
    request: Request<Body>,
) -> Result<Response<Body>, Infallible>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send,
    S::Future: Send,
{
    let Destination::Local = layer.route.destination() else {
        let (parts, body) = request.into_parts();
        return Ok(match collect(body, layer.request_bytes).await {
            Ok(body) => Call::new(&layer, &parts, body).forward(inner).await,
            Err(status) => status.into_http(),
        });
    };
    // The body is recorded while it is read, in case the shard moves during the call.
    let (parts, body) = request.into_parts();
    let recorded = RecordedBody::default();
    let mut local = Request::new(recorded.record(body));
    *local.method_mut() = parts.method.clone();
    *local.uri_mut() = parts.uri.clone();
    *local.version_mut() = parts.version;
    *local.headers_mut() = parts.headers.clone();
    *local.extensions_mut() = parts.extensions.clone();
    let response = inner.clone().oneshot(local).await?;
    let Some(status) = Status::from_header_map(response.headers()) else {
        return Ok(response);
    };
    let body = recorded.take();
    let no_longer_local = !matches!(layer.route.destination(), Destination::Local);
    let again = route::is_not_owner(&status)
        || no_longer_local && route::is_unknown(&status) && is_repeatable(&parts, &body);
    if !again {
        return Ok(response);
    }
    Ok(Call::new(&layer, &parts, body).forward(inner).await)
}

/// A call to forward.
struct Call<'a> {
    layer: &'a ForwardLayer,
    parts: &'a Parts,
    body: Bytes,
}

impl<'a> Call<'a> {
    fn new(layer: &'a ForwardLayer, parts: &'a Parts, body: Bytes) -> Call<'a> {
        let body = if creates_something(parts) {
            with_request_id(body)
        } else {
            body
        };
        Call { layer, parts, body }
    }

    /// Sends it to the owner, again after a wait while that turns out to be another replica.
    async fn forward<S>(self, inner: S) -> Response<Body>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send,
        S::Future: Send,
    {
        let request = match self.headers_with_caller() {
            Ok(request) => request,
            Err(status) => return status.into_http(),
        };
        let route = &self.layer.route;
        let mut unknown = false;
        for wait in OWNER_WAITS.into_iter().map(Some).chain([None]) {
            let result = match route.destination() {
                Destination::Local => inner
                    .clone()
                    .oneshot(self.request(&self.parts.headers))
                    .await
                    .map_err(|never| match never {}),
                Destination::Remote(owner) => self.send(&owner, &request).await,
                Destination::Unknown => Err(errors::not_owner()),
            };
            let failed = match result {
                Ok(response) => match Status::from_header_map(response.headers()) {
                    Some(status) if route::is_not_owner(&status) || route::is_unknown(&status) => {
                        status
                    }
                    _ => return response,
                },
                Err(status) if route::is_unknown(&status) => status,
                Err(status) => return status.into_http(),
            };
            // Once an attempt may have had an effect, a later refusal cannot take that back.
            unknown |= route::is_unknown(&failed);
            match wait {
                Some(wait) => route.wait_for_owner(wait).await,
                None => tracing::debug!(%failed, "a call could not be forwarded"),
            }
        }
        if unknown {
            errors::owner_changed().into_http()
        } else {
            errors::not_owner().into_http()
        }
    }

    /// The complete response of the owner. A response that breaks off is as unknown as none.
    async fn send(
        &self,
        owner: &OwnerAddress,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Status> {
        let response = async {
            let response = owner.channel.clone().oneshot(self.request(headers)).await;
            let (parts, body) = response
                .map_err(|error| Status::unavailable(error.to_string()))?
                .into_parts();
            let whole = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
            let whole = whole.map_err(|error| Status::unavailable(error.to_string()))?;
            let trailers = whole.trailers().cloned().map(Ok);
            let body = Full::new(whole.to_bytes()).with_trailers(std::future::ready(trailers));
            Ok(Response::from_parts(parts, Body::new(body)))
        };
        tokio::select! {
            result = response => result,
            () = self.layer.route.replaced(owner) => {
                Err(Status::unavailable("ownership of the shard changed"))
            },
        }
    }

    fn request(&self, headers: &HeaderMap) -> Request<Body> {
        let mut request = Request::new(Body::new(Full::new(self.body.clone())));
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = self.parts.uri.clone();
        *request.version_mut() = self.parts.version;
        *request.headers_mut() = headers.clone();
        *request.extensions_mut() = self.parts.extensions.clone();
        request
    }

    /// The headers with the caller as this replica has with_request_id it.
    fn headers_with_caller(&self) -> Result<HeaderMap, Status> {
        let caller = self.layer.auth.caller_of(self.parts)?;
        let mut headers = self.parts.headers.clone();
        for (key, text) in [(CALLER, &caller.name), (NAMESPACE, &caller.namespace.0)] {
            let value = HeaderValue::from_str(text)
                .map_err(|_| Status::internal("the caller's name cannot be forwarded"))?;
            headers.insert(key, value);
        }
        Ok(headers)
    }
}

/// Collects the bytes of a body while it is read.
#[derive(Clone, Default)]
struct RecordedBody(Arc<Mutex<Vec<Bytes>>>);

impl RecordedBody {
    fn record(&self, body: Body) -> Body {
        let recorded = self.clone();
        Body::new(body.map_frame(move |frame| {
            if let Some(data) = frame.data_ref() {
                recorded
                    .0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(data.clone());
            }
            frame
        }))
    }

    fn take(&self) -> Bytes {
        let mut pieces =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        match pieces.len() {
            1 => pieces.swap_remove(0),
            _ => pieces.concat().into(),
        }
    }
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, Status> {
    let whole = Limited::new(body, limit + PREFIX_BYTES).collect().await;
    whole
        .map(|whole| whole.to_bytes())
        .map_err(|_| errors::call_too_large())
}

/// Calls that create something each time they are made without a request id.
fn creates_something(parts: &Parts) -> bool {
    ["/GetScheduler", "/ExecAsync"]
        .iter()
        .any(|method| parts.uri.path().ends_with(method))
}

fn is_repeatable(parts: &Parts, body: &Bytes) -> bool {
    !creates_something(parts) || message(body).is_some_and(|message| has_request_id(&message))
}

/// The one field that GetScheduler and ExecAsync share.
#[derive(Message)]
struct RequestId {
    #[prost(string, tag = "2")]
    request_id: String,
}

fn message(body: &Bytes) -> Option<Bytes> {
    let length = u32::from_be_bytes(body.get(1..PREFIX_BYTES)?.try_into().ok()?) as usize;
    (body[0] == 0 && body.len() == PREFIX_BYTES + length).then(|| body.slice(PREFIX_BYTES..))
}

fn has_request_id(message: &Bytes) -> bool {
    // A message that cannot be decoded is refused, so repeating it is harmless.
    RequestId::decode(message.clone()).is_ok_and(|found| !found.request_id.is_empty())
}

/// The same call, with a new request id if it has none.
fn with_request_id(body: Bytes) -> Bytes {
    let Some(message) = message(&body).filter(|message| !has_request_id(message)) else {
        return body;
    };
    let id = RequestId {
        request_id: Uuid::now_v7().to_string(),
    }
    .encode_to_vec();
    let mut with_request_id = BytesMut::with_capacity(body.len() + id.len());
    with_request_id.put_u8(0);
    with_request_id.put_u32((message.len() + id.len()) as u32);
    with_request_id.put(message);
    with_request_id.put(id.as_slice());
    with_request_id.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api;

    fn framed(message: &impl Message) -> Bytes {
        let mut body = BytesMut::new();
        body.put_u8(0);
        body.put_u32(message.encoded_len() as u32);
        body.put(message.encode_to_vec().as_slice());
        body.freeze()
    }

    #[test]
    fn a_call_without_a_request_id_gets_one_and_is_otherwise_unchanged() {
        let call = api::ExecAsyncRequest {
            handle: "h".into(),
            tasks: vec![Default::default()],
            ..Default::default()
        };
        let sent = api::ExecAsyncRequest::decode(
            message(&with_request_id(framed(&call))).expect("a message"),
        )
        .expect("decoded");
        assert!(Uuid::parse_str(&sent.request_id).is_ok());
        assert_eq!(
            api::ExecAsyncRequest {
                request_id: String::new(),
                ..sent
            },
            call
        );
    }

    #[test]
    fn a_request_id_of_the_caller_is_preserved() {
        let call = api::GetSchedulerRequest {
            request_id: "mine".into(),
            ..Default::default()
        };
        assert_eq!(with_request_id(framed(&call)), framed(&call));
    }

    #[test]
    fn only_unary_scheduler_calls_are_forwarded() {
        assert!(is_forwarded("/rallypoint.v1.SchedulerService/ExecAsync"));
        assert!(!is_forwarded(
            "/rallypoint.v1.SchedulerService/Synchronization"
        ));
        assert!(!is_forwarded("/rallypoint.v1.StatusService/GetStatus"));
        assert!(!is_forwarded("/grpc.health.v1.Health/Preflight"));
    }
}
