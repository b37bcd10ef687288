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
            Subject::Scheduler(SchedulerState::Open, halted, name()),
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
