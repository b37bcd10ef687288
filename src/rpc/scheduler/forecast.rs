//! ForecastScheduler: the core hands out a copy, the journal says how long tasks have lasted, and
//! the rules are run forward on a thread of their own, a few forecasts at a time and one of each
//! namespace.

mod asking;
mod turns;

use super::Schedulers;
use crate::{
    coordinator::CallError,
    core::{Caller, Handle, Namespace, Reply, Seq, Snapshot, TaskId, Verb, Work},
    forecast::{self, Forecast, Observation, Observations, Question},
    journal::EndedAttempt,
    rpc::{convert, errors, validate},
};
use asking::Asking;
use rallypoint_client::api;
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::{task::spawn_blocking, time::timeout};
use tonic::Status;
use turns::Turns;

/// How long a call may wait for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// Statements of unfinished tasks that are looked at.
const STATEMENTS: i64 = 600;

/// Whose turn it is, in this process.
static TURNS: LazyLock<Turns> = LazyLock::new(Turns::default);

impl Schedulers {
    pub(super) async fn forecast(
        &self,
        caller: Caller,
        request: Arc<api::ForecastSchedulerRequest>,
    ) -> Result<api::ForecastSchedulerResponse, Status> {
        let targets = self.targets.of(&caller.namespace);
        let asked = validate::Forecast::new(&request, &targets)?;
        self.check_visible(&caller, asked.handle).await?;
        let handle = asked.handle;
        let answer = self.in_turn(caller, asked).await?;
        answer.ok_or_else(|| {
            let overloaded = CallError::Overloaded {
                retry_after: TURN_TIMEOUT,
                limit: "forecasts",
            };
            errors::call(overloaded, handle)
        })
    }

    /// `None`: too many others are asked for.
    async fn in_turn(
        &self,
        caller: Caller,
        asked: validate::Forecast,
    ) -> Result<Option<api::ForecastSchedulerResponse>, Status> {
        let turn = TURNS.of(&caller.namespace);
        let Ok(Some(turn)) = timeout(TURN_TIMEOUT, turn).await else {
            return Ok(None);
        };
        let namespace = caller.namespace.clone();
        let Some(snapshot) = self.snapshot(caller, &asked).await? else {
            self.check_ended(&namespace, &asked).await?;
            let now = self.coordinator.clock().now();
            return Ok(Some(convert::forecast::nothing(&asked, now)));
        };
        if asked.tasks.iter().any(|task| *task > snapshot.highest_seq) {
            return Err(errors::task_not_found());
        }
        let (question, seen) = self.question(&asked, &snapshot).await?;
        let tasks = asked.tasks.clone();
        let asking = Asking::default();
        let go_on = asking.go_on();
        let run = move || {
            let seen = Observations::new(seen.into_iter().map(observation));
            let made = forecast::forecast(&snapshot, &seen, &question, go_on);
            drop(turn);
            made
        };
        let made: Forecast = spawn_blocking(run).await.map_err(errors::fault)?;
        Ok(Some(convert::forecast::forecast(&made, &tasks)))
    }

    /// When all of a scheduler will have ended; `None`: too many other forecasts are asked for, and
    /// what else the caller wants of it need not wait for them.
    pub(super) async fn forecast_of(
        &self,
        caller: Caller,
        handle: Handle,
    ) -> Result<Option<api::ForecastSchedulerResponse>, Status> {
        self.in_turn(caller, validate::Forecast::of(handle)).await
    }

    /// A copy of a scheduler and of its competitors; `None`: it has ended long ago.
    async fn snapshot(
        &self,
        caller: Caller,
        asked: &validate::Forecast,
    ) -> Result<Option<Snapshot>, Status> {
        let verb = Verb::Snapshot(asked.tasks.clone().into());
        match self.ask(caller, asked.handle, verb).await? {
            Reply::Snapshot(snapshot) => Ok(snapshot.map(|snapshot| *snapshot)),
            other => Err(errors::mismatched_reply(&other)),
        }
    }

    /// Every task that is asked for is one of a scheduler that has left the core's memory.
    async fn check_ended(
        &self,
        namespace: &Namespace,
        asked: &validate::Forecast,
    ) -> Result<(), Status> {
        let stored = self.reader.scheduler(namespace, asked.handle);
        let stored = stored.await.map_err(errors::journal)?;
        let last = stored.map_or(Seq(0), |image| image.checkpoint.highest_seq);
        match asked.tasks.iter().any(|task| *task > last) {
            true => Err(errors::task_not_found()),
            false => Ok(()),
        }
    }

    async fn question(
        &self,
        asked: &validate::Forecast,
        snapshot: &Snapshot,
    ) -> Result<(Question, Vec<EndedAttempt>), Status> {
        let namespace = &snapshot.scheduler.image.namespace;
        let seen = self.reader.ended_attempts(namespace, asked.handle);
        let seen = seen.await.map_err(errors::journal)?;
        let tasks = looked_at(snapshot);
        let texts = self.reader.text_hashes(&tasks);
        let texts = texts.await.map_err(errors::journal)?;
        let question = Question {
            slots: slots(asked, snapshot),
            texts: texts
                .into_iter()
                .map(|(task, text)| (task.seq, text))
                .collect(),
            runs: None,
            seed: asked.handle.uuid().as_u128() as u64,
        };
        Ok((question, seen))
    }
}

fn observation(ended: EndedAttempt) -> Observation {
    Observation {
        spec: ended.spec,
        text: ended.text.unwrap_or_default(),
        lasted: ended.lasted,
        failed: ended.failed,
        earlier: ended.earlier,
        gap: ended.gap,
    }
}

/// The slots to assume, of the kinds that its own tasks need.
fn slots(asked: &validate::Forecast, snapshot: &Snapshot) -> BTreeMap<Work, u32> {
    let mut slots = asked.slots_of.clone();
    let kinds = snapshot.kinds.iter().map(|kind| &kind.work);
    for work in kinds.filter(|work| work.has_session()) {
        if let Some(assumed) = asked.slots {
            slots.entry(work.clone()).or_insert(assumed);
        }
    }
    slots
}

/// The unfinished tasks whose statements are looked at: all, or some of each kind.
fn looked_at(snapshot: &Snapshot) -> Vec<TaskId> {
    let scheduler = &snapshot.scheduler;
    let handle = scheduler.image.handle;
    let waiting = scheduler.waiting.iter().map(|one| (one.first, one.count));
    let running = scheduler.running.iter().map(|one| (one.first, one.count));
    let spans: Vec<(Seq, u32)> = running.chain(waiting).collect();
    let total: i64 = spans.iter().map(|(_, count)| i64::from(*count)).sum();
    let step = (total as u64).div_ceil(STATEMENTS as u64).max(1) as usize;
    let some = spans.iter().flat_map(|(first, count)| {
        let every = (0..*count).step_by(step);
        every.map(|at| first.plus(at))
    });
    let seqs = some.take(2 * STATEMENTS as usize);
    seqs.map(|seq| TaskId { handle, seq }).collect()
}
