//! A session between an executor and the loop of another process: what is on its way in it, late or lost with it.
//!
//! As `remote/session.rs` and `remote/owner.rs` have it. The two sides end independently of each other: what was said before
//! may still arrive at the other one.

use super::{
    executor::Executor,
    outside::Outside,
    owner::{Answer, ExecutorChange, Loop},
};
use crate::{
    assignment::{Event, ExecutorId, ExecutorReport, Link, Snapshot},
    core::Epoch,
    hub::pool::{Host, Instruction, Joining, Route},
};
use std::collections::VecDeque;
use tokio::sync::mpsc::{self, error::TryRecvError};
use uuid::Uuid;

/// What may wait on its way up.
const ON_THE_WAY: usize = 4;

pub(crate) struct Session {
    pub no: u64,
    pub from: Uuid,
    pub to: Uuid,
    epoch: Epoch,
    host: Host,
    /// What the executor has said first; none: it is taken in.
    hello: Option<Snapshot>,
    /// It is known not to be fenced.
    checked: bool,
    answer: Option<Answer>,
    up: VecDeque<Event>,
    /// The executor's side; none: it has ended.
    desk: Option<mpsc::Receiver<ExecutorReport>>,
    down: Option<mpsc::Receiver<Instruction>>,
    /// The owner's side has ended.
    pub hung_up: bool,
}

/// What becomes of the executor's side.
#[derive(PartialEq)]
pub(crate) enum Stands {
    Open,
    Closed,
    /// It is told that it was fenced.
    Fenced,
}

impl Session {
    /// An executor begins to work for an owner; `None`: it works for a younger one.
    pub(crate) fn open(
        no: u64,
        executor: &Executor,
        epoch: Epoch,
        to: Uuid,
        outside: &mut Outside,
    ) -> Option<Session> {
        let (out, desk) = mpsc::channel(2);
        let mut snapshot = executor.desk.attach(Link {
            epoch,
            member: ExecutorId::default(),
            out,
        })?;
        outside.mix(&mut snapshot);
        let completions = std::mem::take(&mut snapshot.completions);
        let up = completions
            .into_iter()
            .map(|(token, completion)| Event::Completed(token, completion))
            .collect();
        let host = Host {
            replica: executor.run,
            incarnation: executor.incarnation,
        };
        Some(Session {
            no,
            from: executor.run,
            to,
            epoch,
            host,
            hello: Some(snapshot),
            checked: false,
            answer: None,
            up,
            desk: Some(desk),
            down: None,
            hung_up: false,
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.desk.is_some()
    }

    /// Nothing more comes of it.
    pub(crate) fn is_over(&self) -> bool {
        self.desk.is_none() && self.hung_up
    }

    pub(crate) fn is_quiet(&self) -> bool {
        let told = self.desk.as_ref().is_some_and(|desk| desk.is_empty()) && self.up.is_empty();
        told && matches!(self.answer, Some(Answer::Admitted(_)))
            && self.down.as_ref().is_some_and(|down| down.is_empty())
    }

    /// The executor's side ends.
    pub(crate) fn close(&mut self) {
        self.desk = None;
    }

    /// The owner's side ends: who was admitted leaves.
    pub(crate) fn hang_up(&mut self, owner: &mut Loop) {
        if let Some(Answer::Admitted(member)) = self.answer
            && !self.hung_up
        {
            owner.changes.push_back(ExecutorChange::Leave(member));
        }
        // Whoever is not answered yet leaves when he is.
        self.hung_up = self.answer.is_some();
    }

    /// The process of the owner has died.
    pub(crate) fn orphan(&mut self) {
        self.hung_up = true;
        self.answer = self.answer.or(Some(Answer::NotNow));
    }

    pub(crate) fn answered(&mut self, answer: Answer) {
        self.answer = Some(answer);
        self.hung_up = !matches!(answer, Answer::Admitted(_));
    }

    /// The executor's side goes on.
    pub(crate) fn at_the_executor(
        &mut self,
        executor: &mut Executor,
        outside: &mut Outside,
    ) -> Stands {
        let Some(desk) = &mut self.desk else {
            return Stands::Closed;
        };
        if self.up.len() < ON_THE_WAY {
            self.up
                .extend(desk.try_recv().into_iter().flat_map(|told| told.events));
        }
        match self.answer {
            None => return Stands::Open,
            Some(Answer::Fenced) => return Stands::Fenced,
            Some(Answer::NotNow) if self.down.is_none() => return Stands::Closed,
            Some(_) => {}
        }
        match self.down.as_mut().map(mpsc::Receiver::try_recv) {
            Some(Ok(message)) => executor.obey(message, outside),
            None | Some(Err(TryRecvError::Disconnected)) => return Stands::Closed,
            Some(Err(TryRecvError::Empty)) => {}
        }
        Stands::Open
    }

    /// The owner's side goes on.
    pub(crate) fn at_the_owner(&mut self, owner: &mut Loop, outside: &mut Outside) {
        if self.hung_up {
            return;
        }
        if let Some(Answer::Admitted(member)) = self.answer {
            if let Some(event) = self.up.pop_front() {
                if let Err(error) = owner.reports.0.try_send(ExecutorReport {
                    member,
                    events: vec![event],
                }) {
                    let told = match error {
                        mpsc::error::TrySendError::Full(told)
                        | mpsc::error::TrySendError::Closed(told) => told,
                    };
                    told.events
                        .into_iter()
                        .for_each(|event| self.up.push_front(event));
                }
            } else if self.desk.is_none() {
                self.hang_up(owner);
            }
        } else if !self.checked {
            let present = owner.pool.epoch();
            if present == Epoch(0) || self.epoch > present {
                self.answered(Answer::NotNow);
            } else if outside
                .journal
                .is_fenced(self.host.replica, self.host.incarnation)
            {
                self.answered(Answer::Fenced);
            }
            self.checked = true;
        } else if let Some(snapshot) = self.hello.take() {
            let (out, down) = mpsc::channel(2 + outside.rng.place(8));
            self.down = Some(down);
            let (member, host) = (owner.pool.new_member(), self.host);
            let joining = Joining {
                member,
                host,
                epoch: self.epoch,
                session: self.no,
                name: "there".into(),
                snapshot,
                route: Route::Remote(out),
            };
            owner
                .changes
                .push_back(ExecutorChange::Join(joining, self.no));
        }
    }
}
