//! The door of the server: finds out who makes a call, and refuses it unless the table of methods
//! and the rules allow it. Nothing of a refused call is read, and a handler behind this door knows
//! its caller from here, whatever the metadata says.
//!
//! Without a source of identities every call passes, and `auth` names the caller.

use super::{
    audit::Subject,
    auth::{Known, NAMESPACE},
    errors::{self, reason::Reason},
    expiry::Expiring,
};
use crate::{
    core::{Caller, Namespace},
    identity::{
        Access, Authenticator, Credentials, Identity, Refusal, Role, STREAMS, WAITING, access,
    },
    peer::{Certified, ConnectionInfo},
};
use futures_util::future::{BoxFuture, Either, FutureExt, ready, select};
use secrecy::SecretString;
use std::{
    convert::Infallible,
    future::pending,
    sync::Arc,
    task::{Context, Poll},
};
use tonic::{
    Status,
    body::Body,
    codegen::http::{HeaderMap, HeaderValue, Request, Response, header::AUTHORIZATION},
};
use tower::Service;

/// Lets calls through whose caller may make them.
#[derive(Clone)]
pub(super) struct Authorization<S> {
    inner: S,
    /// `None`: everybody may do everything.
    authenticator: Option<Authenticator>,
}

impl<S> Authorization<S> {
    pub(super) fn new(inner: S, authenticator: Option<Authenticator>) -> Self {
        Authorization {
            inner,
            authenticator,
        }
    }
}

impl<S> Service<Request<Body>> for Authorization<S>
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
        let mut ends = None;
        if let Some(authenticator) = &self.authenticator {
            match admit(authenticator, &request) {
                Ok(Some(known)) => {
                    let info = request.extensions().get::<ConnectionInfo>();
                    if let Some(stranger) = info.and_then(|info| info.stranger.as_ref()) {
                        stranger.is_somebody();
                    }
                    ends = revocation(authenticator, &request, &known);
                    request.extensions_mut().insert(known);
                }
                Ok(None) => {}
                Err(status) => return Either::Right(ready(Ok(status.into_http())).boxed()),
            }
            // Nobody behind this door needs to see a token.
            request.headers_mut().remove(AUTHORIZATION);
        }
        let waits = WAITING.contains(&request.uri().path());
        let answer = self.inner.call(request);
        let Some(ends) = ends else {
            return Either::Left(answer);
        };
        if waits {
            let lost = ends.map(|()| Ok(errors::access::identity_lost().into_http()));
            let answered = select(answer.boxed(), lost);
            return Either::Right(answered.map(|first| first.factor_first().0).boxed());
        }
        let ending = move |body| Body::new(Expiring::new(body, ends));
        Either::Right(
            answer
                .map(move |answered| Ok(answered?.map(ending)))
                .boxed(),
        )
    }
}

/// Who makes a call that is allowed; `None`: anybody may make it.
fn admit(authenticator: &Authenticator, request: &Request<Body>) -> Result<Option<Known>, Status> {
    let path = request.uri().path();
    let needed = access(path);
    if needed == Some(Access::Anybody) {
        return Ok(None);
    }
    let headers = request.headers();
    let info = request.extensions().get::<ConnectionInfo>();
    let certified = info.and_then(|info| info.certified.as_ref());
    if !headers.contains_key(AUTHORIZATION) && certified.is_some_and(Certified::is_withdrawn) {
        let why = "none of the authorities that are trusted has signed its certificate";
        return Err(refused(Refusal::Invalid(why.into()), path));
    }
    let credentials = Credentials {
        authorization: single(headers, AUTHORIZATION.as_str())?,
        certificate: info.and_then(ConnectionInfo::certificate),
    };
    let identity = authenticator
        .identify(credentials)
        .map_err(|refusal| refused(refusal, path))?;
    if let Some(subject) = request.extensions().get::<Arc<Subject>>() {
        // The audit says who was refused, too.
        let _ = subject.caller.set(identity.name.clone());
    }
    let Some(needed) = needed else {
        return Err(Status::unimplemented("there is no such method"));
    };
    let everywhere = identity.role_everywhere();
    let namespace = match needed {
        Access::Anybody | Access::Known => Namespace::default_namespace(),
        Access::In(role) => {
            let namespace = namespace(&identity, headers)?;
            check(identity.role_in(&namespace), role, &namespace)?;
            namespace
        }
        Access::Everywhere(role) => {
            let namespace = namespace(&identity, headers)?;
            if everywhere < Some(role) {
                return Err(errors::access::role_missing(role, None));
            }
            namespace
        }
    };
    Ok(Some(Known {
        caller: Caller {
            namespace,
            name: identity.name.clone(),
        },
        sees_all: everywhere.is_some(),
    }))
}

