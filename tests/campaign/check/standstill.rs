//! How long nothing went on around a fault.

use super::facts::{AFTERMATH_US, Facts, Fault};

impl Facts {
    /// The longest time without any event, from the beginning of a fault to a moment after its end.
    pub(crate) fn silence(&self, fault: &Fault) -> i64 {
        self.longest_pause(&self.received, fault)
    }

    /// The same without any batch.
    pub(crate) fn standstill(&self, fault: &Fault) -> i64 {
        self.longest_pause(&self.progress, fault)
    }

    /// The longest pause that overlaps a fault, or a moment after it: between two times, or from
    /// the last of them to the last answer.
    fn longest_pause(&self, times: &[i64], fault: &Fault) -> i64 {
        let end = fault.ended + AFTERMATH_US;
        let begins = [&i64::MIN].into_iter().chain(times);
        let pauses = begins.zip(times.iter().chain([&self.last_answer]));
        let overlapping = pauses.filter(|(from, to)| **to > fault.begun && **from < end);
        let from_its_begin = overlapping.map(|(from, to)| to - from.max(&fault.begun));
        from_its_begin.max().unwrap_or(0)
    }
}
