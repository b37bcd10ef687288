//! Runs that wait for room among the tasks of their namespace begin soon after there is some.

use super::{effects::steps, *};
use rallypoint::core::{Namespace, SchedulerState};
use std::time::Duration;

/// They look for it once a second. Slices and journals take their time, too.
const SOON: Duration = Duration::from_secs(3);

impl Oracle {
    /// Nothing is under way.
    pub(crate) fn nothing_waits_beside_room(&mut self, now: Time) {
        let waiting: Vec<RunImage> = self.jobs.wait_for_room(now).cloned().collect();
        let mut since = std::mem::take(&mut self.jobs.room_since);
        since.retain(|no, _| waiting.iter().any(|run| run.key.job == *no));
        for run in waiting {
            let no = run.key.job;
            if !self.has_room(now, &run) {
                since.remove(&no);
                continue;
            }
            let since = *since.entry(no).or_insert(now);
            assert!(
                now <= since + SOON,
                "job {}: there is room since {since:?}, and {run:?} waits",
                no.0
            );
        }
        self.jobs.room_since = since;
    }

    /// By every limit. The rate may let it pass at once from now on.
    fn has_room(&self, now: Time, run: &RunImage) -> bool {
        let namespace = Namespace("jobs".into());
        let of = self
            .schedulers
            .iter()
            .filter(|one| one.namespace == namespace);
        let open = of.clone().filter(|one| one.state == SchedulerState::Open);
        let held: i64 = of.map(|one| one.unfinished().count() as i64).sum();
        let count = steps(&self.jobs.jobs[&run.key.job].steps, run.from_order);
        let count = count.bodies.len() as i64;
        let limits = &self.limits;
        let second = Duration::from_secs(1);
        let is_used = |rate: u32| {
            let share = Duration::from_micros(count as u64 * 1_000_000 / u64::from(rate));
            // Both count, one after the other. It is a second until that can be saved up.
            let passed = (self.jobs.passed_until + second).since(now);
            self.rate_from(&namespace, now) + passed + share.min(second) > now
        };
        open.count() < limits.open_schedulers
            && held + count <= limits.queued_tasks
            && (held + count) << 10 <= limits.queued_bytes
            && !limits.submit_rate.is_some_and(is_used)
    }
}

impl Jobs {
    /// The run of each job that is the next to begin, of those that say that they wait for room.
    fn wait_for_room(&self, now: Time) -> impl Iterator<Item = &RunImage> {
        let may_fire = |no: &&JobNo| {
            let is_paused = self.states[no].paused.is_some();
            !self.is_stopped && !is_paused && !self.jobs[no].deleted
        };
        let jobs = self.next.keys().filter(may_fire);
        let lines = jobs.filter(|no| !self.jobs[no].settings.claimed);
        let says_so = |run: &&RunImage| run.detail.starts_with("the limit");
        lines.filter_map(move |no| {
            let mut begun = self.open(*no).filter(|run| goes_on(run)).peekable();
            match begun.peek() {
                None => self.open(*no).find(says_so),
                Some(_) => begun.find(|run| {
                    let is_due = run.next_attempt_at.is_some_and(|at| at <= now);
                    run.state == RunState::Retrying && is_due && says_so(run)
                }),
            }
        })
    }
}
