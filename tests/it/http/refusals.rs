//! What is refused over HTTP, and how that is said.

use super::{JSON, Knowing, call, curl, opened};
use crate::harness::standalone::{Standalone, folder};
use std::fs;

#[test]
fn pages_of_others_get_nothing() {
    let server = Standalone::start();
    let url = format!(
        "{}/rallypoint.v1.SchedulerService/ListSchedulers",
        server.url
    );
    let port = server.url.rsplit_once(':').expect("a port").1;
    let with = |headers: &[&str]| {
        let mut arguments = vec![url.as_str(), "-d", "{}"];
        for header in headers {
            arguments.extend(["-H", header]);
        }
        curl(&arguments)
    };
    assert_eq!(with(&[JSON]).code, 200);
    let own = format!("origin: {}", server.url);
    assert_eq!(with(&[JSON, &own]).code, 200);
    let rebound = [
        format!("host: evil.example:{port}"),
        format!("origin: http://evil.example:{port}"),
    ];
    for headers in [
        &["origin: https://evil.example"][..],
        &["origin: null"],
        &["sec-fetch-site: cross-site"],
        &[&rebound[0]],
        &[&rebound[0], &rebound[1]],
    ] {
        let refused = with(&[&[JSON], headers].concat());
        assert_eq!(
            (refused.code, refused.reason().as_str()),
            (403, "ORIGIN_NOT_ALLOWED"),
            "{headers:?}"
        );
    }
}

#[test]
fn metrics_are_looked_for_at_the_address_that_has_them() {
    let server = Standalone::start();
    for path in ["metrics", "livez", "readyz"] {
        let answer = curl(&[&format!("{}/{path}", server.url)]);
        assert_eq!(answer.code, 404);
        assert!(answer.text.contains("--admin-listen"), "{}", answer.text);
    }
}

#[test]
fn forms_of_others_and_grpc_by_a_browser_are_refused() {
    let server = Standalone::start();
    let url = format!(
        "{}/rallypoint.v1.SchedulerService/ListSchedulers",
        server.url
    );
    let with = |header: &str| curl(&[&url, "-d", "{}", "-H", header]);
    // What a form of a foreign page can send.
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        let refused = with(&format!("content-type: {kind}"));
        assert_eq!(
            (refused.code, refused.reason().as_str()),
            (400, "HTTP_REQUEST_INVALID"),
            "{kind}"
        );
    }
    // It asks first, and is told nothing.
    let preflight = curl(&[
        "-i",
        "-X",
        "OPTIONS",
        "-H",
        "access-control-request-method: POST",
        &url,
    ]);
    assert_eq!(preflight.code, 405);
    assert!(
        !preflight
            .text
            .to_lowercase()
            .contains("access-control-allow"),
        "{}",
        preflight.text
    );
    // gRPC itself, over what a browser speaks.
    let smuggled = with("content-type: application/grpc");
    assert_eq!(smuggled.reason(), "HTTP_REQUEST_INVALID");
}

#[test]
fn a_name_can_be_given_to_a_server_that_knows_nobody() {
    let options = ["--http-host", "rallypoint.example"].map(std::path::Path::new);
    let server = Standalone::with(&options);
    let url = format!("{}/rallypoint.v1.StatusService/GetStatus", server.url);
    assert_eq!(curl(&["-H", "host: rallypoint.example", &url]).code, 200);
    assert_eq!(curl(&["-H", "host: other.example", &url]).code, 403);
}

