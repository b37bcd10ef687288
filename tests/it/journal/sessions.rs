//! The register of the sessions that executors open on their targets.

use super::{
    replica,
    scene::{Scene, scene},
};
use rallypoint::{
    core::*,
    executor_protocol::BEGUN_PER_SLOT,
    journal::{ExecutorRow, Sessions},
};
use sqlx::Executor;
use std::time::Duration;

const ALIVE_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_executor_must_enrol_before_it_registers_a_session() {
    let scene = scene().await;
    let other = scene.owned.journal.sessions(scene.owned.replica.clone());
    assert!(
        other
            .register("app", 0, 100, scene.now, None)
            .await
            .unwrap()
    );
    let living = scene.owned.journal.sessions(replica("two"));
    assert!(
        !living
            .register("app", 0, 99, scene.now, None)
            .await
            .unwrap(),
        "nobody knows it"
    );
    living.enrol(&slots()).await.unwrap();
    assert!(
        living
            .register("app", 0, 99, scene.now, None)
            .await
            .unwrap()
    );
    assert_eq!(
        living.window(scene.now).await.unwrap(),
        window(),
        "the other executor has said nothing of slots"
    );
}

#[tokio::test]
async fn work_that_only_a_newer_version_knows_keeps_no_older_one_from_taking_over() {
    let scene = scene().await;
    let newer = scene.owned.journal.sessions(replica("newer"));
    newer.enrol(&slots()).await.unwrap();
    let more = "update replica
        set works = works || '{later/kind}', slots = slots || '{3}'
        where name = 'newer'";
    sqlx::query(more)
        .execute(&mut scene.owned.psql().await)
        .await
        .unwrap();
    assert_eq!(newer.window(scene.now).await.unwrap(), window());
}

#[tokio::test]
async fn only_the_present_owner_fences_an_executor() {
    let scene = scene().await;
    let (dead, living) = dead_and_living(&scene).await;
    let (me, present) = (scene.owned.replica.id, scene.owned.epoch);
    assert_eq!(
        living.others(ALIVE_WITHIN).await.unwrap(),
        [ExecutorRow {
            replica: me,
            incarnation: 1,
            name: "one".into(),
            address: None,
            fresh: true,
            heartbeat_ended: false,
        }]
    );
    assert_eq!(
        living.fence(me, 1, Epoch(present.0 - 1)).await.unwrap(),
        None
    );
    assert!(dead.of_fenced().await.unwrap().is_empty());
    let fenced = living.fence(me, 1, present).await.unwrap();
    assert_eq!(fenced.as_deref(), Some("one"));
    assert!(living.others(ALIVE_WITHIN).await.unwrap().is_empty());
    assert_eq!(dead.of_fenced().await.unwrap().len(), 2);
}

#[tokio::test]
async fn sessions_of_fenced_executors_are_found_until_forgotten() {
    let scene = scene().await;
    let (dead, living) = dead_and_living(&scene).await;
    let now = scene.now;
    assert!(dead.of_fenced().await.unwrap().is_empty());
    let (me, present) = (scene.owned.replica.id, scene.owned.epoch);
    assert!(living.fence(me, 1, present).await.unwrap().is_some());
    let sessions = living.of_fenced().await.unwrap();
    assert_eq!(
        sessions
            .iter()
            .map(|session| (session.backend_pid, session.backend_start))
            .collect::<Vec<_>>(),
        [(100, now), (101, now)]
    );
    dead.let_go("app", 100, now).await.unwrap();
    assert_eq!(living.of_fenced().await.unwrap(), sessions[1..]);
    dead.let_go("app", 101, now).await.unwrap();
    assert_eq!(
        living.of_fenced().await.unwrap(),
        sessions[1..],
        "the last one shows that something may have run"
    );
    // One row for each session, and one for the attempt that runs.
    let count = "select count(*) from rallypoint_log.execution_status";
    assert_eq!(scene.owned.count(count).await, 3);
    let running = "select seq from rallypoint_log.execution_status where target is null";
    assert_eq!(scene.owned.count(running).await, 6);
    // Its outcome is past the retention: the attempts go a day later.
    let over = "with over as (
            update scheduler set highest_seq = 6, unfinished = '{}' returning 1
        )
        select count(*) from over";
    assert!(scene.owned.count(over).await > 0);
    assert_eq!(scene.owned.count(count).await, 2);
}

#[tokio::test]
async fn an_executor_whose_row_was_deleted_while_it_stood_still_begins_afresh() {
    let scene = scene().await;
    let (journal, me) = (&scene.owned.journal, scene.owned.replica.clone());
    let still = journal.sessions(me.clone());
    let owner = journal.sessions(replica("two"));
    assert!(
        owner
            .fence(me.id, 1, scene.owned.epoch)
            .await
            .unwrap()
            .is_some()
    );
    let a_day_later = "delete from replica where name = 'one'";
    scene.owned.psql().await.execute(a_day_later).await.unwrap();

    // It does not know yet, and nobody may take it for one that was never fenced.
    let mut heartbeat = journal.heartbeat(me.clone(), Duration::from_secs(5));
    heartbeat.renew(None).await.unwrap();
    assert!(owner.is_fenced(me.id, 1).await.unwrap());
    assert!(!still.register("app", 0, 99, scene.now, None).await.unwrap());

    let slots = slots();
    still
        .return_from_fence(|| slots.to_vec(), || async {})
        .await
        .unwrap();
    assert_eq!(still.incarnation(), 2);
    assert!(!owner.is_fenced(me.id, 2).await.unwrap());
    assert_eq!(still.window(scene.now).await.unwrap(), window());
    assert!(still.register("app", 0, 99, scene.now, None).await.unwrap());
}

