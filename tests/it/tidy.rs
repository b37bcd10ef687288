//! The rules of the house, enforced: which room may know which, how long files and functions may be, and what no file
//! may hold. It reads the sources as text; a rule that needs types belongs in `clippy.toml`.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The rooms of `src` and the rooms each may name. A new room gets a line here.
const LAYERS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("backoff", &[]),
    ("clock", &["core"]),
    ("assignment", &["core"]),
    ("journal", &["core"]),
    ("executor", &["assignment", "backoff", "clock", "core"]),
    (
        "hub",
        &[
            "assignment",
            "clock",
            "coordinator",
            "core",
            "executor",
            "journal",
            "peer",
        ],
    ),
    (
        "coordinator",
        &["assignment", "clock", "core", "executor", "hub", "journal"],
    ),
    ("peer", &[]),
    ("rpc", &["coordinator", "core", "journal", "peer"]),
    ("postgres", &[]),
    ("cli", &["core", "journal", "peer", "server"]),
];
/// Files that join the rooms and may name all of them.
const JOINTS: &[&str] = &[
    "src/lib.rs",
    "src/main.rs",
    "src/server.rs",
    "src/server/status_source.rs",
];
const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 60;
/// Files that are still to be split into two nouns or two steps.
const STILL_LONG: &[&str] = &[
    "tests/it/tidy.rs",
    "benches/rallypoint/main.rs",
    "benches/rallypoint/raw_append.rs",
    "benches/rallypoint/replay.rs",
    "src/coordinator.rs",
    "src/coordinator/driver.rs",
    "src/coordinator/machine.rs",
    "src/coordinator/streams/event_buffer.rs",
    "src/core/shard/complete.rs",
    "src/core/shard/in_doubt.rs",
    "src/core/shard/restore.rs",
    "src/core/tests/model.rs",
    "src/core/tests/world.rs",
    "src/hub/pool.rs",
    "src/hub/pool/tests/lives/owner.rs",
    "src/hub/session/client.rs",
    "src/journal/maintenance/days.rs",
    "src/journal/ownership/executor_sessions.rs",
    "src/journal/read/body_chunks.rs",
    "src/journal/read/events.rs",
    "src/rpc/validate/tests.rs",
    "src/server.rs",
    "tests/campaign/check/facts.rs",
    "tests/campaign/dump.rs",
    "tests/campaign/main.rs",
    "tests/campaign/report.rs",
    "tests/it/bad_input/state.rs",
    "tests/it/bad_input/wire.rs",
    "tests/it/executor/text.rs",
    "tests/it/harness/server.rs",
    "tests/it/journal/appending.rs",
    "tests/it/journal/reading.rs",
    "tests/it/journal/retention.rs",
    "tests/it/promises/calls.rs",
    "tests/it/promises/log.rs",
    "tests/it/promises/memory.rs",
    "tests/it/promises/outage.rs",
    "tests/it/promises/quotas.rs",
    "tests/it/promises/retention.rs",
    "tests/it/streams.rs",
    "tests/sim/checks.rs",
    "tests/sim/fixtures.rs",
    "tests/sim/world.rs",
];

#[test]
fn rooms_know_only_the_rooms_below_them() {
    let mut faults = Vec::new();
    for file in sources("src").iter().filter(|file| !joint(file)) {
        let room = room(&file.name);
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == room) else {
            faults.push(format!(
                "{}: the room `{room}` has no line in LAYERS",
                file.name
            ));
            continue;
        };
        let strange = |named: &String| *named != room && !allowed.contains(&named.as_str());
        faults.extend(
            file.rooms_named()
                .into_iter()
                .filter(strange)
                .map(|named| format!("{} names {named}", file.name)),
        );
    }
    none(faults, "see LAYERS in tests/it/tidy.rs");
}

#[test]
fn files_have_at_most_400_lines() {
    let long = |file: &Source| file.text.lines().count() > FILE_LINES && !file.is_still_long();
    none(named(long), "two nouns in one file: find the second one");
}

#[test]
fn functions_have_at_most_60_lines() {
    let mut faults = Vec::new();
    for file in everything().iter().filter(|file| !file.is_still_long()) {
        let long = file
            .functions()
            .into_iter()
            .filter(|(_, lines)| *lines > FUNCTION_LINES);
        faults.extend(long.map(|(name, lines)| format!("{}: {name} ({lines} lines)", file.name)));
    }
    none(faults, "give its parts names");
}

#[test]
fn every_file_says_at_its_top_what_it_is_for() {
    none(
        named(|file| !file.text.starts_with("//!")),
        "begin with `//!`: what for, the invariant, what it must not do",
    );
}

#[test]
fn file_names_are_nouns_that_say_something() {
    let banned = [
        "utils", "util", "helpers", "helper", "common", "manager", "part2", "misc",
    ];
    let vague = |file: &Source| {
        let words = file.name.trim_end_matches(".rs").split(['/', '_']);
        file.name.ends_with("/mod.rs") || words.into_iter().any(|word| banned.contains(&word))
    };
    none(named(vague), "name the noun; `foo.rs` stands beside `foo/`");
}

#[test]
fn sql_is_spoken_by_those_who_talk_to_postgres() {
    let speakers = ["journal", "executor", "postgres", "server"];
    none(
        outside(&speakers, &["sqlx"]),
        "only the journal, the executor, the private Postgres, and who gives them their URLs",
    );
}

#[test]
fn protobuf_is_spoken_at_the_edges() {
    let edges = ["rpc", "peer", "hub", "cli", "server"];
    none(
        outside(
            &edges,
            &[
                "tonic",
                "tonic_types",
                "tonic_health",
                "prost",
                "prost_types",
            ],
        ),
        "translate at the edge",
    );
}

