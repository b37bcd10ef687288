//! The cookie of the page: what it is like, and when it counts.

use super::{JSON, Knowing, curl};

const PAGE: &str = "rallypoint-page: 1";

/// Signs in; the answer with its headers.
fn signed_in(url: &str, token: &str) -> super::Answer {
    let message = format!(r#"{{"token": "{token}"}}"#);
    let url = format!("{url}/session");
    curl(&["-i", "-H", JSON, "-H", PAGE, &url, "-d", &message])
}

fn cookie_of(answer: &str) -> Option<&str> {
    let mut lines = answer.lines();
    lines.find_map(|line| line.strip_prefix("set-cookie: "))
}

#[test]
fn a_token_is_kept_where_no_script_and_no_other_site_can_use_it() {
    let knowing = Knowing::start();
    let url = &knowing.server.url;
    let refused = signed_in(url, "nobody-has-this");
    assert_eq!((refused.code, cookie_of(&refused.text)), (401, None));

    let answer = signed_in(url, "reader-token");
    assert_eq!(answer.code, 200, "{}", answer.text);
    let cookie = cookie_of(&answer.text).expect("a cookie");
    for part in ["Path=/", "HttpOnly", "SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(
        answer.text.contains(r#""role":"reader""#),
        "{}",
        answer.text
    );
    let (cookie, _) = cookie.split_once(';').expect("a value");
    let cookie = format!("cookie: {cookie}");
    let list = format!("{url}/rallypoint.v1.SchedulerService/ListSchedulers");
    let call = |headers: &[&str]| {
        let mut arguments = vec![list.as_str(), "-d", "{}", "-H", JSON];
        arguments.extend(headers.iter().flat_map(|header| ["-H", *header]));
        curl(&arguments).code
    };
    assert_eq!(call(&[&cookie, PAGE]), 200);
    // A request that a page did not make, and one of another origin.
    assert_eq!(call(&[&cookie]), 401);
    assert_eq!(call(&[&cookie, PAGE, "origin: https://evil.example"]), 403);
    let get = format!("{list}?message=%7B%7D");
    assert_eq!(curl(&["-H", &cookie, &get]).code, 401);
}

#[test]
fn who_looks_is_said_to_the_page_and_signing_out_forgets_the_token() {
    let knowing = Knowing::start();
    let session = format!("{}/session", knowing.server.url);
    let stranger = curl(&["-H", PAGE, &session]).json();
    assert_eq!(
        (&stranger["knows_callers"], &stranger["role"]),
        (&true.into(), &"".into())
    );
    let (_, port) = knowing.server.url.rsplit_once(':').expect("a port");
    let name = format!("rallypoint-token-{port}");
    let cookie = format!("cookie: {name}=operator%2Dtoken");
    let operator = curl(&["-H", PAGE, "-H", &cookie, &session]).json();
    assert_eq!(
        (&operator["role"], &operator["namespace"]),
        (&"operator".into(), &"default".into())
    );
    // That of another server on this host counts for that one alone.
    let others = "cookie: rallypoint-token-1=operator%2Dtoken";
    let nobody = curl(&["-H", PAGE, "-H", others, &session]).json();
    assert_eq!(nobody["role"], "");
    let left = curl(&["-i", "-X", "DELETE", "-H", PAGE, &session]);
    let cookie = cookie_of(&left.text).expect("a cookie");
    assert!(
        cookie.starts_with(&format!("{name}=;")) && cookie.contains("Max-Age=0"),
        "{cookie}"
    );
    // Not by a form of another page.
    assert_eq!(curl(&["-X", "DELETE", &session]).code, 400);
}
