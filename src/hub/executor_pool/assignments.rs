//! Who has what: what executors say they have, set against what they were given, and what is ended
//! in their place.
//!
//! Of two executors that were given a task the one with the later token has it.

use super::{Effect, ExecutorPool};
use crate::{
    core::{Command, Completion, Report, Running, Unreported, Work},
    executor_protocol::{HeldAssignment, Host, Instruction, Token},
};
use bytes::Bytes;
use rustc_hash::FxHashSet;

/// An assignment that an executor has.
#[derive(Debug)]
pub(crate) struct Given {
    pub host: Host,
    pub token: Token,
    pub running: Running,
    pub work: Work,
    /// It was handed out while no slot was free.
    pub lined_up: bool,
    /// Its completion is on its way into the journal.
    pub over: bool,
}

impl ExecutorPool {
    /// Notes what an executor says it has. Returns what the core is to look at: what it was given
    /// by an earlier owner, and what it had before its session broke, as it may have to stop by
    /// now. What is somebody else's it is told to stop.
    pub(super) fn claim(&mut self, host: Host, attempts: &[HeldAssignment]) -> Vec<Running> {
        let mut claimed = Vec::new();
        for held in attempts {
            let HeldAssignment {
                token,
                running,
                work,
            } = held.clone();
            match self.given.get(&(running.handle, running.first)) {
                Some(given) if given.token == token => {
                    claimed.extend((!given.over).then_some(given.running));
                }
                // Of two that were given a task the later one has it, whoever reports first.
                Some(given) if given.token > token => self.send(host, Instruction::Stop(token)),
                _ => {
                    claimed.push(running);
                    self.give(Given {
                        host,
                        token,
                        running,
                        work,
                        lined_up: false,
                        over: false,
                    });
                }
            }
        }
        claimed
    }

    /// Counts what an executor has that has just reported.
    pub(super) fn count_held(&mut self, host: Host) {
        let Some(member) = self.members.values_mut().find(|member| member.host == host) else {
            return;
        };
        member.busy.clear();
        member.held.clear();
        for given in self.given.values().filter(|given| given.host == host) {
            member.hold(&given.work, !given.over);
        }
    }

    /// Notes who has a task; whoever had it before has it no more.
    pub(super) fn give(&mut self, given: Given) {
        let key = (given.running.handle, given.running.first);
        let Some(before) = self.given.insert(key, given) else {
            return;
        };
        let mut members = self.members.values_mut();
        if let Some(member) = members.find(|member| member.host == before.host) {
            member.release(&before.work);
        }
        let instruction = if before.over {
            // It has said all it had to say.
            Instruction::Acknowledge(vec![before.token])
        } else {
            self.vacate(before.host, before.work);
            Instruction::Stop(before.token)
        };
        self.send(before.host, instruction);
    }

    /// Ends what was on its way to an executor and never arrived there. Returns what the core must
    /// hear of that.
    pub(super) fn end_what_never_arrived(
        &mut self,
        host: Host,
        attempts: &[HeldAssignment],
    ) -> Vec<Effect> {
        let there: FxHashSet<Token> = attempts.iter().map(|held| held.token).collect();
        self.end(&Report::NotStarted, |given| {
            given.host == host && !there.contains(&given.token)
        })
    }

    /// Ends what a fenced executor was given of this kind and has not reported. None of it runs any
    /// more.
    pub(crate) fn end_fenced(&mut self, host: Host, work: &Work, unreported: Unreported) {
        let report = match unreported {
            Unreported::NotBegun => Report::NotStarted,
            Unreported::MayHaveBegun => Report::Lost,
        };
        let ended = self.end(&report, |given| given.host == host && given.work == *work);
        self.tell_slots(work.clone());
        self.effects.extend(ended);
    }

    /// The kinds of work an executor was given.
    pub(crate) fn given_to(&self, host: Host) -> impl Iterator<Item = Work> {
        let given = self.given.values().filter(move |given| given.host == host);
        given.map(|given| given.work.clone())
    }

    /// Ends what was given out and is not over, in place of whoever had it. Returns what the core
    /// must hear of that.
    fn end(&mut self, report: &Report, ends: impl Fn(&Given) -> bool) -> Vec<Effect> {
        // What has not begun is charged no time that its executor was away.
        let at = (*report != Report::NotStarted).then_some(self.now);
        let end = |given: &mut Given| {
            given.over = true;
            let Running {
                handle,
                first,
                attempt,
                since,
                ..
            } = given.running;
            Completion {
                handle,
                first,
                attempt,
                report: report.clone(),
                started: since,
                ended: at.unwrap_or(since),
                slot: 0,
                backend_pid: 0,
                diagnostics: Bytes::new(),
            }
        };
        let open = self
            .given
            .values_mut()
            .filter(|given| !given.over && ends(given));
        let mut over: Vec<Completion> = open.map(end).collect();
        over.sort_unstable_by_key(|completion| (completion.handle, completion.first));
        let tell = |completion| Effect::Command(Command::Completed(vec![completion]));
        over.into_iter().map(tell).collect()
    }
}