#[test]
fn the_core_is_pure() {
    let impure = [
        "tokio",
        "sqlx",
        "tonic",
        "prost",
        "tracing",
        "Instant",
        "SystemTime",
    ];
    let core = sources("src")
        .into_iter()
        .filter(|file| room(&file.name) == "core");
    none(
        core.flat_map(|file| file.says(&impure)).collect(),
        "no I/O, no clock, no runtime in the core",
    );
}

#[test]
fn no_queue_is_unbounded() {
    let unbounded = ["unbounded_channel", "UnboundedSender", "UnboundedReceiver"];
    let production = sources("src").into_iter();
    none(
        production.flat_map(|file| file.says(&unbounded)).collect(),
        "every queue has a limit",
    );
}

#[test]
fn unsafe_code_stands_in_one_file() {
    let word = [concat!("uns", "afe")];
    let elsewhere = everything()
        .into_iter()
        .filter(|file| file.name != "src/postgres/process.rs");
    none(
        elsewhere.flat_map(|file| file.says(&word)).collect(),
        "only src/postgres/process.rs",
    );
}

#[test]
fn nothing_is_left_for_later() {
    let marks = [
        concat!("to", "do!"),
        concat!("unimple", "mented!"),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
    ];
    let marked = |file: &Source| marks.iter().any(|mark| file.text.contains(mark));
    none(named(marked), "finish it, or leave it out");
}

/// A source file: its path from the top of the repository, and its text.
struct Source {
    name: String,
    text: String,
}

impl Source {
    fn is_still_long(&self) -> bool {
        STILL_LONG.contains(&self.name.as_str())
    }

    /// The text without line comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self
            .text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line));
        lines.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()))
    }

    /// Where the code holds one of these words.
    fn says(&self, words: &[&str]) -> Vec<String> {
        let holds = |line: &str| {
            line.split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| words.contains(&word))
        };
        self.code()
            .filter(|(_, line)| holds(line))
            .map(|(n, line)| format!("{}:{n}: {}", self.name, line.trim()))
            .collect()
    }

    /// Rooms named as `crate::room` or `crate::{room, …}`, outside the tests.
    fn rooms_named(&self) -> Vec<String> {
        let code: Vec<&str> = self
            .code()
            .map(|(_, line)| line)
            .take_while(|line| line.trim() != "#[cfg(test)]")
            .collect();
        let code = code.join("\n");
        code.split("crate::")
            .skip(1)
            .flat_map(first_names)
            .collect()
    }

    /// Functions and their lengths, by the indentation that rustfmt keeps.
    fn functions(&self) -> Vec<(String, usize)> {
        let lines: Vec<&str> = self.text.lines().collect();
        let function = |line: &str| {
            line.trim_start()
                .split(' ')
                .take(5)
                .any(|word| word == "fn")
                && !line.ends_with(';')
        };
        let length = |start: usize| {
            let indent = lines[start].len() - lines[start].trim_start().len();
            let end = format!("{}}}", " ".repeat(indent));
            lines[start..]
                .iter()
                .position(|line| *line == end)
                .unwrap_or(0)
                + 1
        };
        let starts = (0..lines.len()).filter(|index| {
            function(lines[*index]) && !lines[*index].trim_start().starts_with("//")
        });
        starts
            .map(|start| (lines[start].trim().to_owned(), length(start)))
            .collect()
    }
}

/// The first names of a path, or of the paths in its braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| {
        text.trim()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    };
    let Some(list) = path.strip_prefix('{') else {
        return vec![name(path)];
    };
    let mut depth = 0;
    let mut names = vec![String::new()];
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(String::new()),
            _ => (),
        }
        names.last_mut().expect("never empty").push(c);
    }
    names
        .iter()
        .map(|text| name(text.trim_start_matches(',')))
        .filter(|name| !name.is_empty())
        .collect()
}

fn room(name: &str) -> &str {
    let inside = name.trim_start_matches("src/");
    inside.split(['/', '.']).next().unwrap_or_default()
}

fn joint(file: &Source) -> bool {
    JOINTS.contains(&file.name.as_str())
}

/// Where rooms other than these say one of the words.
fn outside(rooms: &[&str], words: &[&str]) -> Vec<String> {
    let others = sources("src")
        .into_iter()
        .filter(|file| !rooms.contains(&room(&file.name)));
    others.flat_map(|file| file.says(words)).collect()
}

/// Names of the files for which this holds.
fn named(fault: impl Fn(&Source) -> bool) -> Vec<String> {
    everything()
        .into_iter()
        .filter(fault)
        .map(|file| file.name)
        .collect()
}

fn everything() -> Vec<Source> {
    ["src", "tests", "benches", "clients"]
        .into_iter()
        .flat_map(sources)
        .collect()
}

/// The Rust files at or below a path; none when it does not exist.
fn sources(path: &str) -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    walk(&top.join(path), &mut files);
    files.sort();
    let source = |path: PathBuf| Source {
        name: path
            .strip_prefix(top)
            .expect("below the top")
            .to_string_lossy()
            .into_owned(),
        text: fs::read_to_string(&path).expect("a readable source file"),
    };
    files.into_iter().map(source).collect()
}

fn walk(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a readable folder") {
            walk(&entry.expect("a readable entry").path(), files);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        files.push(path.to_owned());
    }
}

#[track_caller]
fn none(faults: Vec<String>, remedy: &str) {
    assert!(faults.is_empty(), "{remedy}:\n  {}", faults.join("\n  "));
}

#[test]
fn the_reader_of_imports_sees_lists() {
    assert_eq!(first_names("core::Seq;"), ["core"]);
    assert_eq!(
        first_names("{core::{A, B}, journal, rpc::x};"),
        ["core", "journal", "rpc"]
    );
}
