//! The pool as owner and executors see it, without either: who has a task, and whose word counts.

use super::*;
use crate::{
    core::{Report, ShardId},
    executor_protocol::{HeldAssignment, Snapshot},
};

const WORK: Work = Work::Noop;

/// A pool that owns the shard as of epoch 7.
fn pool() -> ExecutorPool {
    let mut pool = ExecutorPool::default();
    pool.reset(Epoch(7));
    pool
}

fn hello(replica: u128, epoch: i64, session: u64, attempts: Vec<HeldAssignment>) -> Hello {
    Hello {
        host: Host {
            replica: Uuid::from_u128(replica),
            incarnation: 1,
        },
        epoch: Epoch(epoch),
        session,
        name: "r".into(),
        snapshot: Snapshot {
            slots: vec![(WORK, 1)],
            attempts,
            ..Snapshot::default()
        },
    }
}

/// An executor that was given one attempt by an earlier owner.
struct Survivor {
    token: Token,
    completion: Completion,
    member: ExecutorId,
}

impl Survivor {
    fn join(pool: &mut ExecutorPool, epoch: i64, attempt: i32) -> Survivor {
        let (handle, first, attempt) = (
            Handle::new(ShardId(0), 1, [0; 10]),
            Seq(11),
            Attempt(attempt),
        );
        let token = Token {
            epoch: Epoch(epoch),
            serial: 1,
        };
        let running = Running {
            handle,
            first,
            count: 1,
            attempt,
            since: Time(0),
        };
        let held = HeldAssignment {
            token,
            running,
            work: WORK,
        };
        let member = ExecutorId(epoch as u64);
        pool.join(member, hello(epoch as u128, 7, 1, vec![held]), false);
        let completion = Completion {
            handle,
            first,
            attempt,
            report: Report::Succeeded(None),
            started: Time(0),
            ended: Time(1),
            slot: 1,
            backend_pid: 1,
            diagnostics: Default::default(),
        };
        Survivor {
            token,
            completion,
            member,
        }
    }

    /// Reports how its attempt ended; says whether the core hears of it.
    fn report(&self, pool: &mut ExecutorPool) -> bool {
        let before = pool.effects.len();
        let events = vec![Event::Completed(self.token, self.completion.clone())];
        pool.report(ExecutorReport::of(self.member, events));
        let is_command = |effect: &Effect| matches!(effect, Effect::Command(_));
        pool.effects[before..].iter().any(is_command)
    }

    /// What it was told last.
    fn heard(&self, pool: &ExecutorPool) -> Option<Instruction> {
        let to_it = |effect: &Effect| match effect {
            Effect::Send(member, instruction) if *member == self.member => {
                Some(instruction.clone())
            }
            _ => None,
        };
        pool.effects.iter().rev().find_map(to_it)
    }

    fn is_stopped(&self, pool: &ExecutorPool) -> bool {
        matches!(self.heard(pool), Some(Instruction::Stop(token)) if token == self.token)
    }
}

#[test]
fn of_two_that_were_given_a_task_the_later_one_has_it_whoever_reports_first() {
    for earlier_first in [true, false] {
        let mut pool = pool();
        let sequence = if earlier_first {
            [(5, 2), (6, 3)]
        } else {
            [(6, 3), (5, 2)]
        };
        let mut survivors =
            sequence.map(|(epoch, attempt)| Survivor::join(&mut pool, epoch, attempt));
        survivors.sort_by_key(|survivor| survivor.token);
        let [earlier, later] = survivors;
        assert!(earlier.is_stopped(&pool));
        assert!(!later.is_stopped(&pool));
        assert!(!earlier.report(&mut pool), "what it reports counts no more");
        assert!(later.report(&mut pool));
    }
}

#[test]
fn what_comes_late_of_an_earlier_session_is_not_heard() {
    let mut pool = pool();
    pool.join(ExecutorId(1), hello(1, 7, 2, Vec::new()), false);
    // It would take back what has been handed out in the later one.
    assert_eq!(pool.hears(&hello(1, 7, 1, Vec::new())), Err(Refusal::Stale));
    // It says nothing of what others have handed out since.
    assert_eq!(pool.hears(&hello(1, 6, 3, Vec::new())), Err(Refusal::Stale));
    assert_eq!(pool.hears(&hello(1, 7, 3, Vec::new())), Ok(()));
}

#[test]
fn who_is_being_fenced_is_not_heard_before_its_next_incarnation() {
    let mut pool = pool();
    let mut hello = hello(1, 7, 1, Vec::new());
    assert!(pool.shut_out(hello.host));
    assert_eq!(pool.hears(&hello), Err(Refusal::Fenced));
    hello.host.incarnation = 2;
    assert_eq!(pool.hears(&hello), Ok(()));
}

#[test]
fn what_is_reported_again_after_its_end_neither_keeps_a_slot_nor_is_kept() {
    for reported in [true, false] {
        let mut pool = pool();
        let survivor = Survivor::join(&mut pool, 6, 2);
        if reported {
            assert!(survivor.report(&mut pool));
        }
        let given = pool.given.values().next().expect("what it reported");
        let (running, host) = (given.running, given.host);
        pool.give(Given {
            host,
            token: Token {
                epoch: Epoch(7),
                serial: 1,
            },
            running: Running {
                attempt: Attempt(3),
                ..running
            },
            work: Work::Sql {
                target: "app".into(),
            },
            over: false,
        });
        assert_eq!(pool.members[&survivor.member].busy[&WORK], 0);
        match survivor.heard(&pool) {
            Some(Instruction::Acknowledge(tokens)) => {
                assert!(reported && tokens == [survivor.token]);
            }
            Some(Instruction::Stop(token)) => assert!(!reported && token == survivor.token),
            other => panic!("{other:?}"),
        }
    }
}
