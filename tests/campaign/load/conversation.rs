//! One conversation by somebody who calls servers directly: a scheduler is opened, filled,
//! interfered with, listened to, released, and read once more. A call of unknown outcome is
//! repeated.

mod retries;

use super::{Load, RETRY_TIMEOUT, listener::Listener, work};
use crate::{
    history::{Answer, Asked, Entry, now},
    rng::Rng,
};
use rallypoint_client::api::{self, end::Reason, until::Kind};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Long statements submitted at a time.
const LONG_STATEMENTS: usize = 2;
/// Calls whose orders come too late, most of them.
const LATE_PERCENT: u64 = 10;
/// How often the failures of a halt are retried. Half of the times those that were cancelled count
/// as failures, too, and faults may have some fail again.
const MOST_REPAIRS: u32 = 30;

pub(super) struct Conversation {
    load: Arc<Load>,
    rng: Rng,
    server: usize,
    pub(super) handle: String,
    joins: bool,
    /// A failure halts it, and its failures are retried until they have succeeded.
    repaired: bool,
    order: i64,
    /// The number of the last task accepted, or submitted by a retry.
    last: i64,
}

/// A call that is repeated until its outcome is known.
struct Submission {
    request: String,
    asked: Vec<Asked>,
    tasks: Vec<api::Task>,
}

impl Conversation {
    pub(super) fn new(load: Arc<Load>, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let (server, joins) = (rng.place(60), rng.percent(30));
        Conversation {
            load,
            rng,
            server,
            handle: String::new(),
            joins,
            repaired: false,
            order: 100,
            last: 0,
        }
    }

    pub(super) async fn hold(mut self) {
        if self.open().await.is_none() {
            return;
        }
        let watching = tokio::spawn(self.listener(0, Kind::Forever(())).listen());
        for _ in 0..2 + self.rng.below(5) {
            if !self.submit().await {
                break;
            }
            self.interfere().await;
        }
        let cancels = self.rng.percent(25);
        if !cancels {
            self.wait_for_all().await;
        }
        self.release(cancels).await;
        // A call that comes too late is refused.
        self.submit().await;
        // After the release, a stream without an end comes to its end, too.
        let _ = watching.await;
        self.listener(0, Kind::All(())).listen().await;
    }

    async fn open(&mut self) -> Option<()> {
        let limit = self.rng.percent(70).then(|| 1 + self.rng.below(5) as i32);
        let on_failure = match self.rng.below(10) {
            0..=2 => api::OnFailure::Halt,
            3..=4 => api::OnFailure::CancelRest,
            _ => api::OnFailure::Continue,
        };
        self.repaired = self.load.one_version && on_failure == api::OnFailure::Halt;
        let settings = api::SchedulerSettings {
            max_parallelism: limit,
            late_order: if self.joins {
                api::LateOrder::Join
            } else {
                api::LateOrder::Reject
            }
            .into(),
            on_failure: on_failure.into(),
            ..Default::default()
        };
        let request = api::GetSchedulerRequest {
            settings: Some(settings),
            request_id: Uuid::now_v7().to_string(),
            ..Default::default()
        };
        let begun = Instant::now();
        while begun.elapsed() < RETRY_TIMEOUT {
            let answer = self
                .load
                .once(self.load.client(self.server).get_scheduler(request.clone()))
                .await;
            if let Answer::Ok(response) = answer {
                self.handle = response.scheduler.expect("a scheduler").handle;
                self.load.history.write(&Entry::Opened {
                    handle: self.handle.clone(),
                    limit,
                    repaired: self.repaired,
                });
                return Some(());
            }
            self.try_next_server().await;
        }
        self.load.given_up.fetch_add(1, Relaxed);
        None
    }

    /// Submits tasks; returns whether the scheduler takes more.
    pub(super) async fn submit(&mut self) -> bool {
        let submission = self.submission();
        self.make(submission).await
    }

