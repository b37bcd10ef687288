//! Command lines that make no sense are refused before anything is started: exit code 2, and an
//! error that names the option and shows no password.

use super::{code, run, text};
use crate::harness::{postgres::POSTGRES, process::PROGRAM};
use rallypoint::postgres::COORDINATION;
use std::{io::Write, net::TcpListener, process::Command};

const URL: &str = "postgres://u:secret@127.0.0.1:1/app";

/// What `serve` with these options says, which must be an error.
fn refused(options: &[&str]) -> String {
    let listen = ["serve", "--listen", "127.0.0.1:0"];
    let output = run(&[&listen, options].concat());
    let said = text(&output.stderr);
    assert_eq!(code(&output), 2, "{options:?}: {said}");
    assert!(
        !said.contains("secret") && !said.contains("listening"),
        "{said}"
    );
    said
}

#[test]
fn an_option_of_serve_that_makes_no_sense_is_named() {
    let app = format!("app={URL}");
    let twice = refused(&["--target", &app, "--target", &app]);
    assert!(twice.contains("`app` is named twice"), "{twice}");
    let mysql = refused(&["--target", &app.replace("postgres", "mysql")]);
    assert!(mysql.contains("target app"), "{mysql}");
    let malformed = refused(&["--target", URL]);
    assert!(malformed.contains("--target"), "{malformed}");
    let database = refused(&["--database", &URL.replace("postgres", "mysql")]);
    assert!(database.contains("--database"), "{database}");
    let both = refused(&["--database", URL, "--data-dir", "/nowhere"]);
    assert!(
        both.contains("--data-dir") && both.contains("--database"),
        "{both}"
    );
    let written = [
        ("RALLYPOINT_DATA_DIR", &["--database", URL][..]),
        ("RALLYPOINT_DATABASE", &["--data-dir", "/proc/nowhere"]),
    ];
    for (variable, option) in written {
        let output = Command::new(PROGRAM)
            .args(["serve", "--listen", "127.0.0.1:0", "--config", "/nowhere"])
            .args(option)
            .env(variable, URL)
            .output();
        let said = text(&output.expect("the program runs").stderr);
        assert!(
            said.contains("/nowhere") && !said.contains("cannot be used with"),
            "{said}"
        );
    }
    let output = Command::new(PROGRAM)
        .arg("serve")
        .envs(written.map(|(variable, _)| (variable, URL)))
        .output();
    let said = text(&output.expect("the program runs").stderr);
    assert!(
        said.contains("RALLYPOINT_DATA_DIR is set") && said.contains("RALLYPOINT_DATABASE is set"),
        "{said}"
    );
    assert!(refused(&["--slots", "0"]).contains("--slots"));
    assert!(refused(&["--noop-slots", "0"]).contains("--noop-slots"));
}

#[test]
fn an_error_of_the_database_is_said_once_and_in_its_own_words() {
    let nowhere = POSTGRES.url_for("nowhere", COORDINATION);
    for (database, error) in [(URL, "refused"), (&nowhere, "does not exist")] {
        let output = run(&["migrate", "--database", database]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 1, "{said}");
        assert_eq!(said.matches(error).count(), 1, "{said}");
        assert!(!said.contains(" at line "), "{said}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named_with_what_to_do() {
    for line in [
        "exec -f /nowhere/night.txt",
        "exec /nowhere/night.sql",
        "exec /nowhere/night.sq",
        "jobs preview -f /nowhere/jobs.toml",
        "guard install --target app --url postgres://a@b/c --config /nowhere/rallypoint.toml",
        "jobs check -f /nowhere/jobs.toml",
        "jobs apply -f /nowhere/jobs.toml",
        "import crontab /nowhere/crontab",
        "check-config /nowhere/rallypoint.toml",
        "serve --config /nowhere/rallypoint.toml",
        "list --token-file /nowhere/token",
        "list --server https://127.0.0.1:1 --tls-ca /nowhere/ca.pem",
    ] {
        let output = run(&line.split(' ').collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!(code(&output), 1, "{line}");
        let next = match line.starts_with("guard") {
            true => "  next: name the file",
            false => "  next: check the name",
        };
        assert!(
            said.contains("/nowhere/") && said.contains(next),
            "{line}: {said}"
        );
    }
}

#[test]
fn a_wrong_address_of_a_server_is_named_with_where_it_stands_and_what_to_write() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // What answers a greeting of TLS in plain text.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            (&stream)
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .ok();
            std::io::copy(&mut &stream, &mut std::io::sink()).ok();
        }
    });
    for (address, exit, what, next) in [
        ("", 2, "it is empty", "http://HOST:PORT".to_owned()),
        (
            "ftp://a:1",
            2,
            "called by ftp://",
            "https://HOST:PORT".to_owned(),
        ),
        (
            &format!("https://127.0.0.1:{port}"),
            1,
            "cannot reach",
            format!("to http://127.0.0.1:{port}"),
        ),
    ] {
        let by_option = run(&["list", "--server", address]);
        let mut command = Command::new(PROGRAM);
        let by_variable = command
            .arg("list")
            .env("RALLYPOINT_SERVER", address)
            .output();
        let by_variable = by_variable.expect("the program runs");
        for (output, from) in [(by_option, "--server"), (by_variable, "RALLYPOINT_SERVER")] {
            let said = text(&output.stderr);
            assert_eq!(code(&output), exit, "{said}");
            for words in [what, from, &next] {
                assert!(said.contains(words), "no `{words}` in {said}");
            }
        }
    }
}

