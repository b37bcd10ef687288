//! The rules. Everything the loop releases is judged against what the model journal holds at that
//! moment: nothing may rest on what is not durable.

mod slots;

use crate::{
    callers::{Callers, Pending},
    executors::Executors,
    journal::Journal,
    oracle::ExecutorState,
    tables::Tables,
};
use rallypoint::{
    coordinator::machine::Release,
    core::{
        Assignment, AttemptEvent, Cancel, DoneNo, Handle, Outcome, Progress, Reject, Reply,
        Request, SchedulerState, Seq, Submit, Time, Until, Verb, Work,
    },
};

/// What a batch released rests on the batch.
pub(crate) fn released(journal: &Journal, release: &Release) {
    if let Some(batch) = &release.batch {
        assert!(
            journal.holds(batch),
            "batch {} is released before it is durable",
            batch.no.0
        );
    }
    for (handle, progress) in &release.progress {
        check_progress(journal, *handle, progress);
    }
}

fn check_progress(journal: &Journal, handle: Handle, progress: &Progress) {
    let tables = tables(journal, handle);
    let truth = (DoneNo(tables.done_no), tables.unfinished());
    let claimed = (progress.done_no, progress.pending);
    assert_eq!(claimed, truth, "a stream is told what is not durable");
    if let Some(oracle) = journal.judge() {
        oracle.progress(handle, progress);
    }
}

/// A task may start: slots, attempt, at most once. The oracle judges the rest. `early`: it does so
/// without waiting for a batch.
pub(crate) fn dispatched(
    journal: &mut Journal,
    executors: &Executors,
    state: &ExecutorState,
    early: bool,
    assignment: &Assignment,
) {
    let Assignment {
        handle,
        first,
        count,
        attempt,
        ..
    } = *assignment;
    let name = format_args!("{handle}/{}", first.0);
    let noop = assignment.spec.work == Work::Noop;
    assert!(
        !executors.runs(handle, first, count),
        "{name} starts while it runs"
    );
    slots::has_slot(journal, executors, state, early, assignment);
    let limit = journal.oracle.max_parallelism(handle);
    assert!(
        executors.tasks_of(handle) + i64::from(count) <= limit,
        "{name} exceeds max_parallelism"
    );
    let tables = journal
        .tables_mut(handle)
        .expect("a task of an unknown scheduler starts");
    for at in 0..count {
        let task = tables.task_mut(first.plus(at));
        let begun = task.begun > 0 && !task.never_began;
        let rises = attempt.0 > task.attempt || (attempt.0 == task.attempt && (!begun || noop));
        assert!(
            rises,
            "{name}: attempt {} follows attempt {}",
            attempt.0, task.attempt
        );
        task.attempt = attempt.0;
    }
}

/// A takeover in the next moment would know that it may run: its start is on record, or it is among
/// the first tasks that the next owner takes to be in doubt.
pub(crate) fn would_be_in_doubt(journal: &Journal, window: u32, assignment: &Assignment) {
    let (handle, first) = (assignment.handle, assignment.first);
    let attempts = &journal.tables(handle).expect("judged before").attempts;
    let recorded = attempts.iter().any(|record| {
        (record.seq, record.attempt) == (first, assignment.attempt)
            && record.what == AttemptEvent::Start
    });
    assert!(
        recorded || !assignment.is_numbered(),
        "{handle}/{} starts before its row is durable",
        first.0
    );
    let has_row = |seq: &Seq| attempts.iter().any(|record| record.seq == *seq);
    let before = journal.oracle.unfinished_before(assignment);
    let before = before.iter().filter(|seq| !has_row(seq)).count();
    assert!(
        recorded || before < window as usize,
        "{handle}/{} starts, and {before} tasks before it may run by the journal",
        first.0
    );
}

/// It begins, or never will.
pub(crate) fn begun(journal: &mut Journal, handle: Handle, first: Seq, count: u32, begins: bool) {
    let tables = journal.tables_mut(handle).expect("just dispatched");
    for at in 0..count {
        let task = tables.task_mut(first.plus(at));
        task.never_began = !begins;
        task.begun += u32::from(begins);
        assert!(
            task.begun <= 1 || !task.at_most_once,
            "{handle}/{} runs at most once, and began twice",
            first.0
        );
    }
}

