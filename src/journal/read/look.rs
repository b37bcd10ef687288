//! Looks at rows of events by what they say of all their events: which of them may hold what is
//! asked for.

use super::{
    ends::{Direction, Look},
    outcome_index,
};
use crate::journal::{JournalError, Reader, encoding::Stamp, rows::from_row};

/// Events in the rows unpacked for one page.
const MAX_UNPACKED: usize = 100_000;

/// What rows say about all their events.
#[derive(Debug)]
pub(super) struct Looked {
    pub rows: i64,
    /// The first event of the first row, and the last one of the last row.
    pub lowest: Option<i64>,
    pub highest: Option<i64>,
    /// The rows to unpack, and the number of their events.
    hits: Option<Vec<i64>>,
    events: Option<Vec<i32>>,
}

from_row!(Looked {
    rows,
    lowest,
    highest,
    hits,
    events
});

/// What is asked of rows of `completion` of which `hit` has been found out.
macro_rules! looked {
    () => {
        "count(*) as rows,
            min(c.first_done_no) as lowest,
            max(c.first_done_no + c.count - 1) as highest,
            array_agg(c.first_done_no) filter (where c.hit) as hits,
            array_agg(c.count) filter (where c.hit) as events"
    };
}

/// Whether a row of `completion` may hold what is asked for.
macro_rules! hit {
    () => {
        "(
            c.max_seq >= $8
            and c.min_seq < $9
            and (c.ended is not null or $10::timestamptz is null or c.ended_at >= $10)
            and (c.ended is not null or $11::timestamptz is null or c.ended_at < $11)
            and ($6::int2[] is null or c.outcome && $6 or (c.outcome is null and 1 = any ($6)))
            and ($7::int8 is null or $7 = any (c.task_order))
        )"
    };
}

/// The expression of the index of outcomes.
macro_rules! outcomes_of_row {
    () => {
        "(2 = any (c.outcome))::int4 + 2 * (3 = any (c.outcome))::int4
            + 4 * (4 = any (c.outcome))::int4 + 8 * (5 = any (c.outcome))::int4"
    };
}

impl Reader {
    /// Looks at the next rows.
    pub(super) async fn look(&self, look: &Look<'_>) -> Result<Looked, JournalError> {
        let filter = look.filter;
        let wanted: Vec<i16> = filter.outcomes.iter().map(|one| *one as i16).collect();
        let outcomes = Some(&wanted).filter(|wanted| !wanted.is_empty());
        let indexed = outcome_index::values(filter);
        let from = match look.direction {
            Direction::Back => look.done_nos.start,
            Direction::Forward => self.row_of_event(look.handle, look.done_nos.start).await?,
        };
        self.read(|| {
            let query = match (look.direction, &indexed) {
                (Direction::Back, None) => sqlx::query_as(LOOK_BACK),
                (Direction::Back, Some(_)) => sqlx::query_as(LOOK_BACK_BY_OUTCOME),
                (Direction::Forward, None) => sqlx::query_as(LOOK_FORWARD),
                (Direction::Forward, Some(_)) => sqlx::query_as(LOOK_FORWARD_BY_OUTCOME),
            };
            let query = query
                .bind(self.shard.0)
                .bind(look.handle.uuid())
                .bind(look.done_nos.end)
                .bind(from)
                .bind(look.rows)
                .bind(outcomes)
                .bind(filter.order.map(|order| order.0))
                .bind(look.seqs.start)
                .bind(look.seqs.end)
                .bind(filter.ended.from.map(Stamp))
                .bind(filter.ended.before.map(Stamp));
            let query = match &indexed {
                None => query,
                Some(values) => query.bind(values),
            };
            query.fetch_one(&self.pool)
        })
        .await
    }
}

impl Looked {
    /// The rows to unpack, in the order of the direction; true: some are left for the next page.
    pub(super) fn into_hits(self, direction: Direction) -> (Vec<i64>, bool) {
        let hits = self.hits.unwrap_or_default().into_iter();
        let mut hits: Vec<(i64, i32)> = hits.zip(self.events.unwrap_or_default()).collect();
        hits.sort_unstable();
        if direction == Direction::Back {
            hits.reverse();
        }
        let mut events = 0;
        let fits = |(_, count): &(i64, i32)| {
            let has_room = events < MAX_UNPACKED;
            events += *count as usize;
            has_room
        };
        let fitting: Vec<i64> = hits
            .iter()
            .copied()
            .take_while(fits)
            .map(|(first, _)| first)
            .collect();
        let left_out = fitting.len() < hits.len();
        (fitting, left_out)
    }
}

/// Rows in the order of their events, the last one first.
pub(super) const LOOK_BACK: &str = concat!(
    "-- look_back
     select ",
    looked!(),
    " from (
         select c.first_done_no, c.count, ",
    hit!(),
    " as hit
         from completion c
         where c.shard = $1
             and c.handle = $2
             and c.first_done_no < $3
             and c.first_done_no >= $4
         order by c.first_done_no desc
         limit $5
     ) c"
);

/// The same, the first one first.
pub(super) const LOOK_FORWARD: &str = concat!(
    "-- look_forward
     select ",
    looked!(),
    " from (
         select c.first_done_no, c.count, ",
    hit!(),
    " as hit
         from completion c
         where c.shard = $1
             and c.handle = $2
             and c.first_done_no < $3
             and c.first_done_no >= $4
         order by c.first_done_no
         limit $5
     ) c"
);

/// Rows that have outcomes other than success, by the index of these, the last one first.
pub(super) const LOOK_BACK_BY_OUTCOME: &str = concat!(
    "-- look_back_by_outcome
     select ",
    looked!(),
    " from (
         select c.*
         from unnest($12::int4[]) as w (outcomes)
         cross join lateral (
             select c.first_done_no, c.count, ",
    hit!(),
    " as hit
             from completion c
             where c.shard = $1
                 and c.handle = $2
                 and c.outcome is not null
                 and ",
    outcomes_of_row!(),
    " = w.outcomes
                 and c.first_done_no < $3
                 and c.first_done_no >= $4
             order by c.first_done_no desc
             limit $5
         ) c
         order by c.first_done_no desc
         limit $5
     ) c"
);

/// The same, the first one first.
pub(super) const LOOK_FORWARD_BY_OUTCOME: &str = concat!(
    "-- look_forward_by_outcome
     select ",
    looked!(),
    " from (
         select c.*
         from unnest($12::int4[]) as w (outcomes)
         cross join lateral (
             select c.first_done_no, c.count, ",
    hit!(),
    " as hit
             from completion c
             where c.shard = $1
                 and c.handle = $2
                 and c.outcome is not null
                 and ",
    outcomes_of_row!(),
    " = w.outcomes
                 and c.first_done_no < $3
                 and c.first_done_no >= $4
             order by c.first_done_no
             limit $5
         ) c
         order by c.first_done_no
         limit $5
     ) c"
);
