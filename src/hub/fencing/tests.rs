//! Who is waited for after a takeover, or after its session has ended, and for how long.

use super::*;
use crate::executor_protocol::{ExecutorId, Hello, Snapshot};
use uuid::Uuid;

struct Scene {
    fencing: Fencing,
    pool: ExecutorPool,
    uptime: Duration,
}

impl Scene {
    /// An owner that has just taken over.
    fn new() -> Scene {
        let mut scene = Scene {
            fencing: Fencing::begin(Epoch(7), Some(Vec::new()), 0),
            pool: ExecutorPool::default(),
            uptime: Duration::from_secs(100),
        };
        scene.pool.reset(Epoch(7));
        scene.fencing.reconcile(&mut scene.pool);
        scene
    }

    fn now(&self) -> Moment {
        Moment {
            uptime: self.uptime,
            ..Moment::default()
        }
    }

    fn joins(&mut self, replica: u128) {
        let hello = Hello {
            host: named(replica),
            epoch: Epoch(7),
            session: 1,
            name: "r".into(),
            snapshot: Snapshot::default(),
        };
        self.pool.join(ExecutorId(replica as u64), hello, false);
        self.fencing.on_join(&mut self.pool);
    }

    /// Its session ends.
    fn leaves(&mut self, replica: u128) {
        let host = self.pool.leave(ExecutorId(replica as u64)).unwrap();
        self.fencing.on_lost(self.now(), host, &mut self.pool);
    }

    fn passes(&mut self, time: Duration) {
        self.uptime += time;
        self.fencing.on_time(self.now(), &mut self.pool);
    }

    /// Answers who is not fenced, and who of them lives, as often as that was asked.
    fn answers(&mut self, executors: &[(u128, Life)]) {
        let asked = self.take_requests(|request| matches!(request, RegisterRequest::NotFenced));
        assert!(!asked.is_empty(), "nobody has asked");
        for (no, _) in asked {
            let executors = executors.iter().map(|(replica, life)| Enrolled {
                replica: Uuid::from_u128(*replica),
                incarnation: 1,
                life: *life,
            });
            let answer = Answer::Executors(executors.collect());
            let now = self.now();
            self.fencing.on_answer(now, no, answer, &mut self.pool);
        }
    }

    /// Who is to be fenced, since the last question.
    fn fenced(&mut self) -> Vec<u128> {
        let asked = self.take_requests(|request| matches!(request, RegisterRequest::Fence(..)));
        let hosts = asked.into_iter().map(|(_, request)| match request {
            RegisterRequest::Fence(host, _) => host.replica.as_u128(),
            _ => unreachable!("filtered"),
        });
        hosts.collect()
    }

    fn take_requests(
        &mut self,
        wanted: impl Fn(&RegisterRequest) -> bool,
    ) -> Vec<(RequestNo, RegisterRequest)> {
        let (taken, rest): (Vec<Effect>, Vec<Effect>) = mem::take(&mut self.pool.effects)
            .into_iter()
            .partition(|effect| matches!(effect, Effect::Register(_, one) if wanted(one)));
        self.pool.effects = rest;
        let request = |effect| match effect {
            Effect::Register(no, request) => (no, request),
            _ => unreachable!("filtered"),
        };
        taken.into_iter().map(request).collect()
    }
}

fn named(replica: u128) -> Host {
    Host {
        replica: Uuid::from_u128(replica),
        incarnation: 1,
    }
}

#[test]
fn after_a_takeover_those_alive_have_time_to_report_and_the_others_have_not() {
    let mut scene = Scene::new();
    scene.answers(&[
        (1, Life::Alive),
        (2, Life::Ended),
        (3, Life::Alive),
        (4, Life::Silent),
    ]);
    assert_eq!(scene.fenced(), [2, 4]);
    scene.joins(3);
    scene.passes(REPORT_TIMEOUT - Duration::from_millis(1));
    assert!(scene.fenced().is_empty());
    scene.passes(Duration::from_millis(1));
    assert_eq!(scene.fenced(), [1]);
}

#[test]
fn who_ends_while_its_report_is_awaited_is_fenced_as_soon_as_that_is_seen() {
    let mut scene = Scene::new();
    scene.answers(&[(1, Life::Alive), (2, Life::Alive)]);
    scene.passes(RETRY_PAUSE);
    scene.answers(&[(1, Life::Silent), (2, Life::Ended)]);
    assert_eq!(scene.fenced(), [2]);
    scene.passes(RETRY_PAUSE);
    scene.answers(&[(1, Life::Ended)]);
    assert_eq!(scene.fenced(), [1]);
}

#[test]
fn a_lost_executor_has_time_to_come_back_unless_its_process_has_ended() {
    let mut scene = Scene::new();
    scene.answers(&[]);
    scene.joins(1);
    scene.joins(2);
    scene.leaves(1);
    scene.leaves(2);
    scene.answers(&[(1, Life::Silent), (2, Life::Ended)]);
    assert_eq!(scene.fenced(), [2]);
    scene.passes(REPORT_TIMEOUT - Duration::from_millis(1));
    scene.answers(&[(1, Life::Silent)]);
    assert!(scene.fenced().is_empty());
    scene.passes(Duration::from_millis(1));
    assert_eq!(scene.fenced(), [1]);
}

#[test]
fn who_is_lost_before_the_register_says_who_there_is_is_fenced_like_others() {
    let mut scene = Scene::new();
    scene.joins(1);
    scene.leaves(1);
    scene.answers(&[(1, Life::Alive)]);
    scene.passes(REPORT_TIMEOUT);
    assert_eq!(scene.fenced(), [1]);
}

#[test]
fn who_comes_back_and_is_lost_again_has_all_its_time_again() {
    let mut scene = Scene::new();
    scene.answers(&[]);
    scene.joins(1);
    scene.leaves(1);
    scene.passes(REPORT_TIMEOUT / 2);
    scene.joins(1);
    scene.leaves(1);
    scene.passes(REPORT_TIMEOUT / 2);
    assert!(scene.fenced().is_empty(), "half of its time is left");
    scene.passes(REPORT_TIMEOUT / 2);
    assert_eq!(scene.fenced(), [1]);
}
