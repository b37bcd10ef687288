//! A paused target starts nothing, whoever submits it and whoever owns the shard; what ran there
//! goes on, or is stopped and runs again after the resume.

use super::world::{NONE, World, free, plain, slots, sql};
use crate::core::{
    Blocker, Command, Delivery, Output, PauseAnswer, PauseChange, PauseMode, PauseView, Reply,
    Report, SlotCounts, TargetPause, TaskOptions, Unreported, Unwritten, Verb, Work,
};

fn change(target: Option<&str>, mode: Option<PauseMode>) -> Command {
    Command::ChangePause(PauseChange {
        target: target.map(Into::into),
        mode,
        by: "operator".into(),
        reason: "maintenance".into(),
    })
}

fn say(w: &mut World, target: Option<&str>, mode: Option<PauseMode>) -> PauseAnswer {
    match w.command(change(target, mode)) {
        Some(Reply::Pauses(answer)) => *answer,
        other => panic!("a pause was answered with {other:?}"),
    }
}

fn drain(w: &mut World, target: Option<&str>) -> PauseAnswer {
    say(w, target, Some(PauseMode::Drain))
}

fn cancel_running(w: &mut World, target: Option<&str>) -> PauseAnswer {
    say(w, target, Some(PauseMode::CancelRunning))
}

fn resume(w: &mut World, target: Option<&str>) -> PauseAnswer {
    say(w, target, None)
}

fn seqs(answer: &PauseAnswer) -> Vec<i64> {
    answer.tasks.iter().map(|task| task.seq.0).collect()
}

fn once(options: &mut TaskOptions) {
    options.delivery = Some(Delivery::AtMostOnce);
}

#[test]
fn nothing_new_starts_on_a_paused_target_and_what_runs_there_goes_on() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, vec![free(); 3]);
    let paused = drain(&mut w, Some("app"));
    assert_eq!((paused.changed, seqs(&paused)), (true, vec![1, 2]));
    let own = paused.own.expect("it is in force");
    assert_eq!((own.running, own.in_doubt), (2, 0));
    w.succeed(s, [1, 2]);
    w.submit(s, [free()]);
    assert_eq!(w.running(s), NONE, "submits are accepted, and wait");
    assert_eq!(w.stops, []);
    let resumed = PauseAnswer {
        changed: true,
        ..PauseAnswer::default()
    };
    assert_eq!(resume(&mut w, Some("app")), resumed);
    assert_eq!(w.running(s), [3, 4]);
}

#[test]
fn other_targets_and_work_without_one_start_until_everything_is_paused() {
    let mut w = World::new(2);
    let far = Work::Sql {
        target: "far".into(),
    };
    w.command(slots(far.clone(), 2));
    let s = w.open(plain);
    drain(&mut w, Some("app"));
    w.submit(s, [free(), free().work(far.clone()), free().noop()]);
    assert_eq!(w.running(s), [2, 3]);
    w.succeed(s, [2, 3]);
    drain(&mut w, None);
    w.submit(s, [free().work(far.clone()), free().noop()]);
    assert_eq!(w.running(s), NONE);
    let resumed = resume(&mut w, Some("app"));
    let of_all = |pause: &PauseView| pause.pause.target.is_none();
    assert!(resumed.changed && resumed.own.is_none());
    assert!(matches!(&resumed.others[..], [other] if of_all(other)));
    assert_eq!(w.running(s), NONE, "each pause ends with its own resume");
    resume(&mut w, None);
    assert_eq!(w.running(s), [1, 4, 5]);
}

#[test]
fn what_a_pause_stops_runs_again_after_it_and_no_attempt_counts_as_lost() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [free().with(|o| o.retry.max_losses = Some(1)), free()]);
    assert_eq!(seqs(&cancel_running(&mut w, Some("app"))), [1, 2]);
    assert_eq!(w.stops, [(1, 1), (2, 1)]);
    w.report(s, 1, Report::Stopped);
    w.succeed(s, [2]);
    assert_eq!(w.running(s), NONE);
    assert_eq!(w.outcome(s, 1), None, "it waits");
    resume(&mut w, Some("app"));
    assert_eq!(w.attempt(s, 1), 2);
    w.succeed(s, [1]);
}

#[test]
fn what_must_not_start_twice_ends_when_a_pause_stops_it() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free().with(once)]);
    cancel_running(&mut w, None);
    w.report(s, 1, Report::Stopped);
    assert_eq!(w.outcome(s, 1), Some(crate::core::Outcome::Exhausted));
}

