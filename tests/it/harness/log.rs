//! The execution log as a person with psql reads it, and what follows from its times alone.
//!
//! Intervals are half open: a task that starts in the microsecond in which another one ends does
//! not overlap it.

use super::postgres::connect;
use sqlx::postgres::PgConnectOptions;
use std::collections::{BTreeMap, BTreeSet};

/// A row of the log. Times are microseconds since 1970.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub handle: String,
    pub seq: i64,
    pub task_order: Option<i64>,
    pub kind: String,
    pub outcome: Option<String>,
    pub done_no: Option<i64>,
    pub attempt: Option<i32>,
    pub error_code: Option<String>,
    pub submitted: i64,
    pub started: Option<i64>,
    pub ended: Option<i64>,
}

rallypoint::from_row!(Entry {
    handle,
    seq,
    task_order,
    kind,
    outcome,
    done_no,
    attempt,
    error_code,
    submitted,
    started,
    ended
});

/// Rows in order of handle and task.
#[derive(Clone, Debug)]
pub(crate) struct Log(pub Vec<Entry>);

impl Log {
    /// Reads the rows of one scheduler, or of all.
    pub(crate) async fn read(journal: &PgConnectOptions, handle: Option<&str>) -> Log {
        let query =
            "select handle::text, seq, task_order, kind, outcome, done_no, attempt, error_code,
                (extract(epoch from submitted_at) * 1000000)::int8 as submitted,
                (extract(epoch from started_at) * 1000000)::int8 as started,
                (extract(epoch from ended_at) * 1000000)::int8 as ended
            from rallypoint_log.execution_log
            where handle = $1::uuid or $1 is null
            order by handle, seq, done_no";
        let rows = sqlx::query_as(query)
            .bind(handle)
            .fetch_all(&mut connect(journal).await)
            .await;
        Log(rows.expect("the log can be read"))
    }

    /// The rows of one scheduler.
    pub(crate) fn of(&self, handle: &str) -> Log {
        Log(self
            .0
            .iter()
            .filter(|entry| entry.handle == handle)
            .cloned()
            .collect())
    }

    pub(crate) fn entry(&self, seq: i64) -> &Entry {
        self.0
            .iter()
            .find(|entry| entry.seq == seq)
            .expect("a row of the task")
    }

    /// The number of tasks by outcome.
    pub(crate) fn outcomes(&self) -> BTreeMap<&str, usize> {
        let mut outcomes = BTreeMap::new();
        for entry in &self.0 {
            *outcomes
                .entry(entry.outcome.as_deref().unwrap_or("none"))
                .or_default() += 1;
        }
        outcomes
    }

    /// Pairs of orders of which the higher one started before the lower one had ended.
    pub(crate) fn overlaps(&self) -> Vec<(i64, i64)> {
        let orders: BTreeSet<i64> = self.0.iter().filter_map(|entry| entry.task_order).collect();
        let of = |order| {
            self.0
                .iter()
                .filter(move |entry| entry.task_order == Some(order))
        };
        let end = |order| of(order).filter_map(|entry| entry.ended).max();
        let start = |order| of(order).filter_map(|entry| entry.started).min();
        let pairs = orders
            .iter()
            .flat_map(|low| orders.range(low + 1..).map(|high| (*low, *high)));
        pairs
            .filter(|(low, high)| {
                end(*low)
                    .zip(start(*high))
                    .is_some_and(|(end, start)| start < end)
            })
            .collect()
    }

    /// The largest number of tasks that ran at one time.
    pub(crate) fn most_running(&self) -> i64 {
        let mut moments: Vec<(i64, i64)> = Vec::new();
        for (started, ended) in self.runs() {
            moments.extend([(started, 1), (ended, -1)]);
        }
        moments.sort_unstable();
        let running = moments.iter().scan(0, |running, (_, change)| {
            *running += change;
            Some(*running)
        });
        running.max().unwrap_or(0)
    }

    /// Slot time used within a window, in seconds.
    pub(crate) fn slot_seconds(&self, from: i64, to: i64) -> f64 {
        let within = |(started, ended): (i64, i64)| (ended.min(to) - started.max(from)).max(0);
        self.runs().map(within).sum::<i64>() as f64 / 1e6
    }

    /// When the first and the last task started.
    pub(crate) fn starts(&self) -> (i64, i64) {
        let starts = || self.0.iter().filter_map(|entry| entry.started);
        (
            starts().min().expect("something ran"),
            starts().max().expect("something ran"),
        )
    }

    /// Starts and ends of the tasks that took any time.
    fn runs(&self) -> impl Iterator<Item = (i64, i64)> {
        self.0
            .iter()
            .filter_map(|entry| entry.started.zip(entry.ended))
            .filter(|(started, ended)| started < ended)
    }
}
