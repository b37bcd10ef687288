//! The register of the sessions that executors open on their targets.

use super::{
    replica,
    scene::{Scene, scene},
};
use rallypoint::{
    core::*,
    journal::{Enrolled, Sessions},
};
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
        living.window().await.unwrap(),
        slots().into(),
        "the other executor has said nothing of slots"
    );
}

#[tokio::test]
async fn only_the_present_owner_fences_an_executor() {
    let scene = scene().await;
    let (dead, living) = dead_and_living(&scene).await;
    let (me, present) = (scene.owned.replica.id, scene.owned.epoch);
    assert_eq!(
        living.others(ALIVE_WITHIN).await.unwrap(),
        [Enrolled {
            replica: me,
            incarnation: 1,
            alive: true
        }]
    );
    assert!(!living.fence(me, 1, Epoch(present.0 - 1)).await.unwrap());
    assert!(dead.of_fenced().await.unwrap().is_empty());
    assert!(living.fence(me, 1, present).await.unwrap());
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
    assert!(living.fence(me, 1, present).await.unwrap());
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
    let count = "select count(*) from execution_status";
    assert_eq!(scene.owned.count(count).await, 3);
    let running = "select seq from execution_status where target is null";
    assert_eq!(scene.owned.count(running).await, 6);
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

fn slots() -> [(Work, u32); 1] {
    let work = Work::Sql {
        target: "app".into(),
    };
    [(work, 3)]
}
