//! What is written: batches, and how the coordination database takes them.

use super::declared::{Count, Declarations, Histogram, Level};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::exponential_buckets};
use std::sync::atomic::AtomicU64;

type Number = Gauge<f64, AtomicU64>;

/// Of the journal.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct JournalMetrics {
    pub available: Number,
    pub last_durable_age: Number,
    pub append_seconds: Histogram,
    pub batch_tasks: Histogram,
    pub batches: Count<1>,
    pub lost_batches: Counter,
    pub unreadable: Number,
    pub oldest_day_age: Number,
    pub retention: Number,
    pub maintenance_age: Level<0>,
}

impl JournalMetrics {
    pub(super) fn new(to: &mut Declarations) -> Self {
        JournalMetrics {
            available: to.gauge(
                "rallypoint_journal_available",
                "Whether batches become durable; on a replica that is not the owner, whether the \
                 coordination database answers.",
            ),
            last_durable_age: to.gauge(
                "rallypoint_journal_last_durable_age_seconds",
                "Age of the last durable batch. An idle service writes none.",
            ),
            append_seconds: to.histogram(
                "rallypoint_append_seconds",
                exponential_buckets(0.000_25, 2.0, 16),
                "From sending a batch until it is durable: the way there and back, the statement \
                 and its flush to disk.",
            ),
            batch_tasks: to.histogram(
                "rallypoint_batch_tasks",
                exponential_buckets(1.0, 4.0, 9),
                "Tasks submitted or ended in one batch.",
            ),
            batches: to.counters(
                "rallypoint_batches_total",
                ["outcome"],
                "Batches sent, by what became of them: durable, fenced (another replica owns the \
                 shard), rejected, rolled_back, unknown. All but the first are sent again or \
                 taken apart.",
            ),
            lost_batches: to.counter(
                "rallypoint_lost_batches_total",
                "Acknowledged batches that the coordination database has lost, as after a failover \
                 to a standby that lacked them. More than 0 is loss of data.",
            ),
            unreadable: to.gauge(
                "rallypoint_unreadable_schedulers",
                "Schedulers set aside because their rows make no sense to this version.",
            ),
            oldest_day_age: to.gauge(
                "rallypoint_journal_oldest_day_age_days",
                "Age of the oldest day that is still kept.",
            ),
            retention: to.gauge(
                "rallypoint_journal_retention_days",
                "Days for which events and the log are kept (--retention).",
            ),
            maintenance_age: to.gauges(
                "rallypoint_maintenance_age_seconds",
                [],
                "Time since the owner last finished a whole round of maintenance, or became the \
                 owner without one since; it makes one every hour. Absent on other replicas.",
            ),
        }
    }
}
