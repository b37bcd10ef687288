//! Streams as server-sent events.

use super::{call, curl, opened};
use crate::harness::standalone::Standalone;
use serde_json::Value;

/// The events of a stream that has ended: name, id and data.
fn events(text: &str) -> Vec<(String, String, Value)> {
    let blocks = text.split("\n\n").filter(|block| block.contains("data: "));
    let line = |block: &str, name: &str| {
        let lines = block.lines().filter_map(|line| line.strip_prefix(name));
        lines.map(str::to_owned).next().unwrap_or_default()
    };
    let event = |block: &str| {
        let data = serde_json::from_str(&line(block, "data: ")).expect("JSON");
        (line(block, "event: "), line(block, "id: "), data)
    };
    blocks.map(event).collect()
}

fn numbers(events: &[(String, String, Value)]) -> Vec<i64> {
    let done = events
        .iter()
        .filter_map(|(_, _, data)| data["done"].as_array());
    done.flatten()
        .filter_map(|done| done["done_no"].as_i64())
        .collect()
}

#[test]
fn a_stream_goes_on_behind_the_last_event_and_says_how_it_ended() {
    let server = Standalone::start();
    let handle = opened(&server);
    let tasks = format!(
        r#"{{"handle": "{handle}", "tasks": [{{"noop": {{}}, "order": 1}}, {{"noop": {{}}, "order": 2}},
            {{"sql": {{"statement": "select pg_sleep(0.3)"}}, "order": 3}}]}}"#
    );
    assert_eq!(
        call(&server, "SchedulerService/ExecAsync", &tasks).json()["count"],
        3
    );
    let follow = format!(r#"{{"handle": "{handle}"}}"#);
    let whole = call(&server, "SchedulerService/Synchronization", &follow);
    let whole = events(&whole.text);
    assert_eq!(numbers(&whole), [1, 2, 3]);
    let (name, _, status) = whole.last().expect("an end");
    assert_eq!(
        (name.as_str(), &status["code"]),
        ("status", &Value::from(0))
    );

    let (_, id, first) = &whole[0];
    let passed = first["done"].as_array().expect("events").len();
    let url = format!(
        "{}/rallypoint.v1.SchedulerService/Synchronization",
        server.url
    );
    let message = format!("message={follow}");
    let last = format!("last-event-id: {id}");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let rest = curl(&[
            version,
            "--get",
            &url,
            "--data-urlencode",
            &message,
            "-H",
            &last,
        ]);
        let expected: Vec<i64> = (passed as i64 + 1..=3).collect();
        assert_eq!(numbers(&events(&rest.text)), expected, "{version}");
    }
}

#[test]
fn an_error_before_the_first_event_is_an_answer_and_one_behind_it_the_last_event() {
    let server = Standalone::start();
    let strange = r#"{"handle": "0197e5a0-0000-7000-8000-000000000000"}"#;
    let refused = call(&server, "SchedulerService/Synchronization", strange);
    assert_eq!(
        (refused.code, refused.reason().as_str()),
        (404, "HANDLE_NOT_FOUND")
    );

    // A deadline ends a stream that would go on for ever.
    let handle = opened(&server);
    let url = format!("{}/rallypoint.v1.StatusService/WatchExecutions", server.url);
    let watched = curl(&["--max-time", "5", "-N", &url, "--get"]);
    assert!(
        watched.text.contains("EXECUTION_STATE_IDLE"),
        "{}",
        watched.text
    );
    let forever = format!(r#"{{"handle": "{handle}", "until": {{"forever": {{}}}}}}"#);
    let release = format!(r#"{{"handle": "{handle}"}}"#);
    let released = call(&server, "SchedulerService/ReleaseScheduler", &release);
    assert_eq!(released.code, 200, "{}", released.text);
    let ended = events(&call(&server, "SchedulerService/Synchronization", &forever).text);
    let reasons: Vec<&Value> = ended
        .iter()
        .map(|(_, _, data)| &data["end"]["reason"])
        .collect();
    assert!(
        reasons.contains(&&Value::from("REASON_RELEASED")),
        "{ended:?}"
    );
}
