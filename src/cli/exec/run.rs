//! The scheduler of a run of `exec`, and which of its tasks are those of the run.
//!
//! A scheduler of its own is released with the run and cancelled as a whole. One that was asked for
//! by name may have tasks of others: the run follows and cancels its own tasks only.

use super::own_tasks::OwnTasks;
use crate::cli::{error::CliError, progress::Console, signals::Signals, submit_calls::submit};
use futures_util::{StreamExt, TryStreamExt, stream};
use rallypoint_client::{
    Scheduler,
    api::{ReleaseMode, Task},
};
use std::{cell::Cell, ops::ControlFlow, pin::pin};

/// Tasks that are cancelled at a time.
const MAX_CONCURRENT_CANCELS: usize = 16;

/// What becomes of the scheduler when the tasks have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Release,
    Keep,
}

pub(super) struct Run {
    pub(super) scheduler: Scheduler,
    /// What commands call the scheduler: its name if it has one, else its handle.
    pub(super) word: String,
    pub(super) ending: Cell<Ending>,
    /// `None`: the scheduler has no others.
    pub(super) own: Option<OwnTasks>,
    /// The run has opened it, rather than found it open.
    pub(super) is_new: bool,
}

impl Run {
    /// Submits the tasks. Returns whether all were submitted: a signal ends it, and what was
    /// submitted is still to be cancelled.
    pub(super) async fn submit(
        &mut self,
        tasks: Vec<Task>,
        console: &Console,
        signals: &mut Signals,
    ) -> Result<bool, CliError> {
        let (is_shared, is_stopped) = (self.own.is_some(), Cell::new(false));
        let own = &mut self.own;
        let say = |news| console.say(news);
        let mut submitting = pin!(submit(&self.scheduler, tasks, say, |call| {
            if let Some(own) = own {
                own.add(call);
            }
            match is_stopped.get() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }));
        tokio::select! {
            submitted = &mut submitting => return submitted.map(|()| true),
            _ = signals.next() => {}
        }
        if is_shared {
            // What the call under way submits can only be cancelled by its numbers.
            console.say(
                "waiting for the call under way (another signal, after a second, exits at once) …",
            );
            is_stopped.set(true);
            tokio::select! {
                submitted = submitting => submitted?,
                exit = signals.next() => exit.now(),
            }
        }
        Ok(false)
    }

    /// Cancels what is left. A signal meanwhile exits at once: the server may not answer.
    pub(super) async fn cancel(
        &self,
        console: &Console,
        signals: &mut Signals,
    ) -> Result<(), CliError> {
        console.say("cancelling (another signal, after a second, exits at once) …");
        let next = || format!("the tasks go on: {}", self.cancel_by_hand());
        let discarded = self.discard(signals).await;
        // A signal that was to hurry it, and comes a moment late, cuts off nothing that follows.
        signals.note();
        discarded.map_err(|error| error.leaves(self.scheduler.handle(), next()))
    }

    /// As [`Run::cancel`], and says nothing. A scheduler of its own is released, whatever was asked
    /// for.
    pub(super) async fn discard(&self, signals: &mut Signals) -> Result<(), CliError> {
        let cancelling = async {
            match &self.own {
                None => {
                    self.ending.set(Ending::Release);
                    self.release(ReleaseMode::Cancel, false).await
                }
                Some(own) => self.cancel_own(own).await,
            }
        };
        tokio::select! {
            cancelled = cancelling => cancelled,
            exit = signals.next() => exit.now(),
        }
    }

    /// Nothing was submitted: the scheduler that the run has opened is released, unless others have
    /// joined it meanwhile.
    pub(super) async fn withdraw(&self, signals: &mut Signals) -> Result<(), CliError> {
        match (&self.own, self.is_new) {
            (None, _) => self.discard(signals).await,
            (Some(_), true) => self.release_unused().await,
            (Some(_), false) => Ok(()),
        }
    }

    /// The error of a run whose tasks go on without it.
    pub(super) fn left(&self, error: CliError) -> CliError {
        let word = &self.word;
        let mut next = format!("the tasks go on: `rallypoint wait {word}` follows them");
        if self.own.is_none() {
            next += &format!("; when they have ended, `rallypoint release {word}`");
        }
        error.leaves(self.scheduler.handle(), next)
    }

    pub(super) async fn release(&self, mode: ReleaseMode, wait: bool) -> Result<(), CliError> {
        let scheduler = match wait {
            true => self.scheduler.clone().with_time_limit(None),
            false => self.scheduler.clone(),
        };
        let released = scheduler.release(mode, wait).await;
        let what = || format!("cannot release {}", scheduler.handle());
        released
            .map(drop)
            .map_err(|error| CliError::call(what(), &error))
    }

    /// Others may submit at this very moment: then their tasks finish, and who comes later opens
    /// another scheduler of the name.
    async fn release_unused(&self) -> Result<(), CliError> {
        let what = || format!("cannot look at {}", self.scheduler.handle());
        let described = self.scheduler.describe().await;
        let described = described.map_err(|error| CliError::call(what(), &error))?;
        match described.submitted {
            0 => self.release(ReleaseMode::Finish, false).await,
            _ => Ok(()),
        }
    }

    /// The last ones first, so that none of a later order starts meanwhile.
    async fn cancel_own(&self, own: &OwnTasks) -> Result<(), CliError> {
        let cancels = own.numbers().rev().map(|seq| self.scheduler.cancel(seq));
        let cancels = stream::iter(cancels).buffered(MAX_CONCURRENT_CANCELS);
        let cancelled = cancels.map_ok(drop).try_collect::<()>().await;
        cancelled.map_err(|error| CliError::call("cannot cancel the tasks", &error))
    }

    /// How to cancel what this run could not.
    pub(super) fn cancel_by_hand(&self) -> String {
        let word = &self.word;
        match self.own {
            None => format!("`rallypoint release {word} --cancel` cancels them"),
            Some(_) => format!("see `rallypoint tasks {word}`, and `rallypoint cancel`"),
        }
    }
}
