//! Every reason as it reads.

use super::*;
use crate::{core::Work, rpc::slot_kind};
use rallypoint_client::api::blocker::{DeadlinePassed, Paused};

const NOW: Time = Time(1_800_000_000_000_000);

#[track_caller]
fn says(kind: Kind, text: &str) {
    assert_eq!(sentence(&kind, NOW), text);
}

fn in_five_minutes() -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp {
        seconds: 1_800_000_300,
        nanos: 0,
    })
}

#[test]
fn a_halt_says_what_lifts_it() {
    let halted = |failures| {
        Kind::Halted(Halt {
            order: 5,
            failed_seqs: vec![17],
            failures,
        })
    };
    says(
        halted(None),
        "orders above 5 are halted since at least 1 task failed: 17; until ResumeScheduler with \
         ignore_failures",
    );
    says(
        halted(Some(2)),
        "orders above 5 are halted since 2 tasks failed: 17, …; until retries that succeed \
         (RetryFailed), or ResumeScheduler with ignore_failures",
    );
    let unnamed = Halt {
        order: 5,
        failed_seqs: Vec::new(),
        failures: Some(50),
    };
    says(
        Kind::Halted(unnamed),
        "orders above 5 are halted since 50 tasks failed; until retries that succeed \
         (RetryFailed), or ResumeScheduler with ignore_failures",
    );
}

#[test]
fn what_a_scheduler_has_in_the_way_reads_as_a_sentence() {
    let cancelled = |covered, above| {
        Kind::Cancellation(Cancellation {
            covered,
            above,
            released: covered,
        })
    };
    says(
        cancelled(true, None),
        "it is being cancelled with the tasks of its scheduler, because the scheduler was \
         released",
    );
    says(
        cancelled(false, Some(5)),
        "the tasks of orders above 5 that were submitted before it are being cancelled first",
    );
    let lower = |unfinished, seqs: &[i64]| {
        Kind::LowerOrder(LowerOrder {
            order: 100,
            unfinished,
            seqs: seqs.to_vec(),
        })
    };
    says(
        lower(3, &[4, 7, 9]),
        "order 100 has 3 unfinished tasks: 4, 7, 9",
    );
    says(lower(1, &[4]), "order 100 has 1 unfinished task: 4");
    says(
        lower(30, &[4, 7]),
        "order 100 has 30 unfinished tasks: 4, 7, …",
    );
    let limit = |running, in_doubt| {
        Kind::Limit(Limit {
            max_parallelism: 3,
            running,
            in_doubt,
        })
    };
    says(
        limit(3, 0),
        "3 of the 3 tasks that its scheduler may run at a time run",
    );
    says(
        limit(2, 1),
        "2 of the 3 tasks that its scheduler may run at a time run, 1 of them perhaps on a \
         lost host, and others come before it",
    );
}

#[test]
fn what_time_has_in_the_way_reads_as_a_sentence() {
    let at = in_five_minutes();
    says(
        Kind::NotBefore(NotBefore { at }),
        "it waits until its not_before, 2027-01-15T08:05:00Z (in 5m)",
    );
    let next = NextAttempt {
        at: in_five_minutes(),
        failures: 1,
        losses: 0,
    };
    says(
        Kind::NextAttempt(next),
        "its next attempt starts at 2027-01-15T08:05:00Z (in 5m), after 1 that failed",
    );
    let both = NextAttempt { losses: 2, ..next };
    says(
        Kind::NextAttempt(both),
        "its next attempt starts at 2027-01-15T08:05:00Z (in 5m), after 1 that failed and 2 \
         that were lost",
    );
    let passed = |own| Kind::DeadlinePassed(DeadlinePassed { own });
    says(passed(true), "its deadline has passed: it ends TIMED_OUT");
    says(
        passed(false),
        "deadlines of its scheduler's tasks have passed, which is noted first",
    );
}

