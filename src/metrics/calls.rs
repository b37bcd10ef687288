//! Connections, calls and streams of callers.

use super::declared::{Count, Declarations, Level};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use std::sync::atomic::AtomicU64;

type Number = Gauge<f64, AtomicU64>;

/// Of callers.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct CallMetrics {
    pub connections: Number,
    pub max_connections: Number,
    pub streams: Level<1>,
    pub failed: Count<1>,
    pub audit_left_out: Counter,
}

impl CallMetrics {
    pub(super) fn new(to: &mut Declarations) -> Self {
        CallMetrics {
            connections: to.gauge("rallypoint_connections", "Open connections of callers."),
            max_connections: to.gauge(
                "rallypoint_connections_limit",
                "Connections of callers that this replica keeps at a time.",
            ),
            streams: to.gauges("rallypoint_streams", ["method"], "Open streams of callers."),
            failed: to.counters(
                "rallypoint_calls_refused_total",
                ["reason"],
                "Calls that were answered with an error, by its reason (ErrorReason of the API); \
                 OTHER: it has none. Streams that break off later do not count.",
            ),
            audit_left_out: to.counter(
                "rallypoint_audit_rows_left_out_total",
                "Rows of the audit that are not kept: of too many refused calls, or refused by the \
                 coordination database for what is in them.",
            ),
        }
    }
}
