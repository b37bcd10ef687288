//! Why a call failed, readable by people and usable by programs.

use std::{collections::HashMap, fmt, iter, time::Duration};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// `ErrorInfo.domain` of the service's reasons.
const DOMAIN: &str = "rallypoint";

/// Why a call failed.
#[derive(Clone, Debug)]
pub struct Error {
    /// The gRPC code.
    pub code: Code,
    /// The stable reason the service gave, such as `QUEUE_FULL` (see
    /// [`ErrorReason`](crate::api::ErrorReason)); `None`: the error is the transport's.
    pub reason: Option<String>,
    /// What the service said of the call's effect; `None`: it said nothing.
    pub effect: Option<Effect>,
    /// The request id of a call that begins something: made again under it
    /// ([`Client::with_request_id`](crate::Client::with_request_id)), it has its effect once. A
    /// claim that was made and failed later is given back: it is to be made anew, under another id.
    pub request_id: Option<String>,
    /// Text for people.
    pub message: String,
    /// Paths of the fields at fault, and what is wrong with each.
    pub violations: Box<[(String, String)]>,
    /// What the service said besides, by key: see [`ErrorReason`](crate::api::ErrorReason).
    pub metadata: Box<HashMap<String, String>>,
    /// How long the service asks to wait before calling again.
    pub retry_after: Option<Duration>,
    /// The connection failed, rather than the call.
    pub transport: bool,
    /// It is about a claim that was made, and is given back.
    pub is_given_back: bool,
}

