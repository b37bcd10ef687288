//! The log is asked for one task, for what has just ended and for what failed without unpacking the
//! rest of it, and nothing is missed.

use super::{
    Owned,
    aged::{at_work_ago, make_day},
    make::*,
};
use crate::rng::Rng;
use rallypoint::core::*;
use sqlx::Executor;
use std::{collections::BTreeSet, time::Duration};

const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);

/// A scheduler with 1024 tasks on each of these days, each ended on its day, but for the first of
/// all, which is unfinished.
async fn busy_on(owned: &mut Owned, days: &[i32]) -> Handle {
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    for (number, days) in days.iter().copied().enumerate() {
        let (first, at) = (number as i64 * 1024 + 1, now - DAY * days as u32);
        let spared = i64::from(number == 0);
        let of_the_day = done(first + spared, 1024 - spared as u32, at);
        let ended = completion(handle, first - i64::from(number > 0), vec![of_the_day]);
        let submitted = records(vec![plain(handle, first, 1024, None, at)], vec![]);
        owned.write_ago(days, submitted).await;
        owned.write_ago(days, records(vec![], vec![ended])).await;
    }
    handle
}

#[tokio::test]
async fn what_ended_recently_is_read_from_the_days_of_it_alone() {
    let mut owned = at_work_ago(40).await;
    for days in [2, 3, 4, 5, 20, 30] {
        make_day(&owned, days).await;
    }
    let handle = busy_on(&mut owned, &[40, 30, 20, 5, 0]).await;
    let recent = "select concat_ws('|', count(*), min(seq), max(seq), count(statement),
            bool_and(ended_at > now() - interval '1 hour'))
        from rallypoint_log.executions_since('1 hour')";
    assert_eq!(owned.texts(recent).await, ["1024|4097|5120|1024|t"]);
    let plan = "explain (analyze, costs off, timing off, summary off)
        select * from rallypoint_log.executions_since('1 hour')";
    let plan = owned.texts(plan).await;
    // One more on either side: midnight may pass meanwhile, or have been within the hour.
    let ahead = [-8, -7, -6, -5, -4, -3, -2, -1];
    let searched = days_of(&plan, "completion", |line| !line.contains("never executed"));
    let young = dates(&owned, &[&ahead[..], &[0, 1, 2, 3, 4]].concat()).await;
    assert!(searched.is_subset(&young), "{searched:?} of {plan:#?}");
    let unpacked = days_of(&plan, "submission", gives_rows);
    assert_eq!(unpacked, dates(&owned, &[0]).await, "{plan:#?}");
    let late = completion(handle, 5120, vec![done(1, 1, owned.now)]);
    owned.write(records(vec![], vec![late])).await;
    assert_eq!(
        owned.texts(recent).await,
        ["1025|1|5120|1025|t"],
        "however old its submit"
    );
}

#[tokio::test]
async fn one_task_is_looked_up_without_the_others() {
    let mut owned = at_work_ago(40).await;
    make_day(&owned, 20).await;
    let handle = busy_on(&mut owned, &[40, 20, 0]).await;
    let plan = format!(
        "explain (analyze, costs off, timing off, summary off)
        select * from rallypoint_log.task('{}', 1500)",
        handle.uuid()
    );
    let plan = owned.texts(&plan).await;
    for table in ["submission", "completion"] {
        let unpacked = days_of(&plan, table, gives_rows);
        assert_eq!(unpacked, dates(&owned, &[20]).await, "{plan:#?}");
    }
}

/// Days so many days ago, as partitions are named after them.
async fn dates(owned: &Owned, days: &[i32]) -> BTreeSet<String> {
    let days: Vec<i32> = days.iter().map(|days| owned.days_ago(*days).0).collect();
    let dates = format!(
        "select to_char('1970-01-01'::date + day, 'YYYY_MM_DD') from unnest(array{days:?}) as day"
    );
    owned.texts(&dates).await.into_iter().collect()
}

/// Whether a line of a plan is a scan that gives whole rows.
fn gives_rows(line: &str) -> bool {
    let nothing = ["Index Only Scan", "never executed", "rows=0"];
    !nothing.iter().any(|nothing| line.contains(nothing))
}

/// The days whose partitions of `table` are in lines of a plan.
fn days_of(plan: &[String], table: &str, which: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let name = format!("on {table}_");
    let lines = plan.iter().filter(|line| which(line));
    let rest = lines.filter_map(|line| line.split_once(&name));
    rest.map(|(_, rest)| rest[..10].to_owned()).collect()
}

