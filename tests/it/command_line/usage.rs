//! Command lines that make no sense are refused before anything is started: exit code 2, and an
//! error that names the option and shows no password.

use super::{code, run, text};
use crate::harness::postgres::POSTGRES;
use rallypoint::postgres::COORDINATION;

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
    assert!(twice.contains("--target names `app` twice"), "{twice}");
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
