//! What the views say of what was read.

use super::*;
use crate::cli::top::{
    place::Place,
    seen::{ErrorsOf, Failure, HeldUp, Jobs, OneTask, Overview, System},
    text::Row,
};
use rallypoint_client::api::{
    Agent, AsyncDone, Backlog, Blocker, DayPin, Execution, ExecutionState, ExplainTaskResponse,
    GetStatusResponse, Halt, Job, JobCounts, JobRun, JournalStatus, Outcome, PausedTarget,
    RunState, RunningAttempt, Scheduler, SchedulerState, SessionWait, SlotKind, SlotStatus,
    SqlTask, TargetPause, TargetStatus, Task, TaskError, TaskId, TaskState, TaskView, blocker,
    day_pin, slot_kind, task,
};

const NOW: i64 = 1_772_366_400_000_000;

fn look(width: usize) -> Look<'static> {
    Look {
        now: NOW,
        width,
        filter: "",
        bars: false,
    }
}

/// The first row that holds a text.
#[track_caller]
fn row<'a>(page: &'a Page, text: &str) -> &'a Row {
    let found = page.rows.iter().find(|row| row.text().contains(text));
    let all: Vec<String> = page.rows.iter().map(Row::text).collect();
    found.unwrap_or_else(|| panic!("no {text:?} in\n{}", all.join("\n")))
}

/// What a target says of a claimed run that nobody has finished.
fn not_finished() -> Failure {
    Failure {
        code: "RP006".to_owned(),
        message: "the run of \"invoices\" is not done".to_owned(),
        ..failure(5, NOW - 4_000_000)
    }
}

fn failure(seq: i64, at: i64) -> Failure {
    Failure {
        seq,
        code: "22012".to_owned(),
        message: "division by zero\nin row 7".to_owned(),
        at,
        retried: false,
    }
}

fn overview() -> Overview {
    let errors = ErrorsOf {
        counts: (3, 0),
        found: vec![
            failure(3, NOW - 9_000_000),
            failure(4, NOW - 5_000_000),
            not_finished(),
        ],
    };
    let halted = Scheduler {
        handle: "h".to_owned(),
        name: "nightly".to_owned(),
        state: 1,
        blocked: 7,
        halt: Some(Halt {
            order: 100,
            failed_seqs: vec![4],
            failures: Some(2),
        }),
        ..Scheduler::default()
    };
    let slots = SlotStatus {
        kind: Some(SlotKind {
            kind: Some(slot_kind::Kind::SqlTarget("app".to_owned())),
        }),
        total: 4,
        busy: 2,
        reserved: 0,
        ..SlotStatus::default()
    };
    Overview {
        turn: 3,
        status: GetStatusResponse {
            slots: vec![slots],
            backlog: Some(Backlog {
                blocked: 7,
                running: 2,
                ..Backlog::default()
            }),
            ..GetStatusResponse::default()
        },
        schedulers: vec![halted],
        errors: [("h".to_owned(), errors)].into(),
        held_up: vec![HeldUp {
            handle: "h".to_owned(),
            seq: 9,
            pid: 4711,
            user: "anna".to_owned(),
            state: "idle in transaction".to_owned(),
            started: NOW - 60_000_000,
            ..HeldUp::default()
        }],
        rates: vec![1.0, 2.0, 3.0],
        ..Overview::default()
    }
}

#[test]
fn the_overview_leads_to_what_needs_somebody() {
    let page = page(&Seen::Overview(Box::new(overview())), &look(120));
    let held = row(&page, "waits for a lock that process 4711 holds");
    assert_eq!(held.link, Some(Place::Task("h".to_owned(), 9)));
    let error = row(&page, "division by zero");
    // The same error twice is one row, with the newest task.
    assert_eq!(error.link, Some(Place::Task("h".to_owned(), 4)));
    assert!(error.text().contains("2 times"), "{}", error.text());
    assert!(!error.text().contains("row 7"), "{}", error.text());
    let is_of_a_claim = |row: &Row| row.text().contains("invoices");
    assert!(!page.rows.iter().any(is_of_a_claim), "it is no failure");
    row(&page, "halted: 2 failed in order 100");
    row(&page, "2.0 tasks ended a second");
    row(&page, "2/4");
}

