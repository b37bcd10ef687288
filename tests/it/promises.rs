//! What `docs/promises.md` promises, one file for each subject.

mod attempts;
mod calls;
mod cancels;
mod clocks;
mod limits;
mod listing;
mod log;
mod memory;
mod names;
mod orders;
mod outage;
mod quotas;
mod refused;
mod release;
mod retention;
mod retries;
mod retry_as;
mod retry_pages;
mod scheduler_lists;
mod submitted;
mod turnaround;
mod who_and_what;
