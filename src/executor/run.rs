//! Runs assignments: on a free slot, or as soon as it is their turn in the line for one.

use super::{
    Executor, completion_builder,
    sql::{
        self,
        attempt::Attempted,
        target::Target,
        target_slots::{Given, Slot},
    },
};
use crate::core::{Assignment, Completion, Report, Work};
use futures_util::FutureExt;
use std::{
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, atomic::Ordering},
};

/// What an attempt may take: each is moved a few times, with the room for what it rarely does
/// (decision 0229).
const MOST_BYTES: usize = 6 << 10;

impl Executor {
    /// Runs it on a free slot, or has it stand in line for one.
    pub(super) fn place(&self, given: Given, leaves_free: Option<u32>) -> Result<(), Box<Given>> {
        let target = match &given.assignment.spec.work {
            Work::Sql { target } if !self.0.closing.load(Ordering::Acquire) => {
                self.0.targets.get(target)
            }
            _ => None,
        };
        let Some(target) = target else {
            return Err(Box::new(given));
        };
        let begins = target.line_up(given, leaves_free)?;
        self.begin(target, begins);
        Ok(())
    }

    /// It has not begun, and will not.
    pub(super) fn give_back(&self, given: Given) {
        let attempted = Attempted::without_session(Report::NotStarted);
        let (completions, now) = (&self.0.completions, self.0.clock.now());
        let completion = completions.of(&given.assignment, now, 0, attempted);
        self.running().remove(&given.token);
        self.0.outbox.complete(given.token, completion);
    }

    fn begin(&self, target: &Arc<Target>, begins: impl IntoIterator<Item = (Slot, Given)>) {
        for (slot, given) in begins {
            self.run(Arc::clone(target), slot, given);
        }
    }

    /// Runs an assignment, and on its slot what stands in line then.
    fn run(&self, target: Arc<Target>, slot: Slot, given: Given) {
        let this = self.clone();
        let running = async move {
            let mut next = Some((slot, given));
            while let Some((slot, given)) = next {
                let token = given.token;
                let (mut slot, completion) = this.run_one(&target, slot, given).await;
                target.make_place(&mut slot);
                let mut begins = target.put_slot(slot).into_iter();
                next = begins.next();
                this.begin(&target, begins);
                this.running().remove(&token);
                this.0.outbox.complete(token, completion);
            }
        };
        debug_assert!(
            size_of_val(&running) <= MOST_BYTES,
            "box what is rare in an attempt: {} bytes",
            size_of_val(&running)
        );
        // Not on the thread of the caller, which has better things to do.
        let running = self.0.unsent.until_polled(running);
        self.0.attempts.spawn_on(running, &self.0.runtime);
    }

    /// A panic must not swallow the completion.
    async fn run_one(&self, target: &Arc<Target>, slot: Slot, given: Given) -> (Slot, Completion) {
        let Given {
            assignment,
            body,
            stop,
            ..
        } = given;
        let (number, started) = (slot.number, self.0.clock.now());
        let mut abandoned = self.0.abandoned.subscribe();
        target.begin(number, &assignment, started);
        let attempt = pin!(sql::attempt::run(
            target,
            slot,
            &assignment,
            body,
            stop,
            self.0.completions.replica(),
        ));
        let ended = async {
            match AssertUnwindSafe(attempt).catch_unwind().await {
                Ok(ended) => ended,
                Err(_) => Box::pin(panicked(target, number, &assignment)).await,
            }
        };
        let (slot, attempted) = tokio::select! {
            biased;
            ended = ended => ended,
            // Its session stays in the register, and nobody wants its completion.
            _ = abandoned.changed() => {
                (Slot::new(number), Attempted::without_session(Report::Stopped))
            }
        };
        let completions = &self.0.completions;
        let completion = completions.of(&assignment, started, number, attempted);
        (slot, completion)
    }

    /// Has those in line begin who have a slot without an arrival or an end, and gives back those
    /// who have none for too long.
    pub(super) fn watch_lines(&self) {
        for target in self.0.targets.values() {
            let (inner, target) = (Arc::downgrade(&self.0), Arc::clone(target));
            let watch = async move {
                loop {
                    let (begin, leave) = target.line_moves().await;
                    let Some(inner) = inner.upgrade() else {
                        return;
                    };
                    let executor = Executor(inner);
                    executor.begin(&target, begin);
                    leave
                        .into_iter()
                        .for_each(|given| executor.give_back(given));
                }
            };
            tokio::spawn(self.0.end.clone().run_until_cancelled_owned(watch));
        }
    }

    /// What stands in line does not begin.
    pub(super) fn clear_lines(&self) {
        let targets = self.0.targets.values();
        let left = targets.flat_map(|target| target.clear_line());
        left.for_each(|given| self.give_back(given));
    }
}

/// What an attempt comes to whose executor has panicked.
async fn panicked(target: &Target, slot: u32, assignment: &Assignment) -> (Slot, Attempted) {
    let (slot, backend_pid) = target.replace_slot(slot).await;
    let panicked = Attempted {
        backend_pid,
        ..Attempted::without_session(completion_builder::panicked())
    };
    let attempted = sql::attempt::resolve(target, assignment, panicked).await;
    (slot, attempted)
}
