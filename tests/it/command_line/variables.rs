//! The environment of a caller: what it says of calls keeps no server from starting, and what is
//! empty is not set.

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
