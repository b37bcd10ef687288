//! Tasks, settings and errors as the tests write them down.

use crate::core::{
    Command, LateOrder, OnFailure, Order, Packed, Request, Run, Settings, SlotCounts, Spec, Submit,
    TaskError, TaskOptions, Work,
};
use std::sync::Arc;
use uuid::Uuid;

/// No tasks.
pub(crate) const NONE: [i64; 0] = [];

/// A task to submit.
#[derive(Clone)]
pub(crate) struct Task(Option<Order>, TaskOptions, Work);

/// Executors have so many slots, of which none starts a task early that another one has had.
pub(crate) fn slots(work: Work, total: u32) -> Command {
    Command::Slots {
        work,
        slots: SlotCounts::of(total),
    }
}

/// A task of this order.
pub(crate) fn order(order: i64) -> Task {
    Task(Some(Order(order)), TaskOptions::default(), sql())
}

/// A task outside all barriers.
pub(crate) fn free() -> Task {
    Task(None, TaskOptions::default(), sql())
}

impl Task {
    /// With options.
    pub(crate) fn with(mut self, set: impl FnOnce(&mut TaskOptions)) -> Self {
        set(&mut self.1);
        self
    }

    /// Work without a session.
    pub(crate) fn noop(self) -> Self {
        self.work(Work::Noop)
    }

    /// Work of another kind.
    pub(crate) fn work(mut self, work: Work) -> Self {
        self.2 = work;
        self
    }
}

/// The kind of work the tests use.
pub(crate) fn sql() -> Work {
    Work::Sql {
        target: "app".into(),
    }
}

/// A request with this payload hash.
pub(crate) fn request(id: u128, hash: i64) -> Option<Request> {
    Some(Request {
        id: Uuid::from_u128(id),
        hash,
    })
}

/// The whole of a call.
pub(crate) fn submission(
    request: Option<Request>,
    tasks: impl IntoIterator<Item = Task>,
) -> Submit {
    let mut runs: Vec<Run> = Vec::new();
    let mut count = 0;
    for Task(order, options, work) in tasks {
        count += 1;
        match runs.last_mut() {
            Some(last)
                if last.order == order
                    && last.spec.options == options
                    && last.spec.work == work =>
            {
                last.count += 1
            }
            _ => runs.push(Run {
                count: 1,
                order,
                spec: Arc::new(Spec {
                    work,
                    options,
                    trace: None,
                }),
            }),
        }
    }
    Submit {
        request,
        runs,
        bodies: Packed::new((0..count).map(|_| &b"select"[..])),
        params: Packed::default(),
        retries: None,
    }
}

pub(crate) fn error(code: &str) -> Arc<TaskError> {
    Arc::new(TaskError {
        code: code.into(),
        message: "as the test says".into(),
    })
}

pub(crate) fn on_failure(on_failure: OnFailure) -> impl FnOnce(&mut Settings) {
    move |settings| settings.on_failure = on_failure
}

pub(crate) fn join(settings: &mut Settings) {
    settings.late_order = LateOrder::Join;
}

pub(crate) fn plain(_: &mut Settings) {}
