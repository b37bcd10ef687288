//! The reasons why a task does not run, as English sentences. Pure: a sentence follows from the
//! numbers of its reason and the time.

mod resources;
#[cfg(test)]
mod tests;

use crate::core::Time;
use jiff::{SignedDuration, Timestamp};
use rallypoint_client::api::{
    self, Halt, PendingFence, SlotKind, TargetPause,
    blocker::{
        Cancellation, Kind, Limit, LowerOrder, NextAttempt, NoExecutor, NotBefore, Session, Share,
        SlotsBusy, TargetAway, target_away::Outage,
    },
    slot_kind,
};

/// Tasks that a sentence names.
const TASKS_NAMED: usize = 10;

/// The whole answer as one text.
pub(crate) fn summary(answer: &api::ExplainTaskResponse, now: Time) -> String {
    if let Some(done) = &answer.done {
        return ended(done, now);
    }
    let texts = answer.blockers.iter().map(|blocker| blocker.text.as_str());
    let reasons = texts.collect::<Vec<_>>().join("; ");
    let place = answer.place.as_ref().and_then(ahead);
    let running = answer.running.as_ref().map_or("", |attempt| &attempt.text);
    match (answer.state(), reasons.is_empty(), place) {
        (api::TaskState::Running, true, _) => running.into(),
        (api::TaskState::Running, false, _) => format!("{running}: {reasons}"),
        (_, true, _) => "nothing keeps it from starting: it is handed out next".into(),
        (_, false, None) => format!("it does not run: {reasons}"),
        (_, false, Some(place)) => format!("it does not run: {reasons}; {place}"),
    }
}

/// How a task ended, when, where, and with what error.
fn ended(done: &api::AsyncDone, now: Time) -> String {
    let (start, end) = (Time(done.started_us), Time(done.ended_us));
    let mut text = match done.outcome() {
        api::Outcome::Succeeded => "it succeeded",
        api::Outcome::Failed => "it failed",
        api::Outcome::Cancelled => "it was cancelled",
        api::Outcome::TimedOut => "it ran out of time",
        api::Outcome::Exhausted => "it was given up, since it was lost too often",
        api::Outcome::Unspecified => "it has ended in a way that this version does not know",
    }
    .to_owned();
    match done.attempt {
        0 => text += ", and never started",
        number => text += &format!(", in attempt {number}"),
    }
    text += &format!(", {} ago", lasted(end, now));
    if start.0 > 0 {
        text += &format!(", after {}", lasted(start, end));
    }
    if !done.replica.is_empty() {
        text += &format!(" on replica {}", done.replica);
    }
    match &done.error {
        Some(error) => format!("{text}: {} {}", error.code, error.message.trim_end()),
        None => text,
    }
}

/// What an attempt of this number does.
pub(crate) fn running(attempt: &api::RunningAttempt, number: i32, now: Time) -> String {
    let since = attempt.started_at.as_ref().map_or(now, time);
    let does = match has_no_session(attempt) {
        true => "has waited for a session for",
        false => "has run for",
    };
    let mut text = format!("attempt {number} {does} {}", lasted(since, now));
    match attempt.replica.as_str() {
        "" => text += ", and no replica that answers says where",
        replica => text += &format!(" on replica {replica}, slot {}", attempt.slot),
    }
    if attempt.backend_pid != 0 {
        text += &format!(", backend {}", attempt.backend_pid);
    }
    if attempt.stopping {
        text += ", and is being stopped";
    }
    text + &waits(attempt)
}

/// It is in a slot, and nothing of it has begun. Only tasks that need a session are found in one.
fn has_no_session(attempt: &api::RunningAttempt) -> bool {
    !attempt.replica.is_empty() && attempt.backend_pid == 0
}

/// What a running attempt waits for, as Postgres says it, or why it has no session.
fn waits(attempt: &api::RunningAttempt) -> String {
    let Some(wait) = &attempt.wait else {
        return match attempt.wait_unknown.as_str() {
            "" => String::new(),
            why if has_no_session(attempt) => format!("; {why}"),
            why => format!("; what it waits for is not known: {why}"),
        };
    };
    let state = &wait.state;
    match (wait.lock_mode.as_str(), wait.wait_event_type.as_str()) {
        ("", "") => format!("; Postgres says that it is {state} and waits for nothing"),
        ("", kind) => format!("; it is {state} and waits for {kind}/{}", wait.wait_event),
        (mode, _) => {
            let on = match wait.lock_relation.as_str() {
                "" => &wait.lock_type,
                relation => relation,
            };
            format!("; it waits for the lock {mode} on {on}")
        }
    }
}

