//! How many bytes a command holds while it waits, and a claim while it is kept, so that this is
//! bounded: whatever of it a caller can make large.

use super::{
    ClaimSpec, Command, Completion, JobVerb, ResourceVerb, Run, RunImage, Seq, Submit, TaskRange,
    TaskRef, Time, Verb, Want,
};
use std::{collections::BTreeMap, mem::size_of, sync::Arc};

impl Command {
    /// Approximately, and 0 for what is always small.
    pub fn bytes(&self) -> usize {
        match self {
            Command::Call { verb, .. } => verb.bytes(),
            Command::Resource { verb, .. } => verb.bytes(),
            Command::Job { verb, .. } => verb.bytes(),
            Command::Completed(completions) => completions.iter().map(Completion::bytes).sum(),
            _ => 0,
        }
    }
}

impl Submit {
    /// Its texts and parameters, its labels, and what is remembered of each task.
    pub fn bytes(&self) -> usize {
        let ends = self.bodies.ends.len() + self.params.ends.len();
        // Runs of tasks that say the same share it.
        let starts = |run: &&[Run]| !Arc::ptr_eq(&run[0].spec, &run[1].spec);
        let first = self.runs.first();
        let others = self.runs.windows(2).filter(starts).map(|pair| &pair[1]);
        let labels = |run: &Run| labels(&run.spec.options.labels);
        self.bodies.bytes.len()
            + self.params.bytes.len()
            + ends * size_of::<u32>()
            + self.runs.len() * size_of::<Run>()
            + first.into_iter().chain(others).map(labels).sum::<usize>()
    }
}

impl Verb {
    fn bytes(&self) -> usize {
        match self {
            Verb::Submit(submit) => submit.bytes(),
            Verb::Open(open) => labels(&open.settings.labels),
            Verb::Update(update) => labels(&update.settings.labels),
            Verb::Cancel(cancel) => cancel.tasks.len() * size_of::<TaskRange>(),
            Verb::Locate(tasks) => tasks.len() * size_of::<TaskRef>(),
            Verb::Snapshot(tasks) => tasks.len() * size_of::<Seq>(),
            _ => 0,
        }
    }
}

impl ResourceVerb {
    fn bytes(&self) -> usize {
        match self {
            ResourceVerb::Acquire { spec, .. } => spec.bytes(),
            _ => 0,
        }
    }
}

impl ClaimSpec {
    /// Its names, what it says why, and its labels.
    pub fn bytes(&self) -> usize {
        let want = |want: &Want| want.name.len() + size_of::<Want>();
        let names = self.wants.iter().map(want).sum::<usize>() + self.owner.len();
        names + self.reason.len() + labels(&self.labels)
    }
}

impl JobVerb {
    fn bytes(&self) -> usize {
        match self {
            JobVerb::Create { job, .. } | JobVerb::Update { job, .. } => {
                job.steps.bytes() + job.on_failure.bytes() + labels(&job.settings.scheduler.labels)
            }
            JobVerb::Backfill { asked, .. } => {
                asked.due.len() * size_of::<Time>() + asked.ranges.len() * size_of::<RunImage>()
            }
            _ => 0,
        }
    }
}

fn labels(labels: &BTreeMap<String, String>) -> usize {
    labels
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum()
}
