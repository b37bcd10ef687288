//! Every limit of the core, by name: constants that callers are told about, and [`Limits`], which
//! an operator or a test sets. Work per batch is limited here too, so that a simulation can make it
//! small.

use jiff::SignedDuration;
use std::{ops::RangeInclusive, time::Duration};

/// Tasks in one ExecAsync call.
pub const TASKS_PER_CALL: usize = 10_000;
/// Bytes of one task's body.
pub const BODY_BYTES: usize = 1 << 20;
/// Tasks of a job, those that follow a failure included.
pub const JOB_TASKS: usize = 1_000;
/// Bytes of the bodies and parameters of all tasks of a job.
pub const JOB_TASK_BYTES: usize = 1 << 20;
/// Bytes of one ExecAsync call.
pub const CALL_BYTES: usize = 4 << 20;
/// Bytes of a result that are stored.
pub const RESULT_BYTES: usize = 1 << 20;
/// Bytes of an error's message that are stored.
pub const ERROR_BYTES: usize = 8 << 10;
/// Schemas in a search path.
pub const SCHEMAS: usize = 64;
/// Bytes of a name that Postgres takes.
pub const NAME_BYTES: RangeInclusive<usize> = 1..=63;
/// `statement_timeout`, which Postgres counts in milliseconds, in 31 bits.
pub const STATEMENT_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(24 * 86_400);
/// Time limit of one attempt.
pub const TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(30 * 86_400);
/// Time limit of a task, waiting included.
pub const TOTAL_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(366 * 86_400);
/// Attempts of a task.
pub const ATTEMPTS: RangeInclusive<i32> = 1..=1000;
/// How long a run of a job may take.
pub const MAX_RUNTIME: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(366 * 86_400);
/// By how much a run of a job is put off: its jitter, or what lies between two attempts of it.
pub const RUN_DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(366 * 86_400);
/// Weight of a scheduler in the fair share of its namespace.
pub const WEIGHT: RangeInclusive<f64> = 0.01..=1000.0;
/// How long a hold of a resource, or a claim of a run, lasts unless it is renewed.
pub const LEASE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);
/// Rows of a result that are stored.
pub const RESULT_ROWS: RangeInclusive<i32> = 0..=10_000;
/// Highest order: the largest integer every JSON reader keeps exactly.
pub const MAX_ORDER: i64 = (1 << 53) - 1;
/// How long a request id is remembered.
pub const REQUEST_MEMORY: Duration = Duration::from_secs(15 * 60);
/// Executor time charged at a time, at most, for an attempt that lasts longer than was expected: a
/// quarter of what it has lasted.
pub const SLOT_CHARGE: Duration = Duration::from_secs(1);
/// How long an attempt is expected to last while nothing is known of its like.
pub const FIRST_LENGTH: Duration = Duration::from_millis(100);
/// What a contender for slots owes at most, beside what its running tasks are charged; an attempt
/// is charged no more in advance.
pub const MAX_DEBT: Duration = Duration::from_secs(10);

/// When to try again over a limit that says nothing better.
pub const LIMIT_WAIT: Duration = Duration::from_secs(1);
/// How much of a submit rate may be saved up.
pub const RATE_BURST: Duration = Duration::from_secs(1);

/// Limits an operator can set.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open schedulers of one namespace.
    pub open_schedulers: usize,
    /// Unfinished tasks of one namespace.
    pub queued_tasks: i64,
    /// Bytes of bodies and parameters of the unfinished tasks of one namespace; a task counts in
    /// whole KiB.
    pub queued_bytes: i64,
    /// Tasks a second that one namespace may submit, a second's worth at once; a larger call waits
    /// until that is saved up, and those after it wait the longer. `None`: any number.
    pub submit_rate: Option<u32>,
    /// Open streams of one namespace.
    pub streams: u32,
    /// Resources and patterns of one namespace.
    pub resources: usize,
    /// Claims of one namespace that wait or hold.
    pub open_claims: usize,
    /// Bytes of what these claims say: names, reasons and labels.
    pub claim_bytes: usize,
    /// Ended claims in memory, so that their calls may be repeated.
    pub ended_claims: usize,
    /// Bytes of what these claims say.
    pub ended_claim_bytes: usize,
    /// Jobs of one namespace.
    pub jobs: usize,
    /// Runs of one job that wait.
    pub waiting_runs: usize,
    /// Jobs that follow one job: all of them have a row in the batch in which its run ends.
    pub followers: usize,
    /// How late a run may start although a later due time has passed: what was due before is
    /// missed.
    pub late_start: Duration,
    /// How late the run of the newest due time may start, unless it has a window.
    pub latest_start: Duration,
    /// How long a run without a window is offered to claimants where no later due time ends that.
    pub longest_offer: Duration,
    /// Due times without a run that have a row each; those before are one row.
    pub missed_rows: usize,
    /// Distinct unfinished orders of one scheduler.
    pub unfinished_orders: usize,
    /// Request ids remembered.
    pub requests: usize,
    /// Retries remembered; of earlier ones the journal knows.
    pub retries: usize,
    /// Schedulers in memory that are over; the journal answers for the others.
    pub ended_schedulers: usize,
    /// Failed tasks named in a halt.
    pub halt_failed: usize,
    /// Steps of one search for the newest tasks of a phase.
    pub listing_steps: usize,
    /// Records per batch that incremental effects yield.
    pub slice: u32,
    /// Pause between two slices while callers make calls: so long that hardly a task meets two.
    pub slice_pause: Duration,
    /// Timers that fire per batch, and delayed spans that they wake: the remaining ones are late,
    /// instead of every caller.
    pub timers_per_batch: usize,
    /// Finished tasks of one scheduler that recovery may have to read again before a checkpoint.
    pub checkpoint_tasks: u32,
    /// The same for all schedulers together.
    pub checkpoint_total: u64,
    /// Cost of reading one journal row, in tasks of a row.
    pub row_cost: u32,
    /// Finished tasks that a checkpoint must save per range of unfinished tasks that it writes.
    pub range_cost: u32,
    /// Finished tasks that a checkpoint must save at least.
    pub checkpoint_min: u32,
    /// Ranges per batch that unrequested checkpoints write, approximately.
    pub checkpoint_ranges: usize,
    /// A scheduler without unfinished tasks and calls for so long is quiesced: recovery reads its
    /// row alone.
    pub quiesce_after: Duration,
    /// Interval between checks for schedulers to quiesce.
    pub quiesce_interval: Duration,
    /// An attempt that outlives this gets a row of its own in the journal.
    pub long_attempt: Duration,
    /// While attempts last no longer than this, more of them are handed out than there are slots,
    /// and stand in line at their executor.
    pub short_attempt: Duration,
}

