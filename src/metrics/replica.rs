//! Who owns the shard, and how the process is.

use super::declared::{Declarations, Level};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use std::sync::atomic::AtomicU64;

type Number = Gauge<f64, AtomicU64>;

/// Of one replica.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ReplicaMetrics {
    pub info: Level<2>,
    pub ready: Number,
    pub stopping: Number,
    pub owner: Number,
    pub epoch: Number,
    pub lease_remaining: Number,
    pub takeovers: Counter,
    pub recoveries: Counter,
    pub clock_lead: Number,
    pub reachable: Level<1>,
}

impl ReplicaMetrics {
    pub(super) fn new(to: &mut Declarations) -> Self {
        ReplicaMetrics {
            info: to.gauges(
                "rallypoint_info",
                ["version", "replica"],
                "Always 1: the version of this server and the name of this replica.",
            ),
            ready: to.gauge(
                "rallypoint_ready",
                "Whether callers are served, by this replica or through it by the owner.",
            ),
            stopping: to.gauge(
                "rallypoint_stopping",
                "Whether this replica stops: it is not ready then, and its tasks have their grace.",
            ),
            owner: to.gauge(
                "rallypoint_owner",
                "Whether this replica owns the shard; the sum over all replicas is 1.",
            ),
            epoch: to.gauge(
                "rallypoint_epoch",
                "Number of the last ownership of this replica; it rises at every takeover.",
            ),
            lease_remaining: to.gauge(
                "rallypoint_lease_remaining_seconds",
                "What is left of the lease of the owner; 0 on other replicas.",
            ),
            takeovers: to.counter(
                "rallypoint_takeovers_total",
                "How often this replica has become the owner of the shard.",
            ),
            recoveries: to.counter(
                "rallypoint_recoveries_total",
                "How often the state was built from the journal, after a takeover or a failure.",
            ),
            clock_lead: to.gauge(
                "rallypoint_clock_offset_seconds",
                "By how much the clock of the coordination database is ahead of the time of the \
                 service, which follows it gradually.",
            ),
            reachable: to.gauges(
                "rallypoint_scrape_complete",
                ["part"],
                "Whether a part of the service (coordinator, journal) answered this scrape; of one \
                 that did not, the gauges are those of the last answer.",
            ),
        }
    }
}