    /// Submits statements that last for seconds; returns whether the scheduler takes more.
    pub(super) async fn submit_long(&mut self) -> bool {
        let long = |_| work::long(self.load.new_token());
        let (asked, tasks) = (0..LONG_STATEMENTS).map(long).unzip();
        let request = Uuid::now_v7().to_string();
        self.make(Submission {
            request,
            asked,
            tasks,
        })
        .await
    }

    /// Makes one call until its outcome is known; returns whether the scheduler takes more.
    async fn make(&mut self, submission: Submission) -> bool {
        let begun = Instant::now();
        let mut first = true;
        while begun.elapsed() < RETRY_TIMEOUT {
            let answer = self.try_submit(&submission, first).await;
            first = false;
            match answer {
                Answer::Ok((seq, count)) => {
                    self.last = self.last.max(seq + i64::from(count) - 1);
                    self.repeat(&submission).await;
                    return true;
                }
                Answer::Refused(reason) if reason == "ORDER_CLOSED" => return true,
                Answer::Refused(reason) if reason == "HANDLE_RELEASED" => return false,
                _ => self.try_next_server().await,
            }
        }
        self.load.given_up.fetch_add(1, Relaxed);
        false
    }

    async fn try_submit(&self, submission: &Submission, first: bool) -> Answer<(i64, i32)> {
        let begun = now();
        let call = api::ExecAsyncRequest {
            handle: self.handle.clone(),
            request_id: submission.request.clone(),
            tasks: submission.tasks.clone(),
        };
        let answer = self
            .load
            .once(self.load.client(self.server).exec_async(call))
            .await
            .map(|ok| (ok.first_seq, ok.count));
        self.load.history.write(&Entry::Submit {
            begun,
            ended: now(),
            handle: self.handle.clone(),
            request: submission.request.clone(),
            tasks: if first {
                submission.asked.clone()
            } else {
                Vec::new()
            },
            answer: answer.clone(),
        });
        answer
    }

    fn submission(&mut self) -> Submission {
        let mut asked = Vec::new();
        // Below the current order, if there is one: the whole call is refused then.
        let late = self.rng.percent(LATE_PERCENT);
        for _ in 0..1 + self.rng.below(25) {
            let order = match self.rng.below(4) {
                0 => None,
                _ if late => Some(1),
                _ if self.joins => Some(100 * (1 + self.rng.below(4) as i64)),
                _ => Some(self.order + 100 * self.rng.below(2) as i64),
            };
            let (token, exact) = (self.load.new_token(), self.load.one_version);
            let any = work::asked(token, order, exact, &mut self.rng);
            asked.push(match self.repaired {
                true => work::repairable(any),
                false => any,
            });
        }
        self.order += 100;
        let tasks = asked
            .iter()
            .map(|asked| work::task(asked, &mut self.rng))
            .collect();
        Submission {
            request: Uuid::now_v7().to_string(),
            asked,
            tasks,
        }
    }

    /// Repeats an accepted call, or sends another payload under its request id.
    async fn repeat(&mut self, submission: &Submission) {
        match self.rng.below(10) {
            0..=1 => _ = self.try_submit(submission, false).await,
            2 => {
                let mut tasks = submission.tasks.clone();
                tasks.push(api::Task {
                    kind: Some(api::task::Kind::Noop(api::NoopTask::default())),
                    ..Default::default()
                });
                let (handle, request) = (self.handle.clone(), submission.request.clone());
                let call = api::ExecAsyncRequest {
                    handle: handle.clone(),
                    request_id: request.clone(),
                    tasks,
                };
                let answer = self
                    .load
                    .once(self.load.client(self.server).exec_async(call))
                    .await;
                self.load.history.write(&Entry::Reused {
                    handle,
                    request,
                    answer: answer.map(|ok| (ok.first_seq, ok.count)),
                });
            }
            _ => {}
        }
    }

