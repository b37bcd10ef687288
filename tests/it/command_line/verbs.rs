//! Every verb with `--help` and `--json`, as `docs/cli.md` has it: what it prints is the message
//! that stands there, its errors are JSON, and its exit code is the one that is due.

mod calls;

use super::{code, lines, run, text};
use crate::harness::{postgres::durable, standalone::Standalone};
use calls::CALLS;
use prost_reflect::{DescriptorPool, DynamicMessage};
use rallypoint::postgres::{COORDINATION, SUPERUSER, TARGET};
use rallypoint_client::api::DESCRIPTOR;
use serde_json::Value;
use std::{collections::BTreeMap, fs, process::Output};

/// The rows of the table of verbs: what each prints on stdout.
fn documented() -> BTreeMap<String, String> {
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cli.md"));
    let document = document.expect("there is one");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    let row = |row: &str| {
        let (verb, rest) = row.split_once("` | ")?;
        let (_, prints) = rest.split_once(" | ")?;
        Some((verb.to_owned(), prints.trim_end_matches(" |").to_owned()))
    };
    rows.filter_map(row).collect()
}

/// What a document on stdout must be.
enum Form {
    /// A message of the API.
    Message(&'static str),
    /// An event, with what the command adds to it.
    Event,
    /// Fields of the command's own.
    Fields(&'static [&'static str]),
    /// There is none.
    Nothing,
}
use Form::{Event, Fields, Message, Nothing};

impl Form {
    /// Fails unless a document has this form, and the table says so of the verb.
    fn check(&self, verb: &str, document: &Value) {
        let table = documented();
        let row = &table[verb];
        let says = |word: &str| assert!(row.contains(&format!("`{word}`")), "{verb}: {word}");
        match self {
            Message(name) => {
                says(name);
                conforms(name, document.clone());
            }
            Event => {
                let mut event = document.clone();
                let fields = event.as_object_mut().expect("an object");
                for added in ["handle", "name", "line"] {
                    assert!(fields.remove(added).is_some(), "{verb}: {document}");
                }
                says("AsyncDone");
                conforms("AsyncDone", event);
            }
            Fields(names) => {
                names.iter().for_each(|name| says(name));
                let fields = document.as_object().expect("an object").keys();
                let mut names = names.to_vec();
                names.sort_unstable();
                assert_eq!(fields.collect::<Vec<_>>(), names, "{verb}");
            }
            Nothing => panic!("{verb} prints {document}"),
        }
    }
}

/// Fails unless this is the message in protobuf's JSON mapping, under the names of the proto files.
fn conforms(name: &str, mut document: Value) {
    let pool = DescriptorPool::decode(DESCRIPTOR).expect("descriptors");
    let message = pool.get_message_by_name(&format!("rallypoint.v1.{name}"));
    let message = message.expect(name);
    own_names(&mut document);
    let read = DynamicMessage::deserialize(message, document.clone());
    assert!(read.is_ok(), "{name}: {read:?}: {document}");
}

/// Fails on a name in camel case.
fn own_names(document: &mut Value) {
    match document {
        Value::Array(values) => values.iter_mut().for_each(own_names),
        Value::Object(fields) => {
            for (name, value) in fields {
                assert!(!name.contains(char::is_uppercase), "{name}");
                own_names(value);
            }
        }
        _ => {}
    }
}

const DEMO: &[&str] = &[
    "total_s",
    "expected_s",
    "overhead_percent",
    "overlaps",
    "failed",
    "tasks",
];

#[test]
fn every_verb_prints_the_json_that_is_documented_and_ends_with_its_code() {
    let (server, postgres) = (Standalone::start(), durable(Vec::new()));
    let folder = tempfile::tempdir().expect("a folder");
    let config = "[targets.app]\nurl = \"postgres://u@h/d\"\n";
    fs::write(folder.path().join("rallypoint.toml"), config).expect("written");
    let jobs = "[jobs.a]\nschedule.cron = \"@daily\"\nsteps = [{ statement = \"select 1\" }]\n\
                [jobs.b]\nschedule.cron = \"@daily\"\nclaimed = true\n";
    fs::write(folder.path().join("jobs.toml"), jobs).expect("written");
    let crontab = "30 2 * * * /opt/report\n@reboot x\n";
    fs::write(folder.path().join("crontab"), crontab).expect("written");
    let file = "1, select 1/0\n2, select 2\n";
    let options = ["--detach", "--keep", "--on-failure", "halt"];
    let halted = text(&super::exec_file(&server, file, &options).stdout);
    let words = [
        ("HANDLE", halted.trim().to_owned()),
        ("URL", postgres.url_for(COORDINATION, COORDINATION)),
        ("ADMIN", postgres.url_for(TARGET, SUPERUSER)),
        ("FOLDER", folder.path().display().to_string()),
    ];
    let table = documented();
    let mut missing = table.clone();
    for (call, expected, form) in CALLS {
        let call = words.iter().fold(call.to_string(), |call, (word, value)| {
            call.replace(word, value)
        });
        let arguments: Vec<&str> = ["--json"].into_iter().chain(call.split(' ')).collect();
        let output = server.run(&arguments);
        let said = (text(&output.stdout), text(&output.stderr));
        assert_eq!(code(&output), *expected, "{call}: {said:?}");
        let documents = lines(&output);
        assert_eq!(documents.is_empty(), matches!(form, Nothing), "{call}");
        // `jobs` has verbs of its own.
        let two = arguments[1..].iter().take(2).copied();
        let two = two.collect::<Vec<_>>().join(" ");
        let verb = if table.contains_key(&two) {
            &two
        } else {
            arguments[1]
        };
        documents.iter().for_each(|one| form.check(verb, one));
        notes_are_json(&output, *expected);
        missing.remove(verb);
    }
    assert!(missing.is_empty(), "not run: {missing:?}");
    assert!(folder.path().join("pages/rallypoint-exec.1").exists());
}

