//! How every unary call that the owner answers is answered: here while this replica owns the shard,
//! else by the owner, one hop away. A caller cannot tell the two apart: the request is decoded and
//! its caller identified here in both cases, and the owner's message or error is answered as if it
//! were this replica's own.
//!
//! A call is sent again only when it had no effect or can have one only once; calls that create
//! something are given a request id first.

use super::route::{self, Destination, OWNER_WAITS, OwnerAddress, Route};
use crate::{
    core::Caller,
    rpc::{
        audit::Subject,
        auth::Auth,
        errors::{self, reason::Reason},
        traceparent,
        unfetched::Turn,
    },
};
use prost::Message;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, transport::Channel};
use tonic_types::StatusExt;
use uuid::Uuid;

/// Limit of a forwarded response; none of these services has a larger one.
pub(crate) const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// A larger message has others wait behind it, where the link to the owner is slow.
const LARGE_BYTES: usize = 64 << 10;

/// Which connection to the owner a call goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Calls,
    LargeCalls,
    Streams,
}

impl Over {
    /// `waits`: the call stays open as a stream does.
    fn of(waits: bool, message_bytes: usize) -> Over {
        match waits {
            true => Over::Streams,
            false if message_bytes > LARGE_BYTES => Over::LargeCalls,
            false => Over::Calls,
        }
    }
}

/// The request of a unary call of a service, which `S` carries out.
pub(crate) trait Unary<S>: Message + Clone + 'static {
    type Response: Message + 'static;

    /// Has this replica carry out the call.
    fn run(
        self: Arc<Self>,
        here: &S,
        caller: Caller,
    ) -> impl Future<Output = Result<Self::Response, Status>> + Send;

    /// Has the owner carry out the call.
    fn send(
        owner: Channel,
        request: Request<Self>,
    ) -> impl Future<Output = Result<Response<Self::Response>, Status>> + Send;

    /// The request id, if the call creates something each time it is made without one.
    fn request_id(&mut self) -> Option<&mut String> {
        None
    }

    /// What the call is about, and why it is made, for the audit.
    fn about(&self) -> (String, String) {
        Default::default()
    }

    /// Whether what the call is about is not there any more once it has had its effect.
    fn deletes(&self) -> bool {
        false
    }

    /// Whether the call only says what it would do.
    fn is_dry(&self) -> bool {
        false
    }

    /// Whether the call waits for tasks, which may take any time. Such a call ends when this
    /// replica stops.
    fn waits(&self) -> bool {
        false
    }
}

/// The unary calls of a service, a line each: `call(Request) -> Response`, which the method of the
/// same name carries out with the request by reference, or, after `=`, one of another name with the
/// request as an `Arc`. `creates by FIELD`: the call creates something each time it is made without
/// a request id there. `waits if FIELD`: it then waits for tasks. `of "KIND" FIELD since REASON`:
/// what it is about, and why; `about "THING" since REASON` of what has no name. `dry if FIELD`: it
/// then changes nothing. `deletes FIELD`: what is named there is gone afterwards.
macro_rules! unary_calls {
    (@run $here:ident, $caller:ident, $request:expr, $call:ident) => {
        $here.$call($caller, &$request).await
    };
    (@run $here:ident, $caller:ident, $request:expr, $call:ident $run:ident) => {
        $here.$run($caller, $request).await
    };
    ($here:ident, $client:ident: $($call:ident($request:ident) -> $response:ident $(= $run:ident)?
        $(, of $kind:literal $name:ident $(since $reason:ident)?)?
        $(, about $thing:literal $(since $why:ident)?)? $(, dry if $dry:ident)? $(, deletes $gone:ident)?
        $(, creates by $id:ident)? $(, waits if $waits:ident)?;)*) => {
        $(impl $crate::rpc::forwarding::unary::Unary<$here> for rallypoint_client::api::$request {
            type Response = rallypoint_client::api::$response;

            $(fn request_id(&mut self) -> Option<&mut String> {
                Some(&mut self.$id)
            })?

            $(fn about(&self) -> (String, String) {
                use $crate::rpc::forwarding::about::Naming;
                let object = format!("{} {}", $kind, self.$name.words());
                (object, [$(self.$reason.clone(),)? String::new()].concat())
            })?

            $(fn about(&self) -> (String, String) {
                ($thing.to_owned(), [$(self.$why.clone(),)? String::new()].concat())
            })?

            $(fn deletes(&self) -> bool {
                !self.$gone.is_empty()
            })?

            $(fn is_dry(&self) -> bool {
                self.$dry
            })?

            $(fn waits(&self) -> bool {
                self.$waits
            })?

            async fn run(
                self: std::sync::Arc<Self>,
                here: &$here,
                caller: $crate::core::Caller,
            ) -> Result<Self::Response, tonic::Status> {
                $crate::rpc::forwarding::unary::unary_calls!(@run here, caller, self, $call $($run)?)
            }

            async fn send(
                owner: tonic::transport::Channel,
                request: tonic::Request<Self>,
            ) -> Result<tonic::Response<Self::Response>, tonic::Status> {
                let owner = $client::new(owner);
                let most = $crate::rpc::forwarding::unary::MAX_RESPONSE_BYTES;
                owner.max_decoding_message_size(most).$call(request).await
            }
        })*
    };
}
pub(crate) use unary_calls;

