//! Who is offered what.

use super::*;

fn everything() -> Vec<(Subject, bool)> {
    let halted = Standstill {
        paused: true,
        halted: true,
        waiting: 3,
    };
    let task = TaskName {
        handle: "h".to_owned(),
        seq: 7,
    };
    let name = || "x".to_owned();
    let job = |claimed| Subject::Job {
        name: name(),
        paused: false,
        claimed,
    };
    vec![
        (
            Subject::Scheduler {
                state: SchedulerState::Open,
                standstill: halted,
                handle: name(),
                name: name(),
            },
            true,
        ),
        (Subject::Task(task.clone(), Progress::Runs), false),
        (Subject::Task(task, Progress::Failed), false),
        (Subject::Claim(1, name()), false),
        (job(false), true),
        (job(true), true),
        (
            Subject::Run(name(), prost_types::Timestamp::default()),
            false,
        ),
        (Subject::Agent { stopped: false }, true),
        (
            Subject::Target {
                name: name(),
                paused: false,
            },
            false,
        ),
        (Subject::AllTargets { paused: true }, true),
        (
            Subject::Fence {
                target: name(),
                replica: name(),
            },
            false,
        ),
    ]
}

fn offered(role: &str, everywhere: &str) -> Vec<&'static str> {
    let identity = Identity {
        knows_callers: true,
        name: "anna".to_owned(),
        namespace: "a".to_owned(),
        role: role.to_owned(),
        everywhere: everywhere.to_owned(),
    };
    let rights = Rights::of(Some(&identity));
    let all = everything();
    let offers = all
        .iter()
        .flat_map(|(subject, whole)| of(subject, *whole, rights));
    offers.map(|offer| offer.name).collect()
}

#[test]
fn a_reader_is_offered_nothing() {
    assert_eq!(offered("reader", "reader"), [""; 0]);
    assert_eq!(offered("", ""), [""; 0]);
}

#[test]
fn each_role_is_offered_what_it_may_do() {
    let submitter = [
        "Resume",
        "Go on despite failures",
        "Retry failed",
        "Cancel waiting",
        "Release",
        "Cancel task",
        "Retry task",
        "Run now",
        "Cancel run",
    ];
    assert_eq!(offered("submitter", ""), submitter);
    let operator = offered("operator", "");
    assert!(operator.contains(&"Force release") && operator.contains(&"Pause"));
    assert!(!operator.contains(&"Stop agent") && !operator.contains(&"Resume all"));
    let everywhere = offered("operator", "operator");
    assert!(everywhere.contains(&"Stop agent") && everywhere.contains(&"Resume all"));
    assert!(!everywhere.contains(&"Declare dead"));
    assert!(offered("admin", "admin").contains(&"Declare dead"));
}

const HANDLE: &str = "01900000-0000-7000-8000-0000abcd1234";

fn titles(subject: &Subject) -> Vec<String> {
    let offers = of(subject, true, Rights::of(None));
    offers.into_iter().map(|offer| offer.dialog.title).collect()
}

#[test]
fn each_question_about_a_scheduler_names_it() {
    use rallypoint_client::api::{Halt, Scheduler};
    for (name, paused) in [("nightly", true), ("nightly", false), ("", false)] {
        let one = Scheduler {
            handle: HANDLE.to_owned(),
            name: name.to_owned(),
            state: SchedulerState::Open.into(),
            paused,
            halt: Some(Halt::default()),
            ..Scheduler::default()
        };
        let titles = titles(&Subject::scheduler(&one));
        assert_eq!(titles.len(), 5);
        for title in titles {
            let is_named = title.contains(name) && title.contains("…abcd1234");
            assert!(is_named, "{title}");
        }
    }
}

#[test]
fn questions_about_a_task_and_a_run_tell_them_from_others() {
    let handle = HANDLE.to_owned();
    for progress in [Progress::Waits, Progress::Runs, Progress::Failed] {
        let handle = handle.clone();
        let titles = titles(&Subject::Task(TaskName { handle, seq: 7 }, progress));
        assert!(titles[0].contains("task 7 of …abcd1234"), "{titles:?}");
    }
    let due = prost_types::Timestamp {
        seconds: 1_772_366_400,
        nanos: 0,
    };
    let titles = titles(&Subject::Run("nightly".to_owned(), due));
    let title = "Cancel the run of nightly that was due at 2026-03-01 12:00:00Z?";
    assert_eq!(titles, [title]);
}

#[test]
fn each_question_fits_on_a_usual_screen() {
    for (subject, whole) in everything() {
        for offer in of(&subject, whole, Rights::of(None)) {
            let title = &offer.dialog.title;
            assert!(offer.dialog.shape((80, 21)).is_some(), "{title}");
            assert!(offer.dialog.shape((80, 5)).is_none(), "{title}");
        }
    }
}
