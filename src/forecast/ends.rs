//! When something will have ended, or why nobody knows.

use crate::core::{Time, Work};
use std::{collections::BTreeMap, sync::Arc};

/// When something will have ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// In half of the runs it had by then.
    pub p50: Option<Time>,
    /// In nine of ten.
    pub p90: Option<Time>,
    /// Why one of them is not known.
    pub reasons: Vec<Reason>,
}

/// Why nobody knows when something ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The scheduler is paused.
    Paused,
    /// A failure has halted it.
    Halted,
    /// In so many of a hundred runs a failure halts it.
    MayHalt(u32),
    /// Work of this kind is paused.
    TargetPaused(Work),
    /// There is no slot of this kind. `away`: there were some, but the target is away.
    NoSlots {
        /// Of which kind.
        work: Work,
        /// There were some.
        away: bool,
    },
    /// A claim has this resource, or waits for it, and may keep it for any time.
    Claimed(Arc<str>),
    /// Too few tasks like some of its tasks have ended.
    TooFewSeen {
        /// Where they run.
        work: Work,
        /// Their labels.
        labels: BTreeMap<String, String>,
        /// Ended tasks on that target.
        seen: usize,
    },
    /// There are more unfinished tasks than can be looked at.
    TooManyTasks,
    /// There are more schedulers in the same slots than can be looked at.
    TooManyOthers,
    /// In the time for an answer it could not be run often enough.
    TooLong,
    /// As it is now, it goes on for more than a year, or stays where it is.
    Never,
}

impl Ending {
    /// From the ends of all runs.
    pub(super) fn of(mut times: Vec<Time>, reasons: &[Reason]) -> Self {
        times.sort_unstable();
        let at = |share: f64| {
            let index = (times.len() as f64 * share).ceil() as usize;
            let time = times.get(index.max(1) - 1).copied();
            time.filter(|time| *time != Time::NEVER)
        };
        let (p50, p90) = (at(0.5), at(0.9));
        Ending {
            p50,
            p90,
            reasons: match (p90, reasons.is_empty()) {
                (Some(_), _) => Vec::new(),
                (None, true) => vec![Reason::Never],
                (None, false) => reasons.to_vec(),
            },
        }
    }

    /// Nothing is known.
    pub(super) fn unknown(reason: Reason) -> Self {
        Ending {
            reasons: vec![reason],
            ..Ending::default()
        }
    }
}
