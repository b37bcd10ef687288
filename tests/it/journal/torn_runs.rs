//! Jobs of which a run cannot be read.

use super::{
    Owned,
    jobs::{of_job, recovered},
};
use rallypoint::core::{JobNo, Records, RunState};

#[tokio::test]
async fn a_job_is_set_aside_when_a_run_that_may_go_on_cannot_be_read() {
    let mut owned = Owned::new().await;
    for no in 1..=5 {
        let mut jobs = of_job(no, owned.now);
        if no == 2 {
            let runs = jobs.runs.values_mut();
            runs.for_each(|run| run.state = RunState::Succeeded);
        }
        let all = jobs.jobs.values_mut();
        all.for_each(|job| job.deleted = no == 3);
        owned
            .write(Records {
                jobs,
                ..Records::default()
            })
            .await;
    }
    let mut connection = owned.psql().await;
    let spoil = "update job_run set reason = 99 where job_no < 4;
                 update job_run set state = 99 where job_no = 5";
    let spoilt = sqlx::raw_sql(spoil).execute(&mut connection).await;
    spoilt.expect("written");
    let read = recovered(&owned).await;
    let aside: Vec<&str> = read.unreadable.iter().map(|key| &*key.name).collect();
    assert_eq!(aside, ["job 1"], "its next due time starts nothing");
    let mut known: Vec<JobNo> = read.jobs.iter().map(|(job, _)| job.no).collect();
    known.sort_unstable();
    let rest = [2, 3, 4, 5].map(JobNo);
    assert_eq!(known, rest, "of 2 and 5 the run is over, and 3 is deleted");
    let runs: Vec<JobNo> = read.runs.iter().map(|run| run.key.job).collect();
    assert_eq!(runs, [JobNo(4)]);
}
