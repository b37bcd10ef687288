//! How a [`World`] loses its core, and what comes after: another process recovers from what is
//! remembered, or the core of this process is rebuilt.

use super::{
    World,
    tasks::{slots, sql},
};
use crate::core::{
    Assignment, Command, Epoch, InDoubtWindow, Output, Running, Shard, Unreported, Work,
};
use std::time::Duration;

impl World {
    /// The process dies with everything that runs in it; another one recovers from what is
    /// remembered.
    pub(crate) fn crash(&mut self) {
        self.running.clear();
        self.take_over();
        self.clear(Unreported::MayHaveBegun);
    }

    /// Like [`World::crash`], and the next process goes by a clock that was set back.
    pub(crate) fn crash_and_set_back(&mut self, by: Duration) {
        self.running.clear();
        self.now = self.now - by;
        self.recover(&InDoubtWindow::from([(sql(), self.slots)]));
        self.clear(Unreported::MayHaveBegun);
    }

    /// Another process recovers from what is remembered, and knows of nobody who runs anything.
    pub(crate) fn take_over(&mut self) {
        self.restore(&InDoubtWindow::from([(sql(), self.slots)]));
    }

    /// Like [`World::take_over`], and reads more or less than was known, or by other time zones.
    pub(crate) fn take_over_with_changes(&mut self) {
        self.recover(&InDoubtWindow::from([(sql(), self.slots)]));
    }

    /// An executor reports that it still runs these, which it was given by an earlier owner.
    pub(crate) fn reported(&mut self, survivors: &[Assignment]) {
        self.running.extend_from_slice(survivors);
        let running = survivors
            .iter()
            .map(|survivor| self.survives(survivor))
            .collect();
        self.command(Command::Reported(running));
    }

    /// Every executor has reported, or is fenced.
    pub(crate) fn clear(&mut self, unreported: Unreported) {
        self.command(Command::Cleared {
            work: Some(sql()),
            unreported,
            since: Epoch(0),
        });
    }

    /// The core is rebuilt; the executors of this process go on.
    pub(crate) fn rebuild(&mut self) {
        let running: Vec<Running> = self
            .running
            .iter()
            .map(|running| self.survives(running))
            .collect();
        self.restore(&InDoubtWindow::new());
        self.commands([
            Command::Reported(running),
            Command::Cleared {
                work: None,
                unreported: Unreported::NotBegun,
                since: Epoch(0),
            },
        ]);
    }

    fn survives(&self, assignment: &Assignment) -> Running {
        let Assignment {
            handle,
            first,
            count,
            attempt,
            ..
        } = *assignment;
        Running {
            handle,
            first,
            count,
            attempt,
            since: self.now,
        }
    }

    fn restore(&mut self, window: &InDoubtWindow) {
        let before = self.shard.digest(self.now);
        self.recover(window);
        assert_eq!(
            self.shard.digest(self.now),
            before,
            "a restored shard is the one that was lost"
        );
    }

    fn recover(&mut self, window: &InDoubtWindow) {
        let remembered = &mut self.remembered;
        remembered.jobs.owner.0 += 1;
        remembered.jobs.set_aside = remembered.unreadable.iter().copied().collect();
        self.shard = Shard::restore(
            self.limits,
            self.now,
            self.shard.memory,
            self.remembered.recovered(),
            self.remembered.pauses(),
            (
                self.remembered.resources.clone(),
                self.remembered.jobs.clone(),
            ),
            window,
        );
        let mut out = Output::default();
        for (work, total) in [(sql(), self.slots), (Work::Noop, 100)] {
            self.shard
                .apply(self.now, None, &slots(work, total), &mut out);
        }
    }
}
