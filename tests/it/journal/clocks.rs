//! Nothing is lost, whatever the clock of the database does. A clock that is wrong is one by which
//! batches are written and days are dropped.

use super::{
    Owned,
    aged::{at_work_ago, checkpoint, ended, make_day, tasks},
    make::*,
};
use crate::rng::Rng;
use rallypoint::{core::*, journal::*};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);

/// A time so many days off.
fn off(now: Time, days: i64) -> Time {
    if days < 0 {
        now - DAY * days.unsigned_abs() as u32
    } else {
        now + DAY * days as u32
    }
}

impl Owned {
    /// Goes on with a clock that is wrong by so many days.
    async fn with_clock(&mut self, days: i64, right: Time) {
        self.now = off(right, days);
        let maintenance = self.journal.maintenance();
        maintenance
            .ensure_partitions(Some(self.now.day()))
            .await
            .unwrap();
    }

    /// Another process goes on as the owner.
    async fn change_process(&mut self) {
        self.writer = self.journal.writer(&self.replica);
    }

    async fn tasks_of(&self, handle: Handle) -> (Vec<(i64, u32)>, usize) {
        let recovered = recover(&self.journal, ENOUGH, since(self.now))
            .await
            .unwrap();
        let one = recovered
            .schedulers
            .into_iter()
            .find(|one| one.image.handle == handle)
            .expect("it is open");
        let runs = one.runs.iter().map(|run| (run.first.0, run.count));
        (runs.collect(), one.outcomes.len())
    }
}

#[tokio::test]
async fn what_is_written_after_the_clock_was_ahead_is_recovered() {
    for same_process in [true, false] {
        let mut owned = Owned::new().await;
        let (a, right) = (handle(), owned.now);
        owned.with_clock(10, right).await;
        let mut ahead = checkpoint(a, owned.now, 0, 0, &[]);
        ahead.schedulers.get_mut(&a).unwrap().checkpoint.first_day = owned.now.day();
        owned.write(ahead).await;

        owned.with_clock(0, right).await;
        if !same_process {
            owned.change_process().await;
        }
        owned.write(tasks(a, 1, 3, right)).await;

        assert_eq!(owned.tasks_of(a).await.0, [(1, 3)], "{same_process}");
    }
}

#[tokio::test]
async fn a_clock_that_jumps_beyond_the_retention_drops_no_day() {
    let mut owned = Owned::new().await;
    let (a, right) = (handle(), owned.now);
    let maintenance = owned.journal.maintenance();
    maintenance.live(right, None).await.unwrap();
    owned.write(checkpoint(a, right, 0, 0, &[])).await;
    owned.write(tasks(a, 1, 3, right)).await;
    owned.write(ended(a, 1, 3, right)).await;
    owned.write(checkpoint(a, right, 3, 3, &[])).await;
    owned.with_clock(40, right).await;
    for observed in [Some(HOUR), None] {
        let calendar = maintenance.live(owned.now, observed).await.unwrap();
        maintenance.drop_days(&calendar).await.unwrap();
        maintenance.drop_ended_schedulers(&calendar).await.unwrap();
        let events = owned.journal.reader().events(a, DoneNo(0), 10).await;
        assert!(!events.unwrap().is_empty(), "{observed:?}");
    }
    // The retention really passes, and the day goes.
    let calendar = maintenance.live(owned.now, Some(DAY * 32)).await.unwrap();
    assert!(maintenance.drop_days(&calendar).await.unwrap() > 0);
}

/// What was there before the day: a task that ended 40 days ago and is over its retention, one that
/// has not ended since, and one that ended 20 days ago.
struct Past {
    over: Handle,
    unfinished: Handle,
    kept: Handle,
}

impl Past {
    async fn write(owned: &mut Owned) -> Past {
        let (over, unfinished, kept) = (handle(), handle(), handle());
        let now = owned.now;
        for (one, days) in [(over, 40), (unfinished, 40), (kept, 20)] {
            owned.write_ago(days, checkpoint(one, now, 0, 0, &[])).await;
            owned.write_ago(days, tasks(one, 1, 1, now)).await;
        }
        owned.write_ago(40, ended(over, 1, 1, now)).await;
        owned.write_ago(20, ended(kept, 1, 1, now)).await;
        owned.write(checkpoint(over, now, 1, 1, &[])).await;
        owned
            .write(checkpoint(unfinished, now, 1, 0, &[(1, 1)]))
            .await;
        owned.write(checkpoint(kept, now, 1, 1, &[])).await;
        Past {
            over,
            unfinished,
            kept,
        }
    }

