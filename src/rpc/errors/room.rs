//! Errors for want of room in memory. The calls had no effect.

use super::{RETRY_DELAY, info, reason::Reason};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// More is being sent to this server than it takes at a time. Nothing of the call was read.
pub(in crate::rpc) fn no_message_room() -> Status {
    let message = "too many large calls are being sent to this server; call again";
    no_room("unread_bytes", message)
}

/// More answers wait to be read than the server keeps. The call only reads.
pub(in crate::rpc) fn no_answer_room() -> Status {
    let message = "too many large answers of this server have not been read: read the answers that \
                   were asked for before asking for more";
    no_room("unfetched_bytes", message)
}

/// More events of streams wait to be read than the server keeps. The stream goes on where it is
/// opened again.
pub(in crate::rpc) fn no_event_room() -> Status {
    let message = "too much of streams has not been read: read those that are open, and open this \
                   one again (Synchronization with its last resume_token)";
    no_room("unread_event_bytes", message)
}

/// So many streams of a caller, or of a namespace, go through this server to the owner that others
/// would find no place.
pub(in crate::rpc) fn no_stream_room(whose: &str) -> Status {
    let message = format!(
        "too many streams of this {whose} go through this server, which does not own the shard: \
         end some, or open them at another server"
    );
    no_room("forwarded_streams", &message)
}

/// So many streams of a namespace follow what runs that others would find no place.
pub(in crate::rpc) fn no_watch_room() -> Status {
    let message = "too many streams of this namespace follow what runs on this server \
                   (WatchExecutions): end some, or open them at another server";
    no_room("watchers", message)
}

fn no_room(limit: &'static str, message: &str) -> Status {
    let mut details = info(Reason::Overloaded, &[("limit", limit.into())]);
    details.set_retry_info(Some(RETRY_DELAY));
    details.add_quota_failure_violation("server", limit);
    Status::with_error_details(Code::Unavailable, message, details)
}
