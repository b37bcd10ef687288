//! The rules of the house, enforced: which room may know which, how long files and functions may
//! be, and what no file may hold. It reads the sources as text; a rule that needs types belongs in
//! `clippy.toml`.

mod imports;
mod layers;
mod source;

use imports::Imports;
use layers::{JOINTS, LAYERS};
use source::{Source, room, sources, texts, words};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Words that were coined here once where the field has a word of its own; their plurals count.
const COINED: &[&str] = &[
    "desk",
    "told",
    "wish",
    "vigil",
    "stretch",
    "probes",
    "fate",
    "nudge",
    "shelf",
    "library",
    "entrance",
    "crew",
    "tenure",
    "era",
    "dice",
    "palette",
    "patron",
    "wires",
    "rig",
    "duel",
    "standing",
    "roll",
    "forsake",
    "bury",
    "doze",
    "dozing",
    "stir",
    "housekeeping",
    "upkeep",
    "suspect",
    "patience",
    "nap",
    "lately",
];
const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 60;

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
    let long = |file: &Source| file.text.lines().count() > FILE_LINES;
    none(named(long), "two nouns in one file: find the second one");
}

#[test]
fn functions_have_at_most_60_lines() {
    let mut faults = Vec::new();
    for file in everything() {
        let long = file
            .functions()
            .into_iter()
            .filter(|(_, lines)| *lines > FUNCTION_LINES);
        faults.extend(long.map(|(name, lines)| format!("{}: {name} ({lines} lines)", file.name)));
    }
    none(faults, "give its parts names");
}

#[test]
fn every_mutant_applies_and_the_newer_version_of_an_upgrade() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let patches = fs::read_dir(top.join("tests/mutants")).expect("a folder");
    let patches = patches.map(|entry| entry.expect("an entry").path());
    let patches = patches.filter(|path| path.extension().is_some_and(|it| it == "patch"));
    let patches = patches.chain([top.join("tests/upgrade/newer.patch")]);
    let applies = |patch: &PathBuf| {
        let mut git = Command::new("git");
        let check = git.args(["apply", "--check"]).arg(patch).current_dir(top);
        check.output().expect("git").status.success()
    };
    let faults = patches.filter(|patch| !applies(patch));
    let faults = faults.map(|patch| patch.display().to_string()).collect();
    none(faults, "what they change has changed: write them anew");
}

#[test]
fn comments_fit_the_page() {
    let wide = |line: &str| line.trim_start().starts_with("//") && line.chars().count() > 100;
    none(
        named(|file| file.text.lines().any(wide)),
        "rustfmt does not break comments: do",
    );
}

#[test]
fn no_two_files_import_each_other() {
    for top in ["src/", "clients/rust/src/"] {
        let circles = Imports::of(&sources(top), top).circles();
        let remedy = "move what they share into one of them, or into a file of its own";
        none(circles, remedy);
    }
}

#[test]
fn nobody_needs_a_private_language() {
    // A longer identifier is a sentence: the promise of a test.
    let coined = |name: &String| {
        let words = words(name);
        words.len() <= 3 && words.iter().any(|word| is_coined(word))
    };
    let sources = everything().into_iter();
    let patches = texts("tests", "patch").into_iter();
    let named = sources.map(|file| (file.identifiers(), file.name));
    let named = named.chain(patches.map(|file| (file.words_of_patch(), file.name)));
    let named = named.chain(pages().map(|file| (file.names_in_page(), file.name)));
    let faults = named.flat_map(|(names, file)| {
        let names = names.into_iter().filter(coined);
        names.map(move |name| format!("{file}: {name}"))
    });
    none(faults.collect(), "use the standard term of the field");
}

#[test]
fn files_have_no_private_names() {
    let coined = |file: &Source| {
        let mut words = file.name.split(|c: char| !c.is_alphanumeric());
        words.any(is_coined)
    };
    let patches = texts("tests", "patch").into_iter();
    let files = everything().into_iter().chain(patches).chain(pages());
    let faults = files.filter(coined).map(|file| file.name).collect();
    none(faults, "use the standard term of the field");
}

/// Of a word or its plural.
fn is_coined(word: &str) -> bool {
    let singular = |ending| word.strip_suffix(ending).unwrap_or(word);
    [word, singular("s"), singular("es")]
        .iter()
        .any(|word| COINED.contains(word))
}

/// The pages for people.
fn pages() -> impl Iterator<Item = Source> {
    let folders = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "docs",
        "tests",
        "benches",
        "clients",
        "deploy",
    ];
    folders.into_iter().flat_map(|folder| texts(folder, "md"))
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
    let speakers = ["journal", "executor", "postgres", "server", "database_url"];
    none(
        outside(&speakers, &["sqlx"]),
        "only the journal, the executor, the private Postgres, and who gives them their URLs",
    );
}

#[test]
fn protobuf_is_spoken_at_the_edges() {
    let edges = ["rpc", "peer", "hub", "cli", "server", "traces"];
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

#[track_caller]
fn none(faults: Vec<String>, remedy: &str) {
    assert!(faults.is_empty(), "{remedy}:\n  {}", faults.join("\n  "));
}
