//! What a caller does to a scheduler as a whole: release, update, pause, resume; and cancelling one task.

use super::finish::Ending;
use crate::core::{
    Attempt, Handle, Outcome, Output, Reject, ReleaseMode, Reply, SchedulerState, Seq,
    SettingsField, Shard, TaskRef, Time, Update,
};
use std::sync::Arc;

impl Shard {
    /// Takes no more tasks; the unfinished ones finish or are cancelled. CANCEL may follow FINISH. `abandoned`: nobody asked
    /// for it.
    pub(crate) fn release(
        &mut self,
        now: Time,
        handle: Handle,
        mode: ReleaseMode,
        abandoned: bool,
        out: &mut Output,
    ) -> Reply {
        let scheduler = self.scheduler_mut(handle);
        let already = scheduler.image.state != SchedulerState::Open;
        let harder = mode == ReleaseMode::Cancel
            && scheduler.image.release_mode == Some(ReleaseMode::Finish);
        let over = scheduler.image.state == SchedulerState::Released;
        if !already || (harder && !over) {
            scheduler.image.state = SchedulerState::Releasing;
            scheduler.image.release_mode = Some(mode);
            scheduler.image.released_at.get_or_insert(now);
            // The rest is to finish: a caller who says so means to go on. One that was left alone stays paused.
            scheduler.image.paused &= abandoned;
            let (namespace, halt) = (
                scheduler.share.namespace,
                scheduler.image.halt.as_ref().map(|halt| halt.order),
            );
            if !already {
                self.quotas.closed(namespace);
            }
            match (mode, halt) {
                (ReleaseMode::Cancel, _) => self.cancel_everything(now, handle, out),
                (ReleaseMode::Finish, Some(order)) => self.begin_bulk(handle, Some(order)),
                (ReleaseMode::Finish, None) => {}
            }
            self.record(handle, out);
            self.close_if_ended(now, handle, out);
        }
        let scheduler = self.scheduler_mut(handle);
        Reply::Released {
            already,
            pending: scheduler.unfinished,
            done_no: scheduler.done_no,
        }
    }

    fn cancel_everything(&mut self, now: Time, handle: Handle, out: &mut Output) {
        self.begin_bulk(handle, None);
        let running: Vec<Seq> = self
            .scheduler_mut(handle)
            .in_flight
            .keys()
            .copied()
            .collect();
        for first in running {
            self.stop(now, handle, first, out);
        }
    }

    /// Puts the named settings in place of the present ones. A lower limit kills nothing: it drains.
    pub(crate) fn update(&mut self, handle: Handle, update: &Update, out: &mut Output) -> Reply {
        let scheduler = self.scheduler_mut(handle);
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
                SettingsField::Labels => settings.labels = new.labels.clone(),
            }
        }
        scheduler.share.weight = settings.weight;
        let view = scheduler.view();
        self.record(handle, out);
        Reply::Scheduler(Box::new(view))
    }

    /// Pause starts nothing more; resume goes on, and with `ignore_failures` lifts a halt.
    pub(crate) fn set_paused(
        &mut self,
        handle: Handle,
        paused: bool,
        ignore_failures: bool,
        out: &mut Output,
    ) -> Reply {
        let scheduler = self.scheduler_mut(handle);
        let lifts = ignore_failures && scheduler.image.halt.is_some();
        if lifts {
            scheduler.image.halt = None;
        }
        let changed = scheduler.image.paused != paused || lifts;
        scheduler.image.paused = paused;
        let view = scheduler.view();
        if changed {
            self.record(handle, out);
        }
        Reply::Scheduler(Box::new(view))
    }

    /// A waiting task ends at once and never starts; a running one is stopped, and its report says what came first.
    pub(crate) fn cancel(
        &mut self,
        now: Time,
        handle: Handle,
        place: TaskRef,
        out: &mut Output,
    ) -> Reply {
        let TaskRef { seq, order } = place;
        let scheduler = self.scheduler_mut(handle);
        if seq.0 < 1 || seq > scheduler.highest_seq {
            return Reply::Rejected(Reject::UnknownTask);
        }
        if let Some((first, _)) = scheduler.in_flight_of(seq) {
            self.stop(now, handle, first, out);
            return Reply::Cancelling {
                running: true,
                cancelled: false,
            };
        }
        let spans = scheduler.queue.remove_of(order, seq, seq);
        for span in &spans {
            self.end_waiting(
                now,
                handle,
                span,
                Outcome::Cancelled,
                "CANCELLED",
                "cancelled before it ran",
                out,
            );
        }
        Reply::Cancelling {
            running: false,
            cancelled: !spans.is_empty(),
        }
    }

    /// Ends tasks that were taken out of the queue.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn end_waiting(
        &mut self,
        now: Time,
        handle: Handle,
        span: &crate::core::Span,
        outcome: Outcome,
        code: &str,
        message: &str,
        out: &mut Output,
    ) {
        let attempt = self
            .scheduler_mut(handle)
            .histories
            .get(&span.first)
            .map_or(Attempt(0), |history| history.attempt);
        self.finish(
            now,
            handle,
            span,
            Ending::idle(outcome, attempt, now, code, message),
            out,
        );
    }
}