/// When the caller of a call that may go on for long may not have it any more; `None`: it is short.
fn revocation(
    authenticator: &Authenticator,
    request: &Request<Body>,
    known: &Known,
) -> Option<BoxFuture<'static, ()>> {
    let mut lasting = STREAMS.iter().chain(WAITING);
    let path = lasting.find(|path| **path == request.uri().path())?;
    let needed = access(path)?;
    let authorization = request.headers().get(AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok());
    let authorization = authorization.map(SecretString::from);
    let info = request.extensions().get::<ConnectionInfo>();
    let certified = info.and_then(|info| info.certified.clone());
    let certificate = certified.clone();
    let certificate = certificate.map(|certified| (certified.name, certified.not_after));
    // A call with a token does not rest on the certificate of its connection.
    let certified = certified.filter(|_| authorization.is_none());
    let (authenticator, namespace) = (authenticator.clone(), known.caller.namespace.clone());
    let revoked = async move {
        let revoked = authenticator.revoked(authorization, certificate, needed, &namespace);
        let withdrawn = async {
            match &certified {
                Some(certified) => certified.withdrawn().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = revoked => {}
            () = withdrawn => {}
        }
    };
    Some(revoked.boxed())
}

fn refused(refusal: Refusal, path: &str) -> Status {
    match refusal {
        Refusal::Missing => errors::access::identity_missing(),
        Refusal::KeysUnavailable => errors::access::keys_unavailable(),
        Refusal::Invalid(why) => {
            tracing::debug!(why, path, "a caller is not known");
            errors::access::identity_invalid()
        }
    }
}

/// The namespace of a call: the one that it names, if its caller has a role there.
fn namespace(identity: &Identity, headers: &HeaderMap<HeaderValue>) -> Result<Namespace, Status> {
    let Some(named) = single(headers, NAMESPACE)? else {
        let usual = identity.usual_namespace();
        return usual.ok_or_else(|| match identity.may_nothing() {
            true => errors::access::namespace_not_allowed(&identity.name, None),
            false => errors::access::namespace_missing(NAMESPACE),
        });
    };
    let wrong = || errors::metadata(NAMESPACE, Reason::MetadataInvalid, Namespace::FORM);
    let namespace = Namespace::named(named).ok_or_else(wrong)?;
    match identity.role_in(&namespace) {
        Some(_) => Ok(namespace),
        None => {
            let refused = errors::access::namespace_not_allowed(&identity.name, Some(&namespace));
            Err(refused)
        }
    }
}

fn check(has: Option<Role>, needed: Role, namespace: &Namespace) -> Result<(), Status> {
    match has >= Some(needed) {
        true => Ok(()),
        false => Err(errors::access::role_missing(needed, Some(namespace))),
    }
}

/// The only value of a key. Two are refused, since a proxy could have read the other one.
fn single<'a>(
    headers: &'a HeaderMap<HeaderValue>,
    key: &'static str,
) -> Result<Option<&'a str>, Status> {
    let mut values = headers.get_all(key).iter();
    let wrong = |what| errors::metadata(key, Reason::MetadataInvalid, what);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let text = value.to_str().map(Some);
            text.map_err(|_| wrong("printable ASCII is needed"))
        }
        (Some(_), Some(_)) => Err(wrong("given more than once")),
    }
}