/// An answer is true.
pub(crate) fn answered(journal: &Journal, callers: &mut Callers, pending: &Pending, reply: &Reply) {
    let handle = pending.handle;
    callers.answered(pending, reply);
    match (&pending.verb, reply) {
        (Verb::Open(open), reply) => opened(journal, callers, (open.request, pending.old), reply),
        (
            Verb::Submit(submit),
            Reply::Submitted {
                first_seq,
                count,
                done_no,
                ..
            },
        ) => {
            assert!(!pending.poisoned, "a poisoned call is accepted");
            submitted(
                tables(journal, handle),
                callers,
                (submit, pending.old),
                (*first_seq, *count, *done_no),
            );
        }
        (
            Verb::Watch { until, .. },
            Reply::Watching {
                last_seq,
                outstanding,
                done_no,
                ..
            },
        ) => {
            let counted = outstanding_after(tables(journal, handle), *until, *last_seq, *done_no);
            assert_eq!(*outstanding, counted, "a stream counts wrongly");
            callers.streams.push(handle);
        }
        (
            Verb::Release(_),
            Reply::Released {
                pending, done_no, ..
            },
        ) => released_scheduler(tables(journal, handle), *pending, *done_no),
        (Verb::Locate(places), Reply::Located(found)) => {
            let missing = places
                .iter()
                .zip(found)
                .filter(|(_, state)| state.is_none());
            missing.for_each(|(place, _)| has_ended(tables(journal, handle), place.seq));
        }
        (Verb::Explain(of), Reply::Explained(None)) => has_ended(tables(journal, handle), of.seq),
        (Verb::Cancel(cancel), Reply::Cancelled { waiting, running }) => {
            cancelled(tables(journal, handle), cancel, (*waiting, *running));
        }
        _ => {}
    }
}

fn opened(
    journal: &Journal,
    callers: &mut Callers,
    (request, old): (Option<Request>, bool),
    reply: &Reply,
) {
    let (Reply::Scheduler(view) | Reply::Found(view)) = reply else {
        return;
    };
    let handle = view.image.handle;
    tables(journal, handle);
    callers.knows(handle);
    if let Reply::Found(_) = reply {
        return;
    }
    let id = request.expect("callers name their calls").id;
    let first = *callers.opened.entry(id).or_insert(handle);
    assert!(
        old || first == handle,
        "a repeated call opened another scheduler"
    );
}

fn released_scheduler(tables: &Tables, pending: i64, done_no: DoneNo) {
    assert!(
        tables.image.state != SchedulerState::Open,
        "a release is acknowledged and not durable"
    );
    assert_eq!(
        pending + done_no.0,
        tables.highest(),
        "a release waits for the wrong event"
    );
}

/// As many tasks as the answer says have ended as cancelled, and what it does not count as stopped
/// has ended one way or another.
fn cancelled(tables: &Tables, cancel: &Cancel, (waiting, running): (u32, u32)) {
    let seqs = cancel.tasks.iter().flat_map(|of| of.first.0..=of.last.0);
    let ended: Vec<_> = seqs
        .map(|seq| tables.task(Seq(seq)).ended.map(|(outcome, _)| outcome))
        .collect();
    if cancel.dry_run {
        assert!((waiting + running) as usize <= ended.len());
        return;
    }
    let cancelled = ended.iter().filter(|one| **one == Some(Outcome::Cancelled));
    assert!(
        waiting as usize <= cancelled.count(),
        "cancelled, and it is not"
    );
    let left = ended.iter().filter(|one| one.is_none()).count();
    // Of many tasks those do not count that are being stopped already: the oracle knows them.
    let counts_all = cancel.waiting && cancel.running && cancel.filter.is_none();
    assert!(
        !counts_all || left <= running as usize,
        "tasks that are cancelled go on"
    );
}

fn has_ended(tables: &Tables, seq: Seq) {
    assert!(
        tables.task(seq).ended.is_some(),
        "{}/{} is nowhere",
        tables.handle(),
        seq.0
    );
}

