//! The clock of a Postgres jumps by days, or runs slow or fast, while the shard changes its owner
//! or sessions end.

use super::{Bite, Faults, postgres::end_half};
use crate::{clock::Clock, database::Database, history::now, plan::Fault, server::LEASE};
use nix::sys::signal::Signal;
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{Instant, sleep, timeout};

const DAY_S: f64 = 86_400.0;
/// Between two looks at what the service was answered by the clock.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Between two steps of a clock that runs slow or fast.
const STEP_INTERVAL: Duration = Duration::from_millis(20);
/// No task sleeps that long, except those that are stopped.
const LONGER_THAN_SLEEPS: Duration = Duration::from_millis(600);
const OVERSLEPT: &str = "select pg_cancel_backend(pid)
    from pg_stat_activity
    where wait_event = 'PgSleep'
      and abs(extract(epoch from clock_timestamp() - query_start)) > 0.6";
/// A clock that is wrong by less was not set by the fault.
const WRONG_BY: Duration = Duration::from_millis(300);

/// How a clock goes wrong.
#[derive(Clone, Copy, Debug)]
enum Course {
    /// By so many days at once.
    Jumps(f64),
    /// So many times as fast.
    Runs(f64),
}

const COURSES: [Course; 8] = [
    Course::Jumps(1.0),
    Course::Jumps(-1.0),
    Course::Runs(2.0),
    Course::Jumps(10.0),
    Course::Jumps(-10.0),
    Course::Runs(0.5),
    Course::Jumps(40.0),
    Course::Jumps(-40.0),
];

/// Answers that the service has just got by the clock of the journal, heartbeats, and its time.
const HEARTBEATS: &str = "select replica::text, seen_at::text,
        (extract(epoch from clock_timestamp()) * 1000000)::int8
    from replica
    where abs(extract(epoch from clock_timestamp() - seen_at)) < 1";
/// The same of the target: statements of its sessions.
const STATEMENTS: &str = "select pid::text, query_start::text,
        (extract(epoch from clock_timestamp()) * 1000000)::int8
    from pg_stat_activity
    where application_name like 'rallypoint%'
      and abs(extract(epoch from clock_timestamp() - query_start)) < 1";

impl Faults {
    /// Half of the time the owner stays; else it dies, stands still or leaves in good order.
    pub(super) async fn clock_of_journal(&self, fault: &Fault) -> Bite {
        let owner = self.fixture.owner().await.unwrap_or(fault.server);
        let server = self.fixture.server(owner);
        let change = fault.variant / 8 % 6;
        let changes = async {
            sleep(fault.lasts / 2).await;
            match change {
                0 => {
                    server.kill();
                    server.release();
                }
                1 => {
                    server.signal(Signal::SIGSTOP);
                    sleep(2 * LEASE).await;
                    server.signal(Signal::SIGCONT);
                }
                2 => {
                    server.terminate().await;
                    server.release();
                }
                _ => {}
            }
        };
        let what = ["was killed", "stood still", "left"];
        let what = what.get(change as usize).unwrap_or(&"stayed");
        let bite = self.with_clock(fault, &self.fixture.journal, HEARTBEATS, changes);
        let bite = bite.await.and(&format!("owner {owner} {what}"));
        bite.hurting((change < 3).then_some(server.number))
    }

    /// Half of the time its sessions go on; else half of them end, or all in a crash.
    pub(super) async fn clock_of_target(&self, fault: &Fault) -> Bite {
        let target = &self.fixture.target;
        let change = fault.variant / 8 % 4;
        let changes = async {
            sleep(fault.lasts / 2).await;
            match change {
                0 => end_half(target, (fault.variant / 32 % 2) as i32).await,
                1 => {
                    target.crash().await;
                    target.revive().await;
                }
                _ => {}
            }
        };
        let what = ["half of its sessions ended", "it crashed"];
        let what = what.get(change as usize).unwrap_or(&"its sessions went on");
        let bite = self.with_clock(fault, target, STATEMENTS, changes);
        bite.await.and(what)
    }

    /// Sets a clock wrong while `changes` are made; it bites as often as the service got an
    /// answer by it.
    async fn with_clock(
        &self,
        fault: &Fault,
        database: &Database,
        answers: &'static str,
        changes: impl Future<Output = ()>,
    ) -> Bite {
        let Some(clock) = &database.clock else {
            return Bite::new(0, "no libfaketime here");
        };
        let course = COURSES[(fault.variant % COURSES.len() as u64) as usize];
        let mut wrong_answers = BTreeSet::new();
        let goes_wrong = async {
            let rest = sleep(fault.lasts);
            tokio::select! {
                () = go_wrong(clock, course) => {}
                () = note_wrong_answers(database, answers, &mut wrong_answers) => {}
                () = rest => {}
            }
            clock.set(0);
            wake(database).await;
        };
        tokio::join!(goes_wrong, changes);
        let what = format!("the clock of {} {course:?}", database.name);
        Bite::new(wrong_answers.len() as u64, what)
    }
}

/// Postgres sleeps until a time of day, so a task that sleeps when the clock goes back sleeps for
/// days. Whoever sleeps looks at the clock again, and who goes on sleeping is cancelled.
async fn wake(database: &Database) {
    database.run("select pg_reload_conf()".into()).await;
    sleep(LONGER_THAN_SLEEPS).await;
    database.run(OVERSLEPT.into()).await;
}

impl Bite {
    fn and(self, more: &str) -> Bite {
        let what = format!("{}, {more}; answers with a wrong time", self.what);
        Bite { what, ..self }
    }
}

/// Lets a clock go wrong, for ever.
async fn go_wrong(clock: &Clock, course: Course) {
    let begun = Instant::now();
    loop {
        clock.set_exactly(match course {
            Course::Jumps(days) => days * DAY_S,
            Course::Runs(speed) => begun.elapsed().as_secs_f64() * (speed - 1.0),
        });
        sleep(STEP_INTERVAL).await;
    }
}

/// Notes the answers that the service gets while the clock is wrong, for ever.
async fn note_wrong_answers(
    database: &Database,
    answers: &'static str,
    wrong_answers: &mut BTreeSet<(String, String)>,
) {
    loop {
        if let Ok(mut session) = database.session().await {
            let new = sqlx::query_as::<_, (String, String, i64)>(answers);
            let new = timeout(Duration::from_secs(1), new.fetch_all(&mut session)).await;
            let wrong = |time: i64| time.abs_diff(now()) > WRONG_BY.as_micros() as u64;
            let new = new.into_iter().flatten().flatten();
            let new = new.filter(|(_, _, time)| wrong(*time));
            wrong_answers.extend(new.map(|(who, at, _)| (who, at)));
        }
        sleep(LOOK_INTERVAL).await;
    }
}
