//! The tasks of a job as JSON, beside their texts.

use crate::core::{Order, Packed, Run, Spec, Submit};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The tasks of a job without their texts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StepsText {
    runs: Vec<RunText>,
    /// Those that follow a failure; their texts are behind those of the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    on_failure: Vec<RunText>,
    /// Where each text ends.
    body_ends: Vec<u32>,
    /// Where the parameters of each one end; empty: none has any.
    param_ends: Vec<u32>,
    /// How many of these are of the tasks of a run.
    #[serde(default)]
    params_of_steps: u32,
}

/// Consecutive tasks that are alike.
#[derive(Debug, Serialize, Deserialize)]
struct RunText {
    count: u32,
    order: Option<Order>,
    spec: Arc<Spec>,
}

impl StepsText {
    pub(crate) fn of(steps: &Submit, on_failure: &Submit) -> Self {
        let run = |run: &Run| RunText {
            count: run.count,
            order: run.order,
            spec: run.spec.clone(),
        };
        let ends = |first: &Packed, then: &Packed| {
            let behind = first.bytes.len() as u32;
            let then = then.ends.iter().map(|end| end + behind);
            first.ends.iter().copied().chain(then).collect()
        };
        StepsText {
            runs: steps.runs.iter().map(run).collect(),
            on_failure: on_failure.runs.iter().map(run).collect(),
            body_ends: ends(&steps.bodies, &on_failure.bodies),
            param_ends: ends(&steps.params, &on_failure.params),
            params_of_steps: steps.params.len() as u32,
        }
    }

    /// The tasks of a run without their texts.
    pub(super) fn outline(self) -> Submit {
        Submit {
            runs: self.runs.into_iter().map(RunText::run).collect(),
            ..Submit::none()
        }
    }

    /// The tasks of a run, and those that follow a failure; or what is wrong with them.
    pub(super) fn tasks(self, bodies: Vec<u8>, params: Vec<u8>) -> Result<[Submit; 2], String> {
        let fits = |ends: &[u32], bytes: &[u8]| {
            ends.is_sorted() && ends.last().copied().unwrap_or(0) as usize == bytes.len()
        };
        let count = |runs: &[RunText]| runs.iter().map(|run| run.count as usize).sum::<usize>();
        let (steps, others) = (count(&self.runs), count(&self.on_failure));
        let params_of_steps = match (self.params_of_steps, others) {
            // Of a program that knew no others.
            (_, 0) => self.param_ends.len(),
            (known, _) => known as usize,
        };
        let is_whole = fits(&self.body_ends, &bodies)
            && fits(&self.param_ends, &params)
            && self.body_ends.len() == steps + others
            && params_of_steps <= self.param_ends.len();
        if !is_whole {
            return Err("the ends of its texts do not fit".to_owned());
        }
        let tasks = |runs: Vec<RunText>, bodies, params| Submit {
            request: None,
            runs: runs.into_iter().map(RunText::run).collect(),
            bodies,
            params,
            retries: None,
        };
        let (body, other_body) = parted(bodies, &self.body_ends, steps);
        let (param, other_param) = parted(params, &self.param_ends, params_of_steps);
        Ok([
            tasks(self.runs, body, param),
            tasks(self.on_failure, other_body, other_param),
        ])
    }
}

impl RunText {
    fn run(self) -> Run {
        Run {
            count: self.count,
            order: self.order,
            spec: self.spec,
        }
    }
}

/// The first so many texts, and the others.
fn parted(bytes: Vec<u8>, ends: &[u32], first: usize) -> (Packed, Packed) {
    let bytes = Bytes::from(bytes);
    let (ends, others) = ends.split_at(first);
    let behind = ends.last().copied().unwrap_or(0);
    let packed = |bytes, ends| Packed { bytes, ends };
    let others: Vec<u32> = others.iter().map(|end| end - behind).collect();
    (
        packed(bytes.slice(..behind as usize), ends.to_vec()),
        packed(bytes.slice(behind as usize..), others),
    )
}