/// What a failed call may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// All or nothing, and which is not known.
    Unknown,
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The call may or may not have had an effect; repeating it with the same request id tells.
    pub fn is_unknown(&self) -> bool {
        match (self.effect, &self.reason) {
            (Some(effect), _) => effect == Effect::Unknown,
            (None, Some(_)) => matches!(self.code, Code::Unavailable | Code::DeadlineExceeded),
            (None, None) => matches!(
                self.code,
                Code::Unavailable
                    | Code::DeadlineExceeded
                    | Code::Unknown
                    | Code::Internal
                    | Code::Cancelled
            ),
        }
    }

    /// Calling again may succeed: the outcome is unknown, or the service says when to retry. Not
    /// after a fault of the server (`INTERNAL`).
    pub fn is_retryable(&self) -> bool {
        let fault = self.code == Code::Internal && self.reason.is_some();
        (self.is_unknown() && !fault) || self.retry_after.is_some()
    }

    /// As the error of a call whose attempt before may have had its effect (`unknown`): this one
    /// takes that back only where it is the answer of the owner, which knows the request ids. What
    /// any server may refuse by itself, it refuses before it looks for one. `deletes`: what the
    /// call is about may be gone by that attempt, so that it is not there takes nothing back.
    pub(crate) fn after(self, unknown: bool, deletes: bool) -> Error {
        let is_of_the_owner = match self.code {
            Code::NotFound => !deletes,
            Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::ResourceExhausted => true,
            _ => false,
        };
        match unknown && !(is_of_the_owner && self.reason.is_some()) {
            true => self.of_unknown_effect(),
            false => self,
        }
    }

    /// As the error of a call that may have had its effect all the same.
    pub(crate) fn of_unknown_effect(self) -> Error {
        Error {
            effect: Some(Effect::Unknown),
            ..self
        }
    }

    /// The call was made under this request id.
    pub(crate) fn under(self, request_id: String) -> Error {
        Error {
            request_id: Some(request_id),
            ..self
        }
    }

    /// As the error of a claim that was made, and is given back.
    pub(crate) fn of_claim_given_back(self) -> Error {
        Error {
            is_given_back: true,
            ..self
        }
    }

    /// What answers there is no server of gRPC: a call had no effect, and is not repeated.
    fn foreign(message: &str) -> Error {
        Error {
            code: Code::Unimplemented,
            reason: None,
            effect: Some(Effect::None),
            request_id: None,
            message: message.to_owned(),
            violations: Box::default(),
            metadata: Box::default(),
            retry_after: None,
            transport: true,
            is_given_back: false,
        }
    }

    /// What answers at the address is another program than a server of gRPC.
    pub fn is_foreign(&self) -> bool {
        self.transport && self.code == Code::Unimplemented
    }

    /// It says something of this server or the connection to it: another one may answer.
    pub(crate) fn is_of_the_server(&self) -> bool {
        let is_away = matches!(self.code, Code::Unavailable | Code::DeadlineExceeded);
        is_away || self.is_foreign() || (self.is_unknown() && self.reason.is_none())
    }

    /// The service gave this reason.
    pub fn is(&self, reason: &str) -> bool {
        self.reason.as_deref() == Some(reason)
    }

    /// Advice for the caller, if there is any that the message does not give.
    pub fn remedy(&self) -> Option<&'static str> {
        match self.reason.as_deref() {
            _ if self.is_foreign() => {
                Some("Is this the address of a server, with https:// for TLS?")
            }
            _ if self.transport => Some("Is the server running, and is this its address?"),
            Some(_) if self.code == Code::NotFound && self.is_unknown() => {
                Some("This call may have removed it: the answer to an earlier attempt was lost.")
            }
            Some("HANDLE_NOT_FOUND") => {
                Some("Use a handle that GetScheduler returned, within its retention.")
            }
            Some("CURSOR_TRUNCATED") => {
                Some("Older rows are past their retention; begin where the error says, if it does.")
            }
            Some("HANDLE_RELEASED") => {
                Some("Open another scheduler; release it when nothing is left to retry.")
            }
            Some("NAME_TAKEN") => Some("Reuse the scheduler that is open, or release it first."),
            Some("BODY_TOO_LARGE") => {
                Some("Divide it, or put large values into a table and read them there.")
            }
            Some("LIMIT_ZERO") => Some("To start no more tasks, pause the scheduler."),
            Some("ORDER_CLOSED") => {
                Some("Use an order not below the current one, or open with late_order JOIN.")
            }
            Some("RESOURCE_NOT_FOUND") => Some("Create the resource, or a pattern for its name."),
            Some("CIRCULAR_WAIT") => Some("Release first, or claim all resources in one call."),
            Some("CLAIM_ENDED") => Some("Use nothing that it held, and claim it anew."),
            Some("REQUEST_ID_REUSED") => Some("Use a new request id for another payload."),
            _ if self.is_given_back => Some("The claim is given back: make it anew."),
            _ if self.is_unknown() => Some("Call again with the same request id."),
            _ => None,
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN);
        let violations = details
            .bad_request()
            .map(|bad| bad.field_violations.as_slice())
            .unwrap_or_default();
        if let Some(message) = foreign(&status).filter(|_| info.is_none()) {
            return Error::foreign(message);
        }
        Error {
            code: status.code(),
            reason: info.map(|info| info.reason.clone()),
            effect: info
                .and_then(|info| info.metadata.get("effect"))
                .map(|said| effect(said)),
            request_id: None,
            message: status.message().to_owned(),
            violations: violations
                .iter()
                .map(|bad| (bad.field.clone(), bad.description.clone()))
                .collect(),
            metadata: Box::new(info.map(|info| info.metadata.clone()).unwrap_or_default()),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            transport: info.is_none() && std::error::Error::source(&status).is_some(),
            is_given_back: false,
        }
    }
}

/// How the library of HTTP/2 says that what it reads is none: an answer of HTTP/1, or of TLS.
const NO_HTTP2: &str = "frame with invalid size";
/// How that of gRPC says that an answer of HTTP/2 is none of gRPC.
const NO_GRPC: &str = "grpc-status header missing";

