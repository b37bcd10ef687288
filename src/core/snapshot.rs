//! A copy of what a forecast starts from: one scheduler, and those that compete with it for slots.
//!
//! It is bounded whatever waits, because the loop makes it: consecutive tasks that are alike are
//! one entry, and what is too much to be copied is counted ([`SchedulerSnapshot::assumed`],
//! [`SchedulerSnapshot::beyond`], [`Snapshot::crowded`]).

use super::{
    Attempt, Order, RecoveredClaim, ResourceImage, SchedulerImage, Seq, Spec, TargetPause, Time,
    Work, model::limits::Limits,
};
use std::{sync::Arc, time::Duration};

/// What a forecast starts from.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When this was so.
    pub at: Time,
    /// The last task submitted.
    pub highest_seq: Seq,
    /// The limits in force.
    pub limits: Limits,
    /// The kinds of slots that the scheduler asked about needs.
    pub kinds: Vec<KindSnapshot>,
    /// The kinds that those who compete with it need beside these. They may belong to targets that
    /// are closed to its namespace: they are run with and never told.
    pub other_kinds: Vec<KindSnapshot>,
    /// The pauses in force.
    pub pauses: Vec<TargetPause>,
    /// The tasks asked about that are unfinished, copied or not.
    pub unfinished: Vec<Seq>,
    /// The scheduler asked about.
    pub scheduler: SchedulerSnapshot,
    /// Those that wait for slots of these kinds, or run there.
    pub others: Vec<SchedulerSnapshot>,
    /// More schedulers wait for these slots than were copied.
    pub crowded: bool,
    /// Definitions of the resources that tasks here want.
    pub definitions: Vec<ResourceImage>,
    /// Claims of the attempts that run.
    pub claims: Vec<RecoveredClaim>,
    /// Other claims on resources that the scheduler's tasks want: nobody knows when they end.
    pub kept: Vec<RecoveredClaim>,
    /// The resources that these are about.
    pub claimed: Vec<Arc<str>>,
}

/// A kind of slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindSnapshot {
    /// Which.
    pub work: Work,
    /// How many slots there are.
    pub total: u32,
    /// An executor has announced slots, perhaps none.
    pub announced: bool,
}

/// A scheduler and its unfinished tasks.
#[derive(Clone, Debug)]
pub struct SchedulerSnapshot {
    /// Its row.
    pub image: SchedulerImage,
    /// Its unfinished tasks.
    pub unfinished: i64,
    /// Those that wait.
    pub waiting: Vec<WaitingTasks>,
    /// Those that run.
    pub running: Vec<RunningTasks>,
    /// Of the waiting ones, those that were not looked at: they are taken to be like the one before
    /// them in their order.
    pub assumed: i64,
    /// Unfinished tasks that are in neither list.
    pub beyond: i64,
    /// How long its attempts last, as the fair share has learned it.
    pub usual: Vec<(Work, Duration)>,
}

/// Consecutive waiting tasks that are alike.
#[derive(Clone, Debug)]
pub struct WaitingTasks {
    /// The first.
    pub first: Seq,
    /// How many.
    pub count: u32,
    /// Their order.
    pub order: Option<Order>,
    /// What they share.
    pub spec: Arc<Spec>,
    /// When they were submitted.
    pub submitted_at: Time,
    /// When the next attempt may start, of one that has begun before.
    pub again_at: Option<Time>,
    /// Its attempts so far.
    pub past: Past,
    /// Nobody has looked at them: they stand for as many of their order, with numbers that are made
    /// up.
    pub assumed: bool,
}

/// Tasks that run: one, or several that have no session.
#[derive(Clone, Debug)]
pub struct RunningTasks {
    /// The first.
    pub first: Seq,
    /// How many.
    pub count: u32,
    /// Their order.
    pub order: Option<Order>,
    /// What they share.
    pub spec: Arc<Spec>,
    /// When they were submitted.
    pub submitted_at: Time,
    /// The attempt.
    pub attempt: Attempt,
    /// When it was handed out.
    pub since: Time,
    /// Attempts before it.
    pub past: Past,
    /// Nobody knows whether it still runs.
    pub in_doubt: bool,
    /// The journal says that it was handed out.
    pub recorded: bool,
}

/// How attempts of a task have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The last attempt that has begun.
    pub attempt: Attempt,
    /// Reported an error.
    pub failures: u32,
    /// Were lost.
    pub losses: u32,
}
