//! Which due time of a job was the last, also where an owner of an older version has not noted it.

use super::{
    Owned,
    jobs::{a_run, of_job, recovered},
};
use rallypoint::core::{
    schedule::{Period, RuleText, ScheduleText},
    *,
};
use std::{sync::Arc, time::Duration};

/// A row of a due time, or of a range, in milliseconds since the first of them.
type Row = (u64, Option<u64>, RunCause);

/// It is due once in a period.
fn is_once_per(job: &mut JobImage) {
    let rule = RuleText::OncePer {
        period: Period::Day,
        after: "09:00".to_owned(),
        before: "10:00".to_owned(),
    };
    let settings = (*job.settings).clone();
    job.settings = Arc::new(JobSettings {
        schedule: ScheduleText {
            rule,
            ..settings.schedule
        },
        ..settings
    });
}

fn after(begin: Time, ms: u64) -> Time {
    begin + Duration::from_millis(ms)
}

fn run(job: JobNo, begin: Time, (due, last, cause): &Row) -> (RunKey, RunImage) {
    let key = RunKey {
        job,
        due: after(begin, *due),
    };
    let run = RunImage {
        last: last.map(|last| after(begin, last)),
        cause: *cause,
        state: RunState::Missed,
        ended_at: Some(begin),
        ..a_run(key)
    };
    (key, run)
}

#[tokio::test]
async fn due_times_that_an_owner_has_not_noted_count() {
    let mut owned = Owned::new().await;
    let begin = Time(owned.now.0 / 1_000_000 * 1_000_000);
    let at = |ms| after(begin, ms);
    // What is noted, what has its row, and which was the last.
    let cases: [(Option<u64>, &[Row], Option<u64>); 5] = [
        (Some(0), &[], Some(0)),
        (
            Some(0),
            &[
                (60_000, Some(120_000), RunCause::Scheduled),
                (180_500, None, RunCause::Asked),
                (240_500, None, RunCause::Backfilled),
            ],
            Some(120_000),
        ),
        (
            None,
            &[
                (60_000, None, RunCause::Scheduled),
                (90_000, None, RunCause::Backfilled),
            ],
            Some(90_000),
        ),
        (
            Some(300_000),
            &[(60_000, None, RunCause::Scheduled)],
            Some(300_000),
        ),
        // That of a job by cron says nothing.
        (Some(0), &[(60_000, None, RunCause::Scheduled)], Some(0)),
    ];
    let by_cron = cases.len() as i64;
    for (no, (noted, rows, _)) in (1..).zip(cases) {
        let mut jobs = of_job(no, begin);
        jobs.claims.clear();
        if no != by_cron {
            let job = jobs.jobs.get_mut(&JobNo(no)).expect("it is there");
            is_once_per(job);
        }
        let state = jobs.states.get_mut(&JobNo(no)).expect("it has one");
        state.last_due = noted.map(at);
        jobs.runs = rows.iter().map(|row| run(JobNo(no), begin, row)).collect();
        owned
            .write(Records {
                jobs,
                ..Records::default()
            })
            .await;
    }
    let read = recovered(&owned).await.jobs;
    for (no, (.., last)) in (1..).zip(cases) {
        let job = read.iter().find(|(job, _)| job.no == JobNo(no));
        let (_, state) = job.expect("it is there");
        assert_eq!(state.last_due, last.map(at), "job {no}");
    }
}
