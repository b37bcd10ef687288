//! Under which numbers the tasks of a run were submitted, when others submit to the same scheduler.

use rallypoint_client::api::ExecAsyncResponse;

/// The calls of a run, in order; each holds consecutive numbers.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct OwnTasks {
    calls: Vec<Call>,
    count: usize,
    /// Last event before the first call.
    after: i64,
}

#[derive(Clone, Debug)]
struct Call {
    first_seq: i64,
    count: i64,
    /// Tasks of the run before these.
    before: usize,
}

impl OwnTasks {
    pub(super) fn add(&mut self, submitted: &ExecAsyncResponse) {
        if self.calls.is_empty() {
            self.after = submitted.done_no;
        }
        self.calls.push(Call {
            first_seq: submitted.first_seq,
            count: submitted.count.into(),
            before: self.count,
        });
        self.count += usize::try_from(submitted.count).unwrap_or(0);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The last event before all of theirs.
    pub(super) fn after(&self) -> i64 {
        self.after
    }

    /// The place of a task in the run; `None`: it is another's.
    pub(super) fn place(&self, seq: i64) -> Option<usize> {
        let at = self.calls.partition_point(|call| call.first_seq <= seq);
        let call = &self.calls[at.checked_sub(1)?];
        let within = seq - call.first_seq;
        (within < call.count).then(|| call.before + within as usize)
    }

    /// All numbers, ascending.
    pub(super) fn numbers(&self) -> impl DoubleEndedIterator<Item = i64> {
        let of = |call: &Call| call.first_seq..call.first_seq + call.count;
        self.calls.iter().flat_map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_another_lies_between_those_of_a_run() {
        let mut own = OwnTasks::default();
        for (first_seq, count, done_no) in [(5, 2, 3), (8, 1, 4)] {
            own.add(&ExecAsyncResponse {
                first_seq,
                count,
                done_no,
            });
        }
        let places: Vec<_> = (4..=9).map(|seq| own.place(seq)).collect();
        assert_eq!(places, [None, Some(0), Some(1), None, Some(2), None]);
        assert_eq!(own.numbers().collect::<Vec<_>>(), [5, 6, 8]);
        assert_eq!((own.count(), own.after()), (3, 3));
    }
}
