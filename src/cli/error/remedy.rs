//! What a user of the command line can do about an error of the service.

use rallypoint_client::Error;
use tonic::Code;

/// What to do where no server answers.
pub(crate) const UNANSWERED: &str = "name a server that runs, with --server URL or \
                                     RALLYPOINT_SERVER; `rallypoint serve` starts one here";

/// What the service says of something that is not there or not over, without the command that
/// helps: the advice names it.
pub(super) fn without_remedy<'a>(message: &'a str, label: &str) -> &'a str {
    match message.rsplit_once(": ") {
        Some((fault, remedy)) if is_answered(label) && remedy.contains('`') => fault,
        _ => message,
    }
}

/// The advice for users of the command line says as much as the service does.
fn is_answered(label: &str) -> bool {
    label.ends_with("_NOT_FOUND") || label == "TASK_UNFINISHED"
}

/// What may be wrong where somebody answers and hangs up.
pub(crate) fn broken_off(error: &Error) -> Option<&'static str> {
    // So ends a call in plain text to a server of TLS, by what it meets first.
    let hung_up = matches!(error.code, Code::Unknown | Code::Cancelled)
        || error.message.contains("http2 error");
    (error.transport && hung_up).then_some(
        "the connection breaks off: an address begins with https:// if the server has TLS, else with http://; a server also hangs up on a certificate (--tls-cert) that it does not trust; and what listens there may be no Rallypoint server",
    )
}

/// Advice for callers that lack a role.
fn of_roles(error: &Error) -> &'static str {
    match error.message.ends_with("in all namespaces") {
        true => {
            "the caller needs an [[access]] with namespaces = [\"*\"] and that role, in the configuration of the server"
        }
        false => {
            "check --namespace (RALLYPOINT_NAMESPACE); roles are given by [[access]] in the configuration of the server"
        }
    }
}

/// What to do where there is no resource, or no other definition of it than a pattern.
fn of_missing_resources(error: &Error) -> &'static str {
    match error.metadata.contains_key("definition") {
        true => {
            "`rallypoint resource update NAME` changes all resources of the pattern, and `rallypoint resource delete NAME` deletes it; `rallypoint resource create` gives a name settings of its own"
        }
        false => {
            "`rallypoint resource list` lists them; `rallypoint resource create NAME` adds one"
        }
    }
}

/// What to do where a target is not there, or does not allow a role.
fn of_targets(reason: &str) -> &'static str {
    match reason {
        "ROLE_NOT_ALLOWED" => {
            "name a role that is allowed, or add this one to `roles` of the target and send the server SIGHUP, which has it read its configuration file again"
        }
        _ => "`rallypoint status` lists the targets; `rallypoint serve --target NAME=URL` adds one",
    }
}

/// What is in the way of a call about a job: the job that follows it, its own runs, or the agent.
fn of_blocked_jobs(error: &Error) -> &'static str {
    let says = |key| error.metadata.contains_key(key);
    if says("by") {
        return "`rallypoint jobs delete FOLLOWER` deletes that one; or give it another `schedule` in its \
                file, and `rallypoint jobs apply` that";
    }
    match says("due") || says("runs") {
        true => {
            "`rallypoint jobs runs JOB` lists the runs, and `rallypoint jobs cancel-run JOB DUE` ends one"
        }
        false => "`rallypoint jobs start-agent` lets jobs start again",
    }
}

