//! The health of a server as checks ask for it: at once, or with a limit.

use super::{code, run, text};
use crate::harness::{
    process::{Process, free_address},
    standalone::{Standalone, folder},
};
use std::{
    fs,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

#[test]
fn health_takes_the_addresses_that_every_command_takes() {
    let server = Standalone::start();
    let address = server.url.trim_start_matches("http://");
    for address in [address.to_owned(), format!("127.0.0.1:1,{address}")] {
        let output = run(&["--server", &address, "health"]);
        assert_eq!(code(&output), 0, "{address}: {}", text(&output.stderr));
    }
}

#[test]
fn each_service_has_its_health() {
    let server = Standalone::start();
    for service in ["SchedulerService", "StatusService", "OperatorService"] {
        let service = format!("rallypoint.v1.{service}");
        let output = server.run(&["health", "--service", &service]);
        assert_eq!(code(&output), 0, "{service}: {}", text(&output.stderr));
    }
}

#[test]
fn health_does_not_wait_for_ever() {
    // Connections are established and nobody accepts them.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let output = run(&["--server", &address, "health"]);
    assert_eq!(code(&output), 1);
    assert!(text(&output.stderr).contains("within 5s"));
}

#[test]
fn health_waits_for_a_server_and_says_at_the_limit_what_was_the_matter() {
    let (folder, address) = (folder(), free_address().to_string());
    let wait = |time: &str| run(&["--server", &address, "health", "--wait", time]);
    let output = wait("500ms");
    let said = text(&output.stderr);
    assert_eq!(code(&output), 1);
    let expected = ["cannot reach the server", "waited for 500ms"];
    assert!(expected.iter().all(|part| said.contains(part)), "{said}");
    let at_once = text(&wait("0").stderr);
    assert!(
        at_once.contains(expected[0]) && !at_once.contains("waited"),
        "{at_once}"
    );
    let options = ["--listen", &address, "--data-dir"];
    let mut server = Process::serve(options.map(Path::new).into_iter().chain([&*folder]));
    server.start();
    let output = wait("60s");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    // It is there, and waiting does not give it a service.
    let begun = Instant::now();
    let nothing = ["health", "--wait", "60s", "--service", "nothing"];
    let output = run(&[&["--server", &address][..], &nothing].concat());
    assert_eq!(code(&output), 1);
    assert!(begun.elapsed() < Duration::from_secs(30));
    drop(server);
    fs::remove_dir_all(&folder).ok();
}
