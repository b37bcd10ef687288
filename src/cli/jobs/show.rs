//! Jobs, their runs and the agent for people.

mod definition;
mod why;

use crate::{
    cli::{
        enum_text, output, plural,
        table::Table,
        terminal_text::plain,
        time_text::{self, exact},
    },
    core::model::limits::length_text,
};
pub(super) use definition::steps;
use rallypoint_client::api::{
    Agent, BackfillJobResponse, Job, JobRun, RunClaim, RunClaimEnd, RunState, schedule::Rule,
};
use std::time::Duration;
use why::why;

/// One job. `remark`: what else there is to say.
pub(super) fn job(job: Option<&Job>, remark: &str) {
    let Some(job) = job else { return };
    output::line(format!("{}{remark}", job.name));
    let settings = job.settings.clone().unwrap_or_default();
    let mut lines = vec![
        ("schedule", rule(job)),
        ("next due", next_due(job)),
        match &settings.claims {
            None => ("steps", settings.steps.len().to_string()),
            Some(claims) if claims.target.is_empty() => ("claimed", "by programs".to_owned()),
            Some(claims) => (
                "claimed",
                format!("by programs, finished on {}", claims.target),
            ),
        },
        ("etag", job.etag.clone()),
        ("changed by", job.changed_by.clone()),
    ];
    lines.extend(definition::rules(&settings));
    if job.failures > 0 {
        lines.push(("failures", format!("{} in a row", job.failures)));
    }
    lines.push(("paused", paused(job).unwrap_or_else(|| "no".to_owned())));
    lines.into_iter().for_each(field);
}

/// What became of the due time that a job had last.
pub(super) fn last_run(run: Option<&JobRun>) {
    let outcome = |run: &JobRun| match why(run) {
        why if why.is_empty() => format!("{} {}", due(run), state(run)),
        why => format!("{} {}: {why}", due(run), state(run)),
    };
    field(("last run", run.map_or_else(|| "-".to_owned(), outcome)));
}

fn field((name, value): (&str, String)) {
    output::line(format!("  {name:<12} {value}"));
}

/// Many of them.
pub(super) fn jobs(jobs: &[Job]) {
    let mut table = Table::new(&["name", "~schedule", "next due", ">failures", "~paused"]);
    for job in jobs {
        table.row([
            job.name.clone(),
            rule(job),
            exact(job.next_due.as_ref()),
            job.failures.to_string(),
            paused(job).unwrap_or_default(),
        ]);
    }
    match table.is_empty() {
        true => output::note("no jobs: `rallypoint jobs apply -f jobs.toml`"),
        false => table.print(),
    }
}

/// One run.
pub(super) fn run(run: Option<&JobRun>) {
    let Some(run) = run else { return };
    let why = why(run);
    let why = if why.is_empty() {
        why
    } else {
        format!(": {why}")
    };
    let state = state(run);
    output::line(format!("{} {}: {state}{why}", run.job, due(run)));
    if !run.handle.is_empty() {
        output::line(format!("  scheduler {}", run.handle));
    }
}

/// Claims of a run, oldest first.
pub(super) fn claims(claims: &[RunClaim]) {
    for claim in claims {
        let end = match claim.end() {
            RunClaimEnd::Unspecified => "claimed".to_owned(),
            end => enum_text::in_words(end.as_str_name(), "RUN_CLAIM_END_"),
        };
        let late = match claim.late_at {
            None => String::new(),
            Some(_) if claim.late_succeeded => {
                format!(", done late {}", exact(claim.late_at.as_ref()))
            }
            Some(_) => format!(", failed late {}", exact(claim.late_at.as_ref())),
        };
        let since = exact(claim.claimed_at.as_ref());
        let owner = claimant(claim);
        output::line(format!("  claim of {owner} {since}: {end}{late}"));
    }
}

/// Due times in the past that have runs now, or would have.
pub(super) fn backfilled(answer: &BackfillJobResponse, is_dry: bool, is_ahead: bool) {
    for due in &answer.due {
        output::line(exact(Some(due)));
    }
    let (now, had) = (answer.due.len(), answer.left_out);
    output::note(backfill_in_words(now, had, is_dry, is_ahead));
}

/// How many due times of a range have a run now, and how many had one before.
fn backfill_in_words(now: usize, had: i64, is_dry: bool, is_ahead: bool) -> String {
    let given = match is_dry {
        true => "would have a run",
        false => "with a run now",
    };
    match (now, had) {
        (0, 0) if is_ahead => {
            "nothing to do: the range is in the future, where due times have their runs by \
             themselves"
                .to_owned()
        }
        (0, 0) => "nothing to do: the job was never due in that range".to_owned(),
        (0, had) => format!(
            "nothing to do: {}",
            plural::with_verb(
                had,
                [
                    "due time in that range, which has had a run or is older than the retention",
                    "due times in that range, which have had runs or are older than the retention",
                ]
            )
        ),
        (now, had) => format!("due times: {now} {given}, {had} that had one"),
    }
}

/// Who has a claim.
pub(super) fn claimant(claim: &RunClaim) -> String {
    match &*claim.owner {
        "" => plain(&claim.caller),
        owner => plain(owner),
    }
}

