//! The nouns of the rules: ids, times, tasks, settings, limits, completions, retries, jobs. Values
//! only.

pub(crate) mod completion;
pub mod diagnostics;
pub(crate) mod filter;
pub(crate) mod halt;
pub(crate) mod ids;
pub(crate) mod job;
pub(crate) mod job_run;
pub mod limits;
pub(crate) mod request_memory;
pub(crate) mod resource;
pub(crate) mod retry;
pub(crate) mod run_claim;
pub(crate) mod session_options;
pub(crate) mod settings;
pub(crate) mod steady;
pub(crate) mod target_pause;
pub(crate) mod task;
pub(crate) mod time;
pub(crate) mod trace;
pub(crate) mod want;
