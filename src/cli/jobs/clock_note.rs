//! What changes of the clocks do to a due time, in words, and local times as people read them.

use crate::core::schedule::{DstEffect, DstFold, DueTime, Schedule};
use jiff::{Timestamp, civil::DateTime};

/// The name of an effect in JSON.
pub(super) fn name(effect: DstEffect) -> &'static str {
    match effect {
        DstEffect::Shifted(_) => "SHIFTED",
        DstEffect::Skipped(_) => "SKIPPED",
        DstEffect::FirstOfTwo => "FIRST_OF_TWO",
        DstEffect::SecondOfTwo => "SECOND_OF_TWO",
    }
}

/// What a change of the clocks does to a due time of a schedule; `None`: nothing.
pub(super) fn text(time: &DueTime, schedule: &Schedule) -> Option<String> {
    let local = time.local.strftime("%H:%M");
    let others = |count: u32| match count {
        1 => String::new(),
        count => format!(", like {} more", count - 1),
    };
    Some(match (time.dst?, schedule.dst_fold()) {
        (DstEffect::Shifted(count), _) => {
            format!("{local} does not exist{}: due after the gap", others(count))
        }
        (DstEffect::Skipped(count), _) => {
            format!("{local} does not exist{}: not due", others(count))
        }
        (DstEffect::FirstOfTwo, DstFold::Both) => {
            format!("{local} comes twice: due both times, this is the first")
        }
        (DstEffect::SecondOfTwo, DstFold::Both) => {
            format!("{local} comes twice: due both times, this is the second")
        }
        (DstEffect::FirstOfTwo, _) => format!("{local} comes twice: due the first time"),
        (DstEffect::SecondOfTwo, _) => format!("{local} comes twice: due the second time"),
    })
}

/// `Sun 2027-03-14 03:00:00 -04`.
pub(super) fn local(at: Timestamp, schedule: &Schedule) -> String {
    let zone = schedule.zone();
    let local: DateTime = zone.local(at);
    format!(
        "{} {}",
        local.strftime("%a %Y-%m-%d %H:%M:%S"),
        zone.offset(at)
    )
}