#[tokio::test]
async fn a_row_that_had_to_lie_in_an_earlier_day_is_found() {
    let mut owned = at_work_ago(9).await;
    let drop_young = "do $$ declare part regclass; begin
            for part in
                select inhrelid::regclass
                from pg_inherits
                where inhparent in ('submission'::regclass, 'completion'::regclass, 'attempt'::regclass)
                    and right(inhrelid::regclass::text, 10) > to_char(now() - interval '8 days', 'YYYY_MM_DD')
            loop
                execute format('drop table %s', part);
            end loop;
        end $$";
    owned.psql().await.execute(drop_young).await.unwrap();
    busy_on(&mut owned, &[0]).await;
    let recent =
        "select concat_ws('|', count(*), count(statement), max(o.day) < now() - interval '7 days')
        from rallypoint_log.executions_since('1 hour') e
        join rallypoint_log.task_outcome o using (handle, seq)";
    assert_eq!(owned.texts(recent).await, ["1023|1023|t"]);
}

/// Whatever was submitted and ended in whatever order, a search finds what the whole log shows.
#[tokio::test]
async fn every_search_finds_what_the_log_holds() {
    for seed in 1..=3 {
        let mut owned = at_work_ago(6).await;
        make_day(&owned, 3).await;
        let mut rng = Rng::new(seed);
        for tasks in [30, 300, 13_000] {
            write_history(&mut owned, &mut rng, tasks).await;
        }
        for (search, rest) in SEARCHES {
            let both = format!(
                "with found as (select f::text as row from {search} f),
                held as (select l::text as row from rallypoint_log.execution_log l where {rest}),
                missed as (select row from held except all select row from found),
                made_up as (select row from found except all select row from held)
                select concat_ws('|', (select count(*) > 0 from held),
                    (select count(*) from missed), (select count(*) from made_up))"
            );
            assert_eq!(owned.texts(&both).await, ["t|0|0"], "seed {seed}: {search}");
        }
    }
}

/// A search, and the rows of the log that it has to find.
const SEARCHES: [(&str, &str); 7] = [
    (
        "rallypoint_log.failures",
        "outcome in ('failed', 'timed out', 'exhausted')",
    ),
    (
        "rallypoint_log.executions_since('1 hour')",
        "ended_at >= now() - interval '1 hour'",
    ),
    (
        "rallypoint_log.executions_since('30 hours')",
        "ended_at >= now() - interval '30 hours'",
    ),
    (
        "rallypoint_log.executions_since('4 days')",
        "ended_at >= now() - interval '4 days'",
    ),
    (
        "rallypoint_log.executions_since('1 year')",
        "outcome is not null",
    ),
    (
        "(select t.* from generate_series(1, 13100, 131) seq,
            lateral (select handle from rallypoint_log.schedulers offset 0) r,
            lateral rallypoint_log.task(r.handle, seq) t)",
        "seq % 131 = 1",
    ),
    (
        "(select e.* from rallypoint_log.schedulers r,
            lateral rallypoint_log.executions_between(r.shard, r.handle, 1001, 11000, '-infinity') e)",
        "seq between 1001 and 11000",
    ),
];

/// A scheduler whose tasks end in any order, on any of three days, one in four not at all.
async fn write_history(owned: &mut Owned, rng: &mut Rng, tasks: u32) {
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    let mut first = 1;
    while first <= i64::from(tasks) {
        let left = tasks - first as u32 + 1;
        let count = (1 + rng.below(3_000) as u32).min(left);
        let submitted = records(
            vec![plain(handle, first, count, None, now - DAY * 6)],
            vec![],
        );
        owned.write_ago(6, submitted).await;
        first += i64::from(count);
    }
    let mut seqs: Vec<i64> = (1..=i64::from(tasks)).collect();
    for at in (1..seqs.len()).rev() {
        // Mostly near its place, so that rows are narrow, too.
        let reach = if rng.percent(2) { at } else { at.min(20) };
        seqs.swap(at, at - rng.place(reach + 1));
    }
    seqs.truncate(seqs.len() * 3 / 4);
    let mut done_no = 1;
    for days in [6, 3, 0] {
        let of_the_day = seqs.len() / (1 + days as usize / 3);
        for seqs in seqs.drain(..of_the_day).collect::<Vec<_>>().chunks(700) {
            let at = now - DAY * days as u32 - rng.up_to(HOUR * 3);
            let events = seqs.iter().map(|seq| {
                let outcome = match rng.percent(99) {
                    true => Outcome::Succeeded,
                    false => *rng.one_of(&BAD),
                };
                Done {
                    outcome,
                    ..done(*seq, 1, at + rng.up_to(HOUR / 2))
                }
            });
            let ended = completion(handle, done_no, events.collect());
            owned.write_ago(days, records(vec![], vec![ended])).await;
            done_no += seqs.len() as i64;
        }
    }
}

const BAD: [Outcome; 4] = [
    Outcome::Failed,
    Outcome::Cancelled,
    Outcome::TimedOut,
    Outcome::Exhausted,
];