    async fn events(&self, owned: &Owned, of: Handle) -> usize {
        let events = owned.journal.reader().events(of, DoneNo(0), 10).await;
        events.unwrap().len()
    }
}

/// A day of the service: every hour a task is submitted, one may end, and old days are dropped,
/// while the clock jumps and processes change.
struct ServiceDay {
    owned: Owned,
    rng: Rng,
    right: Time,
    off_by: i64,
    scheduler: Handle,
    /// When each task was submitted.
    days: Vec<Day>,
    ended_up_to: i64,
    dropped: u64,
}

impl ServiceDay {
    async fn new(seed: u64, mut owned: Owned) -> ServiceDay {
        let (scheduler, right) = (handle(), owned.now);
        owned.write(checkpoint(scheduler, right, 0, 0, &[])).await;
        let maintenance = owned.journal.maintenance();
        maintenance.live(right, None).await.unwrap();
        ServiceDay {
            owned,
            rng: Rng::new(seed),
            right,
            off_by: 0,
            scheduler,
            days: Vec::new(),
            ended_up_to: 0,
            dropped: 0,
        }
    }

    async fn hour(&mut self, hour: u32) {
        if self.rng.percent(40) {
            self.off_by = *self.rng.one_of(&[0, 0, 1, -1, 7, -7, 40, -40, 400]);
        }
        let knows = !self.rng.percent(30);
        let right = self.right + HOUR * hour;
        self.owned.with_clock(self.off_by, right).await;
        if !knows {
            self.owned.change_process().await;
        }
        let (now, seq) = (self.owned.now, i64::from(hour));
        self.owned.write(tasks(self.scheduler, seq, 1, now)).await;
        self.days.push(now.day());
        if self.rng.percent(50) {
            self.ended_up_to += 1;
            let ended = ended(self.scheduler, self.ended_up_to, 1, now);
            self.owned.write(ended).await;
        }
        if self.rng.percent(30) {
            self.checkpoint(seq).await;
        }
        let maintenance = self.owned.journal.maintenance();
        let calendar = maintenance.live(now, knows.then_some(HOUR)).await.unwrap();
        self.dropped += maintenance.drop_days(&calendar).await.unwrap();
        maintenance.drop_ended_schedulers(&calendar).await.unwrap();
    }

    async fn checkpoint(&mut self, seq: i64) {
        let (now, ended_up_to) = (self.owned.now, self.ended_up_to);
        let mut records = checkpoint(self.scheduler, now, seq, ended_up_to, &[]);
        let image = records.schedulers.get_mut(&self.scheduler).unwrap();
        image.checkpoint.unfinished = (ended_up_to < seq)
            .then_some((Seq(ended_up_to + 1), Seq(seq)))
            .into_iter()
            .collect();
        let unfinished = &self.days[ended_up_to as usize..];
        let first_day = unfinished.iter().copied().chain([now.day()]).min();
        image.checkpoint.first_day = first_day.unwrap_or_default();
        self.owned.write(records).await;
    }

    /// The unfinished tasks that a new owner finds, of those there are.
    async fn lost(&self) -> Vec<i64> {
        let (runs, _) = self.owned.tasks_of(self.scheduler).await;
        let found: Vec<i64> = runs.iter().map(|(first, _)| *first).collect();
        let unfinished = self.ended_up_to + 1..=self.days.len() as i64;
        unfinished.filter(|seq| !found.contains(seq)).collect()
    }
}

#[tokio::test]
async fn a_day_in_which_the_clock_jumps_drops_what_is_over_and_loses_nothing_else() {
    for seed in [7, 8] {
        let mut owned = at_work_ago(40).await;
        make_day(&owned, 20).await;
        let past = Past::write(&mut owned).await;
        let mut day = ServiceDay::new(seed, owned).await;
        for hour in 1..=24 {
            day.hour(hour).await;
            let when = format!("seed {seed}, hour {hour}, {} days off", day.off_by);
            let lost = day.lost().await;
            assert!(lost.is_empty(), "{when}: {lost:?} {:?}", day.days);
            let old = day.owned.tasks_of(past.unfinished).await.0;
            assert_eq!(old, [(1, 1)], "{when}");
            assert_eq!(past.events(&day.owned, past.kept).await, 1, "{when}");
        }
        assert!(day.dropped >= 3, "seed {seed}: the days 40 days ago go");
        assert_eq!(past.events(&day.owned, past.over).await, 0, "seed {seed}");
        let log = "select count(*)
            from rallypoint_log.execution_log
            where submitted_at > now() - interval '2 years'";
        assert_eq!(day.owned.count(log).await, 24 + 2, "seed {seed}");
    }
}