fn session(one: &Session) -> String {
    if one.backend_pid == 0 {
        return "a prepared transaction holds the lock: see pg_prepared_xacts".into();
    }
    let mut who = format!("session {}", one.backend_pid);
    match (one.user.as_str(), one.backend_type.as_str()) {
        ("", kind) => who += &format!(" ({kind})"),
        (user, _) => who += &format!(" of {user}"),
    }
    match &one.task {
        Some(task) => who += &format!(", which runs task {}/{},", task.handle, task.seq),
        None if one.application.is_empty() => {}
        None => who += &format!(" ({})", one.application),
    }
    let what = match one.depth {
        ..=1 => "is in the way",
        _ => "is in the way of those",
    };
    let age = one
        .transaction_age
        .as_ref()
        .map_or_else(String::new, |age| {
            let us = age.seconds * 1_000_000 + i64::from(age.nanos) / 1_000;
            format!(", in a transaction for {}", lasted(Time(0), Time(us)))
        });
    let waits = match one.wait_event_type.as_str() {
        "" => String::new(),
        kind => format!(", waits for {kind}/{}", one.wait_event),
    };
    match one.state.as_str() {
        "" if one.backend_type.is_empty() => {
            format!("{who} {what}; the login that watches over the target may see no more of it")
        }
        "" => format!("{who} {what}{age}{waits}"),
        state => format!("{who} {what}: it is {state}{age}{waits}"),
    }
}

fn ahead(place: &api::QueuePlace) -> Option<String> {
    let least = at_least(place.at_least);
    let tasks = count(place.ahead, "task");
    (place.ahead > 0).then(|| format!("{least}{tasks} of its scheduler come first"))
}

/// What a reason says.
pub(super) fn sentence(kind: &Kind, now: Time) -> String {
    match kind {
        Kind::Cancellation(one) => cancellation(one),
        Kind::Paused(_) => "the scheduler is paused, until ResumeScheduler".into(),
        Kind::Halted(one) => halted(one),
        Kind::LowerOrder(LowerOrder {
            order,
            unfinished,
            seqs,
        }) => {
            let number = count(*unfinished, "unfinished task");
            let named = named(seqs, *unfinished);
            format!("order {order} has {number}: {named}")
        }
        Kind::NotBefore(NotBefore { at }) => {
            format!("it waits until its not_before, {}", to_come(at, now))
        }
        Kind::NextAttempt(NextAttempt {
            at,
            failures,
            losses,
        }) => {
            let failed = (*failures > 0).then(|| format!("{failures} that failed"));
            let lost = (*losses > 0).then(|| format!("{losses} that were lost"));
            let before: Vec<String> = failed.into_iter().chain(lost).collect();
            let after = match before.is_empty() {
                true => String::new(),
                false => format!(", after {}", before.join(" and ")),
            };
            format!("its next attempt starts at {}{after}", to_come(at, now))
        }
        Kind::DeadlinePassed(one) if one.own => "its deadline has passed: it ends TIMED_OUT".into(),
        Kind::DeadlinePassed(_) => {
            "deadlines of its scheduler's tasks have passed, which is noted first".into()
        }
        Kind::Limit(one) => limit(one),
        Kind::TargetPaused(one) => paused(one),
        Kind::NoExecutor(NoExecutor { kind }) => {
            let slots = slots_of(kind.as_ref());
            format!("no replica has said that it has {slots}: is it configured anywhere?")
        }
        Kind::TargetAway(one) => away(one),
        Kind::SlotsBusy(one) => slots(one),
        Kind::Share(one) => share(one),
        Kind::InDoubt(_) => "an earlier owner may have started it: it counts as running until its \
             executor reports it or has been shown to have ended"
            .into(),
        Kind::Resolving(_) => "its attempt is lost: its target is asked whether it has committed, \
             before anything follows"
            .into(),
        Kind::Resources(one) => resources::sentence(one),
        Kind::FencePending(one) => fence(one),
        Kind::Session(one) => session(one),
    }
}

fn cancellation(one: &Cancellation) -> String {
    let what = match one.above {
        None => "the tasks of its scheduler".to_owned(),
        Some(above) => format!("the tasks of orders above {above}"),
    };
    let why = match one.released {
        true => ", because the scheduler was released",
        false => "",
    };
    match one.covered {
        true => format!("it is being cancelled with {what}{why}"),
        false => format!("{what} that were submitted before it are being cancelled first"),
    }
}

fn halted(halted: &Halt) -> String {
    let Halt {
        order, failed_seqs, ..
    } = halted;
    let all = halted.failures.unwrap_or(failed_seqs.len() as i64);
    let at_least = match halted.failures {
        None => "at least ",
        Some(_) => "",
    };
    let number = format!("{at_least}{}", count(all, "task"));
    let named = match failed_seqs.is_empty() {
        true => String::new(),
        false => format!(": {}", named(failed_seqs, all)),
    };
    let retries = match halted.failures {
        Some(_) => "retries that succeed (RetryFailed), or ",
        None => "",
    };
    format!(
        "orders above {order} are halted since {number} failed{named}; until {retries}\
         ResumeScheduler with ignore_failures"
    )
}

