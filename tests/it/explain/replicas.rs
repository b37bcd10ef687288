//! Every replica explains a task alike, wherever it runs; what may run on a lost one says which
//! session keeps it from starting again.

use super::{explain, kinds, until};
use crate::harness::{
    cluster::Cluster,
    gate::Gate,
    work::{noop, slots_of},
};
use rallypoint::postgres::TARGET;
use rallypoint_client::api::{ExplainTaskResponse, SchedulerSettings, blocker::Kind};
use std::collections::BTreeSet;

/// Without what differs by time.
fn timeless(mut answer: ExplainTaskResponse) -> ExplainTaskResponse {
    answer.as_of = None;
    answer.text.clear();
    if let Some(running) = &mut answer.running {
        running.text.clear();
    }
    answer
}

#[tokio::test]
async fn every_replica_explains_a_task_alike_wherever_it_runs() {
    let cluster = Cluster::start(2).await;
    let app = cluster.postgres.options_for(TARGET, TARGET);
    let mut gate = Gate::close(&app).await;
    let owner = cluster.owner().await;
    let client = cluster.client(owner);
    cluster
        .until(|status| {
            let slots = status.slots.iter();
            slots
                .clone()
                .any(|row| row.kind == slots_of("app") && row.total == 8)
        })
        .await;
    let scheduler = cluster.open(&client, SchedulerSettings::default()).await;
    scheduler.submit(gate.task().order(1).times(7)).await;
    scheduler.submit([noop().order(2)]).await;
    gate.reached_by(7).await;
    let pid = gate.pid().await;
    let other = cluster.conversation(&cluster.client(1 - owner), scheduler.handle());
    // A target that is busy may not say in time what a session waits for.
    let is_whole = |answer: &ExplainTaskResponse| {
        let running = answer.running.as_ref();
        running.is_none_or(|one| one.wait.is_some())
    };
    let mut replicas = BTreeSet::new();
    for seq in 1..=8 {
        let here = timeless(until(&scheduler, seq, is_whole).await);
        let there = timeless(until(&other, seq, is_whole).await);
        assert_eq!(here, there);
        if seq < 8 {
            let [Kind::Session(holder)] = &kinds(&here)[..] else {
                panic!("{here:?}")
            };
            assert_eq!(holder.backend_pid, pid, "wherever it runs");
        }
        replicas.extend(here.running.map(|running| running.replica));
    }
    assert_eq!(replicas.len(), 2, "{replicas:?}");
    let [Kind::LowerOrder(lower)] = &kinds(&explain(&other, 8).await)[..] else {
        panic!("it waits for the lower order")
    };
    assert_eq!((lower.order, lower.unfinished), (1, 7));
    gate.open().await;
    scheduler.all_done().await;
}
