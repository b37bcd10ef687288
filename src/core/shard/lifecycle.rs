//! What a caller does to a scheduler as a whole: release, update, pause, resume.

use crate::core::{
    Handle, ReleaseMode, Reply, SchedulerState, Seq, SettingsField, Shard, TaskError, Turn, Update,
};
use std::sync::Arc;

/// Who releases a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Releaser {
    Caller,
    /// Nobody has used it for too long.
    IdleTimeout,
}

impl Shard {
    /// Takes no more tasks; the unfinished ones finish or are cancelled. CANCEL may follow FINISH.
    /// A caller who releases ends a pause, also if the scheduler is released already: whoever asks
    /// for the end of the remaining tasks wants them to run.
    pub(crate) fn release(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        mode: ReleaseMode,
        by: Releaser,
    ) -> Reply {
        let scheduler = self.schedulers.expect_mut(handle);
        let already = scheduler.image.state != SchedulerState::Open;
        let harder = mode == ReleaseMode::Cancel
            && scheduler.image.release_mode == Some(ReleaseMode::Finish);
        let over = scheduler.image.state == SchedulerState::Released;
        if !already || (harder && !over) {
            scheduler.image.state = SchedulerState::Releasing;
            scheduler.image.release_mode = Some(mode);
            scheduler.image.released_at.get_or_insert(turn.now);
            scheduler.image.paused &= by != Releaser::Caller;
            let (namespace, halt) = (
                scheduler.share.namespace,
                scheduler.image.halt.as_ref().map(|halt| halt.order),
            );
            if !already {
                self.quotas.closed(namespace);
                self.names.free(namespace, &scheduler.image);
            }
            match (mode, halt) {
                (ReleaseMode::Cancel, _) => self.cancel_everything(turn, handle),
                (ReleaseMode::Finish, Some(order)) => self.begin_cancel(handle, Some(order)),
                (ReleaseMode::Finish, None) => {}
            }
            self.record(turn, handle);
            self.end_if_done(turn, handle);
        } else if scheduler.image.paused && !over && by == Releaser::Caller {
            scheduler.image.paused = false;
            self.record(turn, handle);
        }
        let scheduler = self.schedulers.expect_mut(handle);
        Reply::Released {
            already,
            pending: scheduler.ledger.count,
            done_no: scheduler.done_no,
        }
    }

    fn cancel_everything(&mut self, turn: &mut Turn, handle: Handle) {
        self.begin_cancel(handle, None);
        let running: Vec<Seq> = self
            .schedulers
            .expect_mut(handle)
            .running
            .by_first
            .keys()
            .copied()
            .collect();
        let why = TaskError::cancelled("stopped while it ran, with the release of its scheduler");
        let why = Arc::new(why);
        for first in running {
            self.stop(turn, handle, first, &why);
        }
    }

    /// Puts the named settings in place of the present ones. A lower limit kills nothing: it
    /// drains.
    pub(crate) fn update(&mut self, turn: &mut Turn, handle: Handle, update: &Update) -> Reply {
        let scheduler = self.schedulers.expect_mut(handle);
        let settings = Arc::make_mut(&mut scheduler.image.settings);
        let new = update.settings.clone();
        for field in &update.fields {
            match field {
                SettingsField::DisplayName => settings.display_name = new.display_name.clone(),
                SettingsField::MaxParallelism => settings.max_parallelism = new.max_parallelism,
                SettingsField::Weight => settings.weight = new.weight,
                SettingsField::OnFailure => settings.on_failure = new.on_failure,
                SettingsField::LateOrder => settings.late_order = new.late_order,
                SettingsField::DefaultOptions => {
                    settings.default_options = new.default_options.clone()
                }
                SettingsField::IdleTimeout => settings.idle_timeout = new.idle_timeout,
                SettingsField::OnAbandon => settings.on_abandon = new.on_abandon,
                SettingsField::SessionReset => settings.session_reset = new.session_reset,
                SettingsField::Labels => settings.labels = new.labels.clone(),
            }
        }
        let weight = settings.weight;
        self.fair.reweigh(&mut scheduler.share, weight);
        let view = scheduler.view();
        self.record(turn, handle);
        Reply::Scheduler(Box::new(view))
    }

    /// Pause starts nothing more; resume goes on, and with `ignore_failures` lifts a halt.
    pub(crate) fn set_paused(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        paused: bool,
        ignore_failures: bool,
    ) -> Reply {
        let scheduler = self.schedulers.expect_mut(handle);
        let lifts = ignore_failures && scheduler.image.halt.is_some();
        if lifts {
            scheduler.image.halt = None;
        }
        let changed = scheduler.image.paused != paused || lifts;
        scheduler.image.paused = paused;
        let view = scheduler.view();
        if changed {
            self.record(turn, handle);
        }
        Reply::Scheduler(Box::new(view))
    }
}
