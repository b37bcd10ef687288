//! What follows from an executor's report: the task ends, or another attempt follows after its
//! backoff.

use super::{Oracle, model::Task, rows::Rows};
use rallypoint::core::{
    AttemptEvent, AttemptRecord, Completion, Delivery, Done, Handle, Outcome, Report, RetryPolicy,
    Seq, TaskError, Time,
};
use std::time::Duration;

/// What must follow from a report of the attempt that runs.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The task ends so, with this error code.
    End(Outcome, Option<String>),
    /// Another attempt follows: after a failure, or after a loss.
    Retry { loss: bool },
    /// The attempt does not count.
    Again,
}

impl Oracle {
    /// A report of the running attempt has its effect; of any other one it has none.
    pub(super) fn completed(
        &mut self,
        (asked, decided): (Time, Time),
        completion: &Completion,
        rows: &mut Rows<'_>,
    ) {
        let (handle, first, attempt) = (completion.handle, completion.first, completion.attempt.0);
        let Some(at) = self.at(handle) else { return };
        let Some(task) = self.schedulers[at].task(first) else {
            return;
        };
        if task.ended.is_some() {
            return;
        }
        // Whoever reports it was given it before.
        let surely = task.was_given_by(self.core)
            && task
                .running
                .is_some_and(|running| running.attempt == attempt && running.first == first.0);
        let other = task.was_given_by(self.core)
            && task
                .running
                .is_some_and(|running| running.attempt != attempt);
        let verdict = judge(task, &completion.report);
        let late = (task.deadline() <= asked, task.deadline() <= decided);
        let name = format!("{handle}/{} attempt {attempt}", first.0);
        if !other && rows.ends(handle, first, attempt) {
            let done = loop {
                let done = rows.next_done(handle).expect("it is among them");
                if done.first == first && done.backend_pid != 0 {
                    break done;
                }
                self.uncaused_done(handle, done, decided);
            };
            check_end(&name, done, &verdict, late, attempt);
            return self.ended_alike(at, done, rows);
        }
        let row = rows.ended_attempt(handle, first, attempt);
        if let Some(row) = row {
            assert!(!other, "{name}: a stale report counts");
            check_row(&name, row, &verdict, late.0);
            self.not_the_last(handle, row);
        } else if surely {
            let nothing = verdict == Verdict::Again && completion.report == Report::NotStarted;
            assert!(
                nothing,
                "{name}: the report {:?} is lost",
                completion.report
            );
            assert!(
                !late.0,
                "{name} is handed out again though its deadline has passed"
            );
        }
        let scheduler = &mut self.schedulers[at];
        scheduler.used.0 = scheduler.used.0.max(if surely { asked } else { Time(0) });
        self.not_running(handle, first, attempt);
    }

    /// Tasks that ran as one and ended alike. The events of copies among them come one by one.
    fn ended_alike(&mut self, at: usize, first: &Done, rows: &mut Rows<'_>) {
        let running = |oracle: &Self, seq| oracle.schedulers[at].task(seq)?.running;
        let (handle, together) = (self.schedulers[at].handle, running(self, first.first));
        let (mut next, mut done) = (first.first, first);
        loop {
            assert_eq!(
                done.first, next,
                "{handle}: events of tasks that ran as one"
            );
            next = done.first.plus(done.count);
            self.schedulers[at].end(done);
            let runs_next = running(self, next);
            if self.reported.contains(&(handle, next)) {
                // It ran alike, by itself.
                return;
            }
            if together.is_none() || runs_next != together {
                // Copies that are not known to have run as one, and did.
                match rows.next_copy(handle, done) {
                    Some(other) => done = other,
                    None => return,
                }
                continue;
            }
            let Some(other) = rows.next_done(handle) else {
                panic!("{handle}/{}: its event is missing", next.0);
            };
            assert_eq!(other.outcome, done.outcome, "{handle}/{}", next.0);
            done = other;
        }
    }

    fn not_running(&mut self, handle: Handle, first: Seq, attempt: i32) {
        let Some(at) = self.at(handle) else { return };
        for task in &mut self.schedulers[at].tasks {
            let has_ended = |running: &mut super::model::Running| {
                running.first == first.0 && running.attempt == attempt
            };
            task.running.take_if(has_ended);
        }
    }

    /// Counts an attempt that failed, was lost or handed back, and checks its backoff.
    pub(super) fn not_the_last(&mut self, handle: Handle, row: &AttemptRecord) {
        let Some(at) = self.at(handle) else {
            panic!("an attempt of an unknown scheduler")
        };
        let name = format!("{handle}/{} attempt {}", row.seq.0, row.attempt.0);
        let task = self.schedulers[at].task_mut(row.seq);
        let task = task.unwrap_or_else(|| panic!("{name} is of no task"));
        let retry = task.spec.options.retry.clone();
        task.spent = task.spent.max(row.attempt.0);
        let next_at = match &row.what {
            AttemptEvent::Failed { next_at, .. } => {
                task.failures += 1;
                let most = retry.max_attempts.unwrap_or(1);
                assert!(
                    task.failures < most,
                    "{name} is followed by another one: max_attempts"
                );
                Some((*next_at, true))
            }
            AttemptEvent::Lost { next_at, error } => {
                task.losses += 1;
                let most = retry.max_losses.unwrap_or(3);
                assert!(
                    task.losses < most,
                    "{name} is followed by another one: max_losses"
                );
                Some((*next_at, error.is_some()))
            }
            _ => None,
        };
        if let Some((next_at, backs_off)) = next_at {
            let once = "an attempt of a task that runs at most once is followed by another one";
            assert!(!task.at_most_once(), "{name}: {once}");
            assert!(
                !task.stopping,
                "{name} is followed by another one though it was cancelled"
            );
            if backs_off {
                check_backoff(
                    &name,
                    &retry,
                    task.failures + task.losses,
                    next_at.since(row.at),
                );
            }
            task.next_at = next_at;
        }
        self.not_running(handle, row.seq, row.attempt.0);
    }
}

