//! The tasks of a run: the steps of its job, or the question whether they are done.

use super::Jobs;
use crate::core::{JobImage, JobReject, Order, Packed, Run, RunImage, RunKey, Spec, Submit, Time};
use std::sync::Arc;

impl Jobs {
    /// The tasks of a run, which do not know its due time yet.
    pub(crate) fn tasks_of(&self, key: RunKey) -> Option<Arc<Submit>> {
        let image = self.definition(key.job)?;
        Some(match image.settings.claimed {
            true => self.question(key, image),
            false => steps_of(self.run(key)?, &image.steps),
        })
    }

    /// What asks a target whether the work of a claimed run is done there: no claim so far may say
    /// so from now on, and then either one has, or the last step fails.
    fn question(&self, key: RunKey, image: &JobImage) -> Arc<Submit> {
        let token = self.last_token(key.job).0.to_string();
        let (name, due) = (image.key.name.to_string(), key.due.to_string());
        let namespace = image.key.namespace.0.to_string();
        let close = json(&[&name, &due, &token, &namespace]);
        let require = json(&[&name, &due, &namespace]);
        Arc::new(Submit {
            params: Packed::new([close.as_bytes(), require.as_bytes()]),
            ..(*image.steps).clone()
        })
    }
}

/// Whether a run from this order on has something to do.
pub(super) fn check_from(image: &JobImage, from: Option<Order>) -> Result<(), JobReject> {
    let mut runs = image.steps.runs.iter();
    match (image.settings.claimed, from) {
        (true, None) => Ok(()),
        (true, Some(_)) => Err(JobReject::OnlyForClaims),
        (false, _) if runs.any(|run| run.order.is_none() || run.order >= from) => Ok(()),
        (false, _) => Err(JobReject::NoSteps),
    }
}

/// The steps that a run has.
fn steps_of(run: &RunImage, all: &Arc<Submit>) -> Arc<Submit> {
    let Some(from) = run.from_order.map(Order) else {
        return all.clone();
    };
    let is_left = |run: &Run| run.order.is_none_or(|order| order >= from);
    let (mut runs, mut kept, mut at) = (Vec::new(), Vec::new(), 0);
    for run in &all.runs {
        if is_left(run) {
            runs.push(run.clone());
            kept.extend(at..at + run.count as usize);
        }
        at += run.count as usize;
    }
    let pick = |packed: &Packed| match packed.is_empty() {
        true => Packed::default(),
        false => Packed::new(kept.iter().map(|at| packed.slice(*at))),
    };
    Arc::new(Submit {
        request: None,
        runs,
        bodies: pick(&all.bodies),
        params: pick(&all.params),
        retries: None,
    })
}

/// Tasks that know the due time of their run.
pub(crate) fn at_due_time(tasks: &Submit, due: Time) -> Arc<Submit> {
    let mut tasks = tasks.clone();
    // Runs that share what they say go on sharing it.
    let mut last: Option<(Arc<Spec>, Arc<Spec>)> = None;
    for run in &mut tasks.runs {
        let known = last.take().filter(|(of, _)| Arc::ptr_eq(of, &run.spec));
        let (of, with_due) = known.unwrap_or_else(|| {
            let mut spec = (*run.spec).clone();
            spec.options.session.due = Some(due);
            (run.spec.clone(), Arc::new(spec))
        });
        run.spec = with_due.clone();
        last = Some((of, with_due));
    }
    Arc::new(tasks)
}

/// Parameters of a task.
fn json(values: &[&String]) -> String {
    serde_json::to_string(values).expect("texts are JSON")
}