fn limit(one: &Limit) -> String {
    let (running, max) = (one.running, one.max_parallelism);
    let mut text = format!("{running} of the {max} tasks that its scheduler may run at a time run");
    if one.in_doubt > 0 {
        text += &format!(", {} of them perhaps on a lost host", one.in_doubt);
    }
    if running < max {
        text += ", and others come before it";
    }
    text
}

fn paused(one: &TargetPause) -> String {
    let what = match one.target.as_str() {
        "" => "everything is".to_owned(),
        target => format!("target {target} is"),
    };
    let since = one
        .since
        .as_ref()
        .map_or_else(String::new, |at| clock(time(at)));
    let said = match one.paused_by.as_str() {
        "" => String::new(),
        by => format!(" by {by} ({})", one.reason),
    };
    format!("{what} paused since {since}{said}, until ResumeTarget")
}

fn away(TargetAway { target, outages }: &TargetAway) -> String {
    if outages.is_empty() {
        return format!("no slots of target {target} can be used now on any replica");
    }
    let said = |outage: &Outage| {
        let at = outage.since.as_ref().map(|at| clock(time(at)));
        let since = at.map_or_else(String::new, |at| format!(" since {at}"));
        let why = match outage.error.as_str() {
            "" => String::new(),
            error => format!(" ({error})"),
        };
        format!("from replica {}{since}{why}", outage.replica)
    };
    let said: Vec<String> = outages.iter().map(said).collect();
    format!("target {target} cannot be reached {}", said.join(", "))
}

fn slots(SlotsBusy { kind, total, busy }: &SlotsBusy) -> String {
    let slots = slots_of(kind.as_ref());
    let text = format!("{busy} of {total} {slots} are busy");
    match busy < total {
        true => text + ", and the others are reserved for schedulers that run nothing there",
        false => text,
    }
}

fn slots_of(kind: Option<&SlotKind>) -> String {
    match kind.and_then(|kind| kind.kind.as_ref()) {
        Some(slot_kind::Kind::SqlTarget(target)) => format!("slots of target {target}"),
        Some(slot_kind::Kind::Noop(())) => "slots of no-op tasks".to_owned(),
        None => "slots".to_owned(),
    }
}

fn share(one: &Share) -> String {
    format!(
        "by their share {}{} and {} of its own namespace get a slot first; its namespace holds \
         {}, its scheduler {}",
        at_least(one.at_least),
        count(one.namespaces.into(), "other namespace"),
        count(one.schedulers.into(), "scheduler"),
        one.held_by_namespace,
        one.held_by_scheduler
    )
}

fn fence(one: &PendingFence) -> String {
    let since = one
        .since
        .as_ref()
        .map_or_else(String::new, |at| format!(" since {}", clock(time(at))));
    let session = match one.backend_pid {
        0 => "a session".to_owned(),
        pid => format!("session {pid}"),
    };
    let why = match one.why.as_str() {
        "" => String::new(),
        why => format!(": {why}"),
    };
    format!(
        "{session} of the lost replica {} on {}, where it may have run, has not been shown to \
         have ended{since}{why}",
        one.replica, one.target
    )
}

/// `1 task`, `2 tasks`.
fn count(number: i64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn at_least(more: bool) -> &'static str {
    if more { "at least " } else { "" }
}

/// Some of so many tasks, by number.
fn named(tasks: &[i64], all: i64) -> String {
    let some = &tasks[..tasks.len().min(TASKS_NAMED)];
    let numbers: Vec<String> = some.iter().map(i64::to_string).collect();
    let more = if all > some.len() as i64 { ", …" } else { "" };
    format!("{}{more}", numbers.join(", "))
}

/// A time that is still to come, and how far off it is.
fn to_come(at: &Option<prost_types::Timestamp>, now: Time) -> String {
    let at = at.as_ref().map_or(now, time);
    format!("{} (in {})", clock(at), lasted(now, at))
}

pub(super) fn time(at: &prost_types::Timestamp) -> Time {
    Time(at.seconds * 1_000_000 + i64::from(at.nanos) / 1_000)
}

/// RFC 3339.
fn clock(at: Time) -> String {
    Timestamp::from_microsecond(at.0).map_or_else(|_| "?".into(), |at| at.to_string())
}

/// From one time to another: to the millisecond, and to the second when it is long. What is shorter
/// than a millisecond is not shown as nothing.
fn lasted(from: Time, to: Time) -> String {
    let micros = to.since(from).as_micros() as i64;
    if (1..1_000).contains(&micros) {
        return format!("{:#}", SignedDuration::from_micros(micros));
    }
    let millis = micros / 1_000;
    let shown = if millis < 10_000 {
        millis
    } else {
        millis - millis % 1_000
    };
    format!("{:#}", SignedDuration::from_millis(shown))
}
