//! HTTP and JSON for whoever does not speak gRPC: curl, browsers, scripts (`docs/http.md`).
//!
//! It stands before everything else on the port and turns a call into the gRPC call of the same
//! method, and the answer into JSON. What lies behind sees gRPC alone: who may call, limits,
//! deadlines and forwarding are decided there, once. Methods come from the descriptors of the API,
//! so a new one needs no code here. What speaks gRPC passes untouched.

mod answer;
mod call;
mod event_stream;
mod json_message;
mod json_shape;
mod media;
pub(super) mod messages;
mod misplaced;
mod openapi;
mod same_site;
mod session;
mod settings;
mod translation;

pub(crate) use same_site::Hosts;
pub(super) use settings::Settings;

use crate::page;
use call::Called;
use futures_util::future::{BoxFuture, Either, FutureExt, ready};
use http_body_util::Full;
use media::{GRPC, JSON, guarded};
use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};
use tonic::{
    body::Body,
    codegen::http::{
        HeaderValue, Method, Request, Response, Version,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
};
use tower::Service;

const OPENAPI: &str = "/openapi.json";
/// Answers HTTP requests, by what `inner` says to the gRPC call.
#[derive(Clone)]
pub(super) struct Gateway<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> Gateway<S> {
    pub(super) fn new(inner: S, settings: Arc<Settings>) -> Self {
        Gateway { inner, settings }
    }
}

impl<S> Service<Request<Body>> for Gateway<S>
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

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if is_grpc(&request) {
            return Either::Left(self.inner.call(request));
        }
        if request.uri().path() == session::PATH {
            let settings = self.settings.clone();
            let answer = async move { Ok(guarded(of_session(request, &settings).await)) };
            return Either::Right(answer.boxed());
        }
        let answer = match called(request, &self.settings) {
            Ok(Called {
                request,
                answer_in,
                deadline,
                room,
            }) => {
                let answered = self.inner.call(request);
                async move {
                    let Ok(answered) = answered.await;
                    answer::of(answered, answer_in, deadline, room).await
                }
                .boxed()
            }
            Err(answer) => ready(*answer).boxed(),
        };
        Either::Right(answer.map(guarded).map(Ok).boxed())
    }
}

/// HTTP/1 has no place for the end of a gRPC call.
fn is_grpc(request: &Request<Body>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    request.version() == Version::HTTP_2 && kind.starts_with(GRPC)
}

async fn of_session(request: Request<Body>, settings: &Settings) -> Response<Body> {
    match same_site::check(&request, &settings.hosts) {
        Ok(()) => session::answer(request, settings).await,
        Err(status) => answer::failure(&status),
    }
}

/// The gRPC call that a request asks for, or the answer to one that asks for none.
fn called(request: Request<Body>, settings: &Settings) -> Result<Called, Box<Response<Body>>> {
    let refused = |status| Box::new(answer::failure(&status));
    let document = document(&request);
    let checked = match document {
        Some(_) => same_site::check_document(&request, &settings.hosts),
        None => same_site::check(&request, &settings.hosts),
    };
    checked.map_err(refused)?;
    if let Some(document) = document {
        return Err(Box::new(document));
    }
    call::of(request, &settings.rooms, settings.largest)
}

/// What is there to be read, for anybody: the page and the description of the API.
fn document(request: &Request<Body>) -> Option<Response<Body>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return None;
    }
    let path = request.uri().path();
    if path == OPENAPI {
        return Some(shown(JSON, openapi::document()));
    }
    let file = page::file(path)?;
    Some(shown(&file.kind, file.content))
}

fn shown(kind: &str, content: bytes::Bytes) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(content)));
    let kind = HeaderValue::from_str(kind);
    let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    // A new version of the server brings a new page, which asks for what that server knows.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
