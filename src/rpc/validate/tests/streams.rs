//! Cursors and goals of streams, modes of release, intervals of watches.

use super::{
    super::{interval, release, synchronization},
    fixtures::{faults, good_handle, one},
};
use crate::{
    core::{DoneNo, Seq, Until},
    rpc::errors::reason::Reason,
};
use rallypoint_client::api::{self, until::Kind};
use std::time::Duration;

#[test]
fn a_stream_says_from_where_and_until_when() {
    let request = |after, kind| api::SynchronizationRequest {
        handle: good_handle(),
        after,
        until: Some(api::Until { kind }),
        resume: None,
    };
    let all = Some(Kind::All(api::Unit {}));
    let table = [
        (request(-1, all), "after", Reason::CURSOR_NEGATIVE),
        (request(0, None), "until", Reason::UNTIL_MISSING),
        (
            request(0, Some(Kind::Order(-1))),
            "until.order",
            Reason::ORDER_OUT_OF_RANGE,
        ),
        (
            request(0, Some(Kind::Count(0))),
            "until.count",
            Reason::COUNT_OUT_OF_RANGE,
        ),
        (
            request(0, Some(Kind::Count(i64::MIN))),
            "until.count",
            Reason::COUNT_OUT_OF_RANGE,
        ),
        (
            api::SynchronizationRequest {
                resume: Some(api::Goal::default()),
                ..request(0, all)
            },
            "resume",
            Reason::GOAL_INVALID,
        ),
    ];
    for (request, field, reason) in table {
        assert_eq!(faults(synchronization(&request)), one(field, reason));
    }
    let goal = api::Goal {
        until: Some(api::Until {
            kind: Some(Kind::Count(3)),
        }),
        last_seq: 9,
    };
    let watch = synchronization(&api::SynchronizationRequest {
        resume: Some(goal),
        ..request(4, None)
    })
    .expect("resumed");
    assert_eq!(
        (watch.after, watch.until, watch.last_seq),
        (DoneNo(4), Until::Count(3), Some(Seq(9)))
    );
}

#[test]
fn unknown_modes_and_intervals_are_refused() {
    let request = api::ReleaseSchedulerRequest {
        handle: good_handle(),
        mode: 7,
        wait: false,
    };
    assert_eq!(faults(release(&request)), one("mode", Reason::ENUM_UNKNOWN));
    for interval_ms in [-1, 1, 99, 60_001, i32::MIN] {
        let request = api::WatchExecutionsRequest { interval_ms };
        assert_eq!(
            faults(interval(&request)),
            one("interval_ms", Reason::INTERVAL_OUT_OF_RANGE)
        );
    }
    assert_eq!(
        interval(&api::WatchExecutionsRequest::default()),
        Ok(Duration::from_secs(1))
    );
}
