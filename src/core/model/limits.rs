//! Every limit of the core, by name (design 5.8).

use std::time::Duration;

/// Tasks in one ExecAsync call.
pub const TASKS_PER_CALL: usize = 10_000;
/// Bytes of one task's body.
pub const BODY_BYTES: usize = 1 << 20;
/// Bytes of one ExecAsync call.
pub const CALL_BYTES: usize = 4 << 20;
/// Bytes of a result that are kept.
pub const RESULT_BYTES: usize = 1 << 20;
/// Bytes of an error's message that are kept.
pub const ERROR_BYTES: usize = 8 << 10;
/// Highest order: the largest integer every JSON reader keeps exactly.
pub const MAX_ORDER: i64 = (1 << 53) - 1;
/// How long a request id is remembered.
pub const REQUEST_MEMORY: Duration = Duration::from_secs(15 * 60);
/// Failed tasks named in a halt.
pub const HALT_FAILED: usize = 100;
/// Records that bulk effects yield per batch.
pub const SLICE: u32 = 500;
/// Between two slices while callers ask for other things: so long that hardly a task meets two of them.
pub const SLICE_PAUSE: Duration = Duration::from_millis(6);
/// Timers that go off per batch: the others are late, instead of everybody.
pub const TIMERS: usize = 5_000;
/// Finished tasks of a scheduler that recovery reads again, at most, before a checkpoint.
pub const CHECKPOINT: u32 = 10_000;
/// The same of all schedulers together.
pub const BEHIND: u64 = 1_000_000;
/// As many tasks in one row are read as fast as a row.
pub const ROW: u32 = 32;
/// A checkpoint saves the reading of so many tasks for each range of unfinished ones that it writes.
pub const RANGE: u32 = 8;
/// And of so many at least.
pub const WORTH: u32 = 8 * ROW;
/// A scheduler without unfinished tasks of which nobody has heard for so long comes to rest: recovery reads its row alone.
pub const REST: Duration = Duration::from_secs(60);
/// Who has come to rest is seen so often.
pub const REST_STEP: Duration = Duration::from_secs(10);
/// Ranges written by checkpoints that are not asked for, per batch, about.
pub const CATCH_UP: usize = 100_000;
/// An attempt that outlives this gets a row of its own in the journal.
pub const LONG_ATTEMPT: Duration = Duration::from_millis(100);
/// Executor time charged in advance.
pub const CHARGE: Duration = Duration::from_secs(1);

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
    /// Bytes of bodies and parameters of the unfinished tasks of one namespace; a task counts in whole KiB.
    pub queued_bytes: i64,
    /// Tasks a second that one namespace may submit, a second's worth at once; `None`: any number.
    pub submit_rate: Option<u32>,
    /// Open streams of one namespace.
    pub streams: u32,
    /// Distinct unfinished orders of one scheduler.
    pub unfinished_orders: usize,
    /// Request ids remembered.
    pub requests: usize,
    /// Schedulers in memory that are over; the journal answers for the others.
    pub ended_schedulers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            open_schedulers: 1_000_000,
            queued_tasks: 50_000_000,
            queued_bytes: 256 << 30,
            submit_rate: None,
            streams: 100_000,
            unfinished_orders: 1_000_000,
            requests: 1_000_000,
            ended_schedulers: 10_000,
        }
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
    /// [`Limits::unfinished_orders`]
    UnfinishedOrders,
}
