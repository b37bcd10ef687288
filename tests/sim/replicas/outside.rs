//! What all processes of a scenario share: chance, time, the database, the targets, the network,
//! callers.

use super::{network::Network, targets::Targets};
use crate::{callers::Callers, fixtures::Fixtures, journal::Journal, rng::Rng, scenario::Scenario};
use rallypoint::{
    core::{Time, Work},
    hub::event::Moment,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use uuid::Uuid;

pub(crate) struct Outside<'a> {
    pub rng: Rng,
    pub begun: Time,
    pub now: Time,
    pub journal: Journal,
    pub targets: Targets,
    pub network: Network,
    pub callers: Callers,
    pub fixtures: &'a Fixtures,
    /// Slots of every executor.
    pub slots: BTreeMap<Work, u32>,
    /// Runs of processes that have not died.
    pub living: BTreeSet<Uuid>,
    /// The run that owns the shard by the journal.
    pub owner: Option<Uuid>,
    /// Things may go wrong.
    pub faults: bool,
    pub scenario: Scenario,
}

impl Outside<'_> {
    /// Whether something goes wrong.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.rng.percent(percent) && self.faults
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment {
            time: self.now,
            uptime: self.uptime(),
        }
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.now.since(self.begun)
    }
}
