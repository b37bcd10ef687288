//! What callers ask besides submitting: opening, settings, pause, release, cancel.

use super::{
    Opened, Oracle,
    expected::{Expected, View},
    model::Scheduler,
    rows::Rows,
};
use rallypoint::core::{
    Caller, Checkpoint, DoneNo, Handle, Open, Order, Reject, ReleaseMode, SchedulerImage,
    SchedulerState, SettingsField, Ticket, Time, Update, Verb, model::limits::Limit,
};
use rustc_hash::FxHashSet;
use std::{collections::BTreeMap, sync::Arc};

const RELEASED: Expected = Expected::Rejected(Reject::Released);

impl Oracle {
    /// The machine has decided whatever was asked, but for these. It may decide a call once more.
    pub(crate) fn decides(&mut self, now: Time, undecided: &FxHashSet<Ticket>) {
        for (ticket, (_, decided)) in &mut self.asked {
            let known = decided.unwrap_or(now);
            *decided = (!undecided.contains(ticket)).then_some(known);
        }
    }

    /// What a caller must be answered. The call is decided between two times.
    pub(super) fn call(
        &mut self,
        between: (Time, Time),
        (caller, handle): (&Caller, Handle),
        verb: &Verb,
        rows: &mut Rows<'_>,
    ) -> Expected {
        if let Verb::Open(open) = verb {
            return self.open(between, (caller, handle), open, rows);
        }
        let Some(at) = self.at(handle) else {
            return Expected::Rejected(Reject::UnknownHandle);
        };
        if self.schedulers[at].namespace != caller.namespace {
            return Expected::Rejected(Reject::UnknownHandle);
        }
        let over = self.schedulers[at].state == SchedulerState::Released;
        let before = over.then(|| self.schedulers[at].clone());
        self.schedulers[at].used_by(verb, between);
        let expected = match verb {
            Verb::Open(_) => unreachable!("handled above"),
            Verb::Update(_) | Verb::Pause | Verb::Resume { .. } if over => RELEASED,
            Verb::Submit(submit) => self.submit(between, handle, submit, rows),
            Verb::Submitted(request) => self.submitted(between, handle, *request),
            Verb::Watch { after, .. } => {
                self.schedulers[at].watched = true;
                self.watch(at, *after)
            }
            Verb::Release(mode) => self.release(at, *mode, false, rows),
            Verb::Update(update) => {
                self.schedulers[at].update(update);
                self.view(at, rows)
            }
            Verb::Pause | Verb::Resume { .. } => {
                self.schedulers[at].pause_or_resume(verb);
                self.view(at, rows)
            }
            Verb::Cancel(cancel) => self.cancel(between, handle, cancel, rows),
            Verb::Describe => self.view(at, rows),
            Verb::Locate(places) => {
                let phases = |place: &rallypoint::core::TaskRef| {
                    self.phases(&self.schedulers[at], place.seq, between)
                };
                Expected::Located(places.iter().map(phases).collect())
            }
            Verb::Explain(task) => self.explain(at, task.seq, between),
            Verb::Snapshot(_) => Expected::Unjudged,
            Verb::Select { .. } => self.select(at, verb, between),
        };
        let Some(before) = before else {
            return expected;
        };
        // A call to a scheduler that has left memory has no effect.
        if !rows.writes(handle) {
            self.schedulers[at] = before;
        }
        Expected::OrForgotten(Box::new(expected))
    }

