//! The messages of a stream are small, however large results are and however many tasks end at
//! once.

use crate::harness::{
    conversation::Conversation,
    postgres::{connect, durable, value},
    server::{Server, Setup},
    work::{noop, sql},
};
use prost::Message;
use rallypoint::postgres::{COORDINATION, SUPERUSER};
use rallypoint_client::api::{
    AsyncDone, SchedulerSettings, SynchronizationRequest, Until, until::Kind,
};

/// The largest message, whatever is in it.
const MESSAGE_BYTES: usize = 256 << 10;

#[tokio::test]
async fn large_results_come_whole_in_small_messages_from_memory_and_journal() {
    let server = Server::start().await;
    for recent in [false, true] {
        let scheduler = server.open(SchedulerSettings::default()).await;
        // Events stay in memory while somebody listens.
        let until = Some(Until {
            kind: Some(Kind::Forever(())),
        });
        let request = SynchronizationRequest {
            handle: scheduler.handle().into(),
            until,
            ..Default::default()
        };
        let mut raw = server.raw();
        let _listening = if recent {
            Some(raw.synchronization(request).await.expect("a stream"))
        } else {
            None
        };
        scheduler
            .submit(
                (1..=40)
                    .map(|n| sql(format!("select repeat('{}', 60000 + {n}) as x", n % 10)).rows(1)),
            )
            .await;
        scheduler.until(|now| now.done == 40).await;
        let done = messages(&server, &scheduler, 40).await;
        assert_eq!(
            done.iter().map(|done| done.done_no).collect::<Vec<_>>(),
            (1..=40).collect::<Vec<_>>()
        );
        for event in done {
            let (result, digit) = (event.result.expect("a result"), event.seq % 10);
            let expected = format!(
                r#"[{{"x":"{}"}}]"#,
                digit.to_string().repeat(60_000 + event.seq as usize)
            );
            assert!(
                result.rows_json == expected,
                "of task {}: {} bytes",
                event.seq,
                result.rows_json.len()
            );
        }
    }
}

#[tokio::test]
async fn tasks_that_end_together_come_in_many_small_messages() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let _listening = scheduler
        .scheduler
        .synchronize(0, Some(Kind::Forever(())))
        .await
        .expect("a stream");
    scheduler.scheduler.pause().await.expect("paused");
    scheduler.submit(noop().deadline(100).times(10_000)).await;
    scheduler
        .submit(noop().deadline(100).order(1).times(10_000))
        .await;
    scheduler.until(|now| now.done == 20_000).await;
    let done = messages(&server, &scheduler, 20_000).await;
    assert_eq!(
        done.iter().map(|done| done.done_no).collect::<Vec<_>>(),
        (1..=20_000).collect::<Vec<_>>()
    );
    let mut tasks: Vec<i64> = done.iter().map(|done| done.seq).collect();
    tasks.sort_unstable();
    assert_eq!(tasks, (1..=20_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn twenty_thousand_events_come_in_small_messages_and_no_row_is_read_twice() {
    let settings = vec![(
        "shared_preload_libraries".into(),
        "pg_stat_statements".into(),
    )];
    let postgres = durable(settings);
    let mut admin = connect(&postgres.options_for("postgres", SUPERUSER)).await;
    sqlx::raw_sql("create extension pg_stat_statements")
        .execute(&mut admin)
        .await
        .expect("it is there");
    let server = Server::with(Setup {
        postgres: Some(&postgres),
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    for _ in 0..4 {
        scheduler.submit(noop().times(5_000)).await;
    }
    scheduler.until(|now| now.done == 20_000).await;
    sqlx::raw_sql("select pg_stat_statements_reset()")
        .execute(&mut admin)
        .await
        .expect("reset");
    let done = messages(&server, &scheduler, 20_000).await;
    assert_eq!(
        done.iter().map(|done| done.done_no).collect::<Vec<_>>(),
        (1..=20_000).collect::<Vec<_>>()
    );
    let number = |text: String| text.parse::<u64>().expect("a number");
    let reads = number(
        value(
            &mut admin,
            "select sum(calls)::text from pg_stat_statements where query like '-- events%'",
        )
        .await,
    );
    let mut journal = connect(&postgres.options_for(COORDINATION, COORDINATION)).await;
    let rows = number(value(&mut journal, "select count(*)::text from completion").await);
    // A read ends after 64 rows or 128 KiB, and an event takes up to 24 bytes.
    assert!(
        (1..=rows.div_ceil(64) + 4).contains(&reads),
        "{reads} reads of {rows} rows"
    );
}

/// The events of a stream that ends after `count` of them; none of its messages is large.
async fn messages(server: &Server, scheduler: &Conversation, count: i64) -> Vec<AsyncDone> {
    let until = Some(Until {
        kind: Some(Kind::Count(count)),
    });
    let request = SynchronizationRequest {
        handle: scheduler.handle().into(),
        until,
        ..Default::default()
    };
    let mut stream = server
        .raw()
        .synchronization(request)
        .await
        .expect("a stream")
        .into_inner();
    let mut done = Vec::new();
    while let Some(message) = stream.message().await.expect("it goes on") {
        assert!(
            message.encoded_len() <= MESSAGE_BYTES,
            "{} bytes",
            message.encoded_len()
        );
        done.extend(message.done);
    }
    done
}
