//! Every `ErrorInfo.reason` of the service, in one place. A reason is part of the API: clients
//! branch on it, so it is never renamed. It must not contain anything a caller sent.

use std::fmt;

/// A stable reason for an error, in capitals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(&'static str);

macro_rules! reasons {
    ($($name:ident: $meaning:literal;)+) => {
        impl Reason {
            $(#[doc = $meaning] pub const $name: Reason = Reason(stringify!($name));)+

            /// All reasons with their meaning, for the documentation.
            pub const ALL: &[(Reason, &'static str)] = &[$((Reason::$name, $meaning)),+];
        }
    };
}

reasons! {
    ID_MALFORMED:
        "A handle is missing or not in its canonical form (36 characters, lower case, version 7).";
    SEQ_OUT_OF_RANGE: "A task number is below 1.";
    REQUEST_ID_MALFORMED: "A request id is not a UUID of 36 characters in lower case.";
    TASKS_EMPTY: "A call has no tasks.";
    TOO_MANY_TASKS: "A call has more than 10 000 tasks.";
    CALL_TOO_LARGE: "A call is larger than 4 MiB.";
    KIND_MISSING: "A task does not say what to run, or names a kind this server does not know.";
    BODY_EMPTY: "A statement is empty.";
    BODY_TOO_LARGE: "A statement, its parameters or a payload is larger than 1 MiB.";
    BODY_NUL: "A statement or a parameter holds a NUL character, which Postgres cannot take.";
    TOO_MANY_PARAMS: "A statement has more than 32 767 parameters.";
    TARGET_UNKNOWN: "A statement names a target that this server does not have.";
    ORDER_OUT_OF_RANGE: "An order is negative or above 9 007 199 254 740 991.";
    DURATION_OUT_OF_RANGE: "A duration is malformed, too short or too long.";
    TIMESTAMP_OUT_OF_RANGE: "A time is malformed, before 1970 or after 9999.";
    RETRY_OUT_OF_RANGE:
        "A number of a retry policy is out of range, or its longest wait is below its first.";
    NON_RETRYABLE_INVALID: "A non-retryable code is not 1 to 64 capitals, digits or underscores.";
    RESULT_ROWS_OUT_OF_RANGE: "`result_rows` is negative or above 10 000.";
    SEARCH_PATH_INVALID:
        "A search path has more than 64 schemas, or one that is no name of 1 to 63 bytes.";
    ROLE_NOT_ALLOWED: "A task names a role that the operator does not allow on its target.";
    ENUM_UNKNOWN: "A value of an enumeration is not known to this server.";
    LABELS_INVALID:
        "There are too many labels, or a key or a value is too long or holds forbidden characters.";
    NAME_TOO_LONG: "A display name is longer than 255 bytes.";
    NAME_INVALID: "A display name holds a control character.";
    LIMIT_ZERO: "`max_parallelism` is 0: use PauseScheduler to start nothing more.";
    LIMIT_OUT_OF_RANGE: "`max_parallelism` is negative.";
    WEIGHT_OUT_OF_RANGE: "A weight is not a number from 0.01 to 1000.";
    MASK_EMPTY: "UpdateScheduler names no settings to change.";
    MASK_UNKNOWN_FIELD: "An update mask names an unknown setting.";
    CURSOR_NEGATIVE: "`after` is negative.";
    CURSOR_AHEAD: "`after` is beyond the last event of the scheduler.";
    CURSOR_TRUNCATED:
        "The requested rows are past their retention; `oldest` is the first that is left.";
    UNTIL_MISSING: "`until` is set but names no condition.";
    COUNT_OUT_OF_RANGE: "A count of events is below 1.";
    GOAL_INVALID: "The goal of a resumed stream was not issued by this service.";
    PAGE_SIZE_OUT_OF_RANGE: "A page size is negative or above 1000.";
    PAGE_TOKEN_INVALID: "A page token was not issued by this service for this query.";
    TEXT_OUT_OF_RANGE: "A text is missing, too long, or holds a NUL character.";
    INTERVAL_OUT_OF_RANGE: "An interval is not from 100 to 60 000 ms.";
    METADATA_INVALID: "A metadata entry of the call is malformed.";
    MESSAGE_MALFORMED: "The request is not a message of this API.";
    NAMESPACE_NOT_TRUSTED:
        "The call names a namespace, and this server does not take namespaces from metadata.";
    HANDLE_NOT_FOUND: "There is no such scheduler in the caller's namespace.";
    TASK_NOT_FOUND: "The scheduler has no such task.";
    HANDLE_RELEASED: "The scheduler is released: it takes no tasks and no changes.";
    ORDER_CLOSED: "A task is below the current order of its scheduler, which refuses late tasks.";
    REQUEST_ID_REUSED: "The request id was used with another payload.";
    QUEUE_FULL: "A limit on unfinished work is reached; nothing of the call was accepted.";
    TOO_MANY_SCHEDULERS: "The namespace has reached its limit of open schedulers.";
    SUBMIT_RATE_EXCEEDED:
        "The namespace exceeds its limit of tasks per second; nothing of the call was accepted.";
    TOO_MANY_STREAMS: "The namespace has reached its limit of open streams.";
    JOURNAL_REJECTED: "The coordination database refused to store the call.";
    NOT_OWNER: "No reachable replica owns the shard at the moment; the call had no effect.";
    OWNER_CHANGED:
        "Ownership of the shard changed during the call; repeat it with the same request id.";
    OVERLOADED: "Too many calls are waiting on this server; this one was not accepted.";
    MESSAGE_LATE: "The request did not arrive in time; the call had no effect.";
    DEADLINE_EXCEEDED:
        "The deadline of the call has passed; repeat it with the same request id.";
    DATA_UNREADABLE: "What is stored of the scheduler cannot be read by this version.";
    INTERNAL: "A fault of the server; please report it.";
    TEMPORARILY_UNAVAILABLE:
        "The call may or may not have had an effect; repeat it with the same request id.";
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn every_reason_is_upper_snake_and_named_once() {
        for (index, (reason, meaning)) in Reason::ALL.iter().enumerate() {
            assert!(
                reason
                    .as_str()
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b == b'_'),
                "{reason}"
            );
            assert!(meaning.ends_with('.'), "{reason}");
            assert!(
                Reason::ALL[..index]
                    .iter()
                    .all(|(other, _)| other != reason),
                "{reason}"
            );
        }
    }
}
