//! Whoever keeps the ownership of a process: takes over step by step, begins again when the core is
//! of no more use, finds out that it is over.

use super::{
    super::{executor::Executor, outside::Outside},
    Keeper, Owner,
};
use rallypoint::{
    coordinator::machine::Event,
    core::{BatchNo, InDoubtWindow, Work},
    executor_protocol::BEGUN_PER_SLOT,
};

impl Owner {
    /// Keeps the ownership: takes over step by step, begins again when the core is of no more use,
    /// finds out that it is over.
    pub(crate) fn keep(&mut self, executor: &mut Executor, outside: &mut Outside<'_>) {
        let present = outside.journal.epoch;
        match self.keeper {
            Keeper::Standby => {}
            Keeper::Claimed { epoch, .. } | Keeper::Serving(epoch) if epoch != present => {
                if outside.rng.percent(50) {
                    self.depose();
                }
            }
            Keeper::Claimed { anew: true, .. } if !executor.begins_afresh(outside) => {}
            Keeper::Claimed {
                epoch,
                last_batch,
                anew,
            } => {
                let window = anew.then(|| window(outside));
                let memory = outside.journal.memory(outside.now);
                let since = memory.since(outside.now);
                self.arriving.push_back(Event::Recovered {
                    pauses: outside.journal.pauses_in_force(),
                    resources: outside.journal.resources.clone(),
                    jobs: outside.journal.jobs.clone().into(),
                    schedulers: crate::recover::recover(&outside.journal, since),
                    epoch,
                    last_batch: BatchNo(last_batch),
                    memory,
                    window,
                });
                self.keeper = Keeper::Serving(epoch);
            }
            Keeper::Serving(_) if self.rebuild => self.claim(false, outside),
            Keeper::Serving(_) => {}
        }
    }

    pub(crate) fn claim(&mut self, anew: bool, outside: &mut Outside<'_>) {
        self.rebuild = false;
        let epoch = outside.journal.take_over();
        outside.owner = Some(self.run);
        self.keeper = Keeper::Claimed {
            epoch,
            last_batch: outside.journal.last_batch(),
            anew,
        };
    }
}

/// How much earlier owners may have handed out.
fn window(outside: &Outside<'_>) -> InDoubtWindow {
    let hosts = outside.journal.register.executors() as u32;
    let total = |(work, total): (&Work, &u32)| (work.clone(), hosts * total * BEGUN_PER_SLOT);
    outside.slots.iter().map(total).collect()
}
