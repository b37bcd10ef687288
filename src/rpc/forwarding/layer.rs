//! Forwards unary calls to the owner, whatever they are: the bytes go on as they came, with who calls in the metadata.
//!
//! A call is sent again only when it had no effect, or can have one only once: those that begin something are given a
//! request id before they are sent on. Streams are forwarded in `scheduler::synchronize`, which knows their cursor.

use super::route::{self, Destination, LOOKS, OwnerAddress, Route};
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

/// Bytes of an answer; none of ours is larger.
const ANSWER_BYTES: usize = 16 << 20;
/// Before each message: a byte that says whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Puts a [`Forward`] before the services.
#[derive(Clone)]
pub(crate) struct ForwardLayer {
    route: Route,
    auth: Auth,
    request_bytes: usize,
}

impl ForwardLayer {
    /// Along `route`; `auth` tells who calls. Requests have at most `request_bytes`.
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

/// Answers calls here or has them answered by the owner.
#[derive(Clone)]
pub(crate) struct Forward<S> {
    inner: S,
    layer: ForwardLayer,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

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
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        if !self.layer.route.leads_anywhere() || !is_forwarded(request.uri().path()) {
            return Box::pin(self.inner.call(request));
        }
        // The one that is ready answers; its clone stays.
        let inner = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, inner);
        Box::pin(answer(ready, self.layer.clone(), request))
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

async fn answer<S>(
    inner: S,
    layer: ForwardLayer,
    request: Request<Body>,
) -> Result<Response<Body>, Infallible>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send,
    S::Future: Send,
{
    let Destination::Here = layer.route.way() else {
        let (parts, body) = request.into_parts();
        return Ok(match collect(body, layer.request_bytes).await {
            Ok(body) => Call::new(&layer, &parts, body).elsewhere(inner).await,
            Err(status) => status.into_http(),
        });
    };
    // While it is answered here, what it says is kept, for the case that the shard moves meanwhile.
    let (parts, body) = request.into_parts();
    let kept = BufferedFrames::default();
    let mut here = Request::new(kept.recording(body));
    *here.method_mut() = parts.method.clone();
    *here.uri_mut() = parts.uri.clone();
    *here.version_mut() = parts.version;
    *here.headers_mut() = parts.headers.clone();
    *here.extensions_mut() = parts.extensions.clone();
    let response = inner.clone().oneshot(here).await?;
    let Some(status) = Status::from_header_map(response.headers()) else {
        return Ok(response);
    };
    let body = kept.take();
    let here_no_more = !matches!(layer.route.way(), Destination::Here);
    let again = route::is_not_owner(&status)
        || here_no_more && route::is_unknown(&status) && is_repeatable(&parts, &body);
    if !again {
        return Ok(response);
    }
    Ok(Call::new(&layer, &parts, body).elsewhere(inner).await)
}

/// A call on its way to the owner.
struct Call<'a> {
    layer: &'a ForwardLayer,
    parts: &'a Parts,
    body: Bytes,
}

