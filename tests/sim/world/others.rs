//! What befalls the owner: it dies or is paused, others own the shard, and it wakes up as a zombie.

use super::World;
use crate::{recover::recover, scenario::Fault, zombie::Zombie};
use rallypoint::{
    coordinator::machine::Machine,
    core::{InDoubtWindow, RequestMemory, Shard, ShardId},
};

impl World<'_> {
    /// An earlier owner, or one from elsewhere.
    pub(super) fn others_act(&mut self) {
        match self.zombie.take() {
            Some(zombie) => self.zombie_acts(zombie),
            None => self.foreign_owner(),
        }
    }

    /// It acts once it was overtaken: before that it is the owner.
    fn zombie_acts(&mut self, mut zombie: Zombie) {
        let mut goes_on = true;
        for _ in 0..=self.rng.below(3) {
            if !goes_on || self.recovering || zombie.machine.epoch() == self.journal.epoch {
                break;
            }
            let tables = &self.journal.schedulers;
            let call =
                self.callers
                    .act(self.now, tables, self.fixtures, self.faults, &mut self.rng);
            goes_on = zombie.act(
                self.now,
                call,
                &mut self.journal,
                &mut self.callers,
                &mut self.rng,
            );
        }
        self.zombie = goes_on.then_some(zombie);
    }

    /// A core that has written everything it knows is the one that recovery builds.
    fn same_after_recovery(&self) {
        let Some(core) = self
            .machine
            .core()
            .filter(|_| !self.machine.waits_for_journal() && !self.machine.is_lingering())
        else {
            return;
        };
        let since = self.journal.oracle.requests_since(self.now);
        let memory = RequestMemory::inherited(self.now, since);
        let schedulers = recover(&self.journal, since);
        let nobody = InDoubtWindow::default();
        let restored = Shard::restore(
            self.limits,
            self.now,
            memory,
            schedulers,
            self.journal.pauses_in_force(),
            (self.journal.resources.clone(), self.journal.jobs.clone()),
            &nobody,
        );
        let (before, after) = (core.digest(self.now), restored.digest(self.now));
        for (handle, scheduler) in &before.schedulers {
            let recovered = after.schedulers.get(handle);
            assert_eq!(Some(scheduler), recovered, "a crash changes {handle}");
        }
        assert_eq!(before, after, "a crash changes what the core knows");
    }

    fn foreign_owner(&mut self) {
        if !self.may(Fault::Owners) || self.rng.percent(50) {
            return;
        }
        match self.rng.percent(50) {
            true => self.journal.foreign_batch(),
            false => drop(self.journal.take_over()),
        }
    }

    /// The process dies: its memory, its executors, the answers it owed. What it had sent may still
    /// arrive.
    pub(super) fn crash(&mut self) {
        self.same_after_recovery();
        let sent = self.sent.clone();
        if let Some(batch) = self.sent.take()
            && self.rng.percent(50)
        {
            self.journal.append(&batch);
        }
        let old = std::mem::replace(&mut self.machine, Machine::new(ShardId(0), self.limits).0);
        // Dead, or only paused.
        self.zombie = (self.may(Fault::Zombies) && self.rng.percent(50))
            .then(|| Zombie::new(old, sent, &mut self.rng));
        let share = *self.rng.one_of(&[0, 50, 100]);
        let (lost, rng) = (share > 0 || self.is_lost(), &mut self.rng);
        self.survivors = Some(self.executors.change_owner(lost, || rng.percent(share)));
        self.prefetch = self.prefetch.fresh();
        self.callers.answers_lost(&Default::default());
        self.claimants.answers_lost(&Default::default());
        self.job_keepers.answers_lost(&Default::default());
        self.callers.streams.clear();
        self.recovering = true;
    }
}
