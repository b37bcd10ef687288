//! The environment of a caller: what it says of calls keeps no server from starting, and what is
//! empty is not set. And what all variables have in common: those of flags take the same words, and
//! an error names the variable that is wrong.

use super::{code, text};
use crate::harness::{process::PROGRAM, standalone::Standalone};
use std::process::{Command, Output};

/// Each file by which a caller is known, as option and as variable.
const FILES: [(&str, &str); 4] = [
    ("--token-file", "RALLYPOINT_AUTH_TOKEN_FILE"),
    ("--tls-ca", "RALLYPOINT_TLS_CA"),
    ("--tls-cert", "RALLYPOINT_TLS_CERT"),
    ("--tls-key", "RALLYPOINT_TLS_KEY"),
];

fn run_with(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(PROGRAM);
    let command = command.args(arguments).envs(variables.iter().copied());
    command.output().expect("the program runs")
}

#[test]
fn a_server_starts_where_the_environment_has_files_of_a_caller() {
    // With a configuration that is not there it ends at once.
    let serve = ["serve", "--listen", "127.0.0.1:0", "--config", "/nowhere"];
    for (option, variable) in FILES {
        let output = run_with(&serve, &[(variable, "/else")]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 1, "{variable}: {said}");
        assert!(said.contains("/nowhere"), "{variable}: {said}");
        let output = run_with(&[&serve[..], &[option, "/else"]].concat(), &[]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{option}: {said}");
        let expected = format!("{option} is for who calls a server");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn an_empty_variable_of_a_caller_is_not_set() {
    let server = Standalone::start();
    let others = ["RALLYPOINT_AUTH_TOKEN", "RALLYPOINT_NAMESPACE"];
    for variable in FILES.map(|(_, variable)| variable).iter().chain(&others) {
        let output = run_with(&["list", "--server", &server.url], &[(*variable, "")]);
        assert_eq!(code(&output), 0, "{variable}: {}", text(&output.stderr));
    }
}

#[test]
fn the_variable_of_a_flag_takes_what_people_write() {
    // With a configuration that is not there it ends at once.
    let serve = ["serve", "--listen", "127.0.0.1:0", "--config", "/nowhere"];
    for variable in [
        "RALLYPOINT_INSECURE",
        "RALLYPOINT_PLAIN_TEXT_TOKEN",
        "RALLYPOINT_TRUSTED_NAMESPACE_METADATA",
    ] {
        for word in ["1", "yes", "true", "0", "false", ""] {
            let output = run_with(&serve, &[(variable, word)]);
            let said = text(&output.stderr);
            assert_eq!(code(&output), 1, "{variable}={word}: {said}");
            assert!(said.contains("/nowhere"), "{variable}={word}: {said}");
        }
        let output = run_with(&serve, &[(variable, "maybe")]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{variable}: {said}");
        assert!(said.contains("write 1, true, yes or on"), "{said}");
        assert!(said.contains(&format!("it stands in {variable}")), "{said}");
    }
}

#[test]
fn a_wrong_value_is_told_with_the_variable_that_holds_it() {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--config", "/nowhere"];
    for (variable, option) in [
        ("RALLYPOINT_SLOTS", "--slots"),
        ("RALLYPOINT_LEASE", "--lease"),
        ("RALLYPOINT_LOG_FORMAT", "--log-format"),
    ] {
        let output = run_with(&serve, &[(variable, "many")]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{variable}: {said}");
        assert!(said.contains(option), "{variable}: {said}");
        assert!(said.contains(&format!("it stands in {variable}")), "{said}");
    }
    let output = run_with(&["serve", "--slots", "many"], &[("RALLYPOINT_LEASE", "5s")]);
    let said = text(&output.stderr);
    assert!(!said.contains("it stands in"), "{said}");
}
