//! Reads of events: from any point on, and no more bytes at a time than asked for.

use super::{Owned, make::*, scene::scene};
use rallypoint::{core::*, journal::Reader};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

#[tokio::test]
async fn events_are_read_from_any_point_on() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    for after in 0..=5 {
        for most_bytes in [0, 1, 50, 100, 1 << 20] {
            let (_, read) = replay(&reader, scene.handle, DoneNo(after), most_bytes).await;
            assert_eq!(
                read,
                scene.done[after as usize..],
                "after {after}, {most_bytes} bytes"
            );
        }
    }
    assert_eq!(replay(&reader, scene.handle, DoneNo(0), 1 << 20).await.0, 1);
    assert!(
        reader
            .events(handle(), DoneNo(0), 9)
            .await
            .unwrap()
            .is_empty()
    );
    let outcomes = reader
        .outcomes(scene.handle, &[Seq(1), Seq(5), Seq(6)])
        .await
        .unwrap();
    let expected = BTreeMap::from([
        (Seq(1), (DoneNo(2), scene.done[1].clone())),
        (Seq(5), (DoneNo(5), scene.done[4].clone())),
    ]);
    assert_eq!(outcomes, expected);
    assert!(reader.outcomes(scene.handle, &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn of_a_row_with_megabytes_of_results_only_what_is_asked_for_is_read() {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    owned
        .write(Records {
            schedulers: BTreeMap::from([(handle, image(handle, now))]),
            ..Records::default()
        })
        .await;
    let all: Vec<Done> = (0..60).map(|n| large_outcome(n, now)).collect();
    owned
        .write(Records {
            completions: vec![completion(handle, 1, all.clone())],
            ..Records::default()
        })
        .await;
    let reader = owned.journal.reader();
    for most_bytes in [1, 70_000, 200_000, 1 << 20] {
        let mut after = DoneNo(0);
        while after.0 < 60 {
            let read = reader.events(handle, after, most_bytes).await.unwrap();
            let events: Vec<Done> = read
                .iter()
                .flat_map(|events| events.after(after))
                .map(|event| event.unwrap().1)
                .collect();
            assert_eq!(events, all[after.0 as usize..][..events.len()]);
            assert!(
                events.len() == 1 || events.iter().map(bytes).sum::<usize>() <= most_bytes,
                "{} events",
                events.len()
            );
            after = read.last().expect("at least one").last();
        }
    }
}

/// An outcome with a result of 60 kB, an empty one or none, and with or without a long error.
fn large_outcome(n: i64, now: Time) -> Done {
    let rows_json = if n % 4 > 0 {
        format!("{n:>60000}")
    } else {
        String::new()
    };
    let result = TaskResult {
        rows_affected: n,
        rows_json: rows_json.into(),
        truncated: n % 2 == 0,
    };
    let error = TaskError {
        code: "22012".into(),
        message: format!("{n:>8000}"),
    };
    Done {
        result: (n % 5 > 0).then(|| Arc::new(result)),
        error: (n % 3 == 0).then(|| Arc::new(error)),
        ended: now + Duration::from_millis(n as u64),
        slot: n as u32,
        diagnostics: match n % 7 {
            0 => Default::default(),
            _ => format!("{n:>3000}").into(),
        },
        ..done(100 - n, 1, now)
    }
}

/// What an event counts for in a read.
fn bytes(done: &Done) -> usize {
    let result = done.result.as_ref();
    let error = done.error.as_ref();
    done.diagnostics.len()
        + result.map_or(0, |result| result.rows_json.len())
        + error.map_or(0, |error| error.message.len() + 6)
}

/// Reads all events after `after`, about `most_bytes` at a time; returns the number of reads and
/// the events.
async fn replay(
    reader: &Reader,
    handle: Handle,
    mut after: DoneNo,
    most_bytes: usize,
) -> (usize, Vec<Done>) {
    let (mut reads, mut replayed) = (0, Vec::new());
    loop {
        let read = reader.events(handle, after, most_bytes).await.unwrap();
        if read.is_empty() {
            return (reads, replayed);
        }
        reads += 1;
        for event in read.iter().flat_map(|events| events.after(DoneNo(0))) {
            let (done_no, done) = event.unwrap();
            assert_eq!(done_no.0, after.0 + 1, "without a gap");
            after = done_no;
            replayed.push(done);
        }
    }
}