impl<'a> Call<'a> {
    fn new(layer: &'a ForwardLayer, parts: &'a Parts, body: Bytes) -> Call<'a> {
        let body = if begins_something(parts) {
            identified(body)
        } else {
            body
        };
        Call { layer, parts, body }
    }

    /// Sends it to the owner, looking again when that was the wrong one.
    async fn elsewhere<S>(self, inner: S) -> Response<Body>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send,
        S::Future: Send,
    {
        let request = match self.enveloped() {
            Ok(request) => request,
            Err(status) => return status.into_http(),
        };
        let route = &self.layer.route;
        let mut unknown = false;
        for longest in LOOKS.into_iter().map(Some).chain([None]) {
            let answered = match route.way() {
                Destination::Here => inner
                    .clone()
                    .oneshot(self.request(&self.parts.headers))
                    .await
                    .map_err(|never| match never {}),
                Destination::There(owner) => self.ask(&owner, &request).await,
                Destination::Nowhere => Err(errors::not_owner()),
            };
            let failed = match answered {
                Ok(response) => match Status::from_header_map(response.headers()) {
                    Some(status) if route::is_not_owner(&status) || route::is_unknown(&status) => {
                        status
                    }
                    _ => return response,
                },
                Err(status) if route::is_unknown(&status) => status,
                Err(status) => return status.into_http(),
            };
            // What has been sent may have had an effect, whatever the last look says.
            unknown |= route::is_unknown(&failed);
            match longest {
                Some(longest) => route.look_again(longest).await,
                None => tracing::debug!(%failed, "a call could not be forwarded"),
            }
        }
        if unknown {
            errors::owner_changed().into_http()
        } else {
            errors::not_owner().into_http()
        }
    }

    /// The owner's answer, whole: what breaks half-way is as unknown as what is never answered.
    async fn ask(
        &self,
        owner: &OwnerAddress,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Status> {
        let asked = async {
            let response = owner.channel.clone().oneshot(self.request(headers)).await;
            let (parts, body) = response
                .map_err(|error| Status::unavailable(error.to_string()))?
                .into_parts();
            let whole = Limited::new(body, ANSWER_BYTES).collect().await;
            let whole = whole.map_err(|error| Status::unavailable(error.to_string()))?;
            let trailers = whole.trailers().cloned().map(Ok);
            let body = Full::new(whole.to_bytes()).with_trailers(std::future::ready(trailers));
            Ok(Response::from_parts(parts, Body::new(body)))
        };
        tokio::select! {
            answered = asked => answered,
            () = self.layer.route.replaced(owner) => Err(Status::unavailable("the shard has changed hands")),
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

    /// What the owner is told besides the message.
    fn enveloped(&self) -> Result<HeaderMap, Status> {
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

/// A body as it goes by.
#[derive(Clone, Default)]
struct BufferedFrames(Arc<Mutex<Vec<Bytes>>>);

impl BufferedFrames {
    fn recording(&self, body: Body) -> Body {
        let kept = self.clone();
        Body::new(body.map_frame(move |frame| {
            if let Some(data) = frame.data_ref() {
                kept.0
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

async fn collect(body: Body, most: usize) -> Result<Bytes, Status> {
    let whole = Limited::new(body, most + PREFIX).collect().await;
    whole
        .map(|whole| whole.to_bytes())
        .map_err(|_| errors::call_too_large())
}

/// Calls that begin something new each time they are made without a request id.
fn begins_something(parts: &Parts) -> bool {
    ["/GetScheduler", "/ExecAsync"]
        .iter()
        .any(|method| parts.uri.path().ends_with(method))
}

fn is_repeatable(parts: &Parts, body: &Bytes) -> bool {
    !begins_something(parts) || message(body).is_some_and(|message| has_request_id(&message))
}

/// The one field that GetScheduler and ExecAsync share.
#[derive(Message)]
struct RequestId {
    #[prost(string, tag = "2")]
    request_id: String,
}

fn message(body: &Bytes) -> Option<Bytes> {
    let length = u32::from_be_bytes(body.get(1..PREFIX)?.try_into().ok()?) as usize;
    (body[0] == 0 && body.len() == PREFIX + length).then(|| body.slice(PREFIX..))
}

fn has_request_id(message: &Bytes) -> bool {
    // What cannot be decoded is refused, so that it does no harm to repeat it.
    RequestId::decode(message.clone()).is_ok_and(|found| !found.request_id.is_empty())
}

/// The same call, with a request id if it has none.
fn identified(body: Bytes) -> Bytes {
    let Some(message) = message(&body).filter(|message| !has_request_id(message)) else {
        return body;
    };
    let id = RequestId {
        request_id: Uuid::now_v7().to_string(),
    }
    .encode_to_vec();
    let mut identified = BytesMut::with_capacity(body.len() + id.len());
    identified.put_u8(0);
    identified.put_u32((message.len() + id.len()) as u32);
    identified.put(message);
    identified.put(id.as_slice());
    identified.freeze()
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
    fn a_call_without_a_request_id_is_given_one_and_is_otherwise_the_same() {
        let call = api::ExecAsyncRequest {
            handle: "h".into(),
            tasks: vec![Default::default()],
            ..Default::default()
        };
        let sent =
            api::ExecAsyncRequest::decode(message(&identified(framed(&call))).expect("a message"))
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
    fn a_request_id_of_the_caller_stays() {
        let call = api::GetSchedulerRequest {
            request_id: "mine".into(),
            ..Default::default()
        };
        assert_eq!(identified(framed(&call)), framed(&call));
    }

    #[test]
    fn streams_and_other_services_are_not_forwarded_as_they_are() {
        assert!(is_forwarded("/rallypoint.v1.SchedulerService/ExecAsync"));
        assert!(!is_forwarded(
            "/rallypoint.v1.SchedulerService/Synchronization"
        ));
        assert!(!is_forwarded("/rallypoint.v1.StatusService/GetStatus"));
        assert!(!is_forwarded("/grpc.health.v1.Health/Preflight"));
    }
}
