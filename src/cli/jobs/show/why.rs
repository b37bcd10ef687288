//! Why a run is in its state.

use crate::cli::{plural, time_text::exact};
use rallypoint_client::api::{JobRun, RunReason, RunState};

/// Why it is so with a run, what it waits for, or when it goes on; empty: that goes without saying.
pub(super) fn why(run: &JobRun) -> String {
    let reason = RunReason::try_from(run.reason).unwrap_or_default();
    let failed_tasks = format!("{} failed", plural::count(run.failed_tasks, "task"));
    let what = match reason {
        RunReason::Unspecified if run.failed_tasks > 0 => &failed_tasks,
        RunReason::Unspecified => "",
        RunReason::StillRunning => "previous run still running",
        RunReason::QueueFull => "too many runs wait",
        RunReason::Replaced => "replaced by a later due time",
        RunReason::JobPaused => "job paused",
        RunReason::JobDeleted => "job deleted",
        RunReason::NoServer => "no server",
        RunReason::AgentStopped => "agent stopped",
        RunReason::WindowClosed => "window closed",
        RunReason::TooLate => "too late",
        RunReason::MaxRuntime => "longer than max_runtime",
        RunReason::Asked => "asked for",
        RunReason::Refused => "steps refused",
        RunReason::SchedulerGone => "its scheduler is gone",
        RunReason::ClaimantLost if run.state() == RunState::Running => {
            "its claimant is lost: the target is asked"
        }
        RunReason::ClaimantLost if run.state() == RunState::Waiting => {
            "its claimant is lost: it may be claimed"
        }
        RunReason::ClaimantLost => "its claimant was lost",
        RunReason::CompletedLate => "completed late",
        RunReason::NotClaimed => "nobody claimed it",
        RunReason::Reported => "its claimant says so",
    };
    let by = Some(&run.by).filter(|by| !by.is_empty() && reason == RunReason::Asked);
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    let detail = match &*run.detail {
        "" => String::new(),
        detail if what.is_empty() => detail.to_owned(),
        detail => format!(" ({detail})"),
    };
    let next = match &run.next_attempt_at {
        next @ Some(_) => format!("; the next attempt is at {}", exact(next.as_ref())),
        None => String::new(),
    };
    format!("{what}{by}{detail}{next}")
        .trim_start_matches("; ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_to_be_repeated_says_when() {
        let retrying = JobRun {
            state: RunState::Retrying.into(),
            failed_tasks: 1,
            next_attempt_at: Some(prost_types::Timestamp::default()),
            ..JobRun::default()
        };
        let next = "the next attempt is at ";
        assert!(why(&retrying).starts_with(&format!("1 task failed; {next}")));
        let lost = JobRun {
            failed_tasks: 0,
            ..retrying
        };
        assert!(why(&lost).starts_with(next));
        let waiting = JobRun {
            detail: "its turn is behind another".to_owned(),
            ..JobRun::default()
        };
        assert_eq!(why(&waiting), waiting.detail);
        assert_eq!(why(&JobRun::default()), "");
    }
}