impl Limits {
    /// What is in force unless an operator or a test says otherwise.
    pub const DEFAULT: Limits = Limits {
        open_schedulers: 1_000_000,
        queued_tasks: 50_000_000,
        queued_bytes: 256 << 30,
        submit_rate: None,
        streams: 100_000,
        resources: 100_000,
        open_claims: 1_000_000,
        claim_bytes: 256 << 20,
        ended_claims: 100_000,
        ended_claim_bytes: 64 << 20,
        jobs: 100_000,
        waiting_runs: 1_000,
        followers: 1_000,
        late_start: Duration::from_secs(2),
        latest_start: Duration::from_secs(60),
        longest_offer: Duration::from_secs(7 * 86_400),
        missed_rows: 100,
        unfinished_orders: 1_000_000,
        requests: 1_000_000,
        retries: 100_000,
        ended_schedulers: 10_000,
        halt_failed: 100,
        listing_steps: 10_000,
        slice: 500,
        slice_pause: Duration::from_millis(6),
        timers_per_batch: 2_000,
        checkpoint_tasks: 10_000,
        checkpoint_total: 1_000_000,
        row_cost: 32,
        range_cost: 8,
        checkpoint_min: 256,
        checkpoint_ranges: 100_000,
        quiesce_after: Duration::from_secs(60),
        quiesce_interval: Duration::from_secs(10),
        long_attempt: Duration::from_millis(100),
        short_attempt: Duration::from_millis(5),
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::open_schedulers`]
    OpenSchedulers,
    /// [`Limits::queued_tasks`]
    QueuedTasks,
    /// [`Limits::queued_bytes`]
    QueuedBytes,
    /// [`Limits::submit_rate`]
    SubmitRate,
    /// [`Limits::streams`]
    Streams,
    /// [`Limits::resources`]
    Resources,
    /// [`Limits::open_claims`]
    OpenClaims,
    /// [`Limits::claim_bytes`]
    ClaimBytes,
    /// [`Limits::jobs`]
    Jobs,
    /// [`Limits::unfinished_orders`]
    UnfinishedOrders,
}

impl Limit {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Limit::OpenSchedulers => "open_schedulers",
            Limit::QueuedTasks => "queued_tasks",
            Limit::QueuedBytes => "queued_bytes",
            Limit::SubmitRate => "submit_rate",
            Limit::Streams => "streams",
            Limit::UnfinishedOrders => "unfinished_orders",
            Limit::Resources => "resources",
            Limit::OpenClaims => "open_claims",
            Limit::ClaimBytes => "claim_bytes",
            Limit::Jobs => "jobs",
        }
    }
}

/// A limit of a length of time in words, without rounding: `1ms`, `25h`, `30 days`.
pub fn length_text(limit: Duration) -> String {
    match limit.as_secs() / 86_400 {
        days if days == 0 || limit != Duration::from_secs(days * 86_400) => {
            let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
            format!("{limit:#}")
        }
        1 => "1 day".into(),
        days => format!("{days} days"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_not_rounded() {
        for (limit, shown) in [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(1), "1ms"),
            (Duration::from_secs(600), "10m"),
            (Duration::from_secs(3_600), "1h"),
            (Duration::from_secs(86_400), "1 day"),
            (Duration::from_secs(90_000), "25h"),
            (Duration::from_secs(31 * 86_400), "31 days"),
        ] {
            assert_eq!(length_text(limit), shown);
        }
    }
}
