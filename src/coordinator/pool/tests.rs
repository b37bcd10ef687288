//! The pool as owner and executors see it, without either: who has a task, and whose word counts.

use super::*;
use crate::{
    core::{ShardId, Time},
    executor::Snapshot,
};
use tokio::sync::mpsc;
use uuid::Uuid;

const WORK: Work = Work::Noop;

/// An executor that was given one attempt by an earlier owner, and what it hears.
struct Survivor {
    token: Token,
    completion: Completion,
    member: MemberId,
    heard: mpsc::Receiver<ToMember>,
}

impl Survivor {
    fn join(pool: &Pool, epoch: i64, attempt: i32) -> Survivor {
        let (handle, first, attempt) = (Handle::new(ShardId(0), 1, [0; 10]), Seq(11), Attempt(attempt));
        let token = Token { epoch: Epoch(epoch), serial: 1 };
        let running = Running { handle, first, count: 1, attempt, since: Time(0) };
        let (out, heard) = mpsc::channel(8);
        let member = pool.new_member();
        let kept = Kept { token, running, work: WORK };
        let joining = Joining {
            member,
            host: Host { replica: Uuid::from_u128(epoch as u128), incarnation: 1 },
            name: "r".into(),
            snapshot: Snapshot { slots: vec![(WORK, 1)], attempts: vec![kept], completions: Vec::new() },
            route: Route::Remote(out),
        };
        pool.join(joining).expect("it is not fenced");
        let (started, ended, report) = (Time(0), Time(1), Report::Succeeded(None));
        let completion = Completion { handle, first, attempt, report, started, ended, slot: 1, backend_pid: 1 };
        Survivor { token, completion, member, heard }
    }

    /// Tells how its attempt ended; says whether the core hears of it.
    fn tell(&self, pool: &Pool) -> bool {
        let events = vec![Event::Completed(self.token, self.completion.clone())];
        !pool.told(Told { member: self.member, events }).is_empty()
    }

    fn is_stopped(&mut self) -> bool {
        matches!(self.heard.try_recv(), Ok(ToMember::Stop(token)) if token == self.token)
    }
}

#[test]
fn of_two_who_were_given_a_task_the_later_one_has_it_whoever_reports_first() {
    for earlier_first in [true, false] {
        let pool = Pool::new(1, Clock::new());
        pool.begin(Epoch(7), true);
        let mut survivors = if earlier_first { [(5, 2), (6, 3)] } else { [(6, 3), (5, 2)] }
            .map(|(epoch, attempt)| Survivor::join(&pool, epoch, attempt));
        survivors.sort_by_key(|survivor| survivor.token);
        let [mut earlier, mut later] = survivors;
        assert!(earlier.is_stopped());
        assert!(!later.is_stopped());
        assert!(!earlier.tell(&pool), "what it says counts no more");
        assert!(later.tell(&pool));
    }
}