#[test]
fn what_slots_have_in_the_way_reads_as_a_sentence() {
    let busy = |busy| {
        Kind::SlotsBusy(SlotsBusy {
            kind: Some(slot_kind(&Work::Sql {
                target: "app".into(),
            })),
            total: 8,
            busy,
        })
    };
    says(busy(8), "8 of 8 slots of target app are busy");
    says(
        busy(7),
        "7 of 8 slots of target app are busy, and the others are reserved for schedulers that \
         run nothing there",
    );
    let share = Share {
        namespaces: 1,
        schedulers: 2,
        at_least: false,
        held_by_namespace: 5,
        held_by_scheduler: 3,
    };
    says(
        Kind::Share(share),
        "by their share 1 other namespace and 2 schedulers of its own namespace get a slot \
         first; its namespace holds 5, its scheduler 3",
    );
    let outage = Outage {
        replica: "b".into(),
        error: "refused".into(),
        since: in_five_minutes(),
    };
    let away = TargetAway {
        target: "app".into(),
        outages: vec![outage],
    };
    says(
        Kind::TargetAway(away),
        "target app cannot be reached from replica b since 2027-01-15T08:05:00Z (refused)",
    );
    let fence = PendingFence {
        target: "app".into(),
        replica: "b".into(),
        backend_pid: 7,
        since: in_five_minutes(),
        why: "no route".into(),
    };
    says(
        Kind::FencePending(fence),
        "session 7 of the lost replica b on app, where it may have run, has not been shown to \
         have ended since 2027-01-15T08:05:00Z: no route",
    );
}

#[test]
fn who_is_in_the_way_of_a_running_task_reads_as_a_sentence() {
    let session = |depth, state: &str, seconds: Option<i64>| Session {
        backend_pid: 7,
        depth,
        user: "bob".into(),
        application: "psql".into(),
        backend_type: "client backend".into(),
        state: state.into(),
        transaction_age: seconds.map(|seconds| prost_types::Duration { seconds, nanos: 0 }),
        ..Default::default()
    };
    says(
        Kind::Session(session(1, "idle in transaction", Some(125))),
        "session 7 of bob (psql) is in the way: it is idle in transaction, in a transaction for \
         2m 5s",
    );
    let waiting = Session {
        wait_event_type: "Lock".into(),
        wait_event: "relation".into(),
        ..session(2, "active", None)
    };
    says(
        Kind::Session(waiting),
        "session 7 of bob (psql) is in the way of those: it is active, waits for Lock/relation",
    );
    let hidden = Session {
        backend_pid: 7,
        user: "bob".into(),
        ..Default::default()
    };
    says(
        Kind::Session(hidden),
        "session 7 of bob is in the way; the login that watches over the target may see no more \
         of it",
    );
    says(
        Kind::Session(Session::default()),
        "a prepared transaction holds the lock: see pg_prepared_xacts",
    );
    let vacuum = Session {
        backend_pid: 7,
        backend_type: "autovacuum worker".into(),
        state: "active".into(),
        ..Default::default()
    };
    says(
        Kind::Session(vacuum),
        "session 7 (autovacuum worker) is in the way: it is active",
    );
}

#[test]
fn what_a_running_task_does_reads_as_a_sentence() {
    let said = |wait: Option<api::SessionWait>, wait_unknown: &str| {
        let attempt = api::RunningAttempt {
            started_at: in_five_minutes(),
            replica: "a".into(),
            slot: 3,
            backend_pid: 7,
            wait,
            wait_unknown: wait_unknown.into(),
            ..Default::default()
        };
        super::running(&attempt, 2, Time(NOW.0 + 312_000_000))
    };
    let begins = "attempt 2 has run for 12s on replica a, slot 3, backend 7";
    let active = || api::SessionWait {
        state: "active".into(),
        ..Default::default()
    };
    let sleeps = api::SessionWait {
        wait_event_type: "Timeout".into(),
        wait_event: "PgSleep".into(),
        ..active()
    };
    let locked = |lock_relation: &str| api::SessionWait {
        lock_type: "relation".into(),
        lock_mode: "ShareLock".into(),
        lock_relation: lock_relation.into(),
        ..active()
    };
    for (wait, unknown, ends) in [
        (None, "", ""),
        (
            None,
            "no route",
            "; what it waits for is not known: no route",
        ),
        (
            Some(active()),
            "",
            "; Postgres says that it is active and waits for nothing",
        ),
        (
            Some(sleeps),
            "",
            "; it is active and waits for Timeout/PgSleep",
        ),
        (
            Some(locked("")),
            "",
            "; it waits for the lock ShareLock on relation",
        ),
        (
            Some(locked("public.t")),
            "",
            "; it waits for the lock ShareLock on public.t",
        ),
    ] {
        assert_eq!(said(wait, unknown), format!("{begins}{ends}"));
    }
}

