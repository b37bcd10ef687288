//! Tasks, slots and attempts, and the databases on which tasks run.

use super::declared::{Count, Declarations, Level};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use std::sync::atomic::AtomicU64;

type Number = Gauge<f64, AtomicU64>;
const OF_WORK: [&str; 2] = ["kind", "target"];

/// Of tasks. The levels are those of the whole service and shown by the owner only.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct TaskMetrics {
    pub schedulers: Number,
    pub unfinished: Level<1>,
    pub waiting: Level<1>,
    pub oldest_queued: Number,
    pub slots: SlotMetrics,
    pub submitted: Counter,
    pub starts: Count<2>,
    pub outcomes: Count<3>,
    pub attempts: Count<1>,
}

/// Of slots, likewise.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct SlotMetrics {
    pub total: Level<2>,
    pub busy: Level<2>,
    pub reserved: Level<2>,
    pub startable: Level<2>,
    pub fairness_lag: Level<2>,
}

/// Of targets.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct TargetMetrics {
    pub available: Level<1>,
    pub sessions: Level<1>,
    pub paused: Level<1>,
    pub pending_fences: Level<1>,
}

impl TaskMetrics {
    pub(super) fn new(to: &mut Declarations) -> Self {
        TaskMetrics {
            schedulers: to.gauge(
                "rallypoint_schedulers",
                "Schedulers that are open, or released with tasks left.",
            ),
            unfinished: to.gauges(
                "rallypoint_tasks",
                ["state"],
                "Unfinished tasks: blocked, queued, running, retrying.",
            ),
            waiting: to.gauges(
                "rallypoint_waiting_tasks",
                ["reason"],
                "Unfinished tasks that do not run, by what they wait for first: slot (also \
                 resources and targets that are paused), max_parallelism, order, not_before, \
                 retry, paused, halted.",
            ),
            oldest_queued: to.gauge(
                "rallypoint_oldest_queued_seconds",
                "How long ago the oldest task was submitted that may start and has not.",
            ),
            slots: SlotMetrics::new(to),
            submitted: to.counter(
                "rallypoint_tasks_submitted_total",
                "Tasks that were accepted.",
            ),
            starts: to.counters(
                "rallypoint_task_starts_total",
                OF_WORK,
                "Tasks handed to executors; each attempt counts.",
            ),
            outcomes: to.counters(
                "rallypoint_task_outcomes_total",
                ["kind", "target", "outcome"],
                "Tasks that ended: succeeded, failed, cancelled, timed_out, exhausted.",
            ),
            attempts: to.counters(
                "rallypoint_attempts_total",
                ["end"],
                "Attempts that ended and were not the last of their task: failed, lost (with their \
                 host or session), handed_back.",
            ),
        }
    }
}

impl SlotMetrics {
    fn new(to: &mut Declarations) -> Self {
        SlotMetrics {
            total: to.gauges(
                "rallypoint_slots",
                OF_WORK,
                "Slots, of all replicas that reach the target.",
            ),
            busy: to.gauges(
                "rallypoint_slots_busy",
                OF_WORK,
                "Slots that run a task, or may.",
            ),
            reserved: to.gauges(
                "rallypoint_slots_reserved",
                OF_WORK,
                "Free slots kept for schedulers that run nothing.",
            ),
            startable: to.gauges(
                "rallypoint_startable_tasks",
                OF_WORK,
                "Tasks that would start at once if there were slots enough: what more executors \
                 are good for.",
            ),
            fairness_lag: to.gauges(
                "rallypoint_fairness_lag_seconds",
                OF_WORK,
                "Slot time by which the namespace that is next has been served less than its \
                 share.",
            ),
        }
    }
}

impl TargetMetrics {
    pub(super) fn new(to: &mut Declarations) -> Self {
        TargetMetrics {
            available: to.gauges(
                "rallypoint_target_available",
                ["target"],
                "Whether this replica can open sessions on the target.",
            ),
            sessions: to.gauges(
                "rallypoint_target_sessions",
                ["target"],
                "Open sessions of this replica on the target.",
            ),
            paused: to.gauges(
                "rallypoint_target_paused",
                ["target"],
                "1 for a target that operators have paused for everybody; shown by the owner.",
            ),
            pending_fences: to.gauges(
                "rallypoint_fences_pending",
                ["target"],
                "Sessions whose end is awaited before what they ran may start again.",
            ),
        }
    }
}
