//! Errors of callers who are not known, or may not do what they ask for. None says what there is:
//! a namespace that does not exist and one of others get the same answer.

use super::{
    DOMAIN, RETRY_DELAY, info, plain,
    reason::{self, Reason},
};
use crate::{core::Namespace, identity::Role};
use std::{collections::HashMap, time::Duration};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Before a stream is opened again.
const REOPEN_DELAY: Duration = Duration::from_millis(100);

pub(in crate::rpc) fn identity_missing() -> Status {
    let message = "this server has to know who calls: send a token as metadata `authorization: \
                   Bearer TOKEN`, or present a certificate";
    plain(Code::Unauthenticated, Reason::IdentityMissing, message)
}

/// Which part of it is wrong is in the log only.
pub(in crate::rpc) fn identity_invalid() -> Status {
    let message = "the token or the certificate is not valid here: it is unknown, not valid yet or \
                   no longer, or meant for somebody else";
    plain(Code::Unauthenticated, Reason::IdentityInvalid, message)
}

/// The call had no effect.
pub(in crate::rpc) fn keys_unavailable() -> Status {
    let mut details = info(Reason::IdentityUnavailable, &[]);
    details.set_retry_info(Some(RETRY_DELAY));
    let message = "the keys that prove tokens cannot be read at the moment; call again";
    Status::with_error_details(Code::Unavailable, message, details)
}

/// The caller was allowed to open the stream, and may be again. What was asked for on it may have
/// been done.
pub(in crate::rpc) fn identity_expired() -> Status {
    let effect = reason::effect(Reason::IdentityLost).to_owned();
    let effect = HashMap::from([("effect".to_owned(), effect)]);
    let reason = Reason::IdentityInvalid.as_str_name();
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, effect);
    details.set_retry_info(Some(REOPEN_DELAY));
    let message = "the token has expired, or the caller has lost its role: open the stream again, \
                   with a token that is valid";
    Status::with_error_details(Code::Unauthenticated, message, details)
}

/// The call had begun, and its caller may not wait for its end any more.
pub(in crate::rpc) fn identity_lost() -> Status {
    let message = "the token has expired, or the caller has lost its role, while the call waited: \
                   what it had begun goes on";
    plain(Code::Unauthenticated, Reason::IdentityLost, message)
}

/// Says of the caller what it has said itself. `namespace`: the one that it names; `None`: none.
pub(in crate::rpc) fn namespace_not_allowed(caller: &str, namespace: Option<&Namespace>) -> Status {
    let where_ = match namespace {
        Some(namespace) => format!("namespace {}", namespace.0),
        None => "any namespace".to_owned(),
    };
    let message = format!("`{caller}` has no role in {where_}");
    plain(
        Code::PermissionDenied,
        Reason::NamespaceNotAllowed,
        &message,
    )
}

pub(in crate::rpc) fn namespace_missing(key: &'static str) -> Status {
    let details = info(Reason::NamespaceMissing, &[("metadata", key.into())]);
    let message = format!("the caller has several namespaces: name one in metadata `{key}`");
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// `namespace`: where the role is needed; `None`: in all of them.
pub(in crate::rpc) fn role_missing(role: Role, namespace: Option<&Namespace>) -> Status {
    let role = role.as_str();
    let details = info(Reason::RoleMissing, &[("role", role.into())]);
    let where_ = match namespace {
        Some(namespace) => format!("in namespace {}", namespace.0),
        None => "in all namespaces".to_owned(),
    };
    let message = format!("the call needs the role {role} {where_}");
    Status::with_error_details(Code::PermissionDenied, message, details)
}
