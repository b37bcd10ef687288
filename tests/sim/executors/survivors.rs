//! What outlives an owner, and reports to the next one.

use super::Executors;
use rallypoint::core::{Completion, Handle, Report, Running, Seq, Work};

/// What a new owner will be told: what goes on, and whether a host was lost.
pub(crate) struct Survivors {
    pub running: Vec<Running>,
    pub lost: bool,
    /// All have reported, and that is perhaps not yet durable.
    pub reported: bool,
}

impl Executors {
    /// Another owner takes over; `dies` says which assignments ran in a process that is no more.
    pub(crate) fn change_owner(&mut self, lost: bool, mut dies: impl FnMut() -> bool) -> Survivors {
        self.awaiting.clear();
        self.old.clear();
        self.running
            .retain(|job| job.assignment.spec.work != Work::Noop);
        // What an earlier owner has asked for, the next one asks for again.
        (self.running.iter_mut()).for_each(|job| job.asked_to_stop = false);
        self.outbox.append(&mut self.unacknowledged);
        self.outbox.append(&mut self.silent);
        // What never began, a new owner is not told.
        self.outbox.retain(|completion| {
            !completion.is_sessionless() && completion.report != Report::NotStarted
        });
        let before = self.running.len() + self.outbox.len() + self.in_line().count();
        self.running.retain(|_| !dies());
        self.keep_in_line(|| !dies());
        self.outbox.retain(|_| !dies());
        let waiting = self.lines.values().flat_map(|line| line.iter());
        let waiting = waiting.map(|(since, assignment)| (*since, assignment));
        let running = self.running.iter().map(|job| (job.began, &job.assignment));
        let running = running.chain(waiting).map(|(since, assignment)| Running {
            handle: assignment.handle,
            first: assignment.first,
            count: assignment.count,
            attempt: assignment.attempt,
            since,
        });
        let done = self.outbox.iter().map(|c| {
            let Completion {
                handle,
                first,
                attempt,
                started,
                ..
            } = *c;
            Running {
                handle,
                first,
                count: 1,
                attempt,
                since: started,
            }
        });
        let survivors: Vec<Running> = running.chain(done).collect();
        self.silent = std::mem::take(&mut self.outbox);
        self.unreported = survivors.clone();
        Survivors {
            lost: lost || survivors.len() < before,
            running: survivors,
            reported: false,
        }
    }

    /// These are told to the new owner; what becomes of them follows.
    pub(crate) fn reported(&mut self, running: &[Running]) {
        self.unreported.retain(|one| !running.contains(one));
        let (silent, loud) = std::mem::take(&mut self.silent)
            .into_iter()
            .partition(|c| self.is_unreported((c.handle, c.first)));
        self.silent = silent;
        self.outbox.extend::<Vec<Completion>>(loud);
    }

    pub(super) fn is_unreported(&self, of: (Handle, Seq)) -> bool {
        self.unreported
            .iter()
            .any(|one| (one.handle, one.first) == of)
    }
}
