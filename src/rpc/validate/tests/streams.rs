//! Cursors and goals of streams, modes of release, intervals of watches.

use super::{
    super::{StreamQuery, hash::PayloadHash, interval, release, synchronization},
    fixtures::{faults, good_handle, nanos, one, seconds},
};
use crate::{
    core::{DoneNo, Handle, Order, Seq, ShardId, Until},
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
        resume_token: String::new(),
    };
    let all = Some(Kind::All(()));
    let table = [
        (request(-1, all), "after", Reason::CursorNegative),
        (request(0, None), "until", Reason::UntilMissing),
        (
            request(0, Some(Kind::Order(-1))),
            "until.order",
            Reason::OrderOutOfRange,
        ),
        (
            request(0, Some(Kind::Count(0))),
            "until.count",
            Reason::CountOutOfRange,
        ),
        (
            request(0, Some(Kind::Count(i64::MIN))),
            "until.count",
            Reason::CountOutOfRange,
        ),
    ];
    for (request, field, reason) in table {
        assert_eq!(faults(synchronization(&request)), one(field, reason));
    }
}

/// A stream of which 6 events are left, up to task 9.
fn position() -> StreamQuery {
    StreamQuery {
        handle: good_handle().parse().expect("a handle"),
        after: DoneNo(4),
        until: Until::Count(6),
        last_seq: Some(Seq(9)),
    }
}

fn resuming(handle: String, resume_token: String) -> api::SynchronizationRequest {
    api::SynchronizationRequest {
        handle,
        resume_token,
        after: -1,
        until: Some(api::Until { kind: None }),
    }
}

#[test]
fn a_token_resumes_its_stream_and_what_else_is_asked_does_not_count() {
    let goals = [
        Until::All,
        Until::Order(Order(7)),
        Until::Count(0),
        Until::Count(3),
        Until::FirstFailure,
        Until::Forever,
    ];
    for until in goals {
        let stands = StreamQuery {
            until,
            ..position()
        };
        let request = resuming(good_handle(), stands.resume_token());
        assert_eq!(synchronization(&request), Ok(stands));
    }
}

#[test]
fn a_token_that_was_changed_or_is_of_another_scheduler_is_refused() {
    let good = position().resume_token();
    let mut wrong: Vec<String> = (0..good.len())
        .flat_map(|at| {
            let (head, tail) = good.split_at(at);
            let other = if tail.starts_with('0') { "1" } else { "0" };
            [format!("{head}{other}{}", &tail[1..]), head.to_owned()]
        })
        .filter(|token| !token.is_empty())
        .collect();
    wrong.extend([
        good.to_uppercase(),
        format!("{good}00"),
        "é".repeat(20),
        "x".into(),
        "0".repeat(1_000_000),
    ]);
    let refused = one("resume_token", Reason::ResumeTokenInvalid);
    for token in wrong {
        let request = resuming(good_handle(), token.clone());
        assert_eq!(faults(synchronization(&request)), refused, "{token:.60}");
    }
    let other = Handle::new(ShardId(0), 1_800_000_000_000, [8; 10]).to_string();
    assert_eq!(faults(synchronization(&resuming(other, good))), refused);
}

#[test]
fn tokens_are_read_by_other_versions() {
    let token = "8ae7587bbfb425d70804120218061809";
    assert_eq!(position().resume_token(), token);
    // A later version adds a field.
    let handle = position().handle;
    let later = [8, 4, 18, 2, 24, 6, 24, 9, 120, 1];
    let mut hash = PayloadHash::new("Synchronization");
    hash.bytes(handle.uuid().as_bytes());
    hash.bytes(&later);
    let later: String = later.iter().map(|byte| format!("{byte:02x}")).collect();
    let later = format!("{:016x}{later}", hash.finish());
    for token in [token.to_owned(), later] {
        let request = resuming(good_handle(), token);
        assert_eq!(synchronization(&request), Ok(position()));
    }
}

#[test]
fn unknown_modes_and_intervals_are_refused() {
    let request = api::ReleaseSchedulerRequest {
        handle: good_handle(),
        mode: 7,
        wait: false,
    };
    assert_eq!(faults(release(&request)), one("mode", Reason::EnumUnknown));
    let wrong = [
        nanos(0, 0),
        nanos(0, 99_999_999),
        nanos(60, 1),
        nanos(1, 1_000_000_000),
        seconds(-1),
        seconds(i64::MIN),
    ];
    for asked in wrong {
        let request = api::WatchExecutionsRequest { interval: asked };
        assert_eq!(
            faults(interval(&request)),
            one("interval", Reason::IntervalOutOfRange)
        );
    }
    assert_eq!(
        interval(&api::WatchExecutionsRequest::default()),
        Ok(Duration::from_secs(1))
    );
}
