//! The truth about what runs, and the rules everything is judged by.

use crate::{
    assignment::Token,
    core::{Attempt, Command, Handle, Report, Seq, Work},
    hub::pool::{Given, Pool},
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// What runs on the targets, by backend, and what has been said of it.
#[derive(Default)]
pub(crate) struct Rules {
    /// Texts that run.
    pub running: BTreeMap<u32, (Seq, Token)>,
    begun: BTreeSet<Token>,
    begun_once: BTreeSet<Seq>,
    /// Counted as not started.
    never: BTreeSet<Token>,
    /// ExecutorReport to a core as over, by the pool of a run, in an ownership.
    over: BTreeMap<(Uuid, u64, Token), (Seq, Attempt)>,
}

impl Rules {
    pub(crate) fn begins(&mut self, pid: u32, seq: Seq, token: Token, at_most_once: bool) {
        let other = self.running.values().find(|(other, _)| *other == seq);
        assert!(
            other.is_none(),
            "task {} runs twice at a time: as {token:?} and as {other:?}",
            seq.0
        );
        assert!(
            !self.never.contains(&token),
            "task {} as {token:?} begins, and counts as not started",
            seq.0
        );
        assert!(
            self.begun_once.insert(seq) || !at_most_once,
            "task {} is at most once, and begins twice",
            seq.0
        );
        assert!(self.begun.insert(token), "{token:?} begins twice");
        self.running.insert(pid, (seq, token));
    }

    /// These ends are durable. An executor that does not hear of it tells of them again.
    pub(crate) fn settled(&mut self, run: Uuid, ownership: u64, over: &[(Handle, Seq, Attempt)]) {
        let settled = |who: &(Uuid, u64, Token), what: &mut (Seq, Attempt)| {
            (who.0, who.1) == (run, ownership)
                && over
                    .iter()
                    .any(|(_, first, attempt)| (*first, *attempt) == *what)
        };
        self.over.retain(|who, what| !settled(who, what));
    }

    /// What a pool says to its core.
    pub(crate) fn said(&mut self, run: Uuid, ownership: u64, pool: &Pool, commands: &[Command]) {
        let state = pool.state();
        for completion in commands
            .iter()
            .filter_map(|c| {
                if let Command::Completed(all) = c {
                    Some(all)
                } else {
                    None
                }
            })
            .flatten()
        {
            let given = state.given.get(&(completion.handle, completion.first));
            let given = given.filter(|given| given.running.attempt == completion.attempt);
            let Some(given) = given else { continue };
            assert!(given.over, "what is over is not known as over");
            let before = self.over.insert(
                (run, ownership, given.token),
                (completion.first, completion.attempt),
            );
            assert!(
                before.is_none(),
                "{:?} ends twice for the core",
                given.token
            );
            if completion.report == Report::NotStarted {
                assert!(
                    !self.begun.contains(&given.token),
                    "{:?} counts as not started, and began",
                    given.token
                );
                self.never.insert(given.token);
            }
        }
    }
}

/// What a pool must be like after every step.
pub(crate) fn consistent(pool: &Pool, most: &BTreeMap<Work, u32>) {
    let state = pool.state();
    for member in state.members.values() {
        for (work, busy) in &member.busy {
            let has =
                |given: &&Given| !given.over && given.host == member.host && given.work == *work;
            let given = state.given.values().filter(has).count();
            assert_eq!(
                *busy as usize, given,
                "busy slots of {work} at {:?}, and what it was given",
                member.host
            );
        }
        assert!(
            member
                .slots
                .iter()
                .all(|(work, slots)| *slots <= most[work]),
            "more slots than there are"
        );
    }
    let slots: usize = most.values().map(|slots| *slots as usize).sum();
    assert!(
        state.waiting.len() <= 6 * slots,
        "more waits than the core was told slots of"
    );
}

/// What a pool must be like when nothing is left to do.
pub(crate) fn at_rest(pool: &Pool) {
    let state = pool.state();
    assert!(
        state.given.is_empty(),
        "{} are kept as given",
        state.given.len()
    );
    assert!(
        state.waiting.is_empty() && state.done.is_empty(),
        "something waits for ever"
    );
    let busy: u32 = state
        .members
        .values()
        .flat_map(|member| member.busy.values())
        .sum();
    assert_eq!(busy, 0, "slots are busy with nothing");
}
