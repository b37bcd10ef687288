//! `docs/metrics.md` describes every metric, as it is declared.

use rallypoint::metrics::{Declared, Kind, Metrics};
use std::fs;

fn line(family: &Declared) -> String {
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let labels = family.labels.join(", ");
    format!(
        "| `{}` | {kind} | {labels} | {} |",
        family.name, family.help
    )
}

#[test]
fn the_page_of_metrics_is_what_is_declared() {
    let page = fs::read_to_string("docs/metrics.md").expect("the page");
    let described: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `rallypoint_"))
        .collect();
    let declared: Vec<String> = Metrics::default().declared().iter().map(line).collect();
    assert_eq!(
        described.join("\n"),
        declared.join("\n"),
        "put these lines into docs/metrics.md:\n{}",
        declared.join("\n")
    );
}

#[test]
fn names_and_help_texts_are_as_prometheus_wants_them() {
    for family in Metrics::default().declared() {
        let Declared {
            name, kind, help, ..
        } = family;
        assert!(name.starts_with("rallypoint_"), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
        assert!(help.ends_with('.') && help.len() > 15, "{name}: {help}");
        let unwanted = [
            "handle",
            "task",
            "namespace",
            "caller",
            "scheduler",
            "job",
            "resource",
        ];
        let labels = family.labels.iter();
        let found: Vec<_> = labels.filter(|label| unwanted.contains(label)).collect();
        assert!(found.is_empty(), "{name}: {found:?} has no end of values");
    }
}
