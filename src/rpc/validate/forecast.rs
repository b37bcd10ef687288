//! ForecastScheduler: which tasks, and which slots to assume.

use super::{Targets, scalar};
use crate::{
    core::{Handle, Seq, Work},
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api;
use std::{collections::BTreeMap, ops::RangeInclusive};

/// Tasks that one call may ask for.
const TASKS: usize = 100;
const SLOTS: RangeInclusive<i32> = 1..=100_000;

/// A validated ForecastSchedulerRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forecast {
    pub handle: Handle,
    pub tasks: Vec<Seq>,
    /// Of every kind.
    pub slots: Option<u32>,
    /// Of single kinds, which come first.
    pub slots_of: BTreeMap<Work, u32>,
}

impl Forecast {
    /// As it is, with no further question.
    pub(crate) fn of(handle: Handle) -> Self {
        Forecast {
            handle,
            tasks: Vec::new(),
            slots: None,
            slots_of: BTreeMap::new(),
        }
    }

    pub(crate) fn new(
        request: &api::ForecastSchedulerRequest,
        targets: &Targets,
    ) -> Result<Self, Violations> {
        let mut v = Violations::default();
        let handle = scalar::handle(&mut v, Path::Root.field("handle"), &request.handle);
        let path = Path::Root.field("seqs");
        if request.seqs.len() > TASKS {
            let message = format!("at most {TASKS} tasks in one call: ask again for the others");
            v.add(path, Reason::CountOutOfRange, message);
        }
        let mut tasks: Vec<Seq> = Vec::new();
        for (index, seq) in request.seqs.iter().take(TASKS).enumerate() {
            tasks.push(scalar::seq(&mut v, path.index(index), *seq));
        }
        let slots = request.slots;
        let slots = slots.map(|asked| count(&mut v, Path::Root.field("slots"), asked));
        let path = Path::Root.field("slots_of_targets");
        let mut slots_of = BTreeMap::new();
        for (name, asked) in &request.slots_of_targets {
            let path = path.key(name);
            let asked = count(&mut v, path, *asked);
            if !targets.has(name) {
                v.add_with(path, Reason::TargetUnknown, || targets.unknown(name));
            }
            let target = name.as_str().into();
            slots_of.insert(Work::Sql { target }, asked);
        }
        v.into_result(Forecast {
            handle,
            tasks,
            slots,
            slots_of,
        })
    }
}

fn count(v: &mut Violations, path: Path<'_>, asked: i32) -> u32 {
    if !SLOTS.contains(&asked) {
        let message = "must be 1 to 100000, or left out for the slots there are";
        v.add(path, Reason::CountOutOfRange, message);
    }
    asked.max(1) as u32
}