/// A method, a message, and of the answer the HTTP status, the reason and a part of its text.
const WRONG: &[(&str, &str, u16, &str, &str)] = &[
    (
        "SchedulerService/ExecAsync",
        r#"{"handle": "H", "tasks": [{"sql": {"statement": ""}}]}"#,
        400,
        "BODY_EMPTY",
        "tasks[0].sql.statement",
    ),
    (
        "SchedulerService/ExecAsync",
        r#"{"handle": "H", "tasks": [{"sql": {"statment": ""}}]}"#,
        400,
        "FIELD_UNKNOWN",
        "tasks[0].sql.statment: this server has no field of this name: did you mean `statement`?",
    ),
    (
        "SchedulerService/ExecAsync",
        r#"{"handle": "H", "tasks": [{"statement": "select 1"}]}"#,
        400,
        "FIELD_UNKNOWN",
        "did you mean `sql.statement`?",
    ),
    (
        "SchedulerService/ExecAsync",
        r#"{"handle": "H", "tasks": [{"sql": "select 1"}]}"#,
        400,
        "MESSAGE_MALFORMED",
        "tasks[0].sql: an object, with fields like `statement`",
    ),
    (
        "SchedulerService/ExecAsync",
        r#"{"handle": "H""#,
        400,
        "MESSAGE_MALFORMED",
        "line 1",
    ),
    (
        "SchedulerService/GetTask",
        r#"{"id": {"handle": "H", "seq": 5}}"#,
        404,
        "TASK_NOT_FOUND",
        "",
    ),
    (
        "SchedulerService/Nothing",
        "{}",
        404,
        "HTTP_REQUEST_INVALID",
        "/openapi.json",
    ),
];

#[test]
fn wrong_requests_are_told_what_is_wrong() {
    let server = Standalone::start();
    let handle = opened(&server);
    for (method, message, code, reason, says) in WRONG {
        let answer = call(&server, method, &message.replace('H', &handle));
        assert_eq!(
            (answer.code, answer.reason().as_str()),
            (*code, *reason),
            "{}",
            answer.text
        );
        assert!(answer.text.contains(says), "{}", answer.text);
    }
    let url = format!("{}/rallypoint.v1.SchedulerService/ExecAsync", server.url);
    assert_eq!(curl(&[&url]).code, 405, "a GET submits nothing");
    let url = format!("{}/rallypoint.v1.SchedulerService/GetTask", server.url);
    assert_eq!(
        curl(&[&format!("{url}?id=5")]).reason(),
        "HTTP_REQUEST_INVALID"
    );

    let folder = folder();
    fs::create_dir(&folder).expect("a directory");
    let file = folder.join("large.json");
    let text = format!(r#"{{"handle": "{}"}}"#, "x".repeat(6 << 20));
    fs::write(&file, text).expect("written");
    let url = format!("{}/rallypoint.v1.SchedulerService/ExecAsync", server.url);
    let from_file = format!("@{}", file.display());
    let large = curl(&["-H", JSON, &url, "--data-binary", &from_file]);
    fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(
        (large.code, large.reason().as_str()),
        (400, "CALL_TOO_LARGE")
    );
    let page = include_str!("../../../docs/http.md").replace('\n', " ");
    for said in ["at most 5 MiB of JSON", "and what it says at most 4 MiB"] {
        assert!(large.text.contains(said), "{}", large.text);
    }
    assert!(
        page.contains("A request is at most 5 MiB of JSON"),
        "{page}"
    );
}

#[test]
fn the_door_of_grpc_stands_before_calls_in_json_and_nothing_of_a_refused_one_is_read() {
    let Knowing { server, .. } = &Knowing::start();
    // Not even whether it is JSON.
    for message in ["{}", "no JSON"] {
        let stranger = call(server, "SchedulerService/ListSchedulers", message);
        let (code, reason) = (stranger.code, stranger.reason());
        assert_eq!((code, reason.as_str()), (401, "IDENTITY_MISSING"));
    }
    let token = "authorization: Bearer reader-token";
    let as_reader = |method: &str| {
        let url = format!("{}/rallypoint.v1.{method}", server.url);
        curl(&["-H", JSON, "-H", token, &url, "-d", "{}"])
    };
    assert_eq!(as_reader("SchedulerService/ListSchedulers").code, 200);
    let refused = as_reader("SchedulerService/GetScheduler");
    let (code, reason) = (refused.code, refused.reason());
    assert_eq!((code, reason.as_str()), (403, "ROLE_MISSING"));
}
