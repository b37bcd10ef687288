//! A journal with one scheduler and its outcomes, which the tests of reads share.

use super::{Owned, make::*};
use rallypoint::core::*;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A scheduler with six tasks: two SQL tasks of order 1, two no-ops that joined order 7, an SQL
/// task without an order, and one that is unfinished.
pub(super) struct Scene {
    pub owned: Owned,
    pub handle: Handle,
    pub now: Time,
    pub done: Vec<Done>,
}

fn outcomes(now: Time) -> Vec<Done> {
    let later = |ms| now + Duration::from_millis(ms);
    let error = Arc::new(TaskError {
        code: "22012".into(),
        message: "division by zero \0 \"ü\"".into(),
    });
    let rows = Arc::new(TaskResult {
        rows_affected: 2,
        rows_json: r#"[{"a":1}]"#.into(),
        truncated: true,
    });
    let plain = |first, order: Option<i64>| Done {
        order: order.map(Order),
        ..done(first, 1, now)
    };
    vec![
        Done {
            result: Some(rows),
            started: Some(later(1)),
            ended: later(5),
            slot: 3,
            backend_pid: 4711,
            diagnostics: r#"{"replica":"r","notices":"NOTICE: ü\n"}"#.into(),
            ..plain(2, Some(1))
        },
        Done {
            outcome: Outcome::Failed,
            attempt: Attempt(2),
            error: Some(error.clone()),
            ..plain(1, Some(1))
        },
        Done {
            outcome: Outcome::Cancelled,
            attempt: Attempt(0),
            started: None,
            error: Some(error),
            count: 2,
            ..plain(3, Some(7))
        },
        Done {
            result: Some(Arc::default()),
            ..plain(5, None)
        },
    ]
}

pub(super) async fn scene() -> Scene {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    let second = now + Duration::from_micros(70);
    let mut with_params = call(handle, 5, second, None, &[(1, None, None, sql())]);
    Arc::make_mut(&mut with_params.submit).params = Packed::new([&b"[\"1\",null]"[..]]);
    let submissions = vec![
        call(
            handle,
            1,
            now,
            None,
            &[(2, Some(1), Some(1), sql()), (2, Some(5), Some(7), noop())],
        ),
        with_params,
        plain(handle, 6, 1, None, second),
    ];
    let schedulers = BTreeMap::from([(handle, image(handle, now))]);
    let attempts = vec![AttemptRecord {
        handle,
        seq: Seq(6),
        attempt: Attempt(1),
        what: AttemptEvent::Start,
        at: now,
        ran: None,
    }];
    owned
        .write(Records {
            submissions,
            schedulers,
            attempts,
            ..Records::default()
        })
        .await;
    let done = outcomes(now);
    let completions = vec![
        completion(handle, 1, done[..2].to_vec()),
        completion(handle, 3, done[2..].to_vec()),
    ];
    owned
        .write(Records {
            completions,
            ..Records::default()
        })
        .await;
    let done = singly(&done);
    Scene {
        owned,
        handle,
        now,
        done,
    }
}