/// A service as its calls come in.
pub(crate) struct Endpoint<'a, S> {
    pub here: &'a S,
    pub auth: &'a Auth,
    /// Route to the owner; `None`: this replica answers itself, as the owner does another one.
    pub route: Option<&'a Route>,
    /// Cancelled when the server shuts down.
    pub stopping: &'a CancellationToken,
}

impl<S: Sync> Endpoint<'_, S> {
    /// Answers a call, wherever the owner is.
    pub(crate) async fn answer<C: Unary<S>>(
        &self,
        request: Request<C>,
    ) -> Result<Response<C::Response>, Status> {
        let caller = self.auth.caller(&request)?;
        if let Some(subject) = request.extensions().get::<Arc<Subject>>() {
            let call = request.get_ref();
            subject.note(&caller, call.about());
            if call.is_dry() {
                subject.note_dry();
            }
        }
        let (metadata, extensions, call) = request.into_parts();
        let call = Arc::new(call);
        let answered = async {
            // Its message is there, so that it keeps none of another call from arriving.
            Turn::come_to(&extensions, &caller).await?;
            self.answer_to(caller, call).await
        };
        let answered = traceparent::within(&metadata, answered).await;
        answered.map(Response::new)
    }

    /// The same of a caller who is known.
    pub(crate) async fn answer_to<C: Unary<S>>(
        &self,
        caller: Caller,
        call: Arc<C>,
    ) -> Result<C::Response, Status> {
        match self.route.filter(|route| route.has_peers()) {
            Some(route) => self.run_anywhere(route, caller, call).await,
            None => call.run(self.here, caller).await,
        }
    }

    async fn run_anywhere<C: Unary<S>>(
        &self,
        route: &Route,
        caller: Caller,
        mut call: Arc<C>,
    ) -> Result<C::Response, Status> {
        let mut unknown = false;
        if let Destination::Local = route.destination() {
            let answered = call.clone().run(self.here, caller.clone()).await;
            let Err(status) = &answered else {
                return answered;
            };
            unknown = route::is_unknown(status);
            let again =
                route::is_not_owner(status) || unknown && missing_request_id(&mut call).is_none();
            if !again {
                return answered;
            }
        }
        // Rare, and large.
        Box::pin(self.forward(route, caller, call, unknown)).await
    }

    /// Sends the call to the owner, again after a wait while that turns out to be another replica.
    /// `unknown`: it may have had an effect already.
    async fn forward<C: Unary<S>>(
        &self,
        route: &Route,
        caller: Caller,
        mut call: Arc<C>,
        mut unknown: bool,
    ) -> Result<C::Response, Status> {
        if let Some(id) = missing_request_id(&mut call) {
            *id = Uuid::now_v7().to_string();
        }
        for wait in OWNER_WAITS.into_iter().map(Some).chain([None]) {
            let answered = match route.destination() {
                Destination::Local => call.clone().run(self.here, caller.clone()).await,
                Destination::Remote(owner) => self.send(route, &owner, &caller, &call).await,
                Destination::Unknown => Err(errors::not_owner()),
            };
            let failed = match answered {
                Err(status) if route::is_not_owner(&status) || route::is_unknown(&status) => status,
                settled => return final_answer(settled, unknown, call.deletes()),
            };
            // Once an attempt may have had an effect, a later refusal cannot take that back.
            unknown |= route::is_unknown(&failed);
            match wait {
                Some(wait) => route.wait_for_owner(wait).await,
                None => tracing::debug!(%failed, "a call could not be forwarded"),
            }
        }
        Err(if unknown {
            errors::owner_changed()
        } else {
            errors::not_owner()
        })
    }

    async fn send<C: Unary<S>>(
        &self,
        route: &Route,
        owner: &OwnerAddress,
        caller: &Caller,
        call: &Arc<C>,
    ) -> Result<C::Response, Status> {
        let request = route::with_caller(C::clone(call), caller)?;
        let waits = call.waits();
        let place = waits.then(|| route.stream_place(caller, false));
        let _place = place.transpose()?;
        let channel = match Over::of(waits, call.encoded_len()) {
            Over::Calls => &owner.channel,
            Over::LargeCalls => &owner.large_calls,
            Over::Streams => &owner.streams,
        };
        let stopping = async {
            match waits {
                true => self.stopping.cancelled().await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            answered = C::send(channel.clone(), request) => {
                answered.map(Response::into_inner).map_err(route::status_alone)
            }
            () = route.replaced(owner) => Err(errors::owner_changed()),
            () = stopping => Err(errors::stopping()),
        }
    }
}

