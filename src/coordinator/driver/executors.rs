//! Executors that come and go, as the loop takes them in: its pool, and what the core is told. What is done on behalf of an
//! ownership ends with it.

use super::{Loop, unasked};
use crate::{
    assignment::Link,
    coordinator::machine::Event,
    core::{Epoch, Work},
    hub::{
        fencing::ExecutorChange,
        pool::{Host, Joining, Refusal, Route},
    },
};

impl Loop {
    /// An ownership begins; `inherited`: others have owned the shard since the last one, and had slots for these. Says what
    /// the core must know of executors.
    pub(crate) fn begin(&mut self, epoch: Epoch, inherited: Option<Vec<Work>>) -> Vec<Event> {
        let roll = self.driver.roll.clone();
        roll.pool.begin(epoch, inherited.is_some());
        if let Some(mut works) = inherited {
            self.driver.library.lock().drop_waiting();
            std::mem::take(&mut self.era).cancel();
            works.extend(roll.executor.capacity().into_iter().map(|(work, _)| work));
            let era = self.era.clone();
            self.driver
                .others
                .spawn(era.run_until_cancelled_owned(roll.clone().call(epoch, works)));
        }
        let mut commands = vec![roll.pool.own_slots()];
        if roll.pool.is_empty() {
            let member = roll.pool.new_member();
            let host = Host {
                replica: self.driver.replica.id,
                incarnation: roll.sessions.incarnation(),
            };
            let link = Link {
                epoch,
                member,
                out: self.driver.reports.0.clone(),
            };
            if let Some(snapshot) = roll.executor.attach(link) {
                let (name, route) = (
                    self.driver.replica.name.clone(),
                    Route::Local(roll.executor.clone()),
                );
                commands.extend(
                    roll.pool
                        .join(Joining {
                            member,
                            host,
                            epoch,
                            session: 0,
                            name,
                            snapshot,
                            route,
                        })
                        .into_iter()
                        .flatten(),
                );
            }
        }
        commands.into_iter().map(unasked).collect()
    }

    /// An executor comes or goes.
    pub(crate) fn change(&mut self, change: ExecutorChange) -> Vec<Event> {
        let roll = &self.driver.roll;
        let commands = match change {
            // Dropping the answer says that it is to ask somebody else.
            ExecutorChange::Join(..) if self.driver.machine.stands_by() => Vec::new(),
            // After a crash a process finds the owner it was in the journal, at its own address, and reports to itself. What it
            // said is older than what it has been given here meanwhile.
            ExecutorChange::Join(joining, _) if joining.host.replica == self.driver.replica.id => {
                Vec::new()
            }
            ExecutorChange::Join(joining, answer) => {
                let told = roll.pool.join(joining);
                if !matches!(told, Err(Refusal::Stale)) {
                    // Who has given up asking is told again by its session's end.
                    let _ = answer.send(told.is_ok());
                }
                told.unwrap_or_default()
            }
            ExecutorChange::Leave(member) => {
                let (host, commands) = roll.pool.leave(member);
                if let Some(host) = host {
                    let gone = roll.clone().gone(host);
                    self.driver
                        .others
                        .spawn(self.era.clone().run_until_cancelled_owned(gone));
                }
                commands
            }
            ExecutorChange::Fenced {
                host,
                work,
                began,
                taken,
            } => {
                let commands = roll.pool.fenced(host, &work, began);
                // It goes on waiting for what follows.
                let _ = taken.send(());
                commands
            }
        };
        commands.into_iter().map(unasked).collect()
    }
}
