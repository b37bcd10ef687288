//! Nothing is lost, whatever the clock of the database does. A clock that is wrong is one by which
//! batches are written and days are dropped.

use super::{
    Owned,
    aged::{checkpoint, ended, tasks},
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
        self.writer = self.journal.writer();
    }

    async fn tasks_of(&self, handle: Handle) -> (Vec<(i64, u32)>, usize) {
        let recovered = recover(&self.journal, ENOUGH, self.now).await.unwrap();
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

/// A day of the service: every hour a task is submitted, one ends and old days are dropped, while
/// the clock jumps and processes change.
#[tokio::test]
async fn a_day_in_which_the_clock_jumps_loses_nothing() {
    for seed in [7] {
        let mut owned = Owned::new().await;
        let (mut rng, a, right) = (Rng::new(seed), handle(), owned.now);
        owned.write(checkpoint(a, right, 0, 0, &[])).await;
        let (mut off_by, mut ended_up_to) = (0, 0);
        let mut days = Vec::new();
        for hour in 1..=24 {
            if rng.percent(40) {
                off_by = *rng.one_of(&[0, 0, 1, -1, 7, -7, 40, -40, 400]);
            }
            let knows = !rng.percent(30);
            owned.with_clock(off_by, right + HOUR * hour).await;
            if !knows {
                owned.change_process().await;
            }
            let (now, seq) = (owned.now, i64::from(hour));
            owned.write(tasks(a, seq, 1, now)).await;
            days.push(now.day());
            if rng.percent(50) {
                ended_up_to += 1;
                owned.write(ended(a, ended_up_to, 1, now)).await;
            }
            if rng.percent(30) {
                let mut records = checkpoint(a, now, seq, ended_up_to, &[]);
                let image = records.schedulers.get_mut(&a).unwrap();
                image.checkpoint.unfinished = (ended_up_to < seq)
                    .then_some((Seq(ended_up_to + 1), Seq(seq)))
                    .into_iter()
                    .collect();
                let unfinished = &days[ended_up_to as usize..];
                let first_day = unfinished.iter().copied().chain([now.day()]).min();
                image.checkpoint.first_day = first_day.unwrap_or_default();
                owned.write(records).await;
            }
            let maintenance = owned.journal.maintenance();
            let calendar = maintenance.live(now, knows.then_some(HOUR)).await.unwrap();
            maintenance.drop_days(&calendar).await.unwrap();
            let (runs, outcomes) = owned.tasks_of(a).await;
            let open: Vec<i64> = runs.iter().map(|(first, _)| *first).collect();
            let wanted: Vec<i64> = (ended_up_to + 1..=seq).collect();
            assert!(
                wanted.iter().all(|seq| open.contains(seq)),
                "seed {seed}, hour {hour}, {off_by} days off: {open:?} of {wanted:?} ({outcomes})"
            );
        }
        assert_eq!(owned.count("select count(*) from execution_log").await, 24);
    }
}
