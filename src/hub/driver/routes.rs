//! The ways to the executors: how they are taken in, and told what to do.
//!
//! Nobody is waited for: an executor that does not keep up is let go, and reports again.

use super::{Hub, Parts, Route, State};
use crate::{
    core::Epoch,
    executor_protocol::{Admission, ExecutorId, Hello, Host, Instruction, Link},
    hub::event::Event,
};
use tokio::sync::mpsc::error::TrySendError;

impl Hub {
    /// Never waits: who does not keep up is let go, and its session ends.
    pub(super) fn send(
        &self,
        state: &mut State,
        member: ExecutorId,
        instruction: Instruction,
    ) -> Option<Event> {
        let executor = &self.0.parts.executor;
        match (state.routes.get(&member)?, instruction) {
            (Route::Local, Instruction::Run(dispatch)) => executor.dispatch(vec![*dispatch]),
            (Route::Local, Instruction::Stop(token)) => executor.stop(token),
            (Route::Local, Instruction::Acknowledge(tokens)) => executor.acknowledge(&tokens),
            (Route::Remote(remote), instruction) => match remote.out.try_send(instruction) {
                Ok(()) => {}
                Err(error) => {
                    if let TrySendError::Full(_) = error {
                        tracing::warn!(
                            replica = %remote.name,
                            "its executor does not keep up with its instructions; it reports anew"
                        );
                    }
                    state.routes.remove(&member);
                    return Some(Event::Unreachable(member));
                }
            },
        }
        None
    }

    pub(super) fn attach(
        &self,
        state: &mut State,
        member: ExecutorId,
        epoch: Epoch,
    ) -> Option<Event> {
        let Parts {
            executor,
            replica,
            sessions,
            reports,
            ..
        } = &self.0.parts;
        let host = Host {
            replica: replica.id,
            incarnation: sessions.incarnation(),
        };
        let link = Link {
            epoch,
            member,
            out: reports.clone(),
        };
        let snapshot = executor.attach(link, sessions.enrolled_under())?;
        state.routes.insert(member, Route::Local);
        let hello = Hello {
            host,
            epoch,
            session: 0,
            name: replica.name.clone(),
            snapshot,
        };
        Some(Event::Attached(member, hello))
    }
}

impl State {
    pub(super) fn new_member(&mut self) -> ExecutorId {
        self.last_member += 1;
        ExecutorId(self.last_member)
    }

    pub(super) fn admit(&mut self, member: ExecutorId, admission: Admission) {
        let Some((answer, remote)) = self.hellos.remove(&member) else {
            return;
        };
        if let Admission::Admitted(_) = admission {
            self.routes.insert(member, Route::Remote(remote));
        }
        // An executor that has given up asking is lost by its session's end.
        let _ = answer.send(admission);
    }
}
