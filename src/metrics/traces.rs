//! Spans of traces, and what becomes of them.

use super::declared::{Count, Declarations};

/// Of traces.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct TraceMetrics {
    pub spans: Count<1>,
}

impl TraceMetrics {
    pub(super) fn new(to: &mut Declarations) -> Self {
        TraceMetrics {
            spans: to.counters(
                "rallypoint_trace_spans_total",
                ["outcome"],
                "Spans of traces, by what became of them: exported, failed (the collector did not \
                 take them), dropped (more of them came than could be sent).",
            ),
        }
    }
}