#[test]
fn an_unknown_backlog_is_not_shown_as_zeros() {
    let mut seen = overview();
    seen.status.backlog = None;
    let page = page(&Seen::Overview(Box::new(seen)), &look(120));
    row(&page, "backlog unknown");
    row(&page, "2/4");
    let has_counts = |row: &Row| row.text().contains("queued");
    assert!(!page.rows.iter().any(has_counts));
}

#[test]
fn a_released_scheduler_is_no_halt_that_needs_somebody() {
    let mut seen = overview();
    let waits = "Order 100 has failed tasks, later orders wait";
    row(
        &page(&Seen::Overview(Box::new(seen.clone())), &look(120)),
        waits,
    );
    seen.schedulers[0].state = SchedulerState::Released.into();
    let page = page(&Seen::Overview(Box::new(seen)), &look(120));
    assert!(page.rows.iter().all(|row| !row.text().contains(waits)));
}

#[test]
fn every_row_fits_the_width_of_the_screen() {
    for width in [36, 76, 200] {
        let page = page(&Seen::Overview(Box::new(overview())), &look(width));
        for row in &page.rows {
            let wide: usize = row.pieces.iter().map(|piece| piece.width()).sum();
            // What does not fit may be cut by the screen, but not what says where a row leads.
            assert!(wide <= width + 40, "{wide} of {width}: {}", row.text());
        }
        row(&page, "Task 4");
    }
}

fn session(pid: i32, depth: i32) -> Blocker {
    let session = blocker::Session {
        backend_pid: pid,
        depth,
        user: "anna".to_owned(),
        state: "idle in transaction".to_owned(),
        transaction_age: Some(prost_types::Duration {
            seconds: 90,
            nanos: 0,
        }),
        ..blocker::Session::default()
    };
    Blocker {
        text: format!("process {pid} holds a lock"),
        kind: Some(blocker::Kind::Session(session)),
    }
}

fn task_at(state: TaskState) -> OneTask {
    let id = Some(TaskId {
        handle: "h".to_owned(),
        seq: 9,
    });
    let sql = SqlTask {
        statement: "select 1,\n       1/0".to_owned(),
        ..SqlTask::default()
    };
    OneTask {
        task: TaskView {
            id: id.clone(),
            state: state.into(),
            task: Some(Task {
                kind: Some(task::Kind::Sql(sql)),
                ..Task::default()
            }),
            ..TaskView::default()
        },
        explained: ExplainTaskResponse {
            id,
            state: state.into(),
            ..ExplainTaskResponse::default()
        },
        ..OneTask::default()
    }
}

#[test]
fn a_running_task_names_the_process_that_holds_the_lock() {
    let mut one = task_at(TaskState::Running);
    one.explained.running = Some(RunningAttempt {
        replica: "a".to_owned(),
        slot: 1,
        backend_pid: 42,
        wait: Some(SessionWait {
            wait_event_type: "Lock".to_owned(),
            wait_event: "relation".to_owned(),
            lock_type: "relation".to_owned(),
            lock_mode: "AccessShareLock".to_owned(),
            lock_relation: "orders".to_owned(),
            ..SessionWait::default()
        }),
        ..RunningAttempt::default()
    });
    one.explained.blockers = vec![session(4711, 1), session(4712, 2)];
    let page = page(&Seen::Task(Box::new(one)), &look(76));
    row(&page, "AccessShareLock on relation orders");
    row(&page, "Process 4711 holds the lock");
    row(&page, "Process 4712 is in the way of the session above");
    row(&page, "pg_terminate_backend(4711)");
    row(&page, "1 min 30 s");
}

#[test]
fn a_task_that_holds_the_lock_is_to_be_cancelled_since_it_would_run_again() {
    let mut one = task_at(TaskState::Running);
    let mut ours = session(4711, 1);
    if let Some(blocker::Kind::Session(session)) = &mut ours.kind {
        session.task = one.explained.id.clone();
    }
    one.explained.blockers = vec![ours];
    let page = page(&Seen::Task(Box::new(one)), &look(76));
    row(&page, "rallypoint cancel h 9");
    let ends = |row: &&Row| row.text().contains("pg_terminate_backend");
    assert_eq!(page.rows.iter().find(ends).map(Row::text), None);
}

