//! Programs that claim runs of a job: they do the work in one transaction of the target, with
//! `rallypoint.finish_run` in it. Some die on the way, and some come back when their claim is lost.

use super::{CLAIMED, Load, seconds};
use crate::{fixture::Fixture, history::Answer, jobs::JobEntry, rng::Rng};
use prost_types::Timestamp;
use rallypoint::postgres::TARGET;
use rallypoint_client::api::{self, job_service_client::JobServiceClient};
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tonic::{Response, Status, transport::Channel};
use uuid::Uuid;

const CLAIMANTS: u64 = 3;
const LEASE_S: i64 = 2;
/// Work that takes longer is given up: nobody knows whether it is done.
const WORK_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);
/// A call of unknown outcome is repeated for so long.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn spawn(
    running: &mut JoinSet<()>,
    load: &Arc<Load>,
    fixture: &Arc<Fixture>,
    seed: u64,
) {
    for number in 0..CLAIMANTS {
        let claimant = Claimant {
            load: load.clone(),
            fixture: fixture.clone(),
            rng: Rng::new(seed.wrapping_mul(31).wrapping_add(number)),
        };
        running.spawn(claimant.claim_often());
    }
}

struct Claimant {
    load: Arc<Load>,
    fixture: Arc<Fixture>,
    rng: Rng,
}

/// A claim that a claimant has.
struct Claim {
    due: Timestamp,
    token: i64,
}

impl Claimant {
    async fn claim_often(mut self) {
        while !self.load.is_stopping() {
            sleep(PAUSE + self.rng.up_to(Duration::from_millis(400))).await;
            if let Some(claim) = self.claim().await {
                self.work(claim).await;
            }
        }
    }

    async fn claim(&mut self) -> Option<Claim> {
        let request = api::ClaimRunRequest {
            name: CLAIMED.into(),
            request_id: Uuid::from_u64_pair(self.rng.next(), self.rng.next()).to_string(),
            lease: Some(seconds(LEASE_S)),
            ..Default::default()
        };
        let answer = self
            .repeat(|mut jobs| {
                let request = request.clone();
                async move { jobs.claim_run(request).await }
            })
            .await?;
        let token = answer.claim?.token;
        let due = answer.run?.due?;
        Some(Claim { due, token })
    }

    async fn work(&mut self, claim: Claim) {
        match self.rng.below(10) {
            // It dies before it has done anything.
            0 | 1 => return,
            // It is asleep for longer than its lease.
            2 | 3 => sleep(Duration::from_secs(LEASE_S as u64 + 1) + self.rng.up_to(PAUSE)).await,
            _ => sleep(self.rng.up_to(Duration::from_millis(500))).await,
        }
        let committed = timeout(WORK_TIMEOUT, self.settle(&claim)).await;
        match committed {
            // It dies before it can say so.
            Ok(Ok(())) if self.rng.percent(20) => {}
            Ok(Ok(())) => self.finish(&claim, false).await,
            // The target refuses it: somebody else has done the work, or it has come too late.
            Ok(Err(refused)) if refused => self.finish(&claim, true).await,
            _ => {}
        }
    }

    /// The work of a run, in one transaction. The error: whether the target has refused it.
    async fn settle(&self, claim: &Claim) -> Result<(), bool> {
        let mut session = self.fixture.target.login(TARGET).await.map_err(|_| false)?;
        let work = "with finished as (
                select rallypoint.finish_run($1, to_timestamp($2), $3, 'default') as token
            )
            insert into settled (job, due, token)
            select $1, $2 * 1000000, token
            from finished";
        let done = sqlx::query(work)
            .bind(CLAIMED)
            .bind(claim.due.seconds)
            .bind(claim.token)
            .execute(&mut session)
            .await;
        let is_refused =
            |error: &dyn sqlx::error::DatabaseError| error.code().as_deref() == Some("RP005");
        done.map(drop)
            .map_err(|error| error.as_database_error().is_some_and(is_refused))
    }

    async fn finish(&mut self, claim: &Claim, failed: bool) {
        let request = api::FinishRunRequest {
            name: CLAIMED.into(),
            due: Some(claim.due),
            token: claim.token,
            failed,
            detail: String::new(),
        };
        let answer = self
            .repeat(|mut jobs| {
                let request = request.clone();
                async move { jobs.finish_run(request).await }
            })
            .await;
        if answer.is_some_and(|answer| !answer.late) && !failed {
            self.load.note_job(JobEntry::Finished {
                job: CLAIMED.into(),
                due: claim.due.seconds * 1_000_000,
                token: claim.token,
            });
        }
    }

    /// Makes a call until its outcome is known, at any server. `None`: it was refused, or nobody
    /// has answered.
    async fn repeat<T, C>(&mut self, call: impl Fn(JobServiceClient<Channel>) -> C) -> Option<T>
    where
        C: Future<Output = Result<Response<T>, Status>>,
    {
        let begun = Instant::now();
        while begun.elapsed() < REPEAT_TIMEOUT {
            let call = call(self.load.jobs(self.rng.place(60)));
            match self.load.once(call).await {
                Answer::Unknown(_) => sleep(PAUSE).await,
                answer => return answer.ok(),
            }
        }
        None
    }
}