/// What is refused is a failure, unless it is known by its marker.
fn stored(task: &Task, report: &Report) -> Report {
    let exactly_once = task.spec.options.delivery() == Delivery::ExactlyOnce;
    let error = TaskError {
        code: "RESULT_UNSTORABLE".into(),
        message: String::new(),
    };
    match report {
        Report::Unstorable(Some(_)) if exactly_once => Report::Succeeded(None),
        Report::Unstorable(_) => Report::Failed {
            error: error.into(),
            transient: false,
        },
        report => report.clone(),
    }
}

fn judge(task: &Task, report: &Report) -> Verdict {
    let retry = &task.spec.options.retry;
    let forbidden = |error: &TaskError| retry.non_retryable.contains(&error.code);
    let end = |outcome, error: &TaskError| Verdict::End(outcome, Some(error.code.clone()));
    let cancelled = |code: &str| Verdict::End(Outcome::Cancelled, Some(code.into()));
    let again = |error: &TaskError| {
        let more = task.failures + 1 < retry.max_attempts.unwrap_or(1);
        more && !forbidden(error) && !task.at_most_once()
    };
    match &stored(task, report) {
        Report::Succeeded(_) => Verdict::End(Outcome::Succeeded, None),
        Report::Failed { error, .. } | Report::TimedOut(error) if task.stopping => {
            cancelled(&error.code)
        }
        Report::Stopped | Report::NotStarted if task.stopping => cancelled("CANCELLED"),
        Report::Failed {
            error,
            transient: true,
        } => {
            let more = task.losses + 1 < retry.max_losses.unwrap_or(3) && !task.at_most_once();
            match (forbidden(error), more) {
                (true, _) => end(Outcome::Failed, error),
                (false, true) => Verdict::Retry { loss: true },
                (false, false) => end(Outcome::Exhausted, error),
            }
        }
        Report::TimedOut(error) if error.code == "DEADLINE" => end(Outcome::TimedOut, error),
        Report::Failed { error, .. } | Report::TimedOut(error) if again(error) => {
            Verdict::Retry { loss: false }
        }
        Report::Failed { error, .. } => end(Outcome::Failed, error),
        Report::TimedOut(error) => end(Outcome::TimedOut, error),
        Report::Stopped if task.at_most_once() => {
            Verdict::End(Outcome::Exhausted, Some("LOST".into()))
        }
        Report::Stopped | Report::NotStarted => Verdict::Again,
        Report::Lost | Report::Unstorable(_) => unreachable!("no executor says so here"),
    }
}

/// The outcome is the one that follows from the report, or the deadline has passed before another
/// attempt.
fn check_end(name: &str, done: &Done, verdict: &Verdict, late: (bool, bool), attempt: i32) {
    let code = done.error.as_ref().map(|error| error.code.clone());
    let ended = Verdict::End(done.outcome, code);
    let overdue = Verdict::End(Outcome::TimedOut, Some("DEADLINE".into()));
    let too_late = late.1 && ended == overdue && !matches!(verdict, Verdict::End(..));
    assert!(
        ended == *verdict || too_late,
        "{name} ends as {ended:?}, and its report says {verdict:?}"
    );
    assert_eq!(done.attempt.0, attempt, "{name} ends as another attempt");
}

fn check_row(name: &str, row: &AttemptRecord, verdict: &Verdict, late: bool) {
    let written = match row.what {
        AttemptEvent::Failed { .. } => Verdict::Retry { loss: false },
        AttemptEvent::Lost { .. } => Verdict::Retry { loss: true },
        _ => Verdict::Again,
    };
    assert_eq!(written, *verdict, "{name}: what follows from its report");
    assert!(
        !late,
        "{name} is followed by another one though its deadline has passed"
    );
}

/// Initial · multiplier^(n − 1), at most the longest, give or take the jitter.
fn check_backoff(name: &str, retry: &RetryPolicy, ended: u32, wait: Duration) {
    let initial = retry
        .initial
        .unwrap_or(Duration::from_secs(1))
        .as_secs_f64();
    let longest = retry.max.unwrap_or(Duration::from_secs(300)).as_secs_f64();
    let mut plain = initial;
    for _ in 1..ended {
        plain = (plain * retry.multiplier.unwrap_or(2.0)).min(longest);
    }
    plain = plain.min(longest);
    let jitter = plain * retry.jitter.unwrap_or(0.2) + 0.000_001;
    let most = (plain + jitter).min(longest.max(initial) + 0.000_001);
    let wait = wait.as_secs_f64();
    assert!(
        (plain - jitter..=most).contains(&wait),
        "{name} is followed by another one after {wait} s instead of {plain} s"
    );
}
