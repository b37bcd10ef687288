//! What a call must be answered, as decided by the oracle in the sequence in which the machine
//! decided.

use rallypoint::core::{
    Blocker, DoneNo, Explanation, Handle, Phase, Reject, Reply, SchedulerImage, Seq, TaskState,
    model::limits::Limit,
};

/// Task numbers, each with the phases it may be in.
pub(super) type Phases = Vec<(Seq, Vec<Phase>)>;

pub(super) enum Expected {
    /// Nothing can be said for certain.
    Unjudged,
    Rejected(Reject),
    Limited(Limit),
    /// With whether the call is repeated.
    Submitted((Seq, u32, DoneNo), bool),
    NotSubmitted,
    /// Opened now or before under this handle.
    Opened(Handle),
    /// A scheduler as it stands.
    View(Box<View>),
    /// One that was found by its name, as it stands.
    Found(Box<View>),
    Released {
        already: bool,
        pending: i64,
        done_no: i64,
        /// So many events may have come before it besides.
        more: i64,
    },
    /// How many waited and how many ran.
    Cancelled(u32, u32),
    Located(Vec<Vec<Phase>>),
    /// A task that may be in these phases.
    Explained(Vec<Phase>),
    Selected {
        before: Seq,
        phases: Vec<Phase>,
        limit: usize,
        /// Newest first: those of the order that is asked for.
        tasks: Phases,
    },
    /// Ended schedulers may have left memory.
    OrForgotten(Box<Expected>),
}

/// What a view must say.
pub(super) struct View {
    pub image: SchedulerImage,
    pub unfinished: i64,
    /// So many of them may have ended before.
    pub more: i64,
    pub current_order: Option<i64>,
    /// Running tasks, when that is known.
    pub running: Option<i64>,
}

impl Expected {
    pub(crate) fn check(&self, reply: &Reply) {
        let agrees = match (self, reply) {
            (Expected::Unjudged, _) => true,
            (Expected::Rejected(wanted), Reply::Rejected(reject)) => wanted == reject,
            (Expected::Limited(wanted), Reply::Rejected(Reject::LimitReached { limit, .. })) => {
                wanted == limit
            }
            (
                Expected::Submitted(wanted, again),
                Reply::Submitted {
                    first_seq,
                    count,
                    done_no,
                    repeated,
                },
            ) => (wanted, again) == (&(*first_seq, *count, *done_no), repeated),
            (Expected::NotSubmitted, Reply::NotSubmitted { .. }) => true,
            (Expected::Opened(handle), Reply::Scheduler(view)) => view.image.handle == *handle,
            (Expected::View(wanted), Reply::Scheduler(view))
            | (Expected::Found(wanted), Reply::Found(view)) => {
                wanted.check(view);
                true
            }
            (
                Expected::Released {
                    already,
                    pending,
                    done_no,
                    more,
                },
                Reply::Released {
                    already: a,
                    pending: p,
                    done_no: d,
                },
            ) => {
                let sum = pending + done_no == p + d.0;
                already == a && sum && (*done_no..=done_no + more).contains(&d.0)
            }
            (Expected::Cancelled(w, r), Reply::Cancelled { waiting, running }) => {
                (w, r) == (waiting, running)
            }
            (Expected::Located(phases), Reply::Located(found)) => located(phases, found),
            (Expected::Explained(at), Reply::Explained(found)) => explained(at, found.as_deref()),
            (
                Expected::Selected {
                    before,
                    phases,
                    limit,
                    tasks,
                },
                Reply::Selected { seqs, next },
            ) => return selected(*before, (phases, *limit), tasks, seqs, *next),
            (Expected::OrForgotten(_), Reply::Rejected(Reject::UnknownHandle)) => true,
            (Expected::OrForgotten(wanted), reply) => return wanted.check(reply),
            _ => false,
        };
        assert!(agrees, "the answer should be {self}, and is {reply:?}");
    }
}

/// Its phase is one of these, and the reasons agree with it: what is queued is blocked by no order,
/// pause, halt or time.
fn explained(phases: &[Phase], found: Option<&Explanation>) -> bool {
    let Some(found) = found else {
        return phases.contains(&Phase::Done);
    };
    let phase = found.state.phase();
    let allows_queued = |blocker: &Blocker| {
        let allows = matches!(
            blocker,
            Blocker::Limit { .. }
                | Blocker::Overdue { .. }
                | Blocker::TargetPaused(_)
                | Blocker::Resources(_)
        );
        allows || blocker.is_about_slots()
    };
    let agrees = match phase {
        Phase::Queued => found.blockers.iter().all(allows_queued),
        Phase::Running => found
            .blockers
            .iter()
            .all(|one| matches!(one, Blocker::InDoubt | Blocker::Resolving)),
        _ => true,
    };
    agrees && phases.contains(&phase)
}

