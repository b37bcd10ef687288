//! The pool as owner and executors see it, without either: who has a task, and whose word counts.

mod broken_sessions;
mod no_slots;

use super::*;
use crate::{
    core::{Namespace, Report, Running, SessionReset, ShardId, Spec, TaskOptions, Unreported},
    executor_protocol::{HeldAssignment, Snapshot},
};
use std::sync::Arc;

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

    /// What it was sent last.
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
            lined_up: false,
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

/// A pool of members of one slot each, of which each enters this many tasks in the register.
fn pool_of(begun_per_slot: &[u32]) -> ExecutorPool {
    let mut pool = pool();
    for (member, begun_per_slot) in (1..).zip(begun_per_slot) {
        let mut hello = hello(member.into(), 7, 1, Vec::new());
        hello.snapshot.begun_per_slot = *begun_per_slot;
        pool.join(ExecutorId(member), hello, false);
    }
    pool
}

/// Hands out the task of this number and lets it end at once. Returns who was given it.
fn run(pool: &mut ExecutorPool, seq: i64) -> Option<ExecutorId> {
    let before = pool.effects.len();
    pool.hand_out(assignment(seq), Body::default());
    let given = |effect: &Effect| match effect {
        Effect::Send(member, Instruction::Run(dispatch)) => Some((*member, dispatch.token)),
        _ => None,
    };
    let (member, token) = pool.effects[before..].iter().find_map(given)?;
    let events = vec![Event::Completed(token, completion(seq))];
    pool.report(ExecutorReport::of(member, events));
    Some(member)
}

/// The good end of a task.
fn completion(seq: i64) -> Completion {
    let (handle, first, attempt) = key(seq);
    Completion {
        handle,
        first,
        attempt,
        report: Report::Succeeded(None),
        started: Time(0),
        ended: Time(1),
        slot: 1,
        backend_pid: 1,
        diagnostics: Default::default(),
    }
}

fn key(seq: i64) -> (Handle, Seq, Attempt) {
    (Handle::new(ShardId(0), 1, [0; 10]), Seq(seq), Attempt(1))
}

fn assignment(seq: i64) -> Assignment {
    let (handle, first, attempt) = key(seq);
    let spec = Spec {
        work: WORK,
        options: TaskOptions::default(),
        trace: None,
    };
    Assignment {
        leaves_free: None,
        handle,
        first,
        count: 1,
        attempt,
        order: None,
        spec: Arc::new(spec),
        namespace: Namespace("default".into()),
        caller: "".into(),
        time_limit: None,
        deadline: None,
        resource_token: None,
        session_reset: SessionReset::Task,
    }
}

/// The slots as the core has heard of them last.
fn announced(pool: &ExecutorPool) -> SlotCounts {
    let slots = |effect: &Effect| match effect {
        Effect::Command(Command::Slots { slots, .. }) => Some(*slots),
        _ => None,
    };
    pool.effects.iter().rev().find_map(slots).expect("some")
}

#[test]
fn the_window_is_what_each_executor_counts_for() {
    let announced = announced(&pool_of(&[4, 1]));
    assert_eq!((announced.total, announced.window), (2, 5));
    assert_eq!(
        announced.spare, 0,
        "one that is of an older version has none"
    );
}

#[test]
fn what_runs_where_there_are_no_slots_any_more_takes_none_of_the_others() {
    let mut pool = pool_of(&[4, 4]);
    pool.hand_out(assignment(1), Body::default());
    let given = &pool.given[&(key(1).0, Seq(1))];
    let (member, token) = (pool.id_of(given.host).expect("it is there"), given.token);
    let gone = Event::Slots {
        work: WORK,
        total: 0,
    };
    pool.report(ExecutorReport::of(member, vec![gone]));
    assert_eq!((announced(&pool).total, announced(&pool).away), (1, 1));
    let ended = Event::Completed(token, completion(1));
    pool.report(ExecutorReport::of(member, vec![ended]));
    assert_eq!(announced(&pool).away, 0);
}

