//! What is mistyped is not repeated where it may be a secret, and no value shows one that is
//! printed for debugging.

use super::words::Canaries;
use crate::harness::process::PROGRAM;
use rallypoint::server::{Login, Target};
use rallypoint_client::Client;
use std::{fs, process::Command};
use tempfile::TempDir;

/// What the program says when it is started like this.
fn said(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = Command::new(PROGRAM)
        .args(arguments)
        .envs(environment.iter().copied())
        .env("RUST_LOG", "trace")
        .output()
        .expect("the program runs");
    assert!(!output.status.success(), "{arguments:?} {output:?}");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn a_mistake_at_the_start_is_told_without_the_secret_in_it() {
    let canaries = Canaries::default();
    let word = canaries.plant("a secret");
    for url in [
        format!("mysql://u:{word}@127.0.0.1/d"),
        format!("postgres://u:{word}@127.0.0.1:port/d"),
        format!("postgres://u:{word}@[127.0.0.1/d"),
        format!("postgres://u:p@127.0.0.1:1/d?password={word}&sslmode=nonsense"),
        format!("postgres://u:p@127.0.0.1:1/d?sslmode={word}"),
        word.clone(),
    ] {
        let target = format!("app={url}");
        let config = TempDir::new().expect("a directory");
        let file = config.path().join("rallypoint.toml");
        fs::write(
            &file,
            format!("[targets.app]\nurl = \"{url}\"\nslots = \"{word}\"\n"),
        )
        .expect("written");
        let file = file.display().to_string();
        let here = ["serve", "--listen", "127.0.0.1:0"];
        let by = |more: &[&'static str], value: &str| {
            let more = more.iter().copied().chain([value]);
            said(&here.iter().copied().chain(more).collect::<Vec<_>>(), &[])
        };
        for shown in [
            by(&["--database"], &url),
            by(
                &["--database", "postgres://u@127.0.0.1:1/d", "--target"],
                &target,
            ),
            by(&["--config"], &file),
            by(&["--otlp-endpoint"], &format!("ftp://u:{word}@host")),
            said(
                &here,
                &[("RALLYPOINT_TARGETS", &format!("{target} {word}"))],
            ),
            said(&["check-config", &file], &[]),
            said(&["doctor", "--database", &url], &[]),
            said(&["migrate", "--database", &url], &[]),
            said(
                &["list"],
                &[("RALLYPOINT_AUTH_TOKEN", &format!("{word}\n{word}"))],
            ),
            said(
                &["list"],
                &[("RALLYPOINT_SERVER", &format!("https://u:{word}@host:port"))],
            ),
        ] {
            canaries.are_not_in(&format!("the answer to {url}"), &shown);
        }
    }
}

#[tokio::test]
async fn a_value_that_is_printed_for_debugging_shows_no_secret() {
    let canaries = Canaries::default();
    let word = canaries.plant("a secret");
    let login: Login = format!("postgres://u:{word}@db/d")
        .parse()
        .expect("a login");
    let target = Target {
        watchdog: Some(login.clone()),
        logins: [("etl".into(), login.clone())].into(),
        ..Target::new("app", login.clone(), 1)
    };
    let client = Client::connect_lazy("https://127.0.0.1:1").expect("a URL");
    let client = client.with_token(&word.clone().into()).expect("a token");
    let scheduler = client.scheduler("01890000-0000-7000-8000-000000000000");
    let shown = format!("{login:?} {target:?} {client:?} {scheduler:?}");
    assert!(shown.contains("app"), "{shown}");
    canaries.are_not_in("Debug", &shown);
    for url in [
        format!("postgres://u:{word}@"),
        format!("postgres://u:{word}@db:port/d"),
    ] {
        let error = url.parse::<Login>().expect_err("no login");
        canaries.are_not_in("an error", &format!("{error:?} {error}"));
    }
}