    fn open(
        &mut self,
        (asked, decided): (Time, Time),
        (caller, handle): (&Caller, Handle),
        open: &Open,
        rows: &Rows<'_>,
    ) -> Expected {
        let request = open.request;
        let same = |opened: &&Opened| {
            opened.namespace == caller.namespace
                && request.is_some_and(|request| request.id == opened.request.id)
                && opened.at.1 >= self.requests_since(asked)
        };
        let known = self.opened.iter().rev().find(same);
        let forgotten = |at: Time| at < self.requests_since(decided) && rows.writes(handle);
        if let Some(first) = known.filter(|first| !forgotten(first.at.0)) {
            let is_same = request.is_some_and(|call| call.hash == first.request.hash);
            return match first.at.0 < self.requests_since(decided) {
                true => Expected::Unjudged,
                false => self.reopened(is_same, first.handle),
            };
        }
        let is_open = |other: &Scheduler| {
            other.namespace == caller.namespace && other.state == SchedulerState::Open
        };
        let wanted = open.naming.as_ref().map(|naming| &naming.name);
        let is_it = |other: &Scheduler| wanted.is_some() && other.name.as_ref() == wanted;
        let mut holders = self.schedulers.iter();
        if let Some(at) = holders.position(|other| is_open(other) && is_it(other)) {
            return self.found((asked, decided), at, open, rows);
        }
        let others = self.schedulers.iter().filter(|other| is_open(other));
        if others.count() >= self.limits.open_schedulers {
            return Expected::Limited(Limit::OpenSchedulers);
        }
        if let Some(request) = request {
            self.opened.push(Opened {
                namespace: caller.namespace.clone(),
                request,
                handle,
                at: (asked, decided),
            });
        }
        let used = (asked, decided);
        let opened = Scheduler {
            halt_names: self.limits.halt_failed,
            ..opened(caller, handle, open, used)
        };
        self.schedulers.push(opened);
        self.view(self.schedulers.len() - 1, &Rows::default())
    }

    /// An open scheduler has the name: it is in the way, or used.
    fn found(
        &mut self,
        (asked, decided): (Time, Time),
        at: usize,
        open: &Open,
        rows: &Rows<'_>,
    ) -> Expected {
        let holder = self.schedulers[at].handle;
        if !open.naming.as_ref().is_some_and(|naming| naming.reuse) {
            return Expected::Rejected(Reject::NameTaken { holder });
        }
        self.schedulers[at].used_by(&Verb::Open(open.clone()), (asked, decided));
        match self.view(at, rows) {
            Expected::View(view) => Expected::Found(view),
            other => other,
        }
    }

    /// The answer to a repeated call. Of a scheduler that is over the journal may have to say it.
    fn reopened(&self, same_payload: bool, opened: Handle) -> Expected {
        let answer = match same_payload {
            true => Expected::Opened(opened),
            false => Expected::Rejected(Reject::RequestIdReused),
        };
        let over = |at: usize| self.schedulers[at].state == SchedulerState::Released;
        match self.at(opened).is_none_or(over) {
            true => Expected::OrForgotten(Box::new(answer)),
            false => answer,
        }
    }

    fn watch(&self, at: usize, after: DoneNo) -> Expected {
        let last = DoneNo(self.schedulers[at].done_no);
        if after > last {
            return Expected::Rejected(Reject::CursorAhead { last });
        }
        // How many streams are open changes without a record; what a stream counts is checked with
        // its answer.
        Expected::Unjudged
    }

    /// FINISH lets the tasks end and cancels what a halt blocks; CANCEL cancels all of them, and
    /// may follow FINISH.
    pub(super) fn release(
        &mut self,
        at: usize,
        mode: ReleaseMode,
        abandoned: bool,
        rows: &mut Rows<'_>,
    ) -> Expected {
        let scheduler = &mut self.schedulers[at];
        let already = scheduler.state != SchedulerState::Open;
        let harder =
            mode == ReleaseMode::Cancel && scheduler.release_mode == Some(ReleaseMode::Finish);
        if !already || (harder && scheduler.state != SchedulerState::Released) {
            scheduler.state = SchedulerState::Releasing;
            scheduler.release_mode = Some(mode);
            scheduler.paused &= abandoned;
            let halt = scheduler.halt.as_ref().map(|halt| halt.order.0);
            match (mode, halt) {
                (ReleaseMode::Cancel, _) => {
                    scheduler.cancel_above(None);
                    for seq in rows.stopped(scheduler.handle, None) {
                        let task = scheduler.task_mut(seq).expect("it runs");
                        task.stopping = true;
                    }
                }
                (ReleaseMode::Finish, Some(order)) => scheduler.cancel_above(Some(order)),
                (ReleaseMode::Finish, None) => {}
            }
            scheduler.close_if_ended();
        } else if !abandoned && scheduler.state != SchedulerState::Released {
            scheduler.paused = false;
        }
        Expected::Released {
            already,
            pending: scheduler.highest() - scheduler.done_no,
            done_no: scheduler.done_no,
            more: rows.left(scheduler.handle),
        }
    }

