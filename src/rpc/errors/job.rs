//! Why a call about jobs was refused. It had no effect.

use super::{
    info, journal_rejected, limits, not_carried_out, plain, reason::Reason, request_id_reused,
    unreadable, violation,
};
use crate::{
    coordinator::CallError,
    core::{JobReject, Reject, Time},
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Why the coordinator did not carry out a call.
pub(crate) fn call(error: CallError) -> Status {
    not_carried_out(error, |reject| match reject {
        Reject::Job(reject) => rejected(reject),
        Reject::RequestIdReused => request_id_reused(),
        Reject::LimitReached {
            limit,
            namespace,
            value,
            wait,
        } => limits::reached(limit, &namespace, value, wait, None),
        _ => journal_rejected(),
    })
}

fn job_exists() -> Status {
    Status::with_error_details(
        Code::AlreadyExists,
        "the job is there with other settings: change it with UpdateJob",
        info(Reason::JobExists, &[]),
    )
}

/// There is no job of this name.
pub(crate) fn unknown(name: &str) -> Status {
    let message =
        format!("no job {name:?} in this namespace: the list of jobs has those there are");
    let details = info(Reason::JobNotFound, &[("job", name.to_owned())]);
    Status::with_error_details(Code::NotFound, message, details)
}

/// The job has no such run.
pub(crate) fn unknown_run(what: &str) -> Status {
    let message = format!("{what}: the list of its runs has those there are");
    Status::with_error_details(Code::NotFound, message, info(Reason::RunNotFound, &[]))
}

/// The range has more due times without a run than one call may have.
pub(crate) fn backfill_too_large(most: usize) -> Status {
    let what = format!("more than {most} due times: ask for a shorter range");
    wrong("until", Reason::BackfillTooLarge, what)
}

/// The job is paused since before the range ends: what is due meanwhile is not decided.
pub(crate) fn backfill_paused(undecided: Time) -> Status {
    let message = format!(
        "the job is paused, and what becomes of its due times from {undecided} on is decided when \
         it is resumed: resume it first, or ask for a range that ends there"
    );
    let facts = [("due", undecided.to_string())];
    precondition(Reason::JobBlocked, &facts, "until", message)
}

/// Why the core refused it.
pub(crate) fn rejected(reject: JobReject) -> Status {
    match reject {
        JobReject::UnknownJob(name) => unknown(&name),
        JobReject::Unreadable => unreadable(),
        JobReject::JobExists => job_exists(),
        JobReject::JobChanged(version) => {
            let message = "the job has been changed since: read it again with GetJob";
            let facts = [("etag", version.to_string())];
            precondition(Reason::JobChanged, &facts, "etag", message.to_owned())
        }
        JobReject::FollowsNone(name) => {
            let what = format!("there is no job {name:?}: create it first");
            wrong_schedule(what)
        }
        JobReject::FollowsItself(way) => {
            let way = way.join(" after ");
            wrong_schedule(format!("it would wait for itself: {way}"))
        }
        JobReject::JobFollowed(name) => {
            let message = format!("job {name:?} follows it: delete or change that first");
            precondition(
                Reason::JobBlocked,
                &[("by", name.to_string())],
                "name",
                message,
            )
        }
        JobReject::ManyFollow(name, most) => {
            let what = "have some of them follow another job, such as one of those";
            wrong_schedule(format!(
                "{most} jobs follow {name:?}, which is the most: {what}"
            ))
        }
        JobReject::JobRuns(due) => job_runs(due),
        JobReject::RunHeld(due) => run_held(due),
        JobReject::RunsWait(most) => runs_wait(most),
        JobReject::UnknownRun => unknown_run("the job has no such run, or it is over"),
        JobReject::RunEnded(_) => unknown_run("the run is over"),
        JobReject::NoSteps => {
            let what = "every step has a lower order: name one of the job's".to_owned();
            wrong("from_order", Reason::JobInvalid, what)
        }
        JobReject::NotForClaims => not_for_claims(),
        JobReject::OnlyForClaims => only_for_claims(),
        JobReject::ClaimedChanged => claimed_changed(),
        JobReject::NoClaim(_) => no_claim(),
        JobReject::ClaimOfAnother => claimed_by_another(),
        JobReject::RunsChanged => {
            let message = "others ask for runs of the job at the same time: repeat the call";
            precondition(Reason::JobChanged, &[], "name", message.to_owned())
        }
        JobReject::TooManyRuns(most) => too_many_runs(most),
        JobReject::AgentStopped => {
            let message = "the agent is stopped, so nothing starts: StartAgent lets jobs fire";
            precondition(Reason::JobBlocked, &[], "agent", message.to_owned())
        }
    }
}

fn job_runs(due: Time) -> Status {
    let message = format!(
        "the run of {due} goes on, and `overlap` is SKIP: wait for it, or end it with CancelRun"
    );
    precondition(
        Reason::JobBlocked,
        &[("due", due.to_string())],
        "overlap",
        message,
    )
}

fn run_held(due: Time) -> Status {
    let message = format!(
        "the job is paused, and the run of {due} waits until it is resumed: cancel that run first \
         with CancelRun, or let it begin with ResumeJob"
    );
    precondition(
        Reason::JobBlocked,
        &[("due", due.to_string())],
        "overlap",
        message,
    )
}

fn runs_wait(most: usize) -> Status {
    let message = format!(
        "{most} runs of the job go on or wait, which is the most: wait for them, or end some with \
         CancelRun"
    );
    let facts = [("runs", most.to_string())];
    precondition(Reason::JobBlocked, &facts, "name", message)
}

fn too_many_runs(most: usize) -> Status {
    let what = format!("{most} further runs of the job may wait: ask for a shorter range");
    wrong("until", Reason::BackfillTooLarge, what)
}

fn claimed_by_another() -> Status {
    let message = "another identity has claimed the run, which renews and finishes it; CancelRun \
                   ends it";
    plain(Code::PermissionDenied, Reason::ClaimOfAnother, message)
}

fn not_for_claims() -> Status {
    let message = "the service does the runs of this job itself: only those of jobs with `claims` \
                   (in a file, `claimed = true`) are claimed";
    precondition(Reason::JobNotForClaims, &[], "name", message.to_owned())
}

fn only_for_claims() -> Status {
    let what = "programs outside the service do the runs of this job, which has no steps: leave \
                it out";
    wrong("from_order", Reason::JobInvalid, what.to_owned())
}

fn claimed_changed() -> Status {
    let what = "who does the runs of a job cannot be changed: delete it, and create it anew";
    wrong("settings.claims", Reason::JobInvalid, what.to_owned())
}

fn no_claim() -> Status {
    let message = "the run has no open claim with this token: the claim has ended, and somebody \
                   else may have the run";
    precondition(Reason::RunClaimEnded, &[], "token", message.to_owned())
}

fn wrong_schedule(what: String) -> Status {
    wrong("settings.schedule.after", Reason::ScheduleInvalid, what)
}

fn wrong(field: &str, reason: Reason, what: String) -> Status {
    let mut details = info(reason, &[]);
    let message = format!("{field}: {what}");
    details.set_bad_request([violation(field, reason, what)]);
    Status::with_error_details(Code::InvalidArgument, message, details)
}

fn precondition(
    reason: Reason,
    metadata: &[(&str, String)],
    subject: &str,
    message: String,
) -> Status {
    let mut details = info(reason, metadata);
    details.add_precondition_failure_violation(reason.as_str_name(), subject, &message);
    Status::with_error_details(Code::FailedPrecondition, message, details)
}