/// Advice for users of the command line, else that for any caller.
pub(super) fn remedy(error: &Error) -> Option<&'static str> {
    match error.reason.as_deref() {
        _ if broken_off(error).is_some() => broken_off(error),
        _ if error.is_foreign() => Some(
            "no Rallypoint server answers there: check --server (RALLYPOINT_SERVER); an address begins with https:// if the server has TLS",
        ),
        _ if error.transport => Some(UNANSWERED),
        _ if error.code == Code::NotFound && error.is_unknown() => error.remedy(),
        Some("HANDLE_NOT_FOUND" | "ID_MALFORMED") => {
            Some("check the handle or the name: `rallypoint list` shows both")
        }
        Some("HANDLE_RELEASED") => Some(
            "use one that `rallypoint list` shows as open; `rallypoint exec --keep` leaves one open for retries",
        ),
        Some("NOT_OWNER") => Some(
            "if that does not pass, another server of the same database serves, which this one does not reach: call that one, or start each with --peer-listen; `rallypoint health` says more",
        ),
        Some("ORDER_CLOSED") => Some(
            "wait until its tasks have ended (`rallypoint wait HANDLE`): then any order may come; or use a later order",
        ),
        Some("ALREADY_RETRIED") => {
            Some("retry that one: `rallypoint retry HANDLE SEQ --statement SQL`")
        }
        Some("TASK_UNFINISHED") => Some(
            "wait until it has ended (`rallypoint wait HANDLE`), or cancel it: `rallypoint cancel HANDLE SEQ`",
        ),
        Some("TASK_NOT_FOUND") => {
            Some("`rallypoint tasks HANDLE` lists the tasks of the scheduler")
        }
        Some(reason @ ("TARGET_UNKNOWN" | "ROLE_NOT_ALLOWED")) => Some(of_targets(reason)),
        Some("RESOURCE_NOT_FOUND") => Some(of_missing_resources(error)),
        Some("RESOURCE_EXISTS") => Some(
            "`rallypoint resource list` shows its settings, and `rallypoint resource update` changes them",
        ),
        Some("PERMITS_EXCEED_CAPACITY") => {
            Some("`rallypoint resource update NAME --capacity N` gives a resource more permits")
        }
        Some("NAMESPACE_NOT_TRUSTED") => Some(
            "leave out --namespace (RALLYPOINT_NAMESPACE), or start the server with --trusted-namespace-metadata",
        ),
        Some("IDENTITY_MISSING") => Some(
            "send a token with --token-file FILE, or present a certificate with --tls-cert and --tls-key that names the caller: it has one DNS name or URI",
        ),
        Some("IDENTITY_INVALID") => Some(
            "compare the token with the token_file of the server, where its hash stands: `rallypoint check-config FILE` reads that; with RUST_LOG=debug the server logs what is wrong with this one",
        ),
        Some("NAMESPACE_MISSING") => Some("say which with --namespace NAME (RALLYPOINT_NAMESPACE)"),
        Some("NAMESPACE_NOT_ALLOWED" | "ROLE_MISSING") => Some(of_roles(error)),
        Some("CLAIM_NOT_FOUND") => Some("`rallypoint resource queue NAME` lists claims and tokens"),
        Some("TOKEN_MISMATCH") => Some(
            "give the token of the hold with --token (`rallypoint resource queue NAME` shows it), or end the hold with --force --reason TEXT",
        ),
        _ if error.is_unknown() => {
            Some("`rallypoint health` says whether the server works; the command may be repeated")
        }
        _ => of_jobs(error).or_else(|| error.remedy()),
    }
}

/// Advice for users of `jobs`.
fn of_jobs(error: &Error) -> Option<&'static str> {
    match error.reason.as_deref()? {
        "JOB_BLOCKED" => Some(of_blocked_jobs(error)),
        "JOB_CHANGED" => Some("the command may be repeated"),
        "BACKFILL_TOO_LARGE" => Some(
            "repeat the command for parts of that time, one after the other: --from TIME --until TIME",
        ),
        "JOB_NOT_FOR_CLAIMS" => Some("`rallypoint jobs run JOB` has it run now"),
        "JOB_NOT_FOUND" => {
            Some("`rallypoint jobs list` lists them; `rallypoint jobs apply -f FILE` adds some")
        }
        "RUN_NOT_FOUND" => Some(
            "give the due time of a run with its time of day, as `rallypoint jobs runs JOB` lists those there are",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;

    #[test]
    fn what_breaks_off_may_be_another_program() {
        let mut error = Error::from(Status::unknown("h2 protocol error"));
        error.transport = true;
        let said = remedy(&error).unwrap_or_default();
        assert!(said.contains("no Rallypoint server"), "{said}");
    }

    #[test]
    fn what_is_in_the_way_of_a_job_is_what_is_to_be_ended() {
        for (key, command) in [
            ("by", "jobs delete FOLLOWER"),
            ("due", "jobs cancel-run"),
            ("runs", "jobs cancel-run"),
            ("", "jobs start-agent"),
        ] {
            let mut error = Error::from(Status::failed_precondition("it is blocked"));
            error.reason = Some("JOB_BLOCKED".to_owned());
            error.metadata.insert(key.to_owned(), "b".to_owned());
            let said = remedy(&error).unwrap_or_default();
            assert!(said.contains(command), "{key}: {said}");
        }
    }

    #[test]
    fn a_role_that_is_not_allowed_is_to_be_added_to_the_target() {
        let mut error = Error::from(Status::invalid_argument("not allowed"));
        error.reason = Some("ROLE_NOT_ALLOWED".to_owned());
        let said = remedy(&error).unwrap_or_default();
        assert!(said.contains("`roles` of the target"), "{said}");
    }
}