#[test]
fn pausing_and_resuming_again_changes_nothing_and_a_stronger_pause_stays() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, [free()]);
    assert!(drain(&mut w, Some("app")).changed);
    let rows = w.remembered.pauses();
    assert!(!drain(&mut w, Some("app")).changed);
    assert_eq!(w.remembered.pauses(), rows);
    assert!(cancel_running(&mut w, Some("app")).changed);
    assert!(!drain(&mut w, Some("app")).changed);
    assert_eq!(w.remembered.pauses()[0].mode, PauseMode::CancelRunning);
    assert!(!cancel_running(&mut w, Some("app")).changed);
    assert_eq!(
        w.stops,
        [(1, 1), (1, 1)],
        "what still runs is stopped again"
    );
    assert!(resume(&mut w, Some("app")).changed);
    assert!(!resume(&mut w, Some("app")).changed);
    assert!(w.remembered.pauses().is_empty());
}

#[test]
fn a_pause_outlives_its_owner_and_stops_what_survivors_report() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, vec![free(); 4]);
    let survivor = w.assignment(s, 1).clone();
    cancel_running(&mut w, Some("app"));
    w.running.clear();
    w.stops.clear();
    w.take_over();
    let status = w.status();
    assert_eq!(
        (status.pauses[0].running, status.pauses[0].in_doubt),
        (0, 2)
    );
    w.reported(&[survivor]);
    assert_eq!(w.stops, [(1, 1)]);
    w.clear(Unreported::MayHaveBegun);
    let status = w.status();
    assert_eq!(
        (status.pauses[0].running, status.pauses[0].in_doubt),
        (1, 0)
    );
    w.report(s, 1, Report::Stopped);
    assert_eq!(w.running(s), NONE);
    resume(&mut w, Some("app"));
    assert_eq!(w.running(s), [1, 2]);
}

#[test]
fn a_drained_target_lets_survivors_go_on() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, vec![free(); 2]);
    let survivor = w.assignment(s, 1).clone();
    drain(&mut w, None);
    w.running.clear();
    w.take_over();
    w.reported(&[survivor]);
    w.clear(Unreported::NotBegun);
    w.succeed(s, [1]);
    assert_eq!((w.running(s), w.stops.len()), (vec![], 0));
}

#[test]
fn no_task_starts_before_the_resume_is_durable() {
    let mut w = World::new(2);
    let slots = SlotCounts {
        window: 4,
        ..SlotCounts::of(2)
    };
    w.command(Command::Slots { work: sql(), slots });
    let s = w.open(plain);
    drain(&mut w, Some("app"));
    w.submit(s, vec![free(); 2]);
    let mut out = Output::default();
    let resume = change(Some("app"), None);
    w.shard.apply(w.now, None, &resume, &mut out);
    (w.shard).start_meanwhile(w.now, Some(&Unwritten::default()), &mut out);
    assert!(out.early.is_empty());
    let mut later = Output::default();
    w.shard
        .start_meanwhile(w.now, Some(&out.unwritten), &mut later);
    assert!(later.early.is_empty());
    (w.shard).start_meanwhile(w.now, Some(&Unwritten::default()), &mut later);
    assert_eq!(later.early.len(), 2, "it is durable");
}

#[test]
fn an_explanation_names_every_pause_that_holds_a_task_back() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, vec![free(); 2]);
    drain(&mut w, Some("app"));
    cancel_running(&mut w, None);
    let explain = |w: &mut World, seq| {
        let task = w.remembered.place(s, seq);
        match w.call(s, Verb::Explain(task)) {
            Reply::Explained(Some(explanation)) => *explanation,
            other => panic!("explained with {other:?}"),
        }
    };
    assert!(explain(&mut w, 1).stopping);
    w.report(s, 1, Report::Stopped);
    let pause = |target: Option<&str>, mode| {
        Blocker::TargetPaused(TargetPause {
            target: target.map(Into::into),
            mode,
            since: w.now,
            by: "operator".into(),
            reason: "maintenance".into(),
        })
    };
    let all = pause(None, PauseMode::CancelRunning);
    let own = pause(Some("app"), PauseMode::Drain);
    assert_eq!(explain(&mut w, 2).blockers, [all, own]);
}
