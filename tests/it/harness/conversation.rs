//! A scheduler as a test uses it: calls that must not fail fail the test, and every wait has an
//! end.

use super::{log::Log, work::Work};
use rallypoint_client::{
    self,
    api::{self, end::Reason, until::Kind},
};
use sqlx::postgres::PgConnectOptions;
use std::time::Duration;
use tokio::time::timeout;

/// How long a test waits for what must happen.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A scheduler, and the journal it is recorded in.
#[derive(Clone)]
pub(crate) struct Conversation {
    pub scheduler: rallypoint_client::Scheduler,
    pub journal: PgConnectOptions,
}

/// The events of a stream, and why it ended.
#[derive(Debug)]
pub(crate) struct Received {
    pub done: Vec<api::AsyncDone>,
    pub end: api::End,
}

impl Conversation {
    pub(crate) fn handle(&self) -> &str {
        self.scheduler.handle()
    }

    /// Submits tasks in one call and returns the number of the first.
    pub(crate) async fn submit(&self, work: impl IntoIterator<Item = Work>) -> i64 {
        self.try_submit(work).await.expect("accepted").first_seq
    }

    pub(crate) async fn try_submit(
        &self,
        work: impl IntoIterator<Item = Work>,
    ) -> rallypoint_client::Result<api::ExecAsyncResponse> {
        self.scheduler
            .exec(work.into_iter().map(api::Task::from).collect())
            .await
    }

    /// All events, until everything submitted so far has ended.
    pub(crate) async fn all_done(&self) -> Vec<api::AsyncDone> {
        self.read_stream(0, None).await.done
    }

    /// Reads a stream to its end.
    pub(crate) async fn read_stream(&self, after: i64, until: Option<Kind>) -> Received {
        let mut stream = self
            .scheduler
            .synchronize(after, until)
            .await
            .expect("a stream");
        let mut done = Vec::new();
        while let Some(events) = timeout(WAIT_TIMEOUT, stream.next())
            .await
            .expect("a message in time")
            .expect("it goes on")
        {
            done.extend(events);
        }
        Received {
            done,
            end: stream.end().expect("a reason").clone(),
        }
    }

    /// Waits until the scheduler is as wanted.
    pub(crate) async fn until(&self, wanted: impl Fn(&api::Scheduler) -> bool) -> api::Scheduler {
        let wait = async {
            loop {
                let scheduler = self.scheduler.describe().await.expect("described");
                if wanted(&scheduler) {
                    return scheduler;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(WAIT_TIMEOUT, wait)
            .await
            .expect("the scheduler is as wanted in time")
    }

    pub(crate) async fn task(&self, seq: i64) -> api::TaskView {
        self.scheduler.task(seq).await.expect("the task")
    }

    pub(crate) async fn cancel_everything(&self) {
        self.scheduler
            .release(api::ReleaseMode::Cancel, true)
            .await
            .expect("released");
    }

    pub(crate) async fn log(&self) -> Log {
        Log::read(&self.journal, Some(self.handle())).await
    }
}

impl Received {
    pub(crate) fn numbers(&self) -> Vec<i64> {
        self.done.iter().map(|done| done.done_no).collect()
    }

    pub(crate) fn reason(&self) -> Reason {
        self.end.reason()
    }
}