/// Fails unless stderr holds objects only, the last of which is the error if there is one.
fn notes_are_json(output: &Output, expected: i32) {
    let said = text(&output.stderr);
    let objects: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    match expected {
        1 | 2 => {
            let error = objects.last().expect("an error");
            assert!(error["error"].is_string(), "{error}");
            assert_eq!(error["exit_code"], expected);
        }
        _ => assert!(
            objects.iter().all(|note| note["note"].is_string()),
            "{said}"
        ),
    }
}

#[test]
fn every_verb_has_its_help_and_refuses_an_option_that_it_does_not_have() {
    for verb in documented().keys() {
        let words: Vec<&str> = verb.split(' ').collect();
        let help = run(&[&*words, &["--help"]].concat());
        let said = text(&help.stdout);
        assert!(
            code(&help) == 0 && said.contains("Usage: rallypoint"),
            "{verb}"
        );
        let said = said.replace(char::is_whitespace, "");
        let above = [&words[..words.len() - 1], &["--help"]].concat();
        let table = text(&run(&above).stdout).replace(char::is_whitespace, "");
        let about = said.split("Usage:").next().expect("a description");
        assert!(table.contains(about), "{about}");
        let wrong = run(&[&["--json"], &*words, &["--no-such-option"]].concat());
        assert_eq!(code(&wrong), 2, "{verb}");
        notes_are_json(&wrong, 2);
    }
}

#[test]
fn without_a_server_every_verb_that_needs_one_says_so() {
    let calls: &[&[&str]] = &[
        &["exec", "select 1"],
        &["wait", "x"],
        &["status"],
        &["list"],
        &["tasks", "x"],
        &["attempts", "x", "1"],
        &["get", "x", "1"],
        &["explain", "x", "1"],
        &["cancel", "x/1"],
        &["pause", "x"],
        &["resume", "x"],
        &["update", "x", "--weight", "1"],
        &["release", "x"],
        &["pause-target", "x", "--reason", "x"],
        &["resume-target", "x", "--reason", "x"],
        &["declare-dead", "x", "--replica", "x", "--reason", "x"],
        &["resource", "list"],
        &["jobs", "list"],
        &["lock", "run", "x", "--", "true"],
        &["health"],
    ];
    for call in calls {
        let nowhere = ["--json", "--server", "http://127.0.0.1:1"];
        let output = run(&[&nowhere, *call].concat());
        assert_eq!(code(&output), 1, "{call:?}");
        assert!(output.stdout.is_empty(), "{call:?}");
        notes_are_json(&output, 1);
    }
}

#[test]
fn colours_are_for_terminals_unless_they_are_asked_for() {
    let server = Standalone::start();
    let is_coloured = |options: &[&str]| {
        let output = server.run(&[options, &["status"]].concat());
        text(&output.stdout).contains('\x1b')
    };
    assert!(is_coloured(&["--color", "always"]));
    assert!(!is_coloured(&["--color", "never"]) && !is_coloured(&[]));
}

#[test]
fn a_replica_that_nobody_knows_is_named_where_none_is_declared_dead() {
    let server = Standalone::start();
    let declare = |target: &str, replica: &str| {
        let reason = ["--reason", "gone"];
        let dead = ["declare-dead", target, "--replica", replica];
        let output = server.run(&[&dead, &reason[..]].concat());
        assert_eq!(code(&output), 1, "{output:?}");
        text(&output.stderr)
    };
    let said = declare("app", "r-nobody");
    assert!(
        said.contains("no replica is called r-nobody") && said.contains("`rallypoint status`"),
        "{said}"
    );
    let said = declare("apq", "r-nobody");
    assert!(
        said.contains("no target is called apq") && said.contains("did you mean `app`?"),
        "{said}"
    );
}