/// What answers, if it is no server of gRPC.
fn foreign(status: &Status) -> Option<&'static str> {
    let first = std::error::Error::source(status);
    let mut causes = iter::successors(first, |cause| cause.source());
    if causes.any(|cause| cause.to_string().contains(NO_HTTP2)) {
        return Some("what answers there does not speak HTTP/2");
    }
    // A proxy answers so, too, while it has no server behind it: then the code is UNAVAILABLE.
    let is_other = status.code() == Code::Unimplemented && status.message().contains(NO_GRPC);
    is_other.then_some("what answers there is a web server without gRPC")
}

fn effect(said: &str) -> Effect {
    match said {
        "none" => Effect::None,
        _ => Effect::Unknown,
    }
}

impl From<tonic::transport::Error> for Error {
    fn from(error: tonic::transport::Error) -> Self {
        let mut message = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Some wrappers say only what their cause says.
            if !message.ends_with(&cause_text) {
                message = format!("{message}: {cause_text}");
            }
            source = cause.source();
        }
        Error {
            code: Code::Unavailable,
            reason: None,
            effect: None,
            request_id: None,
            message,
            violations: Box::default(),
            metadata: Box::default(),
            retry_after: None,
            transport: true,
            is_given_back: false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.code)?;
        if let Some(reason) = &self.reason {
            write!(f, " {reason}")?;
        }
        write!(f, ": {}", self.message)?;
        for (field, what) in &self.violations {
            write!(f, "\n  {field}: {what}")?;
        }
        match self.remedy() {
            Some(remedy) => write!(f, "\n  {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    #[test]
    fn a_claim_that_is_given_back_is_to_be_made_anew() {
        let failed = Error::from(Status::unavailable("it breaks")).of_unknown_effect();
        let said = failed.remedy();
        assert_eq!(said, Some("Call again with the same request id."));
        let said = failed.of_claim_given_back().remedy();
        assert_eq!(said, Some("The claim is given back: make it anew."));
    }

    #[test]
    fn an_error_shows_reason_fields_and_advice() {
        let mut details = ErrorDetails::with_error_info(
            "LIMIT_ZERO",
            DOMAIN,
            [("k".to_string(), "v".to_string())],
        );
        details.add_bad_request_violation("settings.max_parallelism", "must be at least 1");
        let error = Error::from(Status::with_error_details(
            Code::InvalidArgument,
            "1 field is wrong",
            details,
        ));
        let text = "InvalidArgument LIMIT_ZERO: 1 field is wrong\n  \
                    settings.max_parallelism: must be at least 1\n  \
                    To start no more tasks, pause the scheduler.";
        assert_eq!(error.to_string(), text);
        assert!(!error.is_unknown() && !error.transport && error.is("LIMIT_ZERO"));
        assert_eq!(error.metadata["k"], "v");
    }

    #[test]
    fn what_the_service_says_to_do_is_not_contradicted() {
        for reason in ["QUEUE_FULL", "TOO_MANY_SCHEDULERS", "TOO_MANY_STREAMS"] {
            let details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
            let said = "the limit is reached; end a stream";
            let status = Status::with_error_details(Code::ResourceExhausted, said, details);
            assert_eq!(Error::from(status).remedy(), None);
        }
    }

    #[test]
    fn only_calls_that_may_have_had_an_effect_are_unknown() {
        assert!(Error::from(Status::unavailable("")).is_unknown());
        assert!(Error::from(Status::unknown("")).is_unknown());
        assert!(!Error::from(Status::not_found("")).is_unknown());
        assert!(Error::from(Status::deadline_exceeded("")).is_unknown());
        let said = |code, reason: &str, effect: &str| {
            let metadata = [("effect".to_string(), effect.to_string())];
            let details = ErrorDetails::with_error_info(reason, DOMAIN, metadata);
            Error::from(Status::with_error_details(code, "", details))
        };
        assert!(!said(Code::Unavailable, "NOT_OWNER", "none").is_unknown());
        assert!(said(Code::Unavailable, "OWNER_CHANGED", "unknown").is_unknown());
        let fault = said(Code::Internal, "INTERNAL", "unknown");
        assert!(fault.is_unknown() && !fault.is_retryable());
    }
}
