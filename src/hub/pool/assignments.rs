//! Who has what: what executors say they have, set against what they were given, and what comes to its end in their place.
//!
//! Of two who were given a task the later one has it, and the slots of a member that are busy are those of what it was given
//! and is not over.

use super::{Given, Host, Instruction, State};
use crate::{
    assignment::{HeldAssignment, Token},
    core::{Completion, Report, Running},
};
use rustc_hash::FxHashSet;

impl State {
    /// Notes what an executor says it has. Returns what it was given by an earlier owner; of what is somebody else's by now it
    /// is told.
    pub(crate) fn claim(&mut self, host: Host, attempts: &[HeldAssignment]) -> Vec<Running> {
        let mut claimed = Vec::new();
        for kept in attempts {
            let HeldAssignment {
                token,
                running,
                work,
            } = kept.clone();
            match self.given.get(&(running.handle, running.first)) {
                Some(given) if given.token == token => {}
                // Of two who were given a task the later one has it, whoever reports first.
                Some(given) if given.token > token => self.send(host, Instruction::Stop(token)),
                _ => {
                    claimed.push(running);
                    self.give(Given {
                        host,
                        token,
                        running,
                        work,
                        over: false,
                    });
                }
            }
        }
        claimed
    }

    /// The busy slots of one who has just reported.
    pub(crate) fn count_busy(&mut self, host: Host) {
        let Some(member) = self.members.values_mut().find(|member| member.host == host) else {
            return;
        };
        member.busy.clear();
        for given in self
            .given
            .values()
            .filter(|given| given.host == host && !given.over)
        {
            *member.busy.entry(given.work.clone()).or_default() += 1;
        }
    }

    /// Notes who has a task; who had it before has it no more.
    pub(crate) fn give(&mut self, given: Given) {
        let Some(before) = self
            .given
            .insert((given.running.handle, given.running.first), given)
        else {
            return;
        };
        if let Some(member) = self
            .members
            .values_mut()
            .find(|member| member.host == before.host)
        {
            if before.over {
                // It has told all it had to tell.
                return member.send(Instruction::Acknowledge(vec![before.token]));
            }
            member.vacate(&before.work);
            member.send(Instruction::Stop(before.token));
        }
    }

    /// What was on its way to an executor and never came there.
    pub(crate) fn never_arrived(
        &mut self,
        host: Host,
        attempts: &[HeldAssignment],
    ) -> Vec<Completion> {
        let there: FxHashSet<Token> = attempts.iter().map(|kept| kept.token).collect();
        self.end(&Report::NotStarted, |given| {
            given.host == host && !there.contains(&given.token)
        })
    }

    /// Ends what was given out and is not over, in place of whoever had it.
    pub(crate) fn end(&mut self, report: &Report, hit: impl Fn(&Given) -> bool) -> Vec<Completion> {
        let ended = self.clock.now();
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
                ended,
                slot: 0,
                backend_pid: 0,
            }
        };
        let mut over: Vec<Completion> = self
            .given
            .values_mut()
            .filter(|given| !given.over && hit(given))
            .map(end)
            .collect();
        over.sort_unstable_by_key(|completion| (completion.handle, completion.first));
        over
    }
}