#[test]
fn a_port_for_replicas_that_is_in_use_is_named_with_its_option() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let serve = ["serve", "--listen=127.0.0.1:0", "--database", URL];
    let output = run(&[&serve[..], &["--peer-listen", &address]].concat());
    let said = text(&output.stderr);
    assert_eq!(code(&output), 1, "{said}");
    let next = format!("cannot listen on {address} for other replicas: choose another address");
    assert!(
        said.contains(&next) && said.contains("--peer-listen"),
        "{said}"
    );
}

#[test]
fn one_task_and_all_that_failed_are_retried_by_two_commands() {
    for options in [
        &["nightly/1", "--failed"][..],
        &["nightly", "1", "--failed"],
    ] {
        let output = run(&[&["retry"], options].concat());
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{said}");
        for next in [
            "`rallypoint retry nightly 1` retries that task",
            "`rallypoint retry nightly --failed` all that failed",
        ] {
            assert!(said.contains(next), "{said}");
        }
    }
}

#[test]
fn a_number_a_length_and_an_instant_are_answered_by_their_forms_in_all_options() {
    let length = "write a length of time like 30s, 500ms, 2m, 5 min, 1h30m or 2d";
    let instant = "write a time like 2026-03-01, 2026-03-01T12:00 or 2026-03-01T12:00:00Z";
    for (line, form) in [
        ("wait x --order many", "write a whole number from 0 to "),
        (
            "exec --retries 1000 commit",
            "write a whole number from 0 to 999",
        ),
        ("tasks x --limit 1.5", "write a whole number, 1 or more"),
        ("list --limit 0", "write a whole number, 1 or more"),
        ("list --state halted", "it is written `--halted`"),
        ("jobs log x --due noon", "it is written behind the name"),
        ("jobs log x --date noon", "it is written behind the name"),
        ("jobs runs x --limit 0", "write a whole number, 1 or more"),
        (
            "resource queue x --limit 0",
            "write a whole number from 1 to 1000",
        ),
        ("serve --listen 50951", "write 127.0.0.1:50951"),
        (
            "serve --tls-cert a.pem",
            "its certificate and key are --listen-cert and --listen-key",
        ),
        ("serve --peer-listen :50951", "write 127.0.0.1:50951"),
        ("exec --timeout -5s commit", length),
        ("wait x --connect-timeout -5s", length),
        ("serve --slots 0", "write a whole number from 1 to 10000"),
        (
            "exec --weight big commit",
            "write a number from 0.01 to 1000, like 2 or 0.5",
        ),
        ("exec --timeout soon commit", length),
        ("list --connect-timeout 1y", length),
        ("exec --timeout 0s commit", "it must be 1ms to 30 days"),
        ("list --connect-timeout 0s", "it must be longer than 0s"),
        ("list --since yesterday", instant),
        ("tasks x --ended-since noon", instant),
        ("jobs log x noon", instant),
        ("jobs get-run x noon", instant),
        ("jobs backfill x --from noon", instant),
        ("jobs check --from noon", instant),
        ("jobs preview --from noon", instant),
        ("jobs claim x --due noon -- true", instant),
        (
            "declare-dead app --reason x",
            "<--replica <NAME>|--all-replicas>",
        ),
    ] {
        let output = run(&line.split(' ').collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{line}: {said}");
        assert!(said.contains(form), "{line}: {said}");
    }
}

#[test]
fn a_usage_shows_what_was_written_and_not_the_environment() {
    let mut command = Command::new(PROGRAM);
    command
        .args(["lock", "run"])
        .env("RALLYPOINT_SERVER", "http://127.0.0.1:1");
    let output = command.output().expect("the program runs");
    let said = text(&output.stderr);
    assert_eq!(code(&output), 2, "{said}");
    assert!(
        said.contains("Usage: rallypoint lock run <NAME>... -- <COMMAND>..."),
        "{said}"
    );
    let written = run(&["lock", "run", "--lease", "5s"]);
    let said = text(&written.stderr);
    assert!(said.contains("lock run --lease <TIME> <NAME>..."), "{said}");
}

#[test]
fn a_statement_without_quotes_is_not_sent_to_postgres() {
    for (line, next) in [
        ("exec select 1", "`rallypoint exec 'select 1'`"),
        (
            "exec --timeout 30s select 1",
            "the options as they are: `rallypoint exec … 'select 1'`",
        ),
        ("exec --timeout 30 m commit", "`--timeout 30m`"),
        ("lock run a --wait 10 m -- true", "`--wait 10m`"),
        ("exec .", "`rallypoint exec -f FILE`"),
        ("exec 1", "`rallypoint exec 'select 1'`"),
        ("exec -", "`rallypoint exec -f -`"),
    ] {
        let output = run(&line.split(' ').collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{line}: {said}");
        assert!(said.contains(next), "{line}: {said}");
    }
    let unnamed = run(&["exec", "--name", "", "commit"]);
    let said = text(&unnamed.stderr);
    assert_eq!(code(&unnamed), 2, "{said}");
    assert!(
        said.contains("a value is required for '--name <NAME>'"),
        "{said}"
    );
}

#[test]
fn each_fault_of_a_file_is_a_reason_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rallypoint.toml");
    let targets = "[targets.a]\nslots = 1\nslots = 2\nroles = \"x\"\n";
    std::fs::write(&file, targets).expect("written");
    let file = file.display().to_string();
    let output = run(&["check-config", "--json", &file]);
    assert_eq!(code(&output), 1);
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
    let why: Vec<&str> = error["why"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one.as_str())
        .collect();
    let expected = [
        "line 1: targets.a.url: missing",
        "line 3: `slots` stands twice: keep one of them",
        "line 4: targets.a.roles: expected a list in brackets",
    ];
    assert_eq!(why.len(), expected.len(), "{why:#?}");
    for (why, expected) in why.iter().zip(expected) {
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

#[test]
fn the_mistyped_name_of_a_file_is_not_sent_to_postgres() {
    let output = run(&["exec", "night.sq"]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 1, "{said}");
    assert!(
        said.contains("night.sq looks like the name of a file"),
        "{said}"
    );
}

#[test]
fn an_import_that_cannot_be_used_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (crontab, jobs) = (path("crontab"), path("jobs.toml"));
    let import = |lines: &str, options: &[&str]| {
        std::fs::write(&crontab, lines).expect("written");
        let import = ["import", "crontab", &crontab, "-f", &jobs];
        let output = run(&[&import, options].concat());
        assert!(!output.status.success(), "{lines}");
        assert!(!std::path::Path::new(&jobs).exists(), "{lines}");
        text(&output.stderr)
    };
    let said = import("0 1 * * * a\n", &["--time-zone", "Berlin"]);
    assert!(
        said.contains("--time-zone") && said.contains("Europe/Berlin"),
        "{said}"
    );
    let said = import("CRON_TZ=Mars/Base\n0 1 * * * a\n", &[]);
    assert!(said.contains("line 1: CRON_TZ=Mars/Base"), "{said}");
    let said = import("0 3 * * * /usr/bin/backup --full\n", &["--system"]);
    assert!(
        said.contains("line 1: left out: `/usr/bin/backup --full` is no user")
            && said.contains("without --system"),
        "{said}"
    );
    let said = import("0 99 * * * a\n", &[]);
    assert!(
        said.contains("line 1: left out: jobs.a.schedule.cron") && !said.contains("line 2"),
        "{said}"
    );
    let said = import("@reboot a\n", &[]);
    assert!(
        said.contains("no job to write") && said.contains("@reboot"),
        "{said}"
    );
}

#[test]
fn a_tip_names_what_was_meant_or_is_left_out() {
    for (line, tip) in [
        ("exec --exactly-once x", Some("`--delivery exactly-once`")),
        ("exec --role nobody x", Some("`--option role=VALUE`")),
        ("exec --read-only x", Some("`--option read_only=VALUE`")),
        ("exec --resource a x", Some("`-- @resource NAME`")),
        ("exec --timeuot 5s x", Some("'--timeout'")),
        ("jobs start-agent --reason x", Some("without `--reason`")),
        ("jobs resume x --reason y", None),
    ] {
        let said = text(&run(&line.split(' ').collect::<Vec<_>>()).stderr);
        assert_eq!(said.contains("tip: "), tip.is_some(), "{line}: {said}");
        assert!(said.contains(tip.unwrap_or_default()), "{line}: {said}");
    }
    let option = text(&run(&["exec", "--option", "resource=a", "select 1"]).stderr);
    assert!(option.contains("`-- @resource NAME`"), "{option}");
}

#[test]
fn an_empty_statement_opens_no_scheduler() {
    let output = run(&["exec", "select 1", " "]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 2, "{said}");
    assert!(said.contains("a statement is empty"), "{said}");
}
