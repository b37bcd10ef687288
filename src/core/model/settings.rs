//! What a caller sets on a scheduler, and what the service stores about it: the whole image of its
//! row in the journal.

use crate::core::{Day, DoneNo, Halt, Handle, Namespace, Order, Seq, TaskOptions, Time};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use uuid::Uuid;

/// What a caller sets on a scheduler (API: `SchedulerSettings`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Free text.
    pub display_name: String,
    /// Running tasks at any time; `None`: as many as there are slots.
    pub max_parallelism: Option<u32>,
    /// Fair share within the namespace.
    pub weight: f64,
    /// What a failure does to later orders.
    pub on_failure: OnFailure,
    /// What becomes of a late task.
    pub late_order: LateOrder,
    /// For tasks that bring none.
    pub default_options: TaskOptions,
    /// Released after so long without any activity.
    pub idle_timeout: Duration,
    /// How it is then released.
    pub on_abandon: ReleaseMode,
    /// After what the session of its tasks is cleaned.
    pub session_reset: SessionReset,
    /// Free labels.
    pub labels: BTreeMap<String, String>,
    /// What a newer version has set besides, as JSON; the journal keeps it.
    #[serde(skip)]
    pub unknown: Option<Arc<str>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            display_name: String::new(),
            max_parallelism: None,
            weight: 1.0,
            on_failure: OnFailure::default(),
            late_order: LateOrder::default(),
            default_options: TaskOptions::default(),
            idle_timeout: Duration::from_secs(24 * 3600),
            on_abandon: ReleaseMode::default(),
            session_reset: SessionReset::default(),
            labels: BTreeMap::new(),
            unknown: None,
        }
    }
}

/// What a failed task of an order does to the later orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// Nothing, as in the seed.
    #[default]
    Continue,
    /// They stay blocked.
    Halt,
    /// They are cancelled.
    CancelRest,
}

/// What becomes of a task below the current order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LateOrder {
    /// Its call is refused.
    #[default]
    Reject,
    /// It joins the current order.
    Join,
}

/// What a release does with unfinished tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseMode {
    /// They finish; what a halt blocks is cancelled.
    #[default]
    Finish,
    /// They are cancelled.
    Cancel,
}

/// Between which tasks the session they run on is cleaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionReset {
    /// Between any two.
    #[default]
    Task,
    /// Between those of different schedulers.
    Scheduler,
}

/// Where a scheduler is in its life. The numbers are those of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(i16)]
pub enum SchedulerState {
    /// Takes tasks.
    #[default]
    Open = 1,
    /// Released, tasks unfinished.
    Releasing = 2,
    /// Released, every task ended.
    Released = 3,
}

/// An incremental effect: one durable intention, carried out in slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRest {
    /// Only tasks of a higher order than this; `None`: all tasks.
    pub above: Option<Order>,
    /// Only tasks up to this one.
    pub up_to: Seq,
}

/// The caller's name for a call that may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the caller.
    pub id: Uuid,
    /// Of the payload: the same id with another payload is an error.
    pub hash: i64,
}

/// A scheduler's row in the journal: always the whole image.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerImage {
    /// What identifies it.
    pub handle: Handle,
    /// The name by which it is found while it is open.
    pub name: Option<Arc<str>>,
    /// Whose it is.
    pub namespace: Namespace,
    /// Who opened it.
    pub caller: Arc<str>,
    /// The call that opened it.
    pub request: Option<Request>,
    /// What the caller set.
    pub settings: Arc<Settings>,
    /// Where it is in its life.
    pub state: SchedulerState,
    /// How it was released.
    pub release_mode: Option<ReleaseMode>,
    /// Starts nothing.
    pub paused: bool,
    /// Why later orders are blocked.
    pub halt: Option<Halt>,
    /// Incremental cancellation under way.
    pub cancel_rest: Option<CancelRest>,
    /// When it was opened.
    pub opened_at: Time,
    /// When it was released.
    pub released_at: Option<Time>,
    /// What recovery starts from. In a record: [`Checkpoint::NONE`] leaves the last one in force.
    pub checkpoint: Checkpoint,
}

impl SchedulerImage {
    /// What the journal remembers when this image comes after `older`.
    pub fn after(&self, older: &SchedulerImage) -> SchedulerImage {
        let image = self.clone();
        if image.checkpoint.is_none() {
            SchedulerImage {
                checkpoint: older.checkpoint.clone(),
                ..image
            }
        } else {
            image
        }
    }
}

/// State of a scheduler as of some batch: recovery reads only what came later, and the submissions
/// of the unfinished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Highest task number given.
    pub highest_seq: Seq,
    /// Highest event number given.
    pub done_no: DoneNo,
    /// Unfinished tasks up to `highest_seq`, as inclusive ranges in ascending order.
    pub unfinished: Vec<(Seq, Seq)>,
    /// Recovery needs no row of an earlier day.
    pub first_day: Day,
    /// Nothing is unfinished, and no row came later: recovery need not look. A task that comes then
    /// brings a checkpoint.
    pub quiesced: bool,
}

impl Checkpoint {
    /// No checkpoint.
    pub const NONE: Checkpoint = Checkpoint {
        highest_seq: Seq(-1),
        done_no: DoneNo(0),
        unfinished: Vec::new(),
        first_day: Day(0),
        quiesced: false,
    };

    /// Whether it is [`Checkpoint::NONE`].
    pub fn is_none(&self) -> bool {
        self.highest_seq < Seq(0)
    }
}
