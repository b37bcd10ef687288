//! Recurring jobs, and named resources.

use super::declared::{Count, Declarations, Histogram, Level};
use prometheus_client::metrics::histogram::exponential_buckets;

/// Of jobs. The levels are shown by the owner only.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct JobMetrics {
    pub agent_started: Level<0>,
    pub jobs: Level<1>,
    pub runs: Level<1>,
    pub start_delay: Histogram,
    pub ended: Count<1>,
}

/// Of resources. The levels are shown by the owner only.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ResourceMetrics {
    pub claims: Level<1>,
    pub granted: Count<1>,
    pub ended: Count<1>,
}

impl JobMetrics {
    pub(super) fn new(to: &mut Declarations) -> Self {
        JobMetrics {
            agent_started: to.gauges(
                "rallypoint_job_agent_started",
                [],
                "Whether the agent fires jobs (rallypoint jobs start-agent). Absent on replicas that are \
                 not the owner.",
            ),
            jobs: to.gauges(
                "rallypoint_jobs",
                ["state"],
                "Jobs: all of them, those paused, those failing (the last run failed), those late (a \
                 due time has passed and nothing became of it), and those unreadable (this \
                 version cannot read them, or a run of theirs that may go on, and does not fire \
                 them; in no other count).",
            ),
            runs: to.gauges(
                "rallypoint_job_runs",
                ["state"],
                "Runs that are not over: running, waiting (for another run or an attempt).",
            ),
            start_delay: to.histogram(
                "rallypoint_job_start_delay_seconds",
                exponential_buckets(0.1, 4.0, 8),
                "How long after its due time a run began that a schedule names.",
            ),
            ended: to.counters(
                "rallypoint_job_due_times_total",
                ["became"],
                "Due times of jobs, and runs asked for, by what became of them: succeeded, failed, \
                 cancelled, timed_out, skipped, missed, lost. One that was missed and is \
                 backfilled counts twice.",
            ),
        }
    }
}

impl ResourceMetrics {
    pub(super) fn new(to: &mut Declarations) -> Self {
        ResourceMetrics {
            claims: to.gauges(
                "rallypoint_resource_claims",
                ["state"],
                "Claims on resources: held, waiting.",
            ),
            granted: to.counters(
                "rallypoint_resource_grants_total",
                ["after"],
                "Claims that were granted: at_once, or after waiting.",
            ),
            ended: to.counters(
                "rallypoint_resource_claim_ends_total",
                ["how"],
                "Claims that ended, by how: released, withdrawn, timed_out, abandoned, expired, \
                 held_too_long, forced.",
            ),
        }
    }
}
