//! What a caller does to a scheduler as a whole: release, update, pause, resume; and cancelling one
//! task.

use super::finish::Ending;
use crate::core::{
    Attempt, Handle, Outcome, Reject, ReleaseMode, Reply, SchedulerState, Seq, SettingsField,
    Shard, TaskRef, Turn, Update, scheduler::queue::span::Span,
};
use std::sync::Arc;

impl Shard {
    /// Takes no more tasks; the unfinished ones finish or are cancelled. CANCEL may follow FINISH.
    /// `abandoned`: nobody asked for it.
    pub(crate) fn release(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        mode: ReleaseMode,
        abandoned: bool,
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
            // A caller who releases with FINISH wants the remaining tasks to run. An abandoned
            // scheduler stays paused.
            scheduler.image.paused &= abandoned;
            let (namespace, halt) = (
                scheduler.share.namespace,
                scheduler.image.halt.as_ref().map(|halt| halt.order),
            );
            if !already {
                self.quotas.closed(namespace);
            }
            match (mode, halt) {
                (ReleaseMode::Cancel, _) => self.cancel_everything(turn, handle),
                (ReleaseMode::Finish, Some(order)) => self.begin_cancel(handle, Some(order)),
                (ReleaseMode::Finish, None) => {}
            }
            self.record(turn, handle);
            self.end_if_done(turn, handle);
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
        for first in running {
            self.stop(turn, handle, first);
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

    /// A waiting task ends at once and never starts; a running one is stopped, and its report says
    /// what came first.
    pub(crate) fn cancel(&mut self, turn: &mut Turn, handle: Handle, place: TaskRef) -> Reply {
        let TaskRef { seq, order } = place;
        let scheduler = self.schedulers.expect_mut(handle);
        if seq.0 < 1 || seq > scheduler.highest_seq {
            return Reply::Rejected(Reject::UnknownTask);
        }
        if let Some(flight) = scheduler.running.holding(seq) {
            let first = flight.span.first;
            self.stop(turn, handle, first);
            return Reply::Cancelling {
                running: true,
                cancelled: false,
            };
        }
        let spans = scheduler.queue.remove_of(order, seq, seq);
        let cancelled = !spans.is_empty();
        for span in spans {
            self.end_waiting(
                turn,
                handle,
                span,
                Outcome::Cancelled,
                "CANCELLED",
                "cancelled before it ran",
            );
        }
        Reply::Cancelling {
            running: false,
            cancelled,
        }
    }

    /// Ends tasks that were taken out of the queue. Each one that has had attempts says which was
    /// its last.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn end_waiting(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        span: Span,
        outcome: Outcome,
        code: &str,
        message: &str,
    ) {
        let histories = &self.schedulers.expect(handle).histories;
        let parts: Vec<(Span, Attempt)> = span
            .split_at(histories)
            .into_iter()
            .map(|(part, history)| (part, history.map_or(Attempt(0), |past| past.attempt)))
            .collect();
        for (part, attempt) in parts {
            let ending = Ending::idle(outcome, attempt, turn.now, code, message);
            self.finish(turn, handle, &part, ending);
        }
    }
}
