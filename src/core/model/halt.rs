//! Why later orders are blocked, and which failures keep them so.

use crate::core::{DoneNo, Order, Seq};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why later orders are blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// The order in which tasks failed; of several the lowest one.
    pub order: Order,
    /// The failed tasks, the first hundred.
    pub failed: Vec<Seq>,
    /// How many failures there are, none of which has a retry that succeeded. `None`: a failure was
    /// not counted, or those of more than a thousand orders were, so retries do not lift this halt.
    /// In the journal a column of its own, which an older version leaves alone.
    #[serde(skip)]
    pub failures: Option<Box<HaltFailures>>,
}

impl Halt {
    /// Orders whose failures are counted: the count is written anew with each failure.
    pub(crate) const ORDERS: usize = 1_000;
}

/// The failures that a halt waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaltFailures {
    /// The event of the first one: tasks that failed before it are none of them.
    pub since: DoneNo,
    /// How many there are of each order; never 0.
    pub by_order: BTreeMap<Order, i64>,
    /// In the journal: the last event before the row was written. A failure that came later, or a
    /// checkpoint, is that of an older version, which does not count. In memory 0.
    #[serde(default)]
    pub until: DoneNo,
}
