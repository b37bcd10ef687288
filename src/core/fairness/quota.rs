//! What each namespace holds of what is limited, and whether it may have more.
//!
//! Asking changes nothing; taking is never refused, because recovery takes back what was once
//! granted. Counts are a function of the unfinished set and the open streams, hence the same after
//! recovery; only the submit rate begins afresh.

use super::slot_kinds::NamespaceId;
use crate::core::{
    Time,
    model::limits::{LIMIT_WAIT, Limit, Limits, RATE_BURST},
};
use std::{ops::AddAssign, time::Duration};

/// Which limit stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub limit: Limit,
    pub value: i64,
    /// When to try again; `None`: that would not help.
    pub wait: Option<Duration>,
}

/// What a submit takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub tasks: i64,
    pub bytes: i64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.tasks += other.tasks;
        self.bytes += other.bytes;
    }
}

/// Room for tasks, which nothing else has meanwhile. The scheduler they come with is open for the
/// moment of its start alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    pub namespace: NamespaceId,
    pub load: Usage,
}

/// By namespace.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Vec<Held>);

#[derive(Clone, Debug, Default)]
struct Held {
    open: usize,
    queued: Usage,
    /// Of runs of jobs that this batch is still to open.
    promised: Usage,
    streams: u32,
    /// Submits so far have used the rate up to this time.
    rate_used: Time,
}

impl Quotas {
    /// Whether one more scheduler may be opened.
    pub(crate) fn may_open(&self, id: NamespaceId, limits: &Limits) -> Result<(), Over> {
        within(
            Limit::OpenSchedulers,
            self.held(id).open as i64,
            1,
            limits.open_schedulers as i64,
        )
    }

    /// Whether one more stream may be opened.
    pub(crate) fn may_watch(&self, id: NamespaceId, limits: &Limits) -> Result<(), Over> {
        within(
            Limit::Streams,
            self.held(id).streams.into(),
            1,
            limits.streams.into(),
        )
    }

    /// Whether tasks may be submitted. Of the rate a second's worth may be saved up. A call that is
    /// larger could never be taken, so it is taken whole once that is saved up, and those after it
    /// wait the longer.
    pub(crate) fn may_submit(
        &self,
        now: Time,
        id: NamespaceId,
        load: Usage,
        limits: &Limits,
    ) -> Result<(), Over> {
        let held = self.held(id);
        within(
            Limit::QueuedTasks,
            held.queued.tasks + held.promised.tasks,
            load.tasks,
            limits.queued_tasks,
        )?;
        within(
            Limit::QueuedBytes,
            held.queued.bytes + held.promised.bytes,
            load.bytes,
            limits.queued_bytes,
        )?;
        let Some(rate) = limits.submit_rate else {
            return Ok(());
        };
        let needed = worth(load.tasks, rate).min(RATE_BURST);
        let used = held.rate_from(now) + worth(held.promised.tasks, rate);
        let saved_up_at = used + needed;
        if saved_up_at <= now {
            return Ok(());
        }
        Err(Over {
            limit: Limit::SubmitRate,
            value: rate.into(),
            wait: Some(saved_up_at.since(now)),
        })
    }

    /// Tasks are to be submitted with this batch.
    pub(super) fn promise(&mut self, promise: Promise) {
        self.held_mut(promise.namespace).promised += promise.load;
    }

    /// They are submitted now.
    pub(crate) fn redeem(&mut self, promise: Promise) {
        let promised = &mut self.held_mut(promise.namespace).promised;
        promised.tasks -= promise.load.tasks;
        promised.bytes -= promise.load.bytes;
    }

    /// A scheduler is open.
    pub(crate) fn opened(&mut self, id: NamespaceId) {
        self.held_mut(id).open += 1;
    }

    /// It is not any more.
    pub(crate) fn closed(&mut self, id: NamespaceId) {
        self.held_mut(id).open -= 1;
    }

    /// A stream is open.
    pub(crate) fn watched(&mut self, id: NamespaceId) {
        self.held_mut(id).streams += 1;
    }

    /// It is not any more.
    pub(crate) fn unwatched(&mut self, id: NamespaceId) {
        self.held_mut(id).streams -= 1;
    }

    /// Tasks are unfinished.
    pub(crate) fn queued(&mut self, id: NamespaceId, load: Usage) {
        let queued = &mut self.held_mut(id).queued;
        queued.tasks += load.tasks;
        queued.bytes += load.bytes;
    }

    /// They have ended.
    pub(crate) fn ended(&mut self, id: NamespaceId, load: Usage) {
        self.queued(
            id,
            Usage {
                tasks: -load.tasks,
                bytes: -load.bytes,
            },
        );
    }

    /// Tasks were submitted: their share of the rate is used.
    pub(crate) fn submitted(&mut self, now: Time, id: NamespaceId, tasks: i64, limits: &Limits) {
        if let Some(rate) = limits.submit_rate {
            let held = self.held_mut(id);
            held.rate_used = held.rate_from(now) + worth(tasks, rate);
        }
    }

    /// Open schedulers, unfinished tasks and their bytes.
    pub(crate) fn digest(&self, id: NamespaceId) -> (usize, i64, i64) {
        let held = self.held(id);
        (held.open, held.queued.tasks, held.queued.bytes)
    }

    /// What unfinished tasks it has.
    #[cfg(test)]
    pub(crate) fn load(&self, id: NamespaceId) -> Usage {
        self.held(id).queued
    }

    fn held(&self, id: NamespaceId) -> &Held {
        static NOTHING: Held = Held {
            open: 0,
            queued: Usage { tasks: 0, bytes: 0 },
            promised: Usage { tasks: 0, bytes: 0 },
            streams: 0,
            rate_used: Time(0),
        };
        self.0.get(id.0 as usize).unwrap_or(&NOTHING)
    }

    fn held_mut(&mut self, id: NamespaceId) -> &mut Held {
        let at = id.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Held::default());
        }
        &mut self.0[at]
    }
}

impl Held {
    /// From when on the rate is unused: what was not used for a second is lost.
    fn rate_from(&self, now: Time) -> Time {
        self.rate_used.max(now - RATE_BURST)
    }
}

/// How long a rate takes to allow so many tasks.
fn worth(tasks: i64, rate: u32) -> Duration {
    Duration::from_micros(tasks.max(0) as u64 * 1_000_000 / u64::from(rate.max(1)))
}

fn within(limit: Limit, held: i64, more: i64, value: i64) -> Result<(), Over> {
    if held.saturating_add(more) <= value {
        return Ok(());
    }
    Err(Over {
        limit,
        value,
        wait: (more <= value).then_some(LIMIT_WAIT),
    })
}