fn submitted(
    tables: &Tables,
    callers: &mut Callers,
    (submit, old): (&Submit, bool),
    answer: (Seq, u32, DoneNo),
) {
    let call = tables
        .calls
        .iter()
        .find(|call| call.record.first_seq == answer.0);
    let call = call.unwrap_or_else(|| {
        panic!(
            "an acknowledged call is not in the journal: {}/{}",
            tables.handle(),
            answer.0.0
        )
    });
    assert_eq!(
        (call.count, call.record.done_no),
        (answer.1, answer.2),
        "the answer tells of another call"
    );
    let Some(request) = submit.request else {
        return;
    };
    assert_eq!(
        call.record.submit.request,
        Some(request),
        "the answer tells of another request"
    );
    let key = (tables.handle(), request);
    let first = *callers.accepted.entry(key).or_insert(answer);
    assert!(old || first == answer, "the same request id got other ids");
}

/// What is refused has no effect, now or later.
pub(crate) fn refused(
    now: Time,
    journal: &Journal,
    callers: &mut Callers,
    (pending, reject): (&Pending, &Reject),
) {
    assert!(
        *reject != Reject::JournalRejected || pending.poisoned,
        "a call without poison is refused as if it had some"
    );
    let Verb::Submit(submit) = &pending.verb else {
        return;
    };
    let Some(request) = submit.request else {
        return;
    };
    let tables = journal.tables(pending.handle);
    // It was accepted so long ago that it counts as another call by now.
    let forgotten = tables
        .and_then(|tables| tables.call_of(request))
        .is_some_and(|call| call.record.submitted_at < journal.oracle.requests_since(now));
    // Made twice, it may be accepted the second time.
    let is_again = |other: &Pending| {
        let again = matches!(&other.verb, Verb::Submit(other) if other.request == Some(request));
        again && other.handle == pending.handle
    };
    if pending.old || forgotten || callers.pending.values().any(is_again) {
        return;
    }
    callers.refused.push((pending.handle, request));
}

/// Tasks that count for a stream and end after `done_no`.
fn outstanding_after(tables: &Tables, until: Until, last_seq: Seq, done_no: DoneNo) -> i64 {
    assert!(
        done_no.0 <= tables.done_no,
        "a stream begins at an event that is not durable"
    );
    let counting = tables.tasks[..last_seq.0 as usize]
        .iter()
        .filter(|task| match until {
            Until::Order(limit) => task.order.is_some_and(|order| order <= limit.0),
            _ => true,
        });
    counting
        .filter(|task| task.ended.is_none_or(|(_, at)| at > done_no.0))
        .count() as i64
}

/// After the last fault and with every scheduler released: everything has ended, and no definite
/// refusal had an effect.
pub(crate) fn at_the_end(journal: &Journal, callers: &Callers) {
    for tables in &journal.schedulers {
        let known = callers.known.contains(&tables.handle());
        let unfinished = tables.tasks.iter().position(|task| task.ended.is_none());
        assert!(
            !known || unfinished.is_none(),
            "{}/{} never ends",
            tables.handle(),
            unfinished.unwrap_or(0) + 1
        );
        assert!(
            !known || tables.ended(),
            "released scheduler {} never ends",
            tables.handle()
        );
        let states = (
            tables.image.checkpoint.highest_seq.0,
            tables.image.checkpoint.done_no.0,
        );
        assert!(
            !known || states == (tables.highest(), tables.done_no),
            "an ended scheduler's last checkpoint is not its end"
        );
    }
    for (handle, request) in &callers.refused {
        let call = journal
            .tables(*handle)
            .and_then(|tables| tables.call_of(*request));
        assert!(
            call.is_none(),
            "a call that was definitely refused had an effect"
        );
    }
    assert!(
        callers.pending.is_empty(),
        "a caller waits for ever: {:?}",
        callers.pending.values().next().map(|p| &p.verb)
    );
}

fn tables(journal: &Journal, handle: Handle) -> &Tables {
    journal
        .tables(handle)
        .unwrap_or_else(|| panic!("scheduler {handle} is not in the journal"))
}
