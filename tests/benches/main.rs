//! The parts of the benches that measure nothing: how /proc is read, charts, and the page of
//! results. The benches themselves have no test harness.
#![allow(dead_code)]

#[path = "../../benches/rallypoint/chart.rs"]
mod chart;
#[path = "../../benches/rallypoint/environment.rs"]
mod environment;
#[path = "../../benches/rallypoint/machine.rs"]
mod machine;
#[path = "../../benches/rallypoint/report.rs"]
mod report;
#[path = "../../benches/rallypoint/results.rs"]
mod results;
#[path = "../../benches/rallypoint/usage.rs"]
mod usage;

use chart::{BOTTOM, Chart, HEIGHT, TOP};
use machine::Machine;
use results::{chart as chart_of, number, page};
use serde_json::json;
use usage::{kibibytes, processor};

#[test]
fn every_value_is_a_point_within_the_frame() {
    let lines = vec![
        ("loaded", "#000000", vec![0.0, 3.0e5]),
        ("empty", "#ffffff", vec![4.0e5, 1.0]),
    ];
    let chart = Chart {
        title: "t",
        x_label: "queued",
        y_label: "tasks/s",
        positions: vec![0.0, 1e6],
        lines,
    };
    let svg = chart.svg();
    assert_eq!(svg.matches("<circle").count(), 4);
    assert!(svg.contains(">400 k<") && svg.contains(">1 M<"), "{svg}");
    let heights = svg
        .split(r#"cy=""#)
        .skip(1)
        .map(|rest| rest.split('"').next().expect("a number"));
    assert!(
        heights
            .map(|y| y.parse::<f64>().expect("a number"))
            .all(|y| (TOP..=HEIGHT - BOTTOM).contains(&y))
    );
}

fn machine() -> Machine {
    Machine {
        cores: 2,
        memory_gib: 8.0,
        kernel: "k".into(),
        rust: "r".into(),
        postgres: "p".into(),
        commit: "c".into(),
    }
}

#[test]
fn a_figure_stands_beside_its_baseline() {
    let result = json!({
        "name": "backlog", "figure": 512_345.0, "unit": "tasks/s",
        "runs": [500_000.0, 512_345.0, 520_000.0], "ratio": 0.98,
        "yardstick": { "what": "empty", "figure": 522_801.0 },
        "also": { "resident_mib": 300.5 }, "ran": "something",
        "series": [{ "queued": 0, "tasks_per_s": 1.0, "empty_tasks_per_s": 2.0 }],
    });
    let page = page(
        &machine(),
        3,
        std::slice::from_ref(&result),
        &["cancel".to_owned()],
    );
    assert!(
        page.contains("| backlog | 512 345 tasks/s | 500 000 – 520 000 | 522 801 | 0.98 |"),
        "{page}"
    );
    assert!(
        page.contains("| cancel | failed |") && page.contains("- resident_mib: 300.5"),
        "{page}"
    );
    assert_eq!(
        chart_of(&result).map(|(name, _)| name),
        Some("backlog.svg".into())
    );
}

#[test]
fn large_numbers_are_grouped() {
    assert_eq!(
        [json!(9_999), json!(10_000), json!(1_234_567), json!(0.5)].map(|n| number(&n)),
        ["9999", "10 000", "1 234 567", "0.5"]
    );
}

#[test]
fn proc_is_read_as_the_kernel_writes_it() {
    let status = "Name:\trallypoint\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
    assert_eq!(kibibytes(status, "VmRSS:").expect("there"), 1024.0);
    assert!(kibibytes(status, "VmSwap:").is_err());
    let stat = "7 (a) name) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 5 1 1";
    assert_eq!(processor(stat), Some(3.0));
}

#[test]
fn the_page_of_the_benches_lists_each_of_them_and_no_other() {
    let source = include_str!("../../benches/rallypoint/main.rs");
    let names = source.split("enum Name {").nth(1).expect("the names");
    let names = names.split("\n}").next().expect("the names");
    let is_name = |line: &&str| !line.starts_with(['/', '#']) && !line.is_empty();
    let names = names.lines().map(str::trim).filter(is_name);
    let kebab = |name: &str| {
        let name = name.trim_end_matches(',').char_indices();
        name.fold(String::new(), |mut kebab, (at, letter)| {
            if at > 0 && letter.is_uppercase() {
                kebab.push('-');
            }
            kebab.push(letter.to_ascii_lowercase());
            kebab
        })
    };
    let measured = |name: &String| !["all", "null-server"].contains(&&**name);
    let names: Vec<String> = names.map(kebab).filter(measured).collect();
    let page = include_str!("../../benches/README.md").lines();
    let rows = page.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), names);
}
