//! Retries of tasks that ended in vain. Who retries has searched the journal for earlier retries,
//! just now or some time ago, and says how far it reached then.

use super::{Callers, request};
use crate::{fixtures::Fixtures, rng::Rng, tables::Tables};
use rallypoint::core::{
    DoneNo, Handle, Order, Outcome, Packed, Retries, RetryOf, Run, Seq, Spec, Submit, Verb,
};
use std::sync::Arc;

/// Searches that are kept, to be used later.
const SEARCHES: usize = 4;

/// What a search of the journal has found.
#[derive(Clone)]
pub(super) struct Search {
    handle: Handle,
    searched: Seq,
    /// By number.
    tasks: Vec<(RetryOf, Option<Order>, Arc<Spec>)>,
}

impl Callers {
    /// A retry of a few tasks; `None`: there is nothing to retry.
    pub(super) fn retry(
        &mut self,
        handle: Handle,
        tables: Option<&Tables>,
        poisoned: bool,
        fixtures: &Fixtures,
        rng: &mut Rng,
    ) -> Option<Verb> {
        let kept = self.searches.iter().find(|search| search.handle == handle);
        let search = match kept {
            Some(search) if rng.percent(40) => search.clone(),
            _ => self.search(tables?),
        };
        let mut tasks = search.tasks;
        let wanted = 1 + rng.place(3);
        while tasks.len() > wanted {
            tasks.remove(rng.place(tasks.len()));
        }
        if tasks.is_empty() {
            return None;
        }
        let run = |(_, order, spec): &(RetryOf, Option<Order>, Arc<Spec>)| Run {
            count: 1,
            order: *order,
            spec: spec.clone(),
        };
        Some(Verb::Submit(Arc::new(Submit {
            request: rng.percent(80).then(|| request(rng)),
            runs: tasks.iter().map(run).collect(),
            bodies: fixtures.bodies(tasks.len(), poisoned, rng),
            params: Packed::default(),
            retries: Some(Retries {
                searched: search.searched,
                of: tasks.iter().map(|(of, ..)| *of).collect(),
            }),
        })))
    }

    fn search(&mut self, tables: &Tables) -> Search {
        let search = Search {
            handle: tables.handle(),
            searched: Seq(tables.highest()),
            tasks: tables.in_vain(),
        };
        self.searches.truncate(SEARCHES - 1);
        self.searches.insert(0, search.clone());
        search
    }
}

impl Tables {
    /// The tasks that ended other than succeeded and have no retry.
    fn in_vain(&self) -> Vec<(RetryOf, Option<Order>, Arc<Spec>)> {
        let mut found = Vec::new();
        for call in &self.calls {
            let mut seq = call.record.first_seq;
            for (run, (order, spec)) in call.record.submit.runs.iter().zip(&call.record.resolved) {
                for _ in 0..run.count {
                    let order = order.or(run.order);
                    found.extend(self.retriable(seq).map(|of| (of, order, spec.clone())));
                    seq = seq.plus(1);
                }
            }
        }
        found
    }

    fn retriable(&self, seq: Seq) -> Option<RetryOf> {
        let task = self.task(seq);
        let (outcome, event) = task.ended.filter(|_| !task.retried)?;
        let failure = match outcome {
            Outcome::Succeeded => return None,
            Outcome::Failed | Outcome::TimedOut | Outcome::Exhausted if task.order.is_some() => {
                Some(DoneNo(event))
            }
            _ => task.retry_of.and_then(|of| of.failure),
        };
        Some(RetryOf { seq, failure })
    }
}
