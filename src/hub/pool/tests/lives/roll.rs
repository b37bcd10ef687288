//! The roll call and the fence, one step at a time: as `coordinator/roll.rs` does it, but when it loses its patience is for
//! the rng.

use super::{
    outside::Outside,
    owner::{ExecutorChange, Loop},
};
use crate::{
    core::{Command, Epoch, Work},
    hub::pool::Host,
};
use std::collections::BTreeMap;

pub(crate) enum Op {
    /// Waits for those who live, and fences the others: (who, shut out).
    Call {
        since: Epoch,
        works: Vec<Work>,
        others: Option<Vec<(Host, bool)>>,
    },
    /// Ends the sessions of a kind, and tells the core that nothing else runs.
    Clear {
        since: Epoch,
        work: Work,
        sessions: Vec<u32>,
        ask: Option<u64>,
    },
    /// Who is gone is shut out, and then fenced.
    Gone {
        host: Host,
        shut: bool,
        fenced: bool,
    },
    /// Ends the sessions of a kind of the lost one, and says so.
    Bury {
        host: Host,
        work: Work,
        sessions: Vec<u32>,
        said: Option<u64>,
        ask: Option<u64>,
    },
}

impl Loop {
    /// One of the things done on behalf of the ownership goes on.
    pub(crate) fn roll_on(&mut self, outside: &mut Outside) {
        if self.ops.is_empty() {
            return;
        }
        let op = self.ops.swap_remove(outside.rng.place(self.ops.len()));
        let next = match op {
            Op::Call {
                since,
                works,
                others,
            } => self.call_the_roll(since, works, others, outside),
            Op::Clear {
                since,
                work,
                sessions,
                ask,
            } => self.clear(since, work, sessions, ask, outside),
            Op::Gone { host, shut, fenced } => self.gone(host, shut, fenced, outside),
            Op::Bury {
                host,
                work,
                sessions,
                said,
                ask,
            } => self.bury((host, work, sessions), said, ask, outside),
        };
        self.ops.extend(next);
    }

    fn call_the_roll(
        &mut self,
        since: Epoch,
        works: Vec<Work>,
        others: Option<Vec<(Host, bool)>>,
        outside: &mut Outside,
    ) -> Vec<Op> {
        let Some(mut others) = others else {
            let rows = outside
                .journal
                .enrolled
                .iter()
                .filter(|(run, row)| **run != self.run && row.fenced < row.incarnation);
            let host = |(run, row): (&uuid::Uuid, &super::journal::Enrolled)| Host {
                replica: *run,
                incarnation: row.incarnation,
            };
            let others = Some(rows.map(host).map(|host| (host, false)).collect());
            return vec![Op::Call {
                since,
                works,
                others,
            }];
        };
        if let Some((host, shut)) = others.pop() {
            match shut {
                true if outside.journal.fence(host, self.pool.epoch()) => {}
                true => others.insert(0, (host, true)),
                false if self.pool.has_reported(host) => {}
                false if !outside.rng.percent(15) => others.insert(0, (host, false)),
                false if self.pool.shut_out(host) => others.push((host, true)),
                false => {}
            }
            return vec![Op::Call {
                since,
                works,
                others: Some(others),
            }];
        }
        let mut left: BTreeMap<Work, Vec<u32>> =
            works.into_iter().map(|work| (work, Vec::new())).collect();
        for (pid, session) in outside.journal.of_fenced() {
            if self.pool.was_here(Host {
                replica: session.replica,
                incarnation: session.incarnation,
            }) {
                continue;
            }
            left.entry(session.work).or_default().push(pid);
        }
        left.into_iter()
            .map(|(work, sessions)| Op::Clear {
                since,
                work,
                sessions,
                ask: None,
            })
            .collect()
    }

    fn clear(
        &mut self,
        since: Epoch,
        work: Work,
        sessions: Vec<u32>,
        ask: Option<u64>,
        outside: &mut Outside,
    ) -> Vec<Op> {
        if let Some(pid) = sessions.iter().find(|pid| !outside.dead.contains(pid)) {
            outside.kill(*pid);
        } else if ask.is_some_and(|ask| self.is_answered(ask)) {
            sessions
                .iter()
                .for_each(|pid| drop(outside.journal.sessions.remove(pid)));
            return Vec::new();
        } else if ask.is_none_or(|ask| self.is_lost(ask)) {
            let lost = !sessions.is_empty();
            let ask = Some(self.ask(Command::Cleared {
                work: Some(work.clone()),
                lost,
                since,
            }));
            return vec![Op::Clear {
                since,
                work,
                sessions,
                ask,
            }];
        }
        vec![Op::Clear {
            since,
            work,
            sessions,
            ask,
        }]
    }

    fn gone(&mut self, host: Host, shut: bool, fenced: bool, outside: &mut Outside) -> Vec<Op> {
        match (shut, fenced) {
            (false, _) if !outside.rng.percent(15) => vec![Op::Gone { host, shut, fenced }],
            (false, _) if !self.pool.shut_out(host) => Vec::new(),
            (false, _) => vec![Op::Gone {
                host,
                shut: true,
                fenced,
            }],
            (true, false) => {
                let fenced = outside.journal.fence(host, self.pool.epoch());
                vec![Op::Gone { host, shut, fenced }]
            }
            (true, true) => {
                let mut left: BTreeMap<Work, Vec<u32>> = self
                    .pool
                    .given_to(host)
                    .into_iter()
                    .map(|work| (work, Vec::new()))
                    .collect();
                for (pid, session) in outside.journal.of_fenced() {
                    if (session.replica, session.incarnation) == (host.replica, host.incarnation) {
                        left.entry(session.work).or_default().push(pid);
                    }
                }
                left.into_iter()
                    .map(|(work, sessions)| Op::Bury {
                        host,
                        work,
                        sessions,
                        said: None,
                        ask: None,
                    })
                    .collect()
            }
        }
    }

    fn bury(
        &mut self,
        (host, work, sessions): (Host, Work, Vec<u32>),
        mut said: Option<u64>,
        mut ask: Option<u64>,
        outside: &mut Outside,
    ) -> Vec<Op> {
        if let Some(pid) = sessions.iter().find(|pid| !outside.dead.contains(pid)) {
            outside.kill(*pid);
        } else if said.is_none() {
            let no = self.number();
            said = Some(no);
            self.changes.push_back(ExecutorChange::Fenced {
                host,
                work: work.clone(),
                began: !sessions.is_empty(),
                no,
            });
        } else if said.is_some_and(|no| !self.taken.contains(&no)) {
            // The loop is busy.
        } else if ask.is_some_and(|ask| self.is_answered(ask)) {
            sessions
                .iter()
                .for_each(|pid| drop(outside.journal.sessions.remove(pid)));
            return Vec::new();
        } else if ask.is_none_or(|ask| self.is_lost(ask)) {
            ask = Some(self.ask(Command::Status));
        }
        vec![Op::Bury {
            host,
            work,
            sessions,
            said,
            ask,
        }]
    }
}
