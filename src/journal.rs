//! The journal: the append-only record in Postgres from which a coordinator recovers.
//!
//! It owns the coordination database: no other module has SQL for it. Each duty has its own
//! connections: the [`Writer`] appends batches, the [`Heartbeat`] renews the lease, [`Maintenance`]
//! makes new days and drops old ones, and the [`Reader`]'s small pool serves the handlers of RPCs.
//! None of them waits for an answer without a limit (`connection_limits.rs`,
//! `bounded_connection.rs`). Handlers may be dropped at any point, so reads are single autocommit
//! statements, and handlers never touch the writer.

mod append;
mod audit;
mod bounded_connection;
mod connect;
mod connection_limits;
mod day_partitions;
mod encoding;
mod error;
mod examination;
mod login_remedy;
mod maintenance;
mod migrations;
pub(crate) mod ownership;
pub(crate) mod pool;
mod preflight;
pub(crate) mod read;
pub(crate) mod rows;

pub use append::{Batch, Commit, Writer, statements};
pub use audit::AuditEntry;
pub use connect::{Journal, JournalConfig};
pub use error::JournalError;
pub(crate) use error::without_line;
pub use examination::{Finding, Verdict, examine};
pub(crate) use login_remedy::{login_remedy, refusal_remedy};
pub use maintenance::{Maintenance, calendar::Calendar};
pub use ownership::executors::ExecutorRow;
pub use ownership::heartbeat::{Heartbeat, HeartbeatReading, Member, Membership, SeenRun};
pub use ownership::lease::{Claim, Ownership, TakeOver};
pub use ownership::pending_fences::PendingFence;
pub use ownership::replica::Replica;
pub use ownership::target_sessions::{Session, Sessions};
pub use preflight::Preflight;
pub use read::bodies::Body;
pub use read::body_chunks::BodyChunk;
pub use read::ended_attempts::EndedAttempt;
pub use read::ended_tasks::EndedPage;
pub use read::ends::EndedTask;
pub use read::events::Events;
pub use read::indexed_statements;
pub use read::recovered::{Recovered, Unreadable};
pub use read::recovery::recover;
pub use read::retention_pin::RetentionPin;
pub use read::scheduler_pages::SchedulerPage;
pub use read::schedulers::Reader;
pub use read::status::{JournalStatus, ReplicaRow};
pub use read::task_pages::TaskPage;
pub use read::task_ranges::RangePage;
pub use read::task_search::TaskSearch;
pub use read::task_summaries::TaskSummary;
pub use read::tasks::StoredTask;
