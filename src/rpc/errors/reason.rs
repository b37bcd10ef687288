//! The reasons of errors: those of the API, each with what it says of the call's effect.

pub(crate) use rallypoint_client::api::ErrorReason as Reason;

/// The call changed nothing.
pub(crate) const NO_EFFECT: &str = "none";

/// Whether a call that failed for this reason may have had an effect: `effect` in the metadata of
/// ErrorInfo.
pub(crate) fn effect(reason: Reason) -> &'static str {
    match reason {
        Reason::OwnerChanged
        | Reason::DeadlineExceeded
        | Reason::IdentityLost
        | Reason::TemporarilyUnavailable
        | Reason::Internal => "unknown",
        _ => NO_EFFECT,
    }
}
