//! Makes a shard of a copy, as an owner does that takes over: it is restored, and its executors
//! report what they run.

use super::units::{SchedulerUnits, UnitSpan, UnitState, Units};
use crate::core::{
    AttemptEvent, AttemptRecord, CancelRest, Checkpoint, ClaimSpec, Command, Day, DoneNo, Handle,
    InDoubtWindow, Output, Past, RecoveredClaim, RecoveredJobs, RecoveredResources, RecoveredRun,
    RecoveredScheduler, RequestMemory, Running, SchedulerImage, Seq, Settings, Shard, SlotCounts,
    Snapshot, TaskError, TaskId, Time, model::limits::Limits,
};
use std::{sync::Arc, time::Duration};

/// No scheduler of a forecast is idle for as long.
const FOR_EVER: Duration = Duration::from_secs(1_000 * 366 * 86_400);

/// The shard, with everything running that runs.
pub(super) fn restart(snapshot: &Snapshot, units: &Units) -> (Shard, Output) {
    let limits = Limits {
        checkpoint_tasks: u32::MAX,
        checkpoint_total: u64::MAX,
        quiesce_after: FOR_EVER,
        ..snapshot.limits
    };
    let recovered = units.schedulers.iter().map(recovered).collect();
    let resources = resources(snapshot, units);
    let mut shard = Shard::restore(
        limits,
        snapshot.at,
        RequestMemory::default(),
        recovered,
        snapshot.pauses.clone(),
        (resources, RecoveredJobs::default()),
        &InDoubtWindow::default(),
    );
    let mut out = Output::default();
    for (work, total) in &units.slots {
        let slots = Command::Slots {
            work: work.clone(),
            // What stands in line ends no later for it.
            slots: SlotCounts::of(*total),
        };
        shard.apply(snapshot.at, None, &slots, &mut out);
    }
    let running = units.schedulers.iter().flat_map(running).collect();
    shard.apply(snapshot.at, None, &Command::Reported(running), &mut out);
    (shard, out)
}

fn recovered(scheduler: &SchedulerUnits) -> RecoveredScheduler {
    let handle = scheduler.image.handle;
    RecoveredScheduler {
        image: image(scheduler),
        was_set_aside: false,
        runs: scheduler.spans.iter().map(run).collect(),
        outcomes: Vec::new(),
        copies: Vec::new(),
        attempts: scheduler
            .spans
            .iter()
            .flat_map(|span| attempts(handle, span))
            .collect(),
        requests: Vec::new(),
    }
}

/// Its row, as if it had been opened a moment ago, and nobody ever left it alone.
fn image(scheduler: &SchedulerUnits) -> SchedulerImage {
    let image = &scheduler.image;
    let up_to = |last: Seq| {
        let covered = scheduler.spans.iter().filter(|span| span.task <= last);
        covered.map(|span| span.first.plus(span.units).0 - 1).max()
    };
    SchedulerImage {
        name: None,
        request: None,
        settings: Arc::new(Settings {
            idle_timeout: FOR_EVER,
            ..(*image.settings).clone()
        }),
        cancel_rest: image.cancel_rest.map(|rest| CancelRest {
            up_to: Seq(up_to(rest.up_to).unwrap_or(0)),
            ..rest
        }),
        checkpoint: Checkpoint {
            highest_seq: Seq(0),
            done_no: DoneNo(0),
            unfinished: Vec::new(),
            first_day: Day(0),
            quiesced: false,
        },
        ..image.clone()
    }
}

fn run(span: &UnitSpan) -> RecoveredRun {
    RecoveredRun {
        first: span.first,
        count: span.units,
        order: span.order,
        spec: span.spec.clone(),
        submitted_at: span.submitted_at,
        blocks: 0,
    }
}

/// The attempts that make it stand where it stands.
fn attempts(handle: Handle, span: &UnitSpan) -> Vec<AttemptRecord> {
    let record = |attempt: u32, what| AttemptRecord {
        handle,
        seq: span.first,
        attempt: crate::core::Attempt(attempt as i32),
        what,
        at: span.submitted_at,
        ran: None,
    };
    let ended = |past: Past, next_at: Time| {
        let error = Arc::new(TaskError::new("FORECAST", "an attempt before the forecast"));
        (1..=past.failures + past.losses).map(move |attempt| {
            let what = match attempt <= past.failures {
                true => AttemptEvent::Failed {
                    next_at,
                    error: error.clone(),
                },
                false => AttemptEvent::Lost {
                    next_at,
                    error: None,
                },
            };
            record(attempt, what)
        })
    };
    match span.state {
        UnitState::Waiting => Vec::new(),
        UnitState::Again { at, past } => ended(past, at).collect(),
        UnitState::Running { attempt, past, .. } => {
            let start = record(attempt.0 as u32, AttemptEvent::Start);
            ended(past, span.submitted_at).chain([start]).collect()
        }
    }
}

fn running(scheduler: &SchedulerUnits) -> impl Iterator<Item = Running> {
    let handle = scheduler.image.handle;
    scheduler.spans.iter().filter_map(move |span| {
        let UnitState::Running { attempt, since, .. } = span.state else {
            return None;
        };
        Some(Running {
            handle,
            first: span.first,
            count: span.units,
            attempt,
            since,
        })
    })
}

/// What is held by what runs, under the new numbers, and what others have, who keep it.
fn resources(snapshot: &Snapshot, units: &Units) -> RecoveredResources {
    let unit = |task: TaskId| {
        let mut all = units.schedulers.iter();
        let of = all.find(|one| one.image.handle == task.handle)?;
        let (seq, _) = of.unit_of(task.seq)?;
        Some(TaskId { seq, ..task })
    };
    let of_tasks = snapshot.claims.iter().filter_map(|claim| {
        let spec = ClaimSpec {
            task: Some(unit(claim.spec.task?)?),
            ..(*claim.spec).clone()
        };
        let spec = Arc::new(spec);
        Some(RecoveredClaim {
            spec,
            ..claim.clone()
        })
    });
    let mut claims: Vec<RecoveredClaim> =
        of_tasks.chain(snapshot.kept.iter().map(for_ever)).collect();
    claims.sort_by_key(|claim| claim.no);
    let tokens = claims.iter().filter_map(|claim| claim.granted);
    RecoveredResources {
        definitions: snapshot.definitions.clone(),
        last: claims
            .iter()
            .map(|claim| claim.no)
            .max()
            .unwrap_or_default(),
        token: tokens.map(|(token, _)| token).max().unwrap_or_default(),
        claims,
    }
}

/// A claim that nobody gives back, whoever made it.
fn for_ever(claim: &RecoveredClaim) -> RecoveredClaim {
    let spec = ClaimSpec {
        task: None,
        request: None,
        lease: FOR_EVER,
        wait: None,
        ..(*claim.spec).clone()
    };
    RecoveredClaim {
        spec: Arc::new(spec),
        ..claim.clone()
    }
}
