//! The tasks of the demo: the test series of the articles from which Rallypoint descends.

use rallypoint_client::api::{SqlTask, Task, task::Kind};
use std::time::Duration;

/// Order, number of its tasks, and tenths of a second that each sleeps at scale 1.
const SERIES: [(i64, usize, u32); 5] = [
    (100, 4, 101),
    (200, 2, 92),
    (300, 1, 83),
    (400, 2, 74),
    (500, 1, 65),
];

/// One task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    /// Its order.
    pub order: i64,
    /// How long it sleeps.
    pub time: Duration,
}

impl Sleep {
    pub(super) fn statement(&self) -> String {
        format!("select pg_sleep({})", self.time.as_secs_f64())
    }

    pub(super) fn task(&self) -> Task {
        let sql = SqlTask {
            statement: self.statement(),
            ..SqlTask::default()
        };
        Task {
            kind: Some(Kind::Sql(sql)),
            order: Some(self.order),
            options: None,
        }
    }
}

/// The ten tasks, in order.
pub(super) fn tasks(scale: f64) -> Vec<Sleep> {
    let tasks = SERIES.iter().flat_map(|(order, count, tenths)| {
        let time = Duration::from_micros((f64::from(*tenths) * 100_000.0 * scale).round() as u64);
        std::iter::repeat_n(
            Sleep {
                order: *order,
                time,
            },
            *count,
        )
    });
    tasks.collect()
}

/// The least time the series can take: the sum of the longest task of each order.
pub(super) fn expected(tasks: &[Sleep]) -> Duration {
    let longest = |order: i64| {
        tasks
            .iter()
            .filter(|task| task.order == order)
            .map(|task| task.time)
            .max()
    };
    SERIES
        .iter()
        .filter_map(|(order, ..)| longest(*order))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_that_of_the_articles() {
        let tasks = tasks(1.0);
        assert_eq!(tasks.len(), 10);
        assert_eq!(expected(&tasks), Duration::from_millis(41_500));
        assert_eq!(tasks[0].statement(), "select pg_sleep(10.1)");
        assert_eq!(super::tasks(0.1)[9].statement(), "select pg_sleep(0.65)");
    }
}
