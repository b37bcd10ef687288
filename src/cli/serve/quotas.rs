//! Options of `serve` that limit each namespace.

use crate::cli::number::whole;
use crate::core::model::limits::Limits;
use clap::Args;

/// Options that limit each namespace.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Quotas of each namespace")]
pub(super) struct Quotas {
    /// Open schedulers
    #[arg(
        long,
        env = "RALLYPOINT_MAX_SCHEDULERS",
        hide_env_values = true,
        default_value_t = 1_000_000,
        value_parser = whole::<u32>(0..),
        value_name = "N"
    )]
    max_schedulers: u32,
    /// Unfinished tasks
    #[arg(
        long,
        env = "RALLYPOINT_MAX_QUEUED_TASKS",
        hide_env_values = true,
        default_value_t = 50_000_000,
        value_parser = whole::<u32>(0..),
        value_name = "N"
    )]
    max_queued_tasks: u32,
    /// MiB of statements, parameters and payloads of unfinished tasks; a task counts in whole KiB
    #[arg(
        long,
        env = "RALLYPOINT_MAX_QUEUED_MIB",
        hide_env_values = true,
        default_value_t = 262_144,
        value_parser = whole::<u32>(0..),
        value_name = "MIB"
    )]
    max_queued_mib: u32,
    /// Tasks submitted per second, with bursts of a second's worth; a larger call is taken whole
    /// once that is saved up, and those after it wait the longer [default: unlimited]
    #[arg(
        long,
        env = "RALLYPOINT_MAX_SUBMIT_RATE",
        hide_env_values = true,
        value_parser = whole::<u32>(1..),
        value_name = "N"
    )]
    max_submit_rate: Option<u32>,
    /// Open streams
    #[arg(
        long,
        env = "RALLYPOINT_MAX_STREAMS",
        hide_env_values = true,
        default_value_t = 100_000,
        value_parser = whole::<u32>(0..),
        value_name = "N"
    )]
    max_streams: u32,
}

impl Quotas {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            open_schedulers: self.max_schedulers as usize,
            queued_tasks: self.max_queued_tasks.into(),
            queued_bytes: i64::from(self.max_queued_mib) << 20,
            submit_rate: self.max_submit_rate,
            streams: self.max_streams,
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        quotas: Quotas,
    }

    #[test]
    fn without_options_the_limits_are_those_of_the_core() {
        let limits = Line::parse_from(["serve"]).quotas.limits();
        assert_eq!(format!("{limits:?}"), format!("{:?}", Limits::default()));
    }
}
