//! What the executor has been given and has not been released from, and its way to the owner of the shard.
//!
//! Every assignment stays here until its completion is acknowledged as durable, so that whoever owns the shard next can be
//! told what still runs and what has ended. There is one owner at a time: what comes of an older one is not taken. Pushing
//! never blocks; what the link has no room for waits here, at most one completion per slot and a change of slots behind it.

use crate::assignment::{Event, ExecutorReport, HeldAssignment, Link, Snapshot, Token};
use crate::core::{Completion, Epoch, Report, Work};
use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, mpsc::error::TrySendError},
    time::sleep,
};

/// Between looks at what is not acknowledged yet.
const LOOK: Duration = Duration::from_millis(2);

#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    link: Option<Link>,
    kept: HashMap<Token, (HeldAssignment, Option<Completion>)>,
    slots: BTreeMap<Work, u32>,
    waiting: Vec<Event>,
    /// Events stand at the link's door: later ones must not overtake them.
    sending: bool,
    finished: bool,
}

impl Outbox {
    pub(crate) fn start() -> Arc<Self> {
        let desk = Arc::new(Outbox::default());
        tokio::spawn(forward(Arc::clone(&desk)));
        desk
    }

    /// From now on everything goes to this owner, who must be told the snapshot first; `None`: there is a younger one.
    pub(crate) fn attach(&self, link: Link) -> Option<Snapshot> {
        let mut state = self.state();
        if state
            .link
            .as_ref()
            .is_some_and(|present| present.epoch > link.epoch)
        {
            return None;
        }
        state.link = Some(link);
        // The snapshot says it all. Of what never began it says nothing: somebody else may have been given it since, and told
        // late, it would take it from them.
        state.waiting.clear();
        state.kept.retain(|_, (_, completion)| {
            !completion
                .as_ref()
                .is_some_and(|c| c.report == Report::NotStarted)
        });
        let mut attempts: Vec<HeldAssignment> =
            state.kept.values().map(|(kept, _)| kept.clone()).collect();
        attempts.sort_by_key(|kept| (kept.running.handle, kept.running.first));
        let completion =
            |(token, (_, completion)): (&Token, &(HeldAssignment, Option<Completion>))| {
                Some((*token, completion.clone()?))
            };
        let slots = state
            .slots
            .iter()
            .map(|(work, total)| (work.clone(), *total))
            .collect();
        Some(Snapshot {
            slots,
            attempts,
            completions: state.kept.iter().filter_map(completion).collect(),
        })
    }

    /// Keeps an assignment; false: it comes of an owner who is none any more, or is here already.
    pub(crate) fn take(&self, kept: HeldAssignment) -> bool {
        let mut state = self.state();
        let present = state.link.as_ref().map_or(Epoch(0), |link| link.epoch);
        if kept.token.epoch < present || state.kept.contains_key(&kept.token) {
            return false;
        }
        state.kept.insert(kept.token, (kept, None));
        true
    }

    /// An assignment has ended.
    pub(crate) fn completed(&self, token: Token, completion: Completion) {
        let mut state = self.state();
        // What was given up is nobody's any more.
        let Some((_, kept)) = state.kept.get_mut(&token) else {
            return;
        };
        *kept = Some(completion.clone());
        self.push(&mut state, Event::Completed(token, completion));
    }

    /// There are so many slots now.
    pub(crate) fn slots(&self, work: Work, total: u32) {
        let mut state = self.state();
        state.slots.insert(work.clone(), total);
        self.push(&mut state, Event::Slots { work, total });
    }

    /// These completions are durable, or nobody's.
    pub(crate) fn acknowledge(&self, tokens: &[Token]) {
        let mut state = self.state();
        tokens
            .iter()
            .for_each(|token| drop(state.kept.remove(token)));
    }

    /// Gives everything up, without a word.
    pub(crate) fn give_up(&self) {
        let mut state = self.state();
        state.kept.clear();
        state.waiting.clear();
    }

    /// Nothing has been given that is not acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().kept.is_empty()
    }

    /// Waits until everything is acknowledged, at most so long.
    pub(crate) async fn drain(&self, patience: Duration) {
        let end = Instant::now() + patience;
        while Instant::now() < end && !self.is_empty() {
            sleep(LOOK).await;
        }
        self.finish();
    }

    /// Ends the forwarder, and the link.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.finished = true;
        state.link = None;
        self.wake.notify_one();
    }

    /// Straight into the link, when there is room and nothing waits.
    fn push(&self, state: &mut State, event: Event) {
        let Some(link) = &state.link else { return };
        if state.sending || !state.waiting.is_empty() {
            // Of slots only the last word counts, however often a target comes and goes meanwhile.
            if let Event::Slots { work: changed, .. } = &event {
                state.waiting.retain(
                    |earlier| !matches!(earlier, Event::Slots { work, .. } if work == changed),
                );
            }
            state.waiting.push(event);
        } else if let Err(TrySendError::Full(told)) = link.out.try_send(ExecutorReport {
            member: link.member,
            events: vec![event],
        }) {
            state.waiting = told.events;
            self.wake.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is next on its way to the owner, for whoever carries it there.
    pub(crate) fn next(&self) -> Option<(Link, Vec<Event>)> {
        let mut state = self.state();
        let events = mem::take(&mut state.waiting);
        state.sending = !events.is_empty() && state.link.is_some();
        state
            .link
            .clone()
            .filter(|_| state.sending)
            .map(|link| (link, events))
    }
}

async fn forward(desk: Arc<Outbox>) {
    while !desk.state().finished {
        desk.wake.notified().await;
        while let Some((link, events)) = desk.next() {
            // A link that is over loses nothing: the next owner gets a snapshot.
            let _ = link
                .out
                .send(ExecutorReport {
                    member: link.member,
                    events,
                })
                .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::ExecutorId;
    use crate::core::Running;
    use crate::core::{Attempt, Handle, Seq, ShardId, Time};
    use tokio::sync::mpsc;

    #[test]
    fn a_new_owner_is_told_of_what_runs_and_what_has_ended_and_not_of_what_never_began() {
        let desk = Outbox::default();
        let reports = [None, Some(Report::Stopped), Some(Report::NotStarted)];
        for (serial, report) in (1..).zip(reports) {
            let token = Token {
                epoch: Epoch(1),
                serial,
            };
            let (handle, first, attempt) = (
                Handle::new(ShardId(0), 1, [0; 10]),
                Seq(serial as i64),
                Attempt(1),
            );
            let running = Running {
                handle,
                first,
                count: 1,
                attempt,
                since: Time(0),
            };
            assert!(desk.take(HeldAssignment {
                token,
                running,
                work: Work::Noop
            }));
            let (started, ended) = (Time(0), Time(0));
            let completion = |report| Completion {
                handle,
                first,
                attempt,
                report,
                started,
                ended,
                slot: 0,
                backend_pid: 0,
            };
            report
                .map(completion)
                .into_iter()
                .for_each(|completion| desk.completed(token, completion));
        }
        let (out, _told) = mpsc::channel(1);
        let snapshot = desk
            .attach(Link {
                epoch: Epoch(2),
                member: ExecutorId(1),
                out,
            })
            .expect("the first owner");
        let firsts: Vec<Seq> = snapshot
            .attempts
            .iter()
            .map(|kept| kept.running.first)
            .collect();
        assert_eq!(firsts, [Seq(1), Seq(2)]);
        assert_eq!(snapshot.completions.len(), 1);
    }
}