/// What the caller is told. What a replica refuses by its own configuration (a role, a target), or
/// for want of room, it refuses before it looks for the request id: once an earlier attempt may
/// have had an effect, that is no proof of the contrary, and the caller is to ask again with the
/// same request id. Nor is it one that what the call deletes is not there.
fn final_answer<T>(answered: Result<T, Status>, unknown: bool, deletes: bool) -> Result<T, Status> {
    let proves_nothing = |status: &Status| {
        is_refused_before_the_request_id(status) || deletes && status.code() == Code::NotFound
    };
    answered.map_err(|status| match unknown && proves_nothing(&status) {
        true => errors::owner_changed(),
        false => status,
    })
}

fn is_refused_before_the_request_id(status: &Status) -> bool {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    let for_want_of_room = [Reason::Overloaded, Reason::MessageLate];
    status.code() == Code::InvalidArgument
        || for_want_of_room
            .iter()
            .any(|no_room| reason == Some(no_room.as_str_name()))
}

/// The empty request id of a call that would create something twice if it were made twice.
fn missing_request_id<S, C: Unary<S>>(call: &mut Arc<C>) -> Option<&mut String> {
    let id = Arc::make_mut(call).request_id()?;
    id.is_empty().then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_takes_back_no_attempt_that_may_have_had_an_effect() {
        let no_such_role = || Status::invalid_argument("no such role here");
        for refused in [no_such_role, errors::no_message_room] {
            let answer = |unknown| final_answer(Err::<(), _>(refused()), unknown, false);
            let known = answer(false).expect_err("refused");
            assert_eq!(known.code(), refused().code());
            assert!(!route::is_unknown(&known));
            assert!(route::is_unknown(&answer(true).expect_err("unknown")));
        }
        assert!(final_answer(Ok(()), true, false).is_ok());
    }

    #[test]
    fn a_call_that_others_would_wait_behind_goes_over_a_connection_of_its_kind() {
        for bytes in [0, LARGE_BYTES] {
            assert_eq!(Over::of(false, bytes), Over::Calls, "{bytes}");
        }
        for bytes in [LARGE_BYTES + 1, MAX_RESPONSE_BYTES] {
            assert_eq!(Over::of(false, bytes), Over::LargeCalls, "{bytes}");
        }
        for bytes in [0, LARGE_BYTES + 1] {
            assert_eq!(Over::of(true, bytes), Over::Streams, "{bytes}");
        }
    }

    #[test]
    fn what_is_gone_may_have_been_deleted_by_an_earlier_attempt() {
        let missing = |unknown, deletes| {
            let answer = Err::<(), _>(Status::not_found("no such job"));
            final_answer(answer, unknown, deletes).expect_err("missing")
        };
        assert!(route::is_unknown(&missing(true, true)));
        assert_eq!(missing(true, false).code(), Code::NotFound);
        assert_eq!(missing(false, true).code(), Code::NotFound);
    }
}