    async fn interfere(&mut self) {
        for _ in 0..self.rng.below(3) {
            let seq = 1 + self.rng.below(self.last.max(1) as u64) as i64;
            self.cancel(seq).await;
        }
        if self.load.one_version && self.rng.percent(40) {
            self.retry_some().await;
        }
        match self.rng.below(10) {
            0 => self.pause().await,
            1..=2 => self.wait_for_all().await,
            _ => sleep(Duration::from_millis(self.rng.below(150))).await,
        }
    }

    /// Cancels a task, once: nothing is promised for a cancel of unknown outcome.
    async fn cancel(&self, seq: i64) {
        let (begun, handle) = (now(), self.handle.clone());
        let id = Some(api::TaskId {
            handle: handle.clone(),
            seq,
        });
        let answer = self
            .load
            .once(
                self.load
                    .client(self.server)
                    .cancel_task(api::CancelTaskRequest { id }),
            )
            .await;
        // The answer has an outcome if the task had not started.
        let answer = answer.map(|response| response.outcome);
        self.load.history.write(&Entry::Cancel {
            begun,
            ended: now(),
            handle,
            seq,
            answer,
        });
    }

    async fn pause(&mut self) {
        let handle = self.handle.clone();
        let _ = self
            .load
            .once(
                self.load
                    .client(self.server)
                    .pause_scheduler(api::PauseSchedulerRequest { handle }),
            )
            .await;
        sleep(Duration::from_millis(self.rng.below(200))).await;
        self.resume(!self.repaired).await;
    }

    async fn resume(&mut self, ignore_failures: bool) {
        let begun = Instant::now();
        while begun.elapsed() < RETRY_TIMEOUT {
            let request = api::ResumeSchedulerRequest {
                handle: self.handle.clone(),
                ignore_failures,
            };
            match self
                .load
                .once(self.load.client(self.server).resume_scheduler(request))
                .await
            {
                Answer::Unknown(_) => self.try_next_server().await,
                Answer::Ok(_) | Answer::Refused(_) => return,
            }
        }
    }

    /// Listens until everything has ended, and sees to it that halts are lifted.
    async fn wait_for_all(&mut self) {
        let mut repairs = 0;
        while let Some(Reason::Halted) = self.listener(0, Kind::All(())).listen().await {
            if self.repaired && repairs < MOST_REPAIRS {
                repairs += 1;
                self.retry_failed().await;
            } else {
                let handle = self.handle.clone();
                self.load.history.write(&Entry::FailuresIgnored { handle });
                self.resume(true).await;
            }
        }
    }

    pub(super) async fn release(&mut self, cancel: bool) {
        let started = Instant::now();
        while started.elapsed() < RETRY_TIMEOUT {
            let (begun, handle) = (now(), self.handle.clone());
            let mode = if cancel {
                api::ReleaseMode::Cancel
            } else {
                api::ReleaseMode::Finish
            };
            let call = api::ReleaseSchedulerRequest {
                handle: handle.clone(),
                mode: mode.into(),
                wait: false,
            };
            let answer = self
                .load
                .once(self.load.client(self.server).release_scheduler(call))
                .await
                .map(|_| ());
            self.load.history.write(&Entry::Release {
                begun,
                ended: now(),
                handle,
                cancel,
                answer: answer.clone(),
            });
            match answer {
                Answer::Ok(()) => return,
                _ => self.try_next_server().await,
            }
        }
        self.load.given_up.fetch_add(1, Relaxed);
    }

    pub(super) fn listener(&mut self, after: i64, until: Kind) -> Listener {
        let (load, handle) = (self.load.clone(), self.handle.clone());
        Listener {
            load,
            handle,
            after,
            until,
            server: self.rng.place(60),
            limit: RETRY_TIMEOUT,
        }
    }

    async fn try_next_server(&mut self) {
        self.server += 1;
        sleep(RETRY_INTERVAL).await;
    }
}