/// Due times with what became of them.
pub(super) fn runs(runs: &[JobRun]) {
    let mut table = Table::new(&[
        "due",
        "state",
        "~why",
        "?>attempt",
        "?started",
        "?took",
        "?scheduler",
    ]);
    for run in runs {
        let (from, to) = (run.started_at.as_ref(), run.ended_at.as_ref());
        let took = from.zip(to).map(|(from, to)| {
            time_text::duration(time_text::micros(Some(to)) - time_text::micros(Some(from)))
        });
        table.row([
            due(run),
            state(run),
            why(run),
            run.attempt.to_string(),
            exact(from),
            took.unwrap_or_else(|| "-".to_owned()),
            run.handle.clone(),
        ]);
    }
    match table.is_empty() {
        true => output::note("no due time has passed yet"),
        false => table.print(),
    }
}

/// The agent, and what runs.
pub(super) fn agent(agent: Option<&Agent>, remark: &str) {
    let Some(agent) = agent else { return };
    let stands = if agent.stopped { "stopped" } else { "started" };
    output::line(format!(
        "the agent is {stands}{remark}; runs that go on: {}",
        agent.running
    ));
    agent.runs.iter().for_each(|one| run(Some(one)));
}

fn rule(job: &Job) -> String {
    let settings = job.settings.as_ref();
    let Some(schedule) = settings.and_then(|settings| settings.schedule.as_ref()) else {
        return "-".to_owned();
    };
    let zone = match &*schedule.time_zone {
        "" | "UTC" => String::new(),
        zone => format!(" {zone}"),
    };
    let rule = match &schedule.rule {
        Some(Rule::Cron(text)) => text.clone(),
        Some(Rule::Interval(interval)) => {
            let every = length(interval.every.as_ref()).unwrap_or_default();
            let phase = length(interval.phase.as_ref()).map(|phase| format!(" + {phase}"));
            format!("every {every}{}", phase.unwrap_or_default())
        }
        Some(Rule::OncePer(window)) => {
            let period = enum_text::in_words(window.period().as_str_name(), "PERIOD_");
            match (&*window.after, &*window.before) {
                ("", "") => format!("once per {period}"),
                (after, "") => format!("once per {period}, after {after}"),
                ("", before) => format!("once per {period}, before {before}"),
                (after, before) => format!("once per {period}, {after} to {before}"),
            }
        }
        Some(Rule::After(job)) => format!("after {job}"),
        None => "-".to_owned(),
    };
    format!("{rule}{zone}")
}

/// The next due time, and that its run starts later: it stays the next one until then.
fn next_due(job: &Job) -> String {
    let next = exact(job.next_due.as_ref());
    let settings = job.settings.as_ref();
    let schedule = settings.and_then(|settings| settings.schedule.as_ref());
    let schedule = schedule.filter(|_| job.next_due.is_some());
    let jitter = length(schedule.and_then(|schedule| schedule.jitter.as_ref()));
    let later = jitter.map(|jitter| format!(", starts up to {jitter} later"));
    format!("{next}{}", later.unwrap_or_default())
}

/// A length of time of a schedule as it was written; `None`: none, or not any.
fn length(of: Option<&prost_types::Duration>) -> Option<String> {
    let length = Duration::from_micros(time_text::duration_us(of).max(0) as u64);
    (!length.is_zero()).then(|| length_text(length))
}

pub(super) fn paused(job: &Job) -> Option<String> {
    let paused = job.paused.as_ref()?;
    let by = match &*paused.by {
        "" => "the service",
        by => by,
    };
    let since = exact(paused.since.as_ref());
    Some(match &*paused.reason {
        "" => format!("{since} by {by}"),
        reason => format!("{since} by {by}: {reason}"),
    })
}

/// The due time as `jobs cancel-run` takes it, and the last one of a range.
pub(super) fn due(run: &JobRun) -> String {
    let due = exact(run.due.as_ref());
    match &run.last_due {
        Some(last) => format!("{due} to {} ({})", exact(Some(last)), run.count),
        None => due,
    }
}

pub(super) fn state(run: &JobRun) -> String {
    let state = RunState::try_from(run.state).unwrap_or_default();
    enum_text::in_words(state.as_str_name(), "RUN_STATE_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::{Interval, JobSettings, Schedule};

    #[test]
    fn a_job_shows_by_how_much_it_is_put_off() {
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let job = |phase, jitter| Job {
            settings: Some(JobSettings {
                schedule: Some(Schedule {
                    rule: Some(Rule::Interval(Interval {
                        every: seconds(3_600),
                        phase: seconds(phase),
                    })),
                    jitter: seconds(jitter),
                    ..Schedule::default()
                }),
                ..JobSettings::default()
            }),
            next_due: Some(prost_types::Timestamp::default()),
            ..Job::default()
        };
        assert!(!next_due(&job(0, 0)).contains("later"));
        let put_off = next_due(&job(0, 300));
        assert!(put_off.ends_with(", starts up to 5m later"), "{put_off}");
        assert_eq!(rule(&job(0, 0)), rule(&job(0, 300)));
        assert!(rule(&job(900, 0)).ends_with(" + 15m"));
    }

    #[test]
    fn a_backfill_without_runs_says_why() {
        let said = |now, had, is_ahead| backfill_in_words(now, had, false, is_ahead);
        assert!(said(0, 0, true).contains("in the future"));
        assert!(said(0, 0, false).contains("never due in that range"));
        assert!(said(0, 1, false).contains("1 due time in that range, which has had a run"));
        assert_eq!(
            said(3, 1, false),
            "due times: 3 with a run now, 1 that had one"
        );
        let planned = backfill_in_words(3, 1, true, false);
        assert_eq!(planned, "due times: 3 would have a run, 1 that had one");
    }
}
