//! Reads of bodies: by number, and of several schedulers in one read.

use super::{Owned, make::*, scene::scene};
use rallypoint::{
    core::*,
    journal::{Body, Reader},
};
use sqlx::Executor;
use std::{collections::BTreeMap, sync::Arc};

#[tokio::test]
async fn bodies_are_read_by_number() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    let bodies = reader
        .bodies(scene.handle, Seq(4), Seq(9), 10)
        .await
        .unwrap();
    let body = |seq: i64, params: Option<&'static str>| Body {
        seq: Seq(seq),
        body: format!("body {seq}").into(),
        params: params.map(Into::into),
    };
    assert_eq!(
        bodies,
        [body(4, None), body(5, Some("[\"1\",null]")), body(6, None)]
    );
    assert!(
        reader
            .bodies(scene.handle, Seq(7), Seq(9), 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        reader
            .bodies(handle(), Seq(1), Seq(1), 10)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn bodies_of_several_schedulers_are_read_in_one_go_wherever_their_rows_lie() {
    let mut owned = Owned::new().await;
    let (a, b, now) = (handle(), handle(), owned.now);
    for submissions in [
        vec![plain(a, 1, 3, None, now), plain(b, 1, 10, None, now)],
        vec![plain(a, 4, 3, None, now)],
    ] {
        owned
            .write(Records {
                submissions,
                ..Records::default()
            })
            .await;
    }
    // A row moves to another day when its own day is dropped.
    owned
        .psql()
        .await
        .execute("update submission set day = day + 1 where first_seq = 4")
        .await
        .unwrap();
    let range = |handle, first, last| SeqRange {
        handle,
        first: Seq(first),
        last: Seq(last),
        order: None,
    };
    let ranges = [
        range(a, 2, 5),
        range(b, 3, 4),
        range(b, 8, 9),
        range(handle(), 1, 1),
    ];
    let reader = owned.journal.reader();
    let body = |(handle, seq): (Handle, i64)| ((handle, seq), format!("body {seq}").into_bytes());
    let all = [2, 3, 4, 5].map(|seq| body((a, seq)));
    let others = [3, 4, 8, 9].map(|seq| body((b, seq)));
    assert_eq!(
        read(&reader, &ranges, 1 << 20).await,
        BTreeMap::from_iter(all.into_iter().chain(others))
    );
    assert_eq!(
        read(&reader, &ranges, 1).await,
        BTreeMap::from([body((a, 2)), body((a, 3))]),
        "one row at least"
    );
}

/// The bodies of one read, by scheduler and number.
async fn read(
    reader: &Reader,
    ranges: &[SeqRange],
    most_bytes: usize,
) -> BTreeMap<(Handle, i64), Vec<u8>> {
    let chunks = reader.body_chunks(ranges, most_bytes).await.unwrap();
    let mut bodies = BTreeMap::new();
    for chunk in chunks {
        for at in 0..chunk.bodies.len() {
            let key = (chunk.handle, chunk.first.0 + at as i64);
            bodies.insert(key, chunk.bodies.get(at).to_vec());
        }
    }
    bodies
}

#[tokio::test]
async fn long_statements_are_alike_by_how_they_begin_and_how_long_they_are() {
    let mut owned = Owned::new().await;
    let (of, now) = (handle(), owned.now);
    let long = |more: usize, end: &str| format!("select '{}{end}'", "x".repeat(10_000 + more));
    let short = |text: &str| text.to_owned();
    let bodies = [
        long(0, "a"),
        long(0, "b"),
        long(1, "a"),
        short("select 1"),
        short("select 1"),
        short("select 2"),
    ];
    let mut submission = plain(of, 1, 6, None, now);
    submission.submit = Arc::new(Submit {
        bodies: Packed::new(bodies.iter().map(String::as_bytes)),
        ..(*submission.submit).clone()
    });
    owned.write(records(vec![submission], vec![])).await;
    let task = |seq: i64| TaskId {
        handle: of,
        seq: Seq(seq),
    };
    let tasks: Vec<TaskId> = (1..=6).map(task).collect();
    let reader = owned.journal.reader();
    let hashes = reader.text_hashes(&tasks).await.unwrap();
    let alike = |a: i64, b: i64| hashes[&task(a)] == hashes[&task(b)];
    assert!(alike(1, 2) && alike(4, 5));
    assert!(!alike(1, 3) && !alike(4, 6) && !alike(1, 4));
}
