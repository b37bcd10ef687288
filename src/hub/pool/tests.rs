//! The pool as owner and executors see it, without either: who has a task, and whose word counts.

pub(crate) mod lives;

use super::*;
use crate::{
    assignment::{HeldAssignment, Snapshot},
    core::{ShardId, Time},
};
use tokio::sync::mpsc;

const WORK: Work = Work::Noop;

/// An executor that was given one attempt by an earlier owner, and what it hears.
struct Survivor {
    token: Token,
    completion: Completion,
    member: ExecutorId,
    heard: mpsc::Receiver<Instruction>,
}

impl Survivor {
    fn join(pool: &Pool, epoch: i64, attempt: i32) -> Survivor {
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
        let (out, heard) = mpsc::channel(8);
        let member = pool.new_member();
        let kept = HeldAssignment {
            token,
            running,
            work: WORK,
        };
        let joining = Joining {
            member,
            host: Host {
                replica: Uuid::from_u128(epoch as u128),
                incarnation: 1,
            },
            epoch: Epoch(7),
            session: 1,
            name: "r".into(),
            snapshot: Snapshot {
                slots: vec![(WORK, 1)],
                attempts: vec![kept],
                completions: Vec::new(),
            },
            route: Route::Remote(out),
        };
        pool.join(joining).expect("it is not fenced");
        let (started, ended, report) = (Time(0), Time(1), Report::Succeeded(None));
        let completion = Completion {
            handle,
            first,
            attempt,
            report,
            started,
            ended,
            slot: 1,
            backend_pid: 1,
        };
        Survivor {
            token,
            completion,
            member,
            heard,
        }
    }

    /// Tells how its attempt ended; says whether the core hears of it.
    fn tell(&self, pool: &Pool) -> bool {
        let events = vec![Event::Completed(self.token, self.completion.clone())];
        !pool
            .told(ExecutorReport {
                member: self.member,
                events,
            })
            .is_empty()
    }

    fn is_stopped(&mut self) -> bool {
        matches!(self.heard.try_recv(), Ok(Instruction::Stop(token)) if token == self.token)
    }
}

#[test]
fn of_two_who_were_given_a_task_the_later_one_has_it_whoever_reports_first() {
    for earlier_first in [true, false] {
        let pool = Pool::new(1, Clock::new());
        pool.begin(Epoch(7), true);
        let mut survivors = if earlier_first {
            [(5, 2), (6, 3)]
        } else {
            [(6, 3), (5, 2)]
        }
        .map(|(epoch, attempt)| Survivor::join(&pool, epoch, attempt));
        survivors.sort_by_key(|survivor| survivor.token);
        let [mut earlier, mut later] = survivors;
        assert!(earlier.is_stopped());
        assert!(!later.is_stopped());
        assert!(!earlier.tell(&pool), "what it says counts no more");
        assert!(later.tell(&pool));
    }
}

#[test]
fn what_comes_late_of_an_earlier_session_is_not_heard() {
    let pool = Pool::new(1, Clock::new());
    pool.begin(Epoch(7), true);
    let report = |epoch, session| {
        let (out, heard) = mpsc::channel(8);
        let host = Host {
            replica: Uuid::from_u128(1),
            incarnation: 1,
        };
        let (member, snapshot) = (
            pool.new_member(),
            Snapshot {
                slots: vec![(WORK, 1)],
                ..Snapshot::default()
            },
        );
        let route = Route::Remote(out);
        (
            pool.join(Joining {
                member,
                host,
                epoch: Epoch(epoch),
                session,
                name: "r".into(),
                snapshot,
                route,
            }),
            heard,
        )
    };
    let (joined, _heard) = report(7, 2);
    assert!(joined.is_ok());
    // It would take back what has been handed out in the later one.
    assert_eq!(report(7, 1).0.unwrap_err(), Refusal::Stale);
    // It says nothing of what others have handed out since.
    assert_eq!(report(6, 3).0.unwrap_err(), Refusal::Stale);
}

#[test]
fn what_is_told_again_after_its_end_neither_keeps_a_slot_nor_is_kept() {
    for told in [true, false] {
        let pool = Pool::new(1, Clock::new());
        pool.begin(Epoch(7), true);
        let mut survivor = Survivor::join(&pool, 6, 2);
        if told {
            assert!(survivor.tell(&pool));
        }
        let mut state = pool.state();
        let Running { handle, first, .. } = state
            .given
            .values()
            .next()
            .expect("what it reported")
            .running;
        let work = Work::Sql {
            target: "app".into(),
        };
        let host = state.members[&survivor.member].host;
        let token = Token {
            epoch: Epoch(7),
            serial: 1,
        };
        let running = Running {
            handle,
            first,
            count: 1,
            attempt: Attempt(3),
            since: Time(0),
        };
        state.give(Given {
            host,
            token,
            running,
            work,
            over: false,
        });
        assert_eq!(state.members[&survivor.member].busy[&WORK], 0);
        drop(state);
        match survivor.heard.try_recv() {
            Ok(Instruction::Acknowledge(tokens)) => assert!(told && tokens == [survivor.token]),
            Ok(Instruction::Stop(token)) => assert!(!told && token == survivor.token),
            other => panic!("{other:?}"),
        }
    }
}
