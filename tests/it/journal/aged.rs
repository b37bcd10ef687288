//! A journal whose rows are older than its retention of 30 days.

use super::{Owned, make::*};
use rallypoint::core::*;
use sqlx::{AssertSqlSafe, Executor};
use std::collections::BTreeMap;

/// A journal with partitions for the day `days` ago.
pub(super) async fn at_work_ago(days: i32) -> Owned {
    let owned = Owned::new().await;
    make_day(&owned, days).await;
    owned
}

/// Makes the partitions of a day that is over.
pub(super) async fn make_day(owned: &Owned, days: i32) {
    let day = format!("(now() at time zone 'utc')::date - {days}");
    let make = format!(
        "do $$ declare t text; begin
            foreach t in array array['submission', 'completion', 'attempt', 'task_label', 'audit'] loop
                execute format('create table %s partition of %s for values from (%L) to (%L)',
                    t || to_char({day}, '_YYYY_MM_DD'), t, {day}, {day} + 1);
            end loop;
        end $$"
    );
    owned
        .psql()
        .await
        .execute(AssertSqlSafe(make))
        .await
        .unwrap();
}

pub(super) fn tasks(handle: Handle, first: i64, count: u32, at: Time) -> Records {
    Records {
        submissions: vec![plain(handle, first, count, None, at)],
        ..Records::default()
    }
}

pub(super) fn ended(handle: Handle, first: i64, count: u32, at: Time) -> Records {
    Records {
        completions: vec![completion(handle, first, vec![done(first, count, at)])],
        ..Records::default()
    }
}

/// A checkpoint of a scheduler: its highest task and event, and the ranges that are unfinished.
pub(super) fn checkpoint(
    handle: Handle,
    at: Time,
    highest: i64,
    done_no: i64,
    unfinished: &[(i64, i64)],
) -> Records {
    let mut image = image(handle, at);
    let unfinished = unfinished
        .iter()
        .map(|(first, last)| (Seq(*first), Seq(*last)))
        .collect();
    image.checkpoint = Checkpoint {
        highest_seq: Seq(highest),
        done_no: DoneNo(done_no),
        unfinished,
        first_day: Day(0),
        quiesced: false,
    };
    Records {
        schedulers: BTreeMap::from([(handle, image)]),
        ..Records::default()
    }
}

/// The number of partitions of days that are over their retention or close to it.
pub(super) const OLD_DAYS: &str = "select count(*) from pg_class
    where relkind = 'r'
      and relname ~ '^(submission|completion|attempt|task_label)_\\d'
      and right(relname, 10) < to_char(now() - interval '25 days', 'YYYY_MM_DD')";
