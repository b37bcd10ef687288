//! Settings of a scheduler as options, the same for the verb that opens one and the verb that
//! changes one.

use super::{enum_text::FailurePolicy, number, time_text};
use crate::core::model::limits::WEIGHT;
use clap::{Args, ValueEnum};
use rallypoint_client::api::{LateOrder, OnFailure, ReleaseMode, SchedulerSettings, SessionReset};
use std::{str::FromStr, time::Duration};

/// What is said of the scheduler; the rest is as the service has it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Scheduler")]
pub(super) struct Settings {
    /// What people call it
    #[arg(long, value_name = "TEXT")]
    pub(super) display_name: Option<String>,
    /// Most tasks running at a time; none: as many as there are slots
    #[arg(long, value_name = "N|none")]
    max_parallelism: Option<Parallelism>,
    /// Weight in the fair share among the schedulers of the namespace [default of exec: 1]
    #[arg(long, value_name = "NUMBER", value_parser = number::decimal(WEIGHT))]
    weight: Option<f64>,
    /// What a failed task does to the orders after it [default of exec: halt for a .sql file, else
    /// continue]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(super) on_failure: Option<FailurePolicy>,
    /// What becomes of a task below the current order [default of exec: reject]
    #[arg(long, value_enum, value_name = "WHAT")]
    late_order: Option<Late>,
    /// A label of the scheduler, by which it is found again (may be repeated)
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// After this time without a call or a running task it is released [default of exec: 24h]
    #[arg(long, value_name = "TIME", value_parser = time_text::parse)]
    idle_timeout: Option<Duration>,
    /// What becomes of unfinished tasks when it is released after --idle-timeout [default of exec:
    /// finish]
    #[arg(long, value_enum, value_name = "WHAT")]
    on_abandon: Option<Abandoned>,
    /// Between which tasks a session is cleaned [default of exec: task]
    #[arg(long, value_enum, value_name = "WHAT")]
    session_reset: Option<Reset>,
}

#[derive(Clone, Copy, Debug)]
struct Parallelism(Option<i32>);

impl FromStr for Parallelism {
    type Err = String;

    fn from_str(text: &str) -> Result<Parallelism, String> {
        match text {
            "none" => Ok(Parallelism(None)),
            text => {
                let number = text.parse::<i32>().ok().filter(|number| *number > 0);
                let wrong =
                    || "write a number from 1, or none; to start nothing, `pause`".to_owned();
                Ok(Parallelism(Some(number.ok_or_else(wrong)?)))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Late {
    /// The call that submits it is refused
    Reject,
    /// It runs as part of the current order
    Join,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Abandoned {
    /// They run to their end
    Finish,
    /// They are cancelled
    Cancel,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reset {
    /// Between any two
    Task,
    /// Between those of different schedulers
    Scheduler,
}

/// `KEY=VALUE`.
fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

impl Settings {
    /// The settings, and the names of those that the command line names.
    pub(super) fn into_api(self) -> (SchedulerSettings, Vec<&'static str>) {
        let named = [
            ("display_name", self.display_name.is_some()),
            ("max_parallelism", self.max_parallelism.is_some()),
            ("weight", self.weight.is_some()),
            ("on_failure", self.on_failure.is_some()),
            ("late_order", self.late_order.is_some()),
            ("labels", !self.labels.is_empty()),
            ("idle_timeout", self.idle_timeout.is_some()),
            ("on_abandon", self.on_abandon.is_some()),
            ("session_reset", self.session_reset.is_some()),
        ];
        let mask = named.into_iter().filter(|(_, is_named)| *is_named);
        let mask = mask.map(|(name, _)| name).collect();
        let settings = SchedulerSettings {
            display_name: self.display_name.unwrap_or_default(),
            max_parallelism: self.max_parallelism.and_then(|limit| limit.0),
            weight: self.weight,
            on_failure: self
                .on_failure
                .map_or(0, |policy| OnFailure::from(policy).into()),
            late_order: self.late_order.map_or(0, late_order),
            labels: self.labels.into_iter().collect(),
            idle_timeout: self.idle_timeout.and_then(|time| time.try_into().ok()),
            on_abandon: self.on_abandon.map_or(0, on_abandon),
            session_reset: self.session_reset.map_or(0, session_reset),
            ..SchedulerSettings::default()
        };
        (settings, mask)
    }

    /// The options that the command line names and that say otherwise than these settings of a
    /// scheduler.
    pub(super) fn unlike(self, present: &SchedulerSettings) -> Vec<String> {
        let (wanted, named) = self.into_api();
        let is_alike = |name: &&str| match *name {
            "display_name" => wanted.display_name == present.display_name,
            "max_parallelism" => wanted.max_parallelism == present.max_parallelism,
            "weight" => wanted.weight == present.weight,
            "on_failure" => wanted.on_failure == present.on_failure,
            "late_order" => wanted.late_order == present.late_order,
            "labels" => wanted.labels == present.labels,
            "idle_timeout" => wanted.idle_timeout == present.idle_timeout,
            "on_abandon" => wanted.on_abandon == present.on_abandon,
            "session_reset" => wanted.session_reset == present.session_reset,
            _ => false,
        };
        let unlike = named.into_iter().filter(|name| !is_alike(name));
        unlike.map(option).collect()
    }
}

/// The option that says a setting.
fn option(name: &str) -> String {
    match name {
        "labels" => "--label".to_owned(),
        name => format!("--{}", name.replace('_', "-")),
    }
}

fn late_order(late: Late) -> i32 {
    match late {
        Late::Reject => LateOrder::Reject.into(),
        Late::Join => LateOrder::Join.into(),
    }
}

fn on_abandon(abandoned: Abandoned) -> i32 {
    match abandoned {
        Abandoned::Finish => ReleaseMode::Finish.into(),
        Abandoned::Cancel => ReleaseMode::Cancel.into(),
    }
}

fn session_reset(reset: Reset) -> i32 {
    match reset {
        Reset::Task => SessionReset::Task.into(),
        Reset::Scheduler => SessionReset::Scheduler.into(),
    }
}
