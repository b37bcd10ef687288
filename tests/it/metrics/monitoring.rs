//! What `deploy/monitoring` asks of Prometheus: alert rules and a dashboard, which name metrics
//! that there are.

use rallypoint::metrics::{Declared, Kind, Metrics};
use serde_json::Value;
use std::{collections::BTreeSet, fs, process::Command};

const ALERTS: &str = "deploy/monitoring/alerts.yaml";
const ALERTS_TEST: &str = "tests/it/metrics/alerts.yaml";
const DASHBOARD: &str = "deploy/monitoring/dashboard.json";

/// The queries of the dashboard, as Prometheus gets them.
pub(super) fn queries() -> Vec<String> {
    let text = fs::read_to_string(DASHBOARD).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array();
        targets.unwrap_or_else(|| panic!("no query: {panel}"))
    });
    let queries = targets.map(|target| target["expr"].as_str().expect("a query"));
    queries
        .map(|query| query.replace("$__rate_interval", "1m"))
        .collect()
}

fn samples(family: &Declared) -> Vec<String> {
    match family.kind {
        Kind::Counter | Kind::Gauge => vec![family.name.to_owned()],
        Kind::Histogram => ["bucket", "count", "sum"]
            .map(|end| format!("{}_{end}", family.name))
            .to_vec(),
    }
}

#[test]
fn alerts_and_dashboard_name_metrics_that_there_are() {
    let metrics = Metrics::default();
    let known: BTreeSet<String> = metrics.declared().iter().flat_map(samples).collect();
    let alerts = fs::read_to_string(ALERTS).expect("the rules");
    // A rule's summary may say what it likes.
    let alerts = alerts
        .lines()
        .filter(|line| !line.contains("summary:") && !line.contains("action:"));
    let asked = queries().join("\n") + &alerts.collect::<Vec<_>>().join("\n");
    let words = asked.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named: BTreeSet<&str> = words
        .filter(|word| word.starts_with("rallypoint_"))
        .collect();
    assert!(named.len() > 25, "they are found: {named:?}");
    let unknown: Vec<_> = named
        .iter()
        .filter(|name| !known.contains(**name))
        .collect();
    assert!(unknown.is_empty(), "no such metrics: {unknown:?}");
}

/// Has promtool check or test something, which must go well.
fn promtool(arguments: [&str; 3]) {
    let output = Command::new("promtool").args(arguments).output();
    let output = output.expect("Debian's promtool: .ci/setup test");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
}

#[test]
fn promtool_takes_the_alert_rules() {
    promtool(["check", "rules", ALERTS]);
}

#[test]
fn a_replica_that_stops_is_no_alert() {
    promtool(["test", "rules", ALERTS_TEST]);
}