#[test]
fn of_an_attempt_without_a_session_it_is_not_said_that_it_has_run() {
    let attempt = api::RunningAttempt {
        started_at: in_five_minutes(),
        replica: "a".into(),
        slot: 3,
        wait_unknown: "refused".into(),
        ..Default::default()
    };
    let said = super::running(&attempt, 1, Time(NOW.0 + 312_000_000));
    let waits = "attempt 1 has waited for a session for 12s on replica a, slot 3; refused";
    assert_eq!(said, waits);
}

#[test]
fn the_summary_says_everything_in_order() {
    let mut answer = api::ExplainTaskResponse {
        state: api::TaskState::Queued.into(),
        place: Some(api::QueuePlace {
            ahead: 12,
            at_least: true,
            in_lower_orders: 0,
        }),
        ..Default::default()
    };
    let paused = sentence(&Kind::Paused(Paused {}), NOW);
    for text in [paused, "no slots".into()] {
        answer.blockers.push(api::Blocker { text, kind: None });
    }
    assert_eq!(
        summary(&answer, NOW),
        "it does not run: the scheduler is paused, until ResumeScheduler; no slots; at least \
         12 tasks of its scheduler come first"
    );
    answer.blockers.clear();
    assert_eq!(
        summary(&answer, NOW),
        "nothing keeps it from starting: it is handed out next"
    );
}

#[test]
fn of_a_task_that_ended_the_summary_says_how_and_when_and_where() {
    let said = |outcome: api::Outcome, attempt, started_us, error: Option<&str>| {
        let error = error.map(|code| api::TaskError {
            code: code.into(),
            message: "division by zero\n".into(),
            ..Default::default()
        });
        let done = api::AsyncDone {
            outcome: outcome.into(),
            attempt,
            started_us,
            ended_us: NOW.0 - 5_000_000,
            replica: if attempt > 0 {
                "b".into()
            } else {
                String::new()
            },
            error,
            ..Default::default()
        };
        let answer = api::ExplainTaskResponse {
            state: api::TaskState::Done.into(),
            done: Some(done),
            ..Default::default()
        };
        summary(&answer, NOW)
    };
    use api::Outcome::{Cancelled, Exhausted, Failed, Succeeded, TimedOut};
    let start = NOW.0 - 7_000_000;
    for (text, expected) in [
        (
            said(Succeeded, 1, start, None),
            "it succeeded, in attempt 1, 5s ago, after 2s on replica b",
        ),
        (
            said(Failed, 2, start, Some("22012")),
            "it failed, in attempt 2, 5s ago, after 2s on replica b: 22012 division by zero",
        ),
        (
            said(Cancelled, 0, 0, None),
            "it was cancelled, and never started, 5s ago",
        ),
        (
            said(TimedOut, 0, 0, Some("DEADLINE")),
            "it ran out of time, and never started, 5s ago: DEADLINE division by zero",
        ),
        (
            said(Exhausted, 3, start, Some("LOST")),
            "it was given up, since it was lost too often, in attempt 3, 5s ago, after 2s on \
             replica b: LOST division by zero",
        ),
    ] {
        assert_eq!(text, expected);
    }
}