    pub(super) fn view(&self, at: usize, rows: &Rows<'_>) -> Expected {
        let scheduler = &self.schedulers[at];
        let unfinished = scheduler.highest() - scheduler.done_no;
        let running = scheduler
            .unfinished()
            .filter(|task| task.surely_runs(self.core))
            .count() as i64;
        let known = scheduler
            .unfinished()
            .all(|task| task.surely_runs(self.core) || !self.may_run(task));
        Expected::View(Box::new(View {
            image: scheduler.image(),
            unfinished,
            more: rows.left(scheduler.handle),
            current_order: scheduler.current_order(),
            running: known.then_some(running),
        }))
    }
}

impl Scheduler {
    fn update(&mut self, update: &Update) {
        let (new, settings) = (update.settings.clone(), &mut self.settings);
        for field in &update.fields {
            match field {
                SettingsField::DisplayName => settings.display_name = new.display_name.clone(),
                SettingsField::MaxParallelism => settings.max_parallelism = new.max_parallelism,
                SettingsField::Weight => settings.weight = new.weight,
                SettingsField::OnFailure => settings.on_failure = new.on_failure,
                SettingsField::LateOrder => settings.late_order = new.late_order,
                SettingsField::DefaultOptions => {
                    settings.default_options = new.default_options.clone();
                }
                SettingsField::IdleTimeout => settings.idle_timeout = new.idle_timeout,
                SettingsField::OnAbandon => settings.on_abandon = new.on_abandon,
                SettingsField::SessionReset => settings.session_reset = new.session_reset,
                SettingsField::Labels => settings.labels = new.labels.clone(),
            }
        }
    }

    /// Notes when a call used the scheduler; who only looks does not use it.
    fn used_by(&mut self, verb: &Verb, (asked, decided): (Time, Time)) {
        let looks = match verb {
            Verb::Cancel(cancel) => cancel.dry_run,
            Verb::Describe
            | Verb::Submitted(_)
            | Verb::Locate(_)
            | Verb::Explain(_)
            | Verb::Snapshot(_)
            | Verb::Select { .. } => true,
            _ => false,
        };
        if !looks {
            self.used = (self.used.0.max(asked), self.used.1.max(decided));
        }
    }

    fn pause_or_resume(&mut self, verb: &Verb) {
        self.paused = matches!(verb, Verb::Pause);
        if let Verb::Resume {
            ignore_failures: true,
        } = verb
        {
            self.lift_halt();
        }
    }

    /// What must be on record of it.
    pub(super) fn image(&self) -> SchedulerImage {
        SchedulerImage {
            handle: self.handle,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            caller: "".into(),
            request: self.request,
            settings: Arc::new(self.settings.clone()),
            state: self.state,
            release_mode: self.release_mode,
            paused: self.paused,
            halt: self.halt.clone(),
            cancel_rest: None,
            opened_at: Time(0),
            released_at: None,
            checkpoint: Checkpoint::NONE,
        }
    }
}

/// The order of a task that runs, as the API tells it.
pub(super) fn order_of(order: Option<i64>) -> Option<Order> {
    order.map(Order)
}

/// A scheduler as it is opened.
fn opened(caller: &Caller, handle: Handle, open: &Open, used: (Time, Time)) -> Scheduler {
    Scheduler {
        handle,
        namespace: caller.namespace.clone(),
        name: open.naming.as_ref().map(|naming| naming.name.clone()),
        request: open.request,
        settings: (*open.settings).clone(),
        state: SchedulerState::Open,
        release_mode: None,
        paused: false,
        halt: None,
        halt_names: 0,
        holding: BTreeMap::new(),
        recovered: 0,
        cancelling: None,
        tasks: Vec::new(),
        done_no: 0,
        watched: false,
        used,
    }
}