fn located<T>(phases: &[Vec<Phase>], found: &[Option<(TaskState, T)>]) -> bool {
    let phase_of = |state: &Option<(TaskState, T)>| {
        state
            .as_ref()
            .map_or(Phase::Done, |(state, _)| state.phase())
    };
    phases.len() == found.len()
        && phases
            .iter()
            .zip(found)
            .all(|(phases, state)| phases.contains(&phase_of(state)))
}

/// A list is newest first, holds nothing else than what was asked for, and leaves nothing out up to
/// where it looked.
fn selected(
    before: Seq,
    (wanted, limit): (&[Phase], usize),
    tasks: &Phases,
    seqs: &[Seq],
    next: Option<Seq>,
) {
    assert!(seqs.len() <= limit, "a list is longer than asked for");
    assert!(
        seqs.windows(2).all(|pair| pair[0] > pair[1]),
        "a list is not in order"
    );
    let looked_to = next.unwrap_or(Seq(1));
    for seq in seqs {
        assert!(*seq < before, "a list begins behind its start");
        let fits = |(of, phases): &(Seq, Vec<Phase>)| {
            of == seq && phases.iter().any(|phase| wanted.contains(phase))
        };
        assert!(
            tasks.iter().any(fits),
            "task {} is listed as {wanted:?} and is not: {tasks:?}",
            seq.0
        );
    }
    for (seq, phases) in tasks {
        let surely = phases.iter().all(|phase| wanted.contains(phase));
        let surely = surely && *seq < before && *seq >= looked_to;
        assert!(
            !surely || seqs.contains(seq),
            "task {} is {wanted:?} and is not listed",
            seq.0
        );
    }
}

impl View {
    fn check(&self, view: &rallypoint::core::SchedulerView) {
        let (wanted, shown) = (&self.image, &view.image);
        let handle = wanted.handle;
        same_image(wanted, shown);
        let current = view.current_order.map(|order| order.0);
        assert!(
            self.more > 0 || self.current_order == current,
            "{handle}: {current:?} instead of {:?} is its current order",
            self.current_order
        );
        let counts = view.counts;
        let sum = counts.blocked + counts.queued + counts.running + counts.retrying;
        assert!(
            (self.unfinished - self.more..=self.unfinished).contains(&sum),
            "{handle}: {sum} unfinished tasks instead of {}",
            self.unfinished
        );
        if let Some(running) = self.running {
            assert_eq!(running, counts.running, "{handle}: its running tasks");
            let limit = wanted.settings.max_parallelism.map_or(running, i64::from);
            assert_eq!(
                view.surplus,
                (running - limit).max(0),
                "{handle}: its surplus"
            );
        }
    }
}

/// What callers asked for is what is on record, apart from what only recovery needs.
pub(super) fn same_image(wanted: &SchedulerImage, image: &SchedulerImage) {
    let handle = wanted.handle;
    assert_eq!(wanted.settings, image.settings, "{handle}: its settings");
    assert_eq!(wanted.request, image.request, "{handle}: its request");
    assert_eq!(wanted.namespace, image.namespace, "{handle}: its namespace");
    assert_eq!(wanted.name, image.name, "{handle}: its name");
    let mut halt = image.halt.clone();
    // That a row says until when it counts is for the next owner.
    if let Some(failures) = halt.as_mut().and_then(|halt| halt.failures.as_mut()) {
        failures.until = DoneNo(0);
    }
    assert_eq!(wanted.halt, halt, "{handle}: its halt");
    let lifecycle = |image: &SchedulerImage| (image.state, image.release_mode, image.paused);
    assert_eq!(
        lifecycle(wanted),
        lifecycle(image),
        "{handle}: state, release, pause"
    );
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expected::Unjudged => write!(f, "anything"),
            Expected::Rejected(reject) => write!(f, "{reject:?}"),
            Expected::Limited(limit) => write!(f, "limited by {limit:?}"),
            Expected::Submitted((first, count, done_no), _) => {
                write!(f, "{count} tasks from {first:?} on after {done_no:?}")
            }
            Expected::NotSubmitted => write!(f, "not submitted"),
            Expected::Opened(handle) => write!(f, "scheduler {handle}"),
            Expected::View(view) => write!(f, "a view of {}", view.image.handle),
            Expected::Found(view) => write!(f, "{} by its name", view.image.handle),
            Expected::Released {
                already,
                pending,
                done_no,
                ..
            } => write!(f, "released ({already}), {pending} after {done_no}"),
            Expected::Cancelled(waiting, running) => {
                write!(f, "{waiting} tasks ended and {running} stopped")
            }
            Expected::Located(phases) => write!(f, "{phases:?}"),
            Expected::Explained(phases) => write!(f, "explained as one of {phases:?}"),
            Expected::Selected { phases, tasks, .. } => {
                write!(f, "the {phases:?} of {tasks:?}")
            }
            Expected::OrForgotten(wanted) => write!(f, "{wanted}, or forgotten"),
        }
    }
}