#[test]
fn an_error_is_marked_in_its_statement() {
    let mut one = task_at(TaskState::Done);
    one.task.done = Some(AsyncDone {
        outcome: Outcome::Failed.into(),
        notices: "one\n\x1b[31mtwo".to_owned(),
        error: Some(TaskError {
            code: "22012".to_owned(),
            message: "division by zero".to_owned(),
            position: Some(18),
            ..TaskError::default()
        }),
        ..AsyncDone::default()
    });
    let page = page(&Seen::Task(Box::new(one)), &look(76));
    let texts: Vec<String> = page.rows.iter().map(Row::text).collect();
    let at = texts.iter().position(|text| text == "line 2:        1/0");
    let mark = &texts[at.expect("the line") + 1];
    assert_eq!(mark, &format!("{}^", " ".repeat("line 2:        ".len())));
    assert!(texts.iter().any(|text| text == " [31mtwo"), "{texts:?}");
}

#[test]
fn the_last_runs_of_a_job_are_signs_and_the_last_one_a_word() {
    let run = |state: RunState| JobRun {
        state: state.into(),
        ..JobRun::default()
    };
    let jobs = Jobs {
        jobs: vec![Job {
            name: "nightly".to_owned(),
            failures: 1,
            ..Job::default()
        }],
        runs: [(
            "nightly".to_owned(),
            (
                NOW,
                vec![
                    run(RunState::Failed),
                    run(RunState::Missed),
                    run(RunState::Succeeded),
                ],
            ),
        )]
        .into(),
        status: GetStatusResponse {
            jobs: Some(JobCounts {
                jobs: 1,
                agent: Some(Agent {
                    stopped: true,
                    changed_by: "anna".to_owned(),
                    reason: "upgrade".to_owned(),
                    ..Agent::default()
                }),
                ..JobCounts::default()
            }),
            ..GetStatusResponse::default()
        },
        ..Jobs::default()
    };
    let page = page(&Seen::Jobs(Box::new(jobs)), &look(100));
    let text = row(&page, "nightly").text();
    assert!(text.contains("●!✗") && text.contains("failed"), "{text}");
    row(&page, "stopped by anna, and no job is fired: upgrade");
}

#[test]
fn the_system_says_what_is_away_and_what_pins_the_oldest_day() {
    let system = System {
        status: GetStatusResponse {
            targets: vec![TargetStatus {
                name: "app".to_owned(),
                error: "connection refused".to_owned(),
                ..TargetStatus::default()
            }],
            journal: Some(JournalStatus {
                pin: Some(DayPin {
                    reason: day_pin::Reason::Reader.into(),
                    backend_pid: 77,
                    application: "psql".to_owned(),
                    ..DayPin::default()
                }),
                ..JournalStatus::default()
            }),
            ..GetStatusResponse::default()
        },
        ..System::default()
    };
    let page = page(&Seen::System(Box::new(system)), &look(100));
    row(&page, "connection refused");
    row(&page, "process 77 (psql) reads it in a long transaction");
}

#[test]
fn the_slots_of_others_are_busy_and_who_paused_is_left_out_where_it_is_not_told() {
    let slot = |handle: &str, state: ExecutionState| Execution {
        replica: "r0".to_owned(),
        handle: handle.to_owned(),
        seq: 7,
        state: state.into(),
        ..Execution::default()
    };
    let pause = TargetPause::default();
    let system = System {
        status: GetStatusResponse {
            paused_targets: vec![PausedTarget {
                pause: Some(pause),
                ..PausedTarget::default()
            }],
            ..GetStatusResponse::default()
        },
        executions: vec![
            slot("h", ExecutionState::Running),
            slot("", ExecutionState::Running),
            slot("", ExecutionState::Connecting),
            slot("", ExecutionState::Idle),
            slot("", ExecutionState::Unspecified),
        ],
        ..System::default()
    };
    let page = page(&Seen::System(Box::new(system)), &look(100));
    let text = row(&page, "others 2").text();
    let numbers: Vec<&str> = text.split_whitespace().collect();
    assert!(numbers.windows(2).any(|pair| pair == ["3", "5"]), "{text}");
    let text = row(&page, "All targets are paused").text();
    assert_eq!(text.trim(), "All targets are paused");
}