#[tokio::test]
async fn who_leaves_lets_go_of_no_session_from_before_a_fence() {
    let scene = scene().await;
    let (dead, living) = dead_and_living(&scene).await;
    let (me, present) = (scene.owned.replica.id, scene.owned.epoch);
    assert!(living.fence(me, 1, present).await.unwrap().is_some());
    let left = living.of_fenced().await.unwrap();
    assert_eq!(left.len(), 2);
    // Fenced and not back, and then back: its targets may not have answered since.
    dead.leave().await.unwrap();
    assert_eq!(living.of_fenced().await.unwrap(), left);
    let slots = slots();
    dead.return_from_fence(|| slots.to_vec(), || async {})
        .await
        .unwrap();
    assert!(dead.register("app", 0, 102, scene.now, None).await.unwrap());
    dead.leave().await.unwrap();
    assert_eq!(living.of_fenced().await.unwrap(), left);
}

#[tokio::test]
async fn a_session_without_a_row_is_not_declared_dead() {
    let scene = scene().await;
    let (dead, _living) = dead_and_living(&scene).await;
    let (journal, now) = (&scene.owned.journal, scene.now);
    let said = async |pid| {
        dead.note_pending("app", pid, now, "it is away")
            .await
            .unwrap()
    };
    assert_eq!(
        (said(100).await, said(101).await),
        (Some(false), Some(false))
    );
    // As after a failover to a standby that lacks commits.
    let lost = "delete from session where backend_pid = 101";
    scene.owned.psql().await.execute(lost).await.unwrap();
    let reader = journal.reader();
    let declared = reader.declare_dead("app", Some("one"), "me", "switched off");
    assert_eq!(declared.await.unwrap(), 1);
    assert_eq!((said(100).await, said(101).await), (Some(true), None));
    // The word stays when the session is forgotten.
    dead.forget("app", 100, now).await.unwrap();
    assert_eq!(said(100).await, Some(true));
}

#[tokio::test]
async fn a_session_that_is_entered_again_stays_that_of_the_executor_which_opened_it() {
    let scene = scene().await;
    let (dead, living) = dead_and_living(&scene).await;
    let (me, present) = (scene.owned.replica.id, scene.owned.epoch);
    assert!(living.fence(me, 1, present).await.unwrap().is_some());
    let left = living.of_fenced().await.unwrap();
    assert_eq!(left.len(), 2);
    // As after a failover to a standby that lacks commits.
    let lost = "delete from session where backend_pid = 101";
    scene.owned.psql().await.execute(lost).await.unwrap();
    assert_eq!(living.of_fenced().await.unwrap(), left[..1]);
    let said = async || {
        let said = living.note_pending("app", 101, scene.now, "it is away");
        said.await.unwrap()
    };
    assert_eq!(said().await, None);
    for _ in 0..2 {
        living.enter_again(&left[1]).await.unwrap();
        assert_eq!(said().await, Some(false));
    }
    // Whoever waits for it leaves, or owns nothing any more.
    living.leave().await.unwrap();
    assert_eq!(dead.of_fenced().await.unwrap(), left);
}

#[tokio::test]
async fn a_heartbeat_from_the_future_is_not_fresh() {
    let scene = scene().await;
    let other = scene.owned.journal.sessions(replica("two"));
    let fresh = async || {
        let others = other.others(ALIVE_WITHIN).await.unwrap();
        others.iter().all(|row| row.fresh)
    };
    assert!(fresh().await);
    let set_back = "update replica set seen_at = now() + interval '1 day'";
    scene.owned.psql().await.execute(set_back).await.unwrap();
    assert!(!fresh().await);
}

/// An executor with two sessions that will be fenced, and another one with one session.
async fn dead_and_living(scene: &Scene) -> (Sessions, Sessions) {
    let (journal, now) = (&scene.owned.journal, scene.now);
    let dead = journal.sessions(scene.owned.replica.clone());
    for (slot, pid) in [(0, 100), (1, 101), (1, 101)] {
        assert!(dead.register("app", slot, pid, now, None).await.unwrap());
    }
    let living = journal.sessions(replica("two"));
    living.enrol(&slots()).await.unwrap();
    let later = now + Duration::from_secs(1);
    assert!(living.register("app", 0, 100, later, None).await.unwrap());
    (dead, living)
}

/// What the slots of one executor count for.
fn window() -> InDoubtWindow {
    let window = |(work, slots)| (work, slots * BEGUN_PER_SLOT);
    slots().map(window).into()
}

fn slots() -> [(Work, u32); 1] {
    let work = Work::Sql {
        target: "app".into(),
    };
    [(work, 3)]
}