#[test]
fn what_a_lost_executor_had_takes_no_slots_of_the_others() {
    let mut pool = pool_of(&[4, 4]);
    pool.hand_out(assignment(1), Body::default());
    let given = &pool.given[&(key(1).0, Seq(1))];
    let (host, had) = (given.host, announced(&pool));
    assert_eq!((had.total, had.away), (2, 0));
    pool.leave(pool.id_of(host).expect("it is there"));
    let left = announced(&pool);
    assert_eq!((left.total, left.away), (1, 1));
    let before = pool.effects.len();
    pool.end_fenced(host, &WORK, Unreported::MayHaveBegun);
    assert_eq!(announced(&pool).away, 0);
    let first = &pool.effects[before];
    let is_slots = matches!(first, Effect::Command(Command::Slots { .. }));
    assert!(is_slots, "before the ends, which make room: {first:?}");
}

#[test]
fn nobody_begins_more_than_its_own_row_says_while_others_have_room() {
    let mut pool = pool_of(&[3, 1]);
    let given: Vec<_> = (1..=4).filter_map(|seq| run(&mut pool, seq)).collect();
    let to = |member| given.iter().filter(|id| **id == ExecutorId(member)).count();
    assert_eq!((to(1), to(2)), (3, 1));
    assert_eq!(run(&mut pool, 5), None, "all rows are full");
    let of_the_second = given.iter().position(|id| *id == ExecutorId(2)).unwrap();
    let before = pool.effects.len();
    pool.over(&[key(of_the_second as i64 + 1)]);
    let runs = |effect: &Effect| {
        matches!(effect, Effect::Send(ExecutorId(2), Instruction::Run(dispatch))
            if dispatch.assignment.first == Seq(5))
    };
    assert!(pool.effects[before..].iter().any(runs), "it has room again");
}

#[test]
fn what_is_over_is_acknowledged_in_one_message() {
    let mut pool = pool_of(&[4]);
    let keys: Vec<_> = (1..=3)
        .map(|seq| run(&mut pool, seq).map(|_| key(seq)).unwrap())
        .collect();
    let before = pool.effects.len();
    pool.over(&keys);
    let lengths: Vec<_> = pool.effects[before..]
        .iter()
        .map(|effect| match effect {
            Effect::Send(_, Instruction::Acknowledge(tokens)) => tokens.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lengths, [3]);
}

/// Hands out a task that stands in line and leaves a slot free. Returns who was given it, and how
/// many slots are to stay free there; `None`: nobody was.
fn line_up(pool: &mut ExecutorPool, seq: i64) -> Option<(ExecutorId, u32)> {
    let before = pool.effects.len();
    let in_line = Assignment {
        leaves_free: Some(1),
        ..assignment(seq)
    };
    pool.hand_out(in_line, Body::default());
    pool.effects[before..]
        .iter()
        .find_map(|effect| match effect {
            Effect::Send(member, Instruction::Run(dispatch)) => {
                Some((*member, dispatch.leaves_free?))
            }
            _ => None,
        })
}

#[test]
fn one_executor_keeps_the_reserve_and_each_has_a_line() {
    let mut pool = pool();
    for (member, slots) in [(1, 2), (2, 4)] {
        let mut hello = hello(member.into(), 7, 1, Vec::new());
        hello.snapshot.slots = vec![(WORK, slots)];
        (hello.snapshot.begun_per_slot, hello.snapshot.line_per_slot) = (8, 1);
        pool.join(ExecutorId(member), hello, false);
    }
    assert_eq!(announced(&pool).spare, 12, "of the smaller one");
    let given: Vec<_> = (1..=13).map(|seq| line_up(&mut pool, seq)).collect();
    let to = |member| {
        given
            .iter()
            .flatten()
            .filter(move |(id, _)| *id == ExecutorId(member))
    };
    assert_eq!(
        (to(1).count(), to(2).count()),
        (4, 7),
        "one slot stays free"
    );
    assert!(to(1).all(|(_, leaves_free)| *leaves_free == 0));
    assert!(to(2).all(|(_, leaves_free)| *leaves_free == 1));
    assert_eq!(given[11..], [None; 2], "there is no place left");
    let token = pool.given[&(key(1).0, Seq(1))].token;
    let ended = Event::Completed(token, completion(1));
    pool.report(ExecutorReport::of(ExecutorId(2), vec![ended]));
    assert_eq!(pool.waiting.len(), 1, "an end leaves room");
}
