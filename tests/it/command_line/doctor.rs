//! `doctor` finds what is wrong around a server, says what to do, and ends with 1 only when
//! something is bad.

use super::{code, run, text};
use crate::harness::{authority::Authority, postgres::durable};
use rallypoint::postgres::{COORDINATION, PrivatePostgres, TARGET};
use serde_json::Value;
use std::{collections::BTreeMap, fs};
use tempfile::TempDir;

/// The findings: what was found, by check, with the verdict before it.
fn examined(arguments: &[&str], exit_code: i32) -> BTreeMap<String, String> {
    let output = run(&[&["--json", "doctor"], arguments].concat());
    assert_eq!(code(&output), exit_code, "{output:?}");
    let document: Value = serde_json::from_str(&text(&output.stdout)).expect("a document");
    let checks = document["checks"].as_array().expect("findings").iter();
    let word = |finding: &Value, field: &str| finding[field].as_str().expect(field).to_owned();
    let shown = checks.map(|finding| {
        let verdict = word(finding, "verdict");
        assert_eq!(
            verdict == "good",
            word(finding, "remedy").is_empty(),
            "{finding}"
        );
        let found = word(finding, "found");
        (word(finding, "check"), format!("{verdict}: {found}"))
    });
    shown.collect()
}

/// A database, a folder for files, and an authority for certificates.
struct Scene {
    url: String,
    target: String,
    folder: TempDir,
    authority: Authority,
    _postgres: PrivatePostgres,
}

impl Scene {
    fn new() -> Scene {
        let postgres = durable(Vec::new());
        Scene {
            url: postgres.url_for(COORDINATION, COORDINATION),
            target: postgres.url_for(TARGET, TARGET),
            folder: TempDir::new().expect("a directory"),
            authority: Authority::new(),
            _postgres: postgres,
        }
    }

    /// Writes a file and returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    fn config(&self, target: &str) -> String {
        let text = format!("[targets.app]\nurl = \"{target}\"\n");
        self.file("rallypoint.toml", &text)
    }
}

#[test]
fn what_is_well_is_said() {
    let scene = Scene::new();
    let config = scene.config(&scene.target);
    let good = scene.file("good.crt", &scene.authority.certificate("here").0);
    let database = ["--database", &scene.url];
    let files = ["--config", &config, "--certificate", &good];
    let well = examined(&[&database[..], &files].concat(), 0);
    for check in ["journal", "pooler", "settings", "schema", "rights", "clock"] {
        assert!(well[check].starts_with("good: "), "{check}: {well:?}");
    }
    assert_eq!(well["synchronous_commit"], "good: on");
    assert!(!well["commit"].starts_with("bad"), "{well:?}");
    assert_eq!(well["target app"], "good: app can log in");
    let valid = &well[&format!("certificate {good}")];
    assert!(valid.starts_with("good: valid for "), "{valid}");
    let people = run(&["doctor", "--database", &scene.url]);
    let said = text(&people.stdout);
    assert!(said.contains("good      settings: fsync"), "{said}");
}

#[test]
fn what_is_wrong_is_found() {
    let scene = Scene::new();
    let config = scene.config("postgres://app@127.0.0.1:1/app");
    let expired = scene.file("expired.crt", &scene.authority.certificate_for(-1));
    let soon = scene.file("soon.crt", &scene.authority.certificate_for(3));
    let database = ["--database", &scene.url, "--config", &config];
    let certificates = ["--certificate", &expired, "--certificate", &soon];
    let peer = ["--peer", "127.0.0.1:1"];
    let wrong = examined(&[&database[..], &certificates, &peer].concat(), 1);
    assert_eq!(
        wrong[&format!("certificate {expired}")],
        "bad: it has expired"
    );
    let ends = &wrong[&format!("certificate {soon}")];
    assert!(ends.starts_with("doubtful: valid for 2 days"), "{ends}");
    for check in ["target app", "peer 127.0.0.1:1"] {
        assert!(wrong[check].starts_with("bad: "), "{check}: {wrong:?}");
    }
    let away = examined(&["--database", "postgres://x@127.0.0.1:1/x"], 1);
    assert!(away["journal"].starts_with("bad: "), "{away:?}");
}
