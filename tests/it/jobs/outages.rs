//! Jobs outlive servers: no due time has two runs, and those that nobody served are named.

use super::*;
use crate::harness::cluster::Cluster;

fn each_second() -> JobSettings {
    JobSettings {
        misfire: Misfire::Skip.into(),
        overlap: Overlap::Allow.into(),
        ..job(1, [sql("select 1").order(1)])
    }
}

#[tokio::test]
async fn a_server_that_is_killed_serves_no_due_time_twice_and_names_those_it_missed() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client_of_all();
    create(&client, "tick", each_second()).await;
    runs_until(&client, "tick", |runs| {
        count(runs, RunState::Succeeded) >= 2
    })
    .await;
    cluster.kill_9(0);
    // Longer than a due time may wait for a server that is merely late.
    sleep(Duration::from_secs(6)).await;
    cluster.restart(0);
    cluster.wait_until_ready(0).await;
    let missed = |runs: &[JobRun]| {
        let last = runs.iter().rposition(|run| run.state() == RunState::Missed);
        last.is_some_and(|at| count(&runs[at..], RunState::Succeeded) >= 2)
    };
    let all = runs_until(&client, "tick", missed).await;
    none_is_left_out(&all);
    let missed = all.iter().filter(|run| run.state() == RunState::Missed);
    assert!(
        missed
            .into_iter()
            .all(|run| run.reason() == RunReason::NoServer)
    );
    let handles: Vec<&String> = all.iter().map(|run| &run.handle).collect();
    let handles: BTreeSet<_> = handles.into_iter().filter(|one| !one.is_empty()).collect();
    let ran = all.iter().filter(|run| !run.handle.is_empty()).count();
    assert_eq!(handles.len(), ran, "{all:?}");
}

#[tokio::test]
async fn another_replica_goes_on_with_jobs_and_calls_reach_the_owner() {
    let mut cluster = Cluster::start(2).await;
    let owner = cluster.owner().await;
    let standby = cluster.client(1 - owner);
    create(&standby, "tick", each_second()).await;
    let seen = runs_until(&standby, "tick", |runs| {
        count(runs, RunState::Succeeded) >= 2
    })
    .await;
    cluster.kill_9(owner);
    let before = seen.len();
    let all = runs_until(&standby, "tick", |runs| {
        runs.len() > before + 3 && count(&runs[before + 1..], RunState::Succeeded) >= 2
    })
    .await;
    none_is_left_out(&all);
}
