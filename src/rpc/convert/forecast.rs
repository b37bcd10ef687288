//! A forecast in API form, with the sentences that say it.

mod sentences;

use super::{duration, slot_kind, timestamp};
use crate::{
    core::{Seq, Time},
    forecast::{Basis, Ending, Forecast, OrderForecast, Reason},
    rpc::validate,
};
use rallypoint_client::api::{self, ForecastUnknownReason as Unknown};
use std::time::Duration;

/// Orders of one answer.
const ORDERS: usize = 1_000;
/// Kinds of ended tasks of one answer.
const BASIS: usize = 100;

/// What the core was run forward to.
pub(crate) fn forecast(made: &Forecast, asked: &[Seq]) -> api::ForecastSchedulerResponse {
    let end = (made.unfinished > 0).then(|| end(&made.all));
    let orders = made.orders.iter().take(ORDERS);
    let basis = made.basis.iter().take(BASIS);
    api::ForecastSchedulerResponse {
        handle: made.handle.to_string(),
        as_of: Some(timestamp(made.at)),
        text: sentences::summary(made),
        unfinished: made.unfinished,
        end,
        orders: orders.map(order).collect(),
        tasks: asked.iter().map(|task| of_task(made, *task)).collect(),
        slots: made
            .slots
            .iter()
            .filter(|(work, _)| work.has_session())
            .map(|(work, slots)| api::ForecastSlots {
                kind: Some(slot_kind(work)),
                slots: i64::from(*slots),
            })
            .collect(),
        basis: basis.map(basis_of).collect(),
        omissions: made.omissions.iter().map(sentences::omission).collect(),
        runs: made.runs as i32,
    }
}

/// The answer when nothing is unfinished.
pub(crate) fn nothing(asked: &validate::Forecast, now: Time) -> api::ForecastSchedulerResponse {
    let ended = |seq: &Seq| api::TaskForecast {
        seq: seq.0,
        end: None,
    };
    api::ForecastSchedulerResponse {
        handle: asked.handle.to_string(),
        as_of: Some(timestamp(now)),
        text: sentences::NOTHING.into(),
        tasks: asked.tasks.iter().map(ended).collect(),
        ..Default::default()
    }
}

fn order(order: &OrderForecast) -> api::OrderForecast {
    api::OrderForecast {
        order: order.order.map(|order| order.0),
        unfinished: order.unfinished,
        end: Some(end(&order.end)),
    }
}

/// A task that is not among the unfinished ones has ended.
fn of_task(made: &Forecast, task: Seq) -> api::TaskForecast {
    let known = made.tasks.iter().find(|(seq, _)| *seq == task);
    api::TaskForecast {
        seq: task.0,
        end: known.map(|(_, ending)| end(ending)),
    }
}

fn end(ending: &Ending) -> api::ForecastEnd {
    let unknown = |reason: &Reason| api::ForecastUnknown {
        reason: kind(reason).into(),
        text: sentences::reason(reason),
    };
    api::ForecastEnd {
        p50: ending.p50.map(timestamp),
        p90: ending.p90.map(timestamp),
        unknown: ending.reasons.iter().map(unknown).collect(),
    }
}

fn kind(reason: &Reason) -> Unknown {
    match reason {
        Reason::Paused => Unknown::Paused,
        Reason::Halted => Unknown::Halted,
        Reason::MayHalt(_) => Unknown::MayHalt,
        Reason::TargetPaused(_) => Unknown::TargetPaused,
        Reason::NoSlots { .. } => Unknown::NoSlots,
        Reason::Claimed(_) => Unknown::ResourceHeld,
        Reason::TooFewSeen { .. } => Unknown::TooFewSeen,
        Reason::TooManyTasks => Unknown::TooManyTasks,
        Reason::TooManyOthers => Unknown::TooManyOthers,
        Reason::TooLong => Unknown::TooLong,
        Reason::Never => Unknown::Never,
    }
}

fn basis_of(basis: &Basis) -> api::ForecastBasis {
    let labels = basis.labels.as_ref().map(|_| "labels");
    let statement = basis.same_statement.then_some("statement");
    let alike_by = labels.into_iter().chain(statement);
    let labels = basis.labels.clone().unwrap_or_default();
    api::ForecastBasis {
        kind: Some(slot_kind(&basis.work)),
        alike_by: alike_by.map(str::to_owned).collect(),
        labels: labels.into_iter().collect(),
        seen: basis.seen as i64,
        mean: Some(duration(Duration::from_secs_f64(basis.mean))),
        failed: basis.failed_percent / 100.0,
    }
}
